//! Categorical agents: a distribution over atoms that are evenly spaced in a squashed space.
//!
//! C51 assumes returns in ±10. On a squashed support the same idea covers any range with few atoms. The paper discusses
//! such rivals without running them; here they are, with the choices that matter: the space, how targets are made, and
//! whether the value is the mean of the atoms' values (exact, but a little probability far out weighs much) or the inverse
//! of the mean atom (robust, but a geometric mean that undervalues rare large returns).

mod softmax;

use super::{Codec, CodecEntry, Function, Graph, Rows, Spectrum, check_transform_epsilon, squash_constants};
use crate::gpu::source::DeviceCodec;
use crate::settings::{Setting, SettingError, check_count, check_positive};
use softmax::{exp, exponentials, largest, weigh, weigh_logits};
use spectral_core::squash::Squash;
use spectral_core::{choices, settings};
use std::sync::Arc;

choices! {
    /// The space in which a categorical agent's atoms are evenly spaced.
    SupportKind {
        /// sign(x)(√(|x|+1) − 1) + εx.
        Sqrt = "sqrt",
        /// sign(x) ln(|x|+1).
        Symlog = "symlog",
    }
}

choices! {
    /// How a categorical agent makes its target distribution.
    TargetKind {
        /// The next state's distribution, shifted, shrunk and projected onto the atoms (C51).
        Projection = "projection",
        /// A Gaussian around the scalar target, cut into bins (HL-Gauss).
        HlGauss = "hl-gauss",
    }
}

choices! {
    /// How a categorical agent reads a value out of its distribution.
    ReadoutKind {
        /// The mean of the atoms' values. A Gaussian's mean lies above its centre, so with HL-Gauss values grow with every backup.
        Mean = "mean",
        /// The mean of values that are set so that a Gaussian's mean is its centre: exact expectations with HL-Gauss.
        Calibrated = "calibrated",
        /// The inverse of the mean in squashed space: a geometric mean where the space is logarithmic.
        InverseOfMean = "inverse-of-mean",
    }
}

settings! {
    /// Settings of the categorical agents.
    CategoricalSettings {
        /// The space in which atoms are evenly spaced.
        support: SupportKind = SupportKind::Symlog,
        /// The largest return, in reward units, that the support covers.
        support_max: f64 = 1e7,
        /// How many atoms.
        atoms: usize = 129,
        /// How the target distribution is made.
        targets: TargetKind = TargetKind::HlGauss,
        /// How a value is read out.
        readout: ReadoutKind = ReadoutKind::InverseOfMean,
        /// Width of HL-Gauss's Gaussian, in bins.
        gauss_bins: f64 = 0.75,
        /// ε of the square root's squashing function.
        transform_epsilon: f64 = 0.01,
    }
}

/// Of a wider Gaussian, so little of a value's own atom is left that values cannot be told apart by their means.
const MAX_CALIBRATED_BINS: f64 = 2.0;

/// The categorical agents in the registry.
pub fn entry() -> CodecEntry {
    CodecEntry::new("categorical", "a distribution over a squashed support", |settings: &CategoricalSettings, _| {
        Ok(Arc::new(Categorical::new(settings)?))
    })
    .page("docs/agents/categorical.md")
    .preset(
        "categorical",
        "A histogram on a symlog support, read out as a geometric mean: our own. For rewards without rare jackpots.",
        "support = \"symlog\"\ntargets = \"hl-gauss\"\nreadout = \"inverse-of-mean\"",
    )
    .preset(
        "categorical-mean",
        "The same histogram read out as the mean of what its bins stand for: exact expectations, more noise.",
        "support = \"symlog\"\ntargets = \"hl-gauss\"\nreadout = \"calibrated\"",
    )
    .preset(
        "c51-squashed",
        "C51 on atoms that are evenly spaced under symlog: the next state's distribution, shifted and projected.",
        "support = \"symlog\"\ntargets = \"projection\"\nreadout = \"mean\"",
    )
    .variants(&[
        "targets=projection support=sqrt readout=mean",
        "targets=projection support=sqrt readout=mean support_max=2000 atoms=33",
    ])
}

