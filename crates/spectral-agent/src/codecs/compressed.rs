//! DQN+TC: the network learns squashed action-values (Pohlen et al., 2018).

use super::{
    Codec, CodecEntry, Graph, Rows, check_transform_epsilon, squared_error_gradient, squash_constants,
};
use crate::gpu::source::DeviceCodec;
use crate::settings::SettingError;
use spectral_core::squash::Squash;
use spectral_core::{choices, settings};
use std::sync::Arc;

choices! {
    /// The squashing function of target compression.
    TransformKind {
        /// sign(x)(√(|x|+1) − 1) + εx.
        Sqrt = "sqrt",
        /// sign(x) ln(|x|+1) + εx.
        Log = "log",
    }
}

settings! {
    /// Settings of DQN+TC.
    CompressedSettings {
        /// The squashing function.
        transform: TransformKind = TransformKind::Sqrt,
        /// ε of the squashing function (0.01 in the authors' code, 0.001 in R2D2).
        transform_epsilon: f64 = 0.01,
        /// Divide errors by their running magnitude, as the authors' code does.
        error_correction: bool = true,
    }
}

/// DQN+TC in the registry, with other squashing functions.
pub fn entry() -> CodecEntry {
    CodecEntry::new("compressed", "targets squashed", |settings: &CompressedSettings, _| {
        Ok(Arc::new(Compressed::new(settings)?))
    })
    .page("docs/agents/compressed.md")
    .preset(
        "compressed",
        "DQN+TC: targets squashed by a square root (Pohlen et al., 2018). For rewards that differ a hundredfold at most.",
        "transform = \"sqrt\"\ntransform_epsilon = 0.01",
    )
    .preset(
        "compressed-r2d2",
        "DQN+TC with the ε of R2D2 (Kapturowski et al., 2019).",
        "transform = \"sqrt\"\ntransform_epsilon = 0.001",
    )
    .preset(
        "compressed-log",
        "DQN+TC with a logarithmic squash, which the paper discusses and does not run.",
        "transform = \"log\"\ntransform_epsilon = 0.001",
    )
    .variants(&["transform=log error_correction=false"])
}

/// The compressed agent: targets are h(return + γⁿ h⁻¹(next)).
///
/// ```
/// use spectral_agent::codecs::{Codec, Compressed};
/// let codec = Compressed::new(&Default::default())?;
/// let mut target = [0.0];
/// codec.target(&[3.0], 0.0, &[0.0], &[], &mut target);
/// assert!((target[0] - 1.03).abs() < 1e-6); // √4 − 1 + 0.01·3
/// # Ok::<(), spectral_agent::settings::SettingError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Compressed {
    squash: Squash,
    error_correction: bool,
}

impl Compressed {
    /// The codec with these settings.
    pub fn new(settings: &CompressedSettings) -> Result<Self, SettingError> {
        check_transform_epsilon(settings.transform_epsilon)?;
        let epsilon = settings.transform_epsilon;
        let squash = match settings.transform {
            TransformKind::Sqrt => Squash::Sqrt { epsilon },
            TransformKind::Log => Squash::Log { epsilon },
        };
        Ok(Compressed { squash, error_correction: settings.error_correction })
    }
}

impl Codec for Compressed {
    fn outputs(&self) -> usize {
        1
    }

    fn error_correction(&self) -> bool {
        self.error_correction
    }

    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * reward;
    }

    fn decode(&self, outputs: &[f32], _state: &[f64]) -> f32 {
        self.squash.inverse_f32(outputs[0])
    }

    fn decode_graph(&self, _state: &[f64]) -> Option<Graph> {
        let mut graph = Graph::new();
        graph.unsquash(self.squash, graph.outputs());
        Some(graph)
    }

    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _frozen: &[f64], out: &mut [f32]) {
        // No bootstrap must mean none: a terminal row takes nothing from an output that may be anything.
        let future = if bootstrap == 0.0 { 0.0 } else { bootstrap * self.squash.inverse_f32(next[0]) };
        out[0] = self.squash.forward_f32(encoded[0] + future);
    }

    fn gradient(&self, rows: &Rows<'_>, _state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        squared_error_gradient(rows, gradients);
        trunk.fill(1.0);
    }

    fn device(&self) -> Option<DeviceCodec> {
        let constants = squash_constants(self.squash).to_vec();
        Some(DeviceCodec { name: "Compressed", source: include_str!("compressed.cu"), constants })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_its_own_target_stays() {
        for transform in [TransformKind::Sqrt, TransformKind::Log] {
            let codec = Compressed::new(&CompressedSettings { transform, ..Default::default() }).unwrap();
            for value in [-1e5f32, -3.0, 0.0, 0.2, 77.0, 1e6] {
                // Reward r and discount 1/2 keep the value v when v = r + v/2.
                let output = codec.squash.forward_f32(value);
                let mut target = [0.0];
                codec.target(&[value / 2.0], 0.5, &[output], &[], &mut target);
                let decoded = codec.decode(&target, &[]);
                assert!((decoded - value).abs() <= 2e-6 * value.abs(), "{transform:?} {value} {decoded}");
            }
        }
    }
}
