//! Spectral DQN (Dann & Thangarajah, 2021): one bounded value per bucket of the reward.

mod steady;

use super::{Codec, CodecEntry, Graph, NextStates, Rows, squared_error_gradient};
use crate::gpu::source::DeviceCodec;
use crate::settings::{SettingError, check_fraction, check_positive};
use spectral_core::decompose::{Encoding, Spectrum};
use spectral_core::moments::bias_correction;
use spectral_core::{choices, settings};
use spectral_env::ActionMask;
use std::sync::Arc;
use steady::Steadiness;

choices! {
    /// How a reward is spread over frequencies.
    EncodingKind {
        /// Buckets filled from below: the paper's.
        Thermometer = "thermometer",
        /// Binary digits: the paper's counter-example.
        Binary = "binary",
    }
}

choices! {
    /// How the frequencies' losses are weighted in the hidden layers.
    WeightKind {
        /// 1/σᵢ²: the method.
        Variance = "variance",
        /// bⁱ: the paper's first ablation.
        Exponential = "exponential",
        /// 1: the paper's second ablation.
        Uniform = "uniform",
    }
}

choices! {
    /// What decides between actions.
    ChoiceKind {
        /// The action-values Σ bⁱ yᵢ: the paper's.
        Values = "values",
        /// The same sum over those differences between actions that stand out of their noise.
        Steady = "steady",
    }
}

settings! {
    /// Settings of Spectral DQN.
    SpectralSettings {
        /// Base b of the decomposition.
        base: f64 = 2.0,
        /// Maximum frequency N; there are N + 1 heads.
        max_frequency: usize = 20,
        /// How a reward is spread over frequencies.
        encoding: EncodingKind = EncodingKind::Thermometer,
        /// How the frequencies' losses are weighted in the hidden layers.
        weights: WeightKind = WeightKind::Variance,
        /// Train the last layer as if every weight were 1.
        undo_last_layer: bool = true,
        /// Rate of the running statistics.
        statistics_rate: f64 = 3e-4,
        /// What decides between actions.
        choice: ChoiceKind = ChoiceKind::Values,
        /// Factor on the size √(2 ln n)·noise that a difference must exceed to count in a steady choice.
        steadiness: f64 = 1.0,
    }
}

/// Spectral DQN in the registry, with the paper's ablations.
pub fn entry() -> CodecEntry {
    CodecEntry::new(
        "spectral",
        "one bounded value per bucket of the reward",
        |settings: &SpectralSettings, agent| Ok(Arc::new(Spectral::new(settings, agent.discount)?)),
    )
    .page("docs/agents/spectral.md")
    .preset(
        "spectral",
        "Spectral DQN, the method: one bounded value per bucket of the reward. For comparisons with the paper.",
        "weights = \"variance\"",
    )
    .preset(
        "spectral-exponential",
        "Spectral DQN with losses weighted by bⁱ: the first ablation of the paper.",
        "weights = \"exponential\"",
    )
    .preset(
        "spectral-uniform",
        "Spectral DQN with all losses weighted alike: the second ablation of the paper.",
        "weights = \"uniform\"",
    )
    .preset(
        "spectral-binary",
        "Spectral DQN on binary digits of the reward instead of filled buckets: the code the paper argues against.",
        "encoding = \"binary\"",
    )
    .preset(
        "steady",
        "Spectral DQN that ignores differences between actions that are noise: our own. Where rewards grow, take this.",
        "weights = \"variance\"\nchoice = \"steady\"",
    )
    .variants(&[
        "choice=steady",
        "choice=steady double=true",
        "weights=exponential undo_last_layer=false",
        "weights=exponential encoding=binary",
        "encoding=binary weights=uniform",
        "base=3 max_frequency=6",
    ])
}

/// Far beyond this factor no difference would ever count.
const MAX_STEADINESS: f64 = 1000.0;
/// σ is never taken to be smaller than this: √10 · 0.01, so that weights stay at or below 1000.
const SIGMA_FLOOR: f64 = 0.031_622_776_601_683_79;

/// The spectral agent: an action-value is Σ bⁱ yᵢ.
///
/// ```
/// use spectral_agent::codecs::{Codec, Spectral};
/// let codec = Spectral::new(&Default::default(), 0.99)?;
/// let mut encoded = vec![0.0; codec.encoded()];
/// codec.encode_reward(6.5, 1.0, &mut encoded);
/// assert_eq!(encoded[..4], [1.0, 1.0, 0.875, 0.0]);
/// # Ok::<(), spectral_agent::settings::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Spectral {
    spectrum: Spectrum,
    weights: WeightKind,
    undo_last_layer: bool,
    rate: f64,
    /// No spectral return can exceed 1/(1 − γ).
    bound: f32,
    /// The steady choice, if it is wanted.
    steadiness: Option<Steadiness>,
}

