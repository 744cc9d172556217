//! Pop-Art (van Hasselt et al., 2016): targets normalised to zero mean and unit variance, outputs preserved.

use super::{Affine, Codec, CodecEntry, Graph, Rows, squared_error_gradient};
use crate::gpu::source::DeviceCodec;
use crate::settings::{SettingError, check_fraction, check_positive};
use spectral_core::moments::bias_correction;
use spectral_core::settings;
use std::sync::Arc;

settings! {
    /// Settings of Pop-Art.
    PopArtSettings {
        /// Rate of the running statistics.
        statistics_rate: f64 = 3e-4,
        /// Divide errors by their running magnitude, as the authors' code does.
        error_correction: bool = true,
    }
}

/// Pop-Art in the registry.
pub fn entry() -> CodecEntry {
    CodecEntry::new("popart", "targets normalised, outputs preserved", |settings: &PopArtSettings, _| {
        Ok(Arc::new(PopArt::new(settings)?))
    })
    .page("docs/agents/popart.md")
    .preset(
        "popart",
        "Pop-Art: targets normalised by running moments (van Hasselt et al., 2016). For rewards of one unknown size.",
        "",
    )
    .variants(&["error_correction=false"])
}

// The state: running mean, running mean square, count, and the (μ, σ) in force.
const MEAN: usize = 0;
const SQUARE: usize = 1;
const COUNT: usize = 2;
const MU: usize = 3;
const SIGMA: usize = 4;

/// Added to σ so that it cannot vanish.
const SIGMA_FLOOR: f64 = 0.001;

/// The Pop-Art agent: an action-value is σ·y + μ.
///
/// ```
/// use spectral_agent::codecs::{Codec, PopArt};
/// let codec = PopArt::new(&Default::default())?;
/// assert_eq!(codec.decode(&[0.5], &codec.init()), 0.5); // μ = 0 and σ = 1 before the first update
/// # Ok::<(), spectral_agent::settings::SettingError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PopArt {
    rate: f64,
    error_correction: bool,
}

impl PopArt {
    /// The codec with these settings.
    pub fn new(settings: &PopArtSettings) -> Result<Self, SettingError> {
        check_positive("statistics_rate", settings.statistics_rate)?;
        check_fraction("statistics_rate", settings.statistics_rate)?;
        Ok(PopArt { rate: settings.statistics_rate, error_correction: settings.error_correction })
    }
}

/// The change from one (μ, σ) to another: σ'·(scale·y + shift) + μ' = σ·y + μ, so every prediction survives it.
fn preserve(change: &mut Affine, (mu, sigma): (f64, f64), (new_mu, new_sigma): (f64, f64)) {
    change.scale[0] = (sigma / new_sigma) as f32;
    change.shift[0] = ((mu - new_mu) / new_sigma) as f32;
}

impl Codec for PopArt {
    fn outputs(&self) -> usize {
        1
    }

    fn error_correction(&self) -> bool {
        self.error_correction
    }