/// The categorical agent.
///
/// ```
/// use spectral_agent::codecs::{Categorical, Codec};
/// let codec = Categorical::new(&Default::default())?;
/// let mut target = vec![0.0; codec.outputs()];
/// codec.target(&[100.0], 0.0, &vec![0.0; 129], &[], &mut target);
/// assert!((codec.target_value(&target, &[]) - 100.0).abs() < 1.0);
/// # Ok::<(), spectral_agent::settings::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Categorical {
    squash: Squash,
    targets: TargetKind,
    readout: ReadoutKind,
    /// The atoms in squashed space, ascending and symmetric.
    atoms: Vec<f32>,
    /// What each atom stands for in reward units.
    values: Vec<f32>,
    /// Distance of neighbouring atoms.
    spacing: f32,
    /// Width of the target's Gaussian in squashed space.
    gauss: f32,
    support_max: f64,
}

impl Categorical {
    /// The codec with these settings.
    pub fn new(settings: &CategoricalSettings) -> Result<Self, SettingError> {
        check_positive("support_max", settings.support_max)?;
        check_positive("gauss_bins", settings.gauss_bins)?;
        check_count("atoms", settings.atoms, 2..=4096)?;
        check_transform_epsilon(settings.transform_epsilon)?;
        let squash = match settings.support {
            SupportKind::Sqrt => Squash::Sqrt { epsilon: settings.transform_epsilon },
            SupportKind::Symlog => Squash::Symlog,
        };
        let top = squash.forward_f64(settings.support_max);
        if (settings.targets, settings.readout) == (TargetKind::Projection, ReadoutKind::Calibrated) {
            let expected = "mean or inverse-of-mean with targets = projection, which has no Gaussian to calibrate for";
            return Err(SettingError::bad("readout", settings.readout.show(), expected));
        }
        if settings.readout == ReadoutKind::Calibrated && settings.gauss_bins > MAX_CALIBRATED_BINS {
            let expected = format!("{MAX_CALIBRATED_BINS} at most with readout = calibrated");
            return Err(SettingError::bad("gauss_bins", settings.gauss_bins.show(), expected));
        }
        let last = (settings.atoms - 1) as f64;
        let atom = |j: usize| top * (2.0 * j as f64 / last - 1.0);
        let spacing = (2.0 * top / last) as f32;
        let mut codec = Categorical {
            squash,
            targets: settings.targets,
            readout: settings.readout,
            atoms: (0..settings.atoms).map(|j| atom(j) as f32).collect(),
            values: (0..settings.atoms).map(|j| squash.inverse_f64(atom(j)) as f32).collect(),
            spacing,
            gauss: spacing * settings.gauss_bins as f32,
            support_max: settings.support_max,
        };
        if settings.readout == ReadoutKind::Calibrated {
            codec.calibrate();
        }
        Ok(codec)
    }

    /// Changes what atoms stand for so that the Gaussian around a value has that value as its mean.
    ///
    /// A Gaussian in squashed space has its mean value above its centre: on 129 atoms by a factor of 1.02, which is more than
    /// the paper's γⁿ takes away again, so values would grow with every backup. Each value is moved by what its own
    /// Gaussian's mean lacks, again and again.
    fn calibrate(&mut self) {
        const ROUNDS: usize = 2000;
        let wanted: Vec<f64> = self.values.iter().map(|&value| f64::from(value)).collect();
        let gaussians: Vec<(usize, Vec<f64>)> = (self.atoms.iter())
            .map(|&centre| {
                let mut all = vec![0.0; self.atoms.len()];
                self.cut_gaussian(centre, &mut all);
                let from = all.iter().position(|&p| p != 0.0).unwrap_or(0);
                let to = all.iter().rposition(|&p| p != 0.0).map_or(from, |last| last + 1);
                (from, all[from..to].iter().map(|&p| f64::from(p)).collect())
            })
            .collect();
        let mut values = wanted.clone();
        for _ in 0..ROUNDS {
            let mut moved = values.clone();
            for ((new, want), (from, weights)) in moved.iter_mut().zip(&wanted).zip(&gaussians) {
                *new += want - weights.iter().zip(&values[*from..]).map(|(w, v)| w * v).sum::<f64>();
            }
            values = moved;
        }
        self.values = values.iter().map(|&value| value as f32).collect();
    }