impl Spectral {
    /// The codec with these settings, for returns with this discount per step.
    pub fn new(settings: &SpectralSettings, discount: f64) -> Result<Self, SettingError> {
        check_fraction("discount", discount)?;
        check_positive("statistics_rate", settings.statistics_rate)?;
        check_fraction("statistics_rate", settings.statistics_rate)?;
        check_positive("steadiness", settings.steadiness)?;
        if settings.steadiness > MAX_STEADINESS {
            let expected = format!("a number above 0, {MAX_STEADINESS} at most");
            return Err(SettingError::bad("steadiness", settings.steadiness.to_string(), expected));
        }
        let encoding = match settings.encoding {
            EncodingKind::Thermometer => Encoding::Thermometer,
            EncodingKind::Binary => Encoding::Binary,
        };
        let spectrum = Spectrum::new(settings.base, settings.max_frequency, encoding)
            .map_err(|e| SettingError::bad("base", settings.base.to_string(), e.to_string()))?;
        Ok(Spectral {
            spectrum,
            weights: settings.weights,
            undo_last_layer: settings.undo_last_layer,
            rate: settings.statistics_rate,
            bound: (1.0 / (1.0 - discount)) as f32,
            steadiness: (settings.choice == ChoiceKind::Steady).then(|| Steadiness::new(settings)),
        })
    }

    fn heads(&self) -> usize {
        self.spectrum.frequencies()
    }

    /// An output as it counts in values and targets.
    fn bounded(&self, output: f32) -> f64 {
        f64::from(output.clamp(-self.bound, self.bound))
    }

    /// Numbers that the state has for each head.
    fn state_width(&self) -> usize {
        if self.steadiness.is_some() { steady::WIDTH } else { 3 }
    }

    /// σᵢ from the running statistics of one head.
    fn sigma(&self, head: &[f64]) -> f64 {
        let [mean, square, count] = [head[0], head[1], head[2]];
        let correction = bias_correction(self.rate, (count as u64).max(1));
        let mu = mean / correction;
        (square / correction - mu * mu).max(0.0).sqrt().max(SIGMA_FLOOR)
    }
}

impl Codec for Spectral {
    fn outputs(&self) -> usize {
        self.heads()
    }

    fn encoded(&self) -> usize {
        self.heads()
    }

    /// Superfluous heads then have no effect, and noise is not multiplied by bⁱ.
    fn zero_init(&self) -> bool {
        true
    }

    fn undo_last_layer(&self) -> bool {
        self.undo_last_layer
    }

    /// Per head: running mean, running mean square, and the count of minibatches since the head first fired; then what
    /// the steady choice adds.
    fn init(&self) -> Vec<f64> {
        vec![0.0; self.state_width() * self.heads()]
    }