    fn init(&self) -> Vec<f64> {
        vec![0.0, 0.0, 0.0, 0.0, 1.0]
    }

    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * reward;
    }

    fn decode(&self, outputs: &[f32], state: &[f64]) -> f32 {
        (state[SIGMA] * f64::from(outputs[0]) + state[MU]) as f32
    }

    fn decode_graph(&self, state: &[f64]) -> Option<Graph> {
        let mut graph = Graph::new();
        let (sigma, mu) = (graph.constant(&[state[SIGMA]]), graph.constant(&[state[MU]]));
        let scaled = graph.mul(sigma, graph.outputs());
        graph.add(scaled, mu);
        Some(graph)
    }

    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], frozen: &[f64], out: &mut [f32]) {
        out[0] = encoded[0] + bootstrap * self.decode(next, frozen);
    }

    fn before_forward(&self, targets: &mut [f32], state: &mut [f64], change: &mut Affine) -> bool {
        let n = targets.len() as f64;
        let mean = targets.iter().map(|&t| f64::from(t)).sum::<f64>() / n;
        let square = targets.iter().map(|&t| f64::from(t) * f64::from(t)).sum::<f64>() / n;
        state[MEAN] += self.rate * (mean - state[MEAN]);
        state[SQUARE] += self.rate * (square - state[SQUARE]);
        state[COUNT] += 1.0;
        let correction = bias_correction(self.rate, state[COUNT] as u64);
        let mu = state[MEAN] / correction;
        let sigma = (state[SQUARE] / correction - mu * mu).max(0.0).sqrt() + SIGMA_FLOOR;
        preserve(change, (state[MU], state[SIGMA]), (mu, sigma));
        state[MU] = mu;
        state[SIGMA] = sigma;
        for target in targets {
            *target = ((f64::from(*target) - mu) / sigma) as f32;
        }
        true
    }

    fn rebase(&self, from: &[f64], to: &[f64], change: &mut Affine) -> bool {
        preserve(change, (from[MU], from[SIGMA]), (to[MU], to[SIGMA]));
        true
    }

    fn gradient(&self, rows: &Rows<'_>, _state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        squared_error_gradient(rows, gradients);
        trunk.fill(1.0);
    }

    fn device(&self) -> Option<DeviceCodec> {
        Some(DeviceCodec { name: "PopArt", source: include_str!("popart.cu"), constants: vec![self.rate] })
    }

    fn statistics(&self, state: &[f64]) -> Vec<(String, f64)> {
        vec![("mu".into(), state[MU]), ("sigma".into(), state[SIGMA])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever targets come, predictions are the same before and after the statistics move.
        #[test]
        fn outputs_are_preserved(
            batches in prop::collection::vec(prop::collection::vec(-1e5f32..1e5, 1..40), 1..20),
            start in -3.0f32..3.0,
        ) {
            let codec = PopArt::new(&PopArtSettings::default()).unwrap();
            let mut state = codec.init();
            let mut output = start;
            for mut batch in batches {
                let before = codec.decode(&[output], &state);
                let size = |state: &[f64], y: f32| (state[SIGMA] * f64::from(y)).abs() + state[MU].abs() + state[SIGMA];
                let size_before = size(&state, output);
                let mut affine = Affine::identity(1);
                prop_assert!(codec.before_forward(&mut batch, &mut state, &mut affine));
                output = affine.scale[0] * output + affine.shift[0];
                let after = codec.decode(&[output], &state);
                // Rounding is relative to the numbers that cancel, before and after.
                let size = size_before.max(size(&state, output));
                prop_assert!(f64::from((before - after).abs()) <= 1e-6 * size, "{before} {after}");
            }
        }

        /// The first minibatch alone decides the first (μ, σ): the bias correction at work.
        #[test]
        fn the_first_batch_sets_the_scale(batch in prop::collection::vec(-1e3f32..1e3, 2..40)) {
            let codec = PopArt::new(&PopArtSettings::default()).unwrap();
            let mut state = codec.init();
            let mut targets = batch.clone();
            codec.before_forward(&mut targets, &mut state, &mut Affine::identity(1));
            let n = batch.len() as f64;
            let mean = batch.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
            let variance = batch.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
            prop_assert!((state[MU] - mean).abs() < 1e-6 * (1.0 + mean.abs()));
            prop_assert!((state[SIGMA] - variance.sqrt() - SIGMA_FLOOR).abs() < 1e-4 * (1.0 + variance.sqrt()));
        }
    }

    #[test]
    fn targets_use_the_frozen_statistics() {
        let codec = PopArt::new(&PopArtSettings::default()).unwrap();
        let mut frozen = codec.init();
        (frozen[MU], frozen[SIGMA]) = (10.0, 2.0);
        let mut target = [0.0];
        codec.target(&[1.0], 0.5, &[3.0], &frozen, &mut target);
        assert_eq!(target, [1.0 + 0.5 * 16.0]);
    }
}