    /// What the read-out takes the mean of.
    fn points(&self) -> &[f32] {
        match self.readout {
            ReadoutKind::Mean | ReadoutKind::Calibrated => &self.values,
            ReadoutKind::InverseOfMean => &self.atoms,
        }
    }

    /// The value of a distribution given as Σ weight and Σ weight · point; the weights need not sum to 1.
    fn read(&self, (total, sum): (f32, f32)) -> f32 {
        match self.readout {
            ReadoutKind::Mean | ReadoutKind::Calibrated => sum / total,
            ReadoutKind::InverseOfMean => self.squash.inverse_f32(sum / total),
        }
    }

    /// Cuts a Gaussian around a point of squashed space into bins; `out` holds zeros.
    ///
    /// From [`ERF_END`] on the error function is ±1 as an f32, so a bin is exactly 0 there and is left out.
    fn cut_gaussian(&self, centre: f32, out: &mut [f32]) {
        if centre.is_nan() {
            return out.fill(f32::NAN);
        }
        let k = out.len();
        let width = self.gauss * std::f32::consts::SQRT_2;
        let edge = |j: usize| erf((self.atoms[0] + (j as f32 - 0.5) * self.spacing - centre) / width);
        // In bins, from the first edge; one more on either side, whatever was rounded.
        let (at, reach) = ((centre - self.atoms[0]) / self.spacing + 0.5, ERF_END * width / self.spacing + 1.0);
        let from = ((at - reach).max(0.0) as usize).min(k - 1);
        let to = (((at + reach).ceil()).max(0.0) as usize).clamp(from + 1, k);
        let total = edge(k) - edge(0);
        let mut below = edge(from);
        for (j, t) in out.iter_mut().enumerate().take(to).skip(from) {
            let above = edge(j + 1);
            *t = (above - below) / total;
            below = above;
        }
    }

    /// Adds `mass` at a point of squashed space, shared by the two atoms around it.
    fn deposit(&self, point: f32, mass: f32, out: &mut [f32]) {
        let last = self.atoms.len() - 1;
        let at = ((point - self.atoms[0]) / self.spacing).clamp(0.0, last as f32);
        let low = (at as usize).min(last - 1);
        let share = at - low as f32;
        out[low] += mass * (1.0 - share);
        out[low + 1] += mass * share;
    }
}

impl Codec for Categorical {
    fn outputs(&self) -> usize {
        self.atoms.len()
    }