    fn saturates(&self, reward: f64) -> bool {
        self.spectrum.saturates(reward)
    }

    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        self.spectrum.add_decomposed_f32(reward, factor, out);
    }

    fn decode(&self, outputs: &[f32], _state: &[f64]) -> f32 {
        // f64: at the top of the spectrum 2²⁰·y swamps the low frequencies' share of an f32 sum.
        let weights = self.spectrum.weights_f64();
        let bounded = outputs.iter().map(|&y| self.bounded(y));
        bounded.zip(weights).map(|(y, w)| y * w).sum::<f64>() as f32
    }

    fn decode_graph(&self, _state: &[f64]) -> Option<Graph> {
        let mut graph = Graph::new();
        let bounded = graph.bounded(graph.outputs(), f64::from(self.bound));
        let weights = graph.constant(self.spectrum.weights_f64());
        let weighted = graph.mul(bounded, weights);
        graph.sum(weighted);
        Some(graph)
    }

    fn prefers(&self) -> bool {
        self.steadiness.is_some()
    }

    fn preferences(
        &self,
        outputs: &[f32],
        state: &[f64],
        legal: Option<&ActionMask>,
        preferences: &mut [f32],
    ) {
        if self.steadiness.is_some() {
            steady::preferences(self, outputs, state, legal, preferences);
        }
    }

    fn compares(&self) -> bool {
        self.steadiness.is_some()
    }

    fn compare(&self, next: &NextStates<'_>, state: &mut [f64]) {
        if let Some(steadiness) = &self.steadiness {
            steadiness.measure(self, next, state);
        }
    }

    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _frozen: &[f64], out: &mut [f32]) {
        for ((t, r), y) in out.iter_mut().zip(encoded).zip(next) {
            let value = r + bootstrap * y.clamp(-self.bound, self.bound);
            *t = value.clamp(-self.bound, self.bound);
        }
    }

    fn gradient(&self, rows: &Rows<'_>, state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        let heads = self.heads();
        squared_error_gradient(rows, gradients);
        let batch = rows.live.len() as f64;
        for (i, (head, weight)) in state.chunks_exact_mut(self.state_width()).zip(trunk.iter_mut()).enumerate() {
            let (mut mean, mut square, mut fired) = (0.0, 0.0, false);
            for (row, &live) in rows.live.iter().enumerate() {
                let at = row * heads + i;
                // Near a time-out the target is the prediction itself.
                let target = f64::from(if live { rows.targets[at] } else { rows.outputs[at] });
                mean += target;
                square += target * target;
                fired |= live && rows.returns[at] != 0.0;
            }
            head[0] += self.rate * (mean / batch - head[0]);
            head[1] += self.rate * (square / batch - head[1]);
            // Each head counts from its own first reward: with one count for all, a frequency that fires late would
            // start near σ = 0 and take over the hidden layers.
            if i == 0 || fired || head[2] > 0.0 {
                head[2] += 1.0;
            }
            *weight = match self.weights {
                WeightKind::Variance => (1.0 / self.sigma(head).powi(2)) as f32,
                WeightKind::Exponential => self.spectrum.weights_f32()[i],
                WeightKind::Uniform => 1.0,
            };
        }
    }

    fn has_frequencies(&self) -> bool {
        true
    }

    fn frequency_weights(&self) -> Option<&[f64]> {
        Some(self.spectrum.weights_f64())
    }

    fn device(&self) -> Option<DeviceCodec> {
        let weights = match self.weights {
            WeightKind::Variance => 0.0,
            WeightKind::Exponential => 1.0,
            WeightKind::Uniform => 2.0,
        };
        let binary = f64::from(u8::from(self.spectrum.encoding() == Encoding::Binary));
        let widths = self.spectrum.weights_f64();
        let steadiness = self.steadiness.map_or(0.0, |steadiness| steadiness.factor);
        let bound = f64::from(self.bound);
        let mut constants = vec![weights, binary, self.rate, bound, self.spectrum.capacity(), steadiness];
        constants.extend(widths);
        constants.extend(widths.iter().map(|width| f64::from((1.0 / width) as f32)));
        // The edges are sums of the widths, as in the spectrum itself.
        let mut edge = 0.0;
        constants.push(edge);
        constants.extend(widths.iter().map(|width| {
            edge += width;
            f64::from(edge as f32)
        }));
        Some(DeviceCodec { name: "Spectral", source: include_str!("spectral.cu"), constants })
    }

    fn statistics(&self, state: &[f64]) -> Vec<(String, f64)> {
        let heads = state.chunks_exact(self.state_width()).enumerate();
        let mut named: Vec<_> = heads.map(|(i, head)| (format!("sigma_{i}"), self.sigma(head))).collect();
        if self.steadiness.is_some() {
            let heads = state.chunks_exact(steady::WIDTH).enumerate();
            named.extend(heads.map(|(i, head)| (format!("threshold_{i}"), head[steady::THRESHOLD])));
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codec(max_frequency: usize, weights: WeightKind) -> Spectral {
        let settings = SpectralSettings { max_frequency, weights, ..Default::default() };
        Spectral::new(&settings, 0.99f64.powf(1.0 / 3.0)).unwrap()
    }

    fn run(codec: &Spectral, state: &mut [f64], targets: &[f32], returns: &[f32]) -> Vec<f32> {
        let rows = targets.len() / codec.heads();
        let outputs = vec![0.0; targets.len()];
        let (mut gradients, mut trunk) = (vec![0.0; targets.len()], vec![0.0; codec.heads()]);
        let live = vec![true; rows];
        let rows = Rows { outputs: &outputs, targets, returns, live: &live };
        codec.gradient(&rows, state, &mut gradients, &mut trunk);
        trunk
    }

    #[test]
    fn a_head_starts_its_statistics_when_its_frequency_first_fires() {
        let codec = codec(1, WeightKind::Variance);
        let mut state = codec.init();
        for _ in 0..1000 {
            let trunk = run(&codec, &mut state, &[1.0, 0.0, -1.0, 0.0], &[1.0, 0.0, -1.0, 0.0]);
            assert_eq!(
                trunk[1],
                (1.0 / (SIGMA_FLOOR * SIGMA_FLOOR)) as f32,
                "a silent head sits at the floor"
            );
        }
        assert_eq!((state[2], state[5]), (1000.0, 0.0));
        assert!((codec.sigma(&state[..3]) - 1.0).abs() < 1e-6);
        // Now frequency 1 fires: its own count starts at 1, so σ₁ is at once that of the minibatch.
        let trunk = run(&codec, &mut state, &[1.0, 0.5, -1.0, -0.5], &[1.0, 0.5, -1.0, -0.5]);
        assert_eq!(state[5], 1.0);
        assert!((trunk[1] - 4.0).abs() < 1e-3, "{trunk:?}");
        // And it goes on counting when it is silent again.
        run(&codec, &mut state, &[1.0, 0.0, -1.0, 0.0], &[1.0, 0.0, -1.0, 0.0]);
        assert_eq!(state[5], 2.0);
    }

    #[test]
    fn rows_near_a_time_out_count_as_their_prediction() {
        let codec = codec(0, WeightKind::Variance);
        let mut state = codec.init();
        let (mut gradients, mut trunk) = ([0.0; 2], [0.0]);
        let rows =
            Rows { outputs: &[0.5, 0.5], targets: &[0.5, 100.0], returns: &[0.0; 2], live: &[true, false] };
        codec.gradient(&rows, &mut state, &mut gradients, &mut trunk);
        assert!((state[0] / codec.rate - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_row_that_is_not_learned_from_starts_no_head() {
        let codec = codec(1, WeightKind::Variance);
        let mut state = codec.init();
        let (mut gradients, mut trunk) = ([0.0; 4], [0.0; 2]);
        let returns = [0.0, 0.0, 1.0, 1.0];
        let rows = Rows { outputs: &[0.0; 4], targets: &returns, returns: &returns, live: &[true, false] };
        codec.gradient(&rows, &mut state, &mut gradients, &mut trunk);
        assert_eq!(state[5], 0.0, "its target is its prediction, so there is nothing to count");
    }

    #[test]
    fn weights_are_the_ones_asked_for() {
        let targets = [1.0, 0.5, 0.0, -1.0, -0.5, 0.0];
        for (kind, want) in
            [(WeightKind::Uniform, [1.0, 1.0, 1.0]), (WeightKind::Exponential, [1.0, 2.0, 4.0])]
        {
            let codec = codec(2, kind);
            assert_eq!(run(&codec, &mut codec.init(), &targets, &targets), want);
        }
    }

    #[test]
    fn values_for_acting_and_targets_are_bounded() {
        let codec = codec(1, WeightKind::Variance);
        let bound = codec.bound;
        assert!((bound - 299.0).abs() < 1.0, "1/(1 − 0.99^(1/3)) is about 299: {bound}");
        assert_eq!(codec.decode(&[1e9, 0.0], &[]), bound);
        let mut out = [0.0; 2];
        codec.target(&[1.0, -1.0], 1.0, &[1e9, -1e9], &[], &mut out);
        assert_eq!(out, [bound, -bound]);
    }

    proptest! {
        /// The value of a spectral target is the scalar target, while nothing saturates.
        #[test]
        fn targets_recompose(rewards in prop::collection::vec(-1e4f32..1e4, 1..4), next in -1.0f32..1.0) {
            let codec = codec(20, WeightKind::Variance);
            let gamma = 0.99f32;
            let mut encoded = vec![0.0; 21];
            let mut scalar = 0.0f64;
            for (k, &reward) in rewards.iter().enumerate() {
                codec.encode_reward(reward, gamma.powi(k as i32), &mut encoded);
                scalar += f64::from(gamma.powi(k as i32)) * f64::from(reward);
            }
            let outputs: Vec<f32> = (0..21).map(|i| if i < 10 { next } else { 0.0 }).collect();
            let mut target = vec![0.0; 21];
            codec.target(&encoded, 0.5, &outputs, &[], &mut target);
            scalar += 0.5 * f64::from(codec.decode(&outputs, &[]));
            prop_assert!((f64::from(codec.decode(&target, &[])) - scalar).abs() < 0.05, "{scalar}");
        }
    }
}