    fn saturates(&self, reward: f64) -> bool {
        reward.abs() > self.support_max
    }

    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * reward;
    }

    fn decode(&self, outputs: &[f32], _state: &[f64]) -> f32 {
        self.read(weigh_logits(outputs, largest(outputs), self.points()))
    }

    fn spectrum(&self) -> Spectrum {
        Spectrum::Distribution(self.values.iter().map(|&value| f64::from(value)).collect())
    }

    fn show(&self, outputs: &mut [f32]) {
        let top = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        outputs.iter_mut().for_each(|y| *y = (*y - top).exp());
        let total: f32 = outputs.iter().sum();
        outputs.iter_mut().for_each(|y| *y /= total);
    }

    fn decode_graph(&self, _state: &[f64]) -> Option<Graph> {
        let mut graph = Graph::new();
        let points: Vec<f64> = self.points().iter().map(|&x| f64::from(x)).collect();
        let (outputs, points) = (graph.outputs(), graph.constant(&points));
        let top = graph.largest(outputs);
        let below = graph.sub(outputs, top);
        let weights = graph.map(Function::Exp, below);
        let (total, weighted) = (graph.sum(weights), graph.mul(weights, points));
        let sum = graph.sum(weighted);
        let mean = graph.div(sum, total);
        if self.readout == ReadoutKind::InverseOfMean {
            graph.unsquash(self.squash, mean);
        }
        Some(graph)
    }

    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _frozen: &[f64], out: &mut [f32]) {
        out.fill(0.0);
        match self.targets {
            TargetKind::Projection if bootstrap == 0.0 => {
                self.deposit(self.squash.forward_f32(encoded[0]), 1.0, out);
            }
            TargetKind::Projection => {
                let top = largest(next);
                let (total, _) = weigh_logits(next, top, next);
                for (y, value) in next.iter().zip(&self.values) {
                    let moved = self.squash.forward_f32(encoded[0] + bootstrap * value);
                    self.deposit(moved, exp(y - top) / total, out);
                }
            }
            TargetKind::HlGauss => {
                let future = if bootstrap == 0.0 { 0.0 } else { bootstrap * self.decode(next, &[]) };
                let (low, high) = (self.atoms[0], self.atoms[self.atoms.len() - 1]);
                let centre = self.squash.forward_f32(encoded[0] + future).clamp(low, high);
                self.cut_gaussian(centre, out);
            }
        }
    }

    fn target_value(&self, targets: &[f32], _state: &[f64]) -> f32 {
        self.read(weigh(targets, self.points()))
    }

    /// The gradient of the cross-entropy by the logits: softmax − target.
    fn gradient(&self, rows: &Rows<'_>, _state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        let k = self.atoms.len();
        let triples =
            gradients.chunks_exact_mut(k).zip(rows.outputs.chunks_exact(k)).zip(rows.targets.chunks_exact(k));
        for ((gradient, outputs), targets) in triples {
            let total = exponentials(outputs, largest(outputs), gradient);
            for (g, t) in gradient.iter_mut().zip(targets) {
                *g = *g / total - t;
            }
        }
        trunk.fill(1.0);
    }

    fn device(&self) -> Option<DeviceCodec> {
        let mut constants = squash_constants(self.squash).to_vec();
        constants.push(f64::from(u8::from(self.targets == TargetKind::Projection)));
        constants.push(f64::from(u8::from(self.readout != ReadoutKind::InverseOfMean)));
        constants.extend([self.spacing, self.gauss].map(f64::from));
        constants.extend(self.atoms.iter().chain(&self.values).map(|&x| f64::from(x)));
        Some(DeviceCodec { name: "Categorical", source: include_str!("categorical.cu"), constants })
    }
}

/// From here on the error function is 1 as an f32: less than half its last bit is missing.
const ERF_END: f32 = 4.0;

/// The error function, to 1.2e-7 (Numerical Recipes' Chebyshev fit of erfc).
fn erf(x: f32) -> f32 {
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let z = f64::from(x).abs();
    let t = 1.0 / (1.0 + 0.5 * z);
    let polynomial = FIT.iter().rev().fold(0.0, |sum, c| sum * t + c);
    let complement = t * (-z * z + polynomial).exp();
    (if x >= 0.0 { 1.0 - complement } else { complement - 1.0 }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variants() -> Vec<Categorical> {
        let mut all = Vec::new();
        for support in [SupportKind::Sqrt, SupportKind::Symlog] {
            for targets in [TargetKind::Projection, TargetKind::HlGauss] {
                for readout in [ReadoutKind::Mean, ReadoutKind::InverseOfMean, ReadoutKind::Calibrated] {
                    let settings = CategoricalSettings {
                        support,
                        targets,
                        readout,
                        support_max: 1e4,
                        ..Default::default()
                    };
                    let refused = targets == TargetKind::Projection && readout == ReadoutKind::Calibrated;
                    let codec = Categorical::new(&settings);
                    assert_eq!(codec.is_err(), refused, "{settings:?}");
                    all.extend(codec);
                }
            }
        }
        all
    }

    #[test]
    fn erf_is_the_error_function() {
        for (x, want) in
            [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3), (-1.0, -0.842_700_8)]
        {
            assert!((erf(x) - want).abs() < 2e-7, "{x}");
        }
    }

    /// What the bins that are left out would hold.
    #[test]
    fn a_gaussian_is_cut_where_nothing_of_it_is_left() {
        assert_eq!((erf(ERF_END), erf(-ERF_END)), (1.0, -1.0));
        for (atoms, gauss_bins) in [(129, 0.75), (65, 0.2), (33, 3.0), (9, 40.0), (2, 0.75)] {
            let settings = CategoricalSettings { atoms, gauss_bins, support_max: 1e4, ..Default::default() };
            let codec = Categorical::new(&settings).unwrap();
            for i in 0..=2000 {
                let centre = codec.atoms[0] * (1.0 - i as f32 / 1000.0);
                let width = codec.gauss * std::f32::consts::SQRT_2;
                let edge = |j: usize| erf((codec.atoms[0] + (j as f32 - 0.5) * codec.spacing - centre) / width);
                let want: Vec<f32> =
                    (0..atoms).map(|j| (edge(j + 1) - edge(j)) / (edge(atoms) - edge(0))).collect();
                let mut got = vec![0.0; atoms];
                codec.cut_gaussian(centre, &mut got);
                assert_eq!(got, want, "{settings:?} around {centre}");
            }
            let mut lost = vec![0.0; atoms];
            codec.cut_gaussian(f32::NAN, &mut lost);
            assert!(lost.iter().all(|t| t.is_nan()));
        }
    }

    proptest! {
        #[test]
        fn targets_are_distributions(
            encoded in -2e4f32..2e4,
            bootstrap in 0.0f32..1.0,
            logits in prop::collection::vec(-5.0f32..5.0, 129),
        ) {
            for codec in variants() {
                let mut target = vec![0.0; 129];
                codec.target(&[encoded], bootstrap, &logits, &[], &mut target);
                prop_assert!((target.iter().sum::<f32>() - 1.0).abs() < 1e-4, "{codec:?}");
                prop_assert!(target.iter().all(|t| (-1e-6..=1.0 + 1e-5).contains(t)));
            }
        }

        /// A projection keeps the mean atom of a point mass; HL-Gauss keeps it to a small part of a bin.
        #[test]
        fn a_point_keeps_its_place(reward in -9e3f32..9e3) {
            for codec in variants() {
                let mut target = vec![0.0; 129];
                codec.target(&[reward], 0.0, &vec![0.0; 129], &[], &mut target);
                let mean: f32 = target.iter().zip(&codec.atoms).map(|(t, z)| t * z).sum();
                let want = codec.squash.forward_f32(reward);
                let near_edge = want.abs() > codec.atoms[128] - 4.0 * codec.gauss;
                let tolerance = if codec.targets == TargetKind::Projection { 1e-3 } else { 0.02 };
                prop_assert!(near_edge || (mean - want).abs() < tolerance * codec.spacing.max(1.0), "{mean} {want}");
            }
        }
    }

    /// Roundings of weights and sums are small beside what is summed, so a value is as exact as its support allows in floats.
    #[test]
    fn a_value_is_the_mean_to_the_roundings_of_its_support() {
        let wave = |stretch: f32| (0..129).map(|j| stretch * (0.37 * (j * j) as f32).sin()).collect::<Vec<f32>>();
        for codec in variants() {
            for logits in [vec![0.0; 129], wave(0.01), wave(1.0), wave(8.0)] {
                let top = f64::from(largest(&logits));
                let (mut total, mut sum, mut size) = (0.0, 0.0, 0.0);
                for (&y, &x) in logits.iter().zip(codec.points()) {
                    let (w, x) = ((f64::from(y) - top).exp(), f64::from(x));
                    (total, sum, size) = (total + w, sum + w * x, size + w * x.abs());
                }
                let got = f64::from(codec.decode(&logits, &[]));
                let got = match codec.readout {
                    ReadoutKind::InverseOfMean => codec.squash.forward_f64(got),
                    ReadoutKind::Mean | ReadoutKind::Calibrated => got,
                };
                let lost = (got - sum / total).abs() / (size / total);
                assert!(lost < 1e-6, "{:?} {:?}: {lost}", codec.targets, codec.readout);
            }
        }
    }

    #[test]
    fn what_cannot_be_calibrated_is_refused() {
        let with = |gauss_bins| {
            let readout = ReadoutKind::Calibrated;
            Categorical::new(&CategoricalSettings { gauss_bins, readout, ..Default::default() })
        };
        assert!(with(2.0).is_ok());
        let error = with(3.0).unwrap_err().to_string();
        assert!(error.contains("gauss_bins") && error.contains("calibrated"), "{error}");
    }

    /// A backup must not inflate: far from the ends of the support, a Gaussian around T has the mean T, within much less than
    /// the 1% that the paper's γⁿ takes away.
    #[test]
    fn a_calibrated_mean_of_a_gaussian_is_its_centre() {
        for (atoms, tolerance) in [(129, 1e-3), (65, 5e-3)] {
            let settings =
                CategoricalSettings { atoms, readout: ReadoutKind::Calibrated, ..Default::default() };
            let codec = Categorical::new(&settings).unwrap();
            for exponent in 0..=20 {
                let value = 10f32.powf(f32::from(exponent as u8) / 4.0);
                for value in [value, -value] {
                    let mut target = vec![0.0; atoms];
                    codec.target(&[value], 0.0, &vec![0.0; atoms], &[], &mut target);
                    let ratio = codec.target_value(&target, &[]) / value;
                    assert!((ratio - 1.0).abs() < tolerance, "{atoms} atoms, {value}: {ratio}");
                }
            }
        }
    }

    /// Finite differences of the cross-entropy agree with softmax − target.
    #[test]
    fn the_gradient_is_that_of_the_cross_entropy() {
        let settings = CategoricalSettings { atoms: 5, support_max: 10.0, ..Default::default() };
        let codec = Categorical::new(&settings).unwrap();
        let logits = [0.3f32, -0.2, 0.9, 0.1, -1.0];
        let target = [0.1f32, 0.2, 0.4, 0.2, 0.1];
        let loss = |y: &[f64]| {
            let total: f64 = y.iter().map(|v| v.exp()).sum();
            -y.iter().zip(&target).map(|(v, t)| f64::from(*t) * (v.exp() / total).ln()).sum::<f64>()
        };
        let (mut gradient, mut trunk) = ([0.0; 5], [0.0; 5]);
        let rows = Rows { outputs: &logits, targets: &target, returns: &[0.0], live: &[true] };
        codec.gradient(&rows, &mut [], &mut gradient, &mut trunk);
        for j in 0..5 {
            let mut y: Vec<f64> = logits.iter().map(|v| f64::from(*v)).collect();
            y[j] += 1e-5;
            let above = loss(&y);
            y[j] -= 2e-5;
            let slope = (above - loss(&y)) / 2e-5;
            assert!((slope - f64::from(gradient[j])).abs() < 1e-5, "{slope} {}", gradient[j]);
        }
    }

    /// The two read-outs differ as the module's introduction says.
    #[test]
    fn the_mean_sees_rare_large_returns_and_the_inverse_of_the_mean_does_not() {
        let codec = |readout| {
            let settings = CategoricalSettings { readout, support_max: 1e4, ..Default::default() };
            Categorical::new(&settings).unwrap()
        };
        let (mean, inverse) = (codec(ReadoutKind::Mean), codec(ReadoutKind::InverseOfMean));
        let mut target = vec![0.0; 129];
        mean.deposit(mean.squash.forward_f32(1000.0), 0.1, &mut target);
        mean.deposit(0.0, 0.9, &mut target);
        assert!((mean.target_value(&target, &[]) - 100.0).abs() < 2.0);
        assert!(inverse.target_value(&target, &[]) < 2.0);
    }
}
