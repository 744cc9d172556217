//! DQN: rewards clipped to ±1, errors clipped to ±1 (Huber's loss).

use super::{Codec, CodecEntry, Graph, Rows, squared_error_gradient};
use crate::gpu::source::DeviceCodec;
use std::sync::Arc;

/// DQN in the registry.
pub fn entry() -> CodecEntry {
    CodecEntry::new("clipped", "rewards clipped to ±1", |_: &(), _| Ok(Arc::new(Clipped)))
        .page("docs/agents/clipped.md")
        .preset("clipped", "DQN: rewards clipped to ±1 (Mnih et al., 2015). Where a reward's sign says it all, take this.", "")
}

/// The clipped agent. It cannot tell a large reward from a small one.
///
/// ```
/// use spectral_agent::codecs::{Clipped, Codec};
/// let mut encoded = [0.0];
/// Clipped.encode_reward(1000.0, 1.0, &mut encoded);
/// assert_eq!(encoded, [1.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clipped;

impl Codec for Clipped {
    fn outputs(&self) -> usize {
        1
    }

    fn sees_true_rewards(&self) -> bool {
        false
    }

    fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
        out[0] += factor * reward.clamp(-1.0, 1.0);
    }

    fn decode(&self, outputs: &[f32], _state: &[f64]) -> f32 {
        outputs[0]
    }

    fn decode_graph(&self, _state: &[f64]) -> Option<Graph> {
        Some(Graph::new())
    }

    fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _frozen: &[f64], out: &mut [f32]) {
        out[0] = encoded[0] + bootstrap * next[0];
    }

    fn gradient(&self, rows: &Rows<'_>, _state: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
        squared_error_gradient(rows, gradients);
        for g in gradients {
            *g = g.clamp(-1.0, 1.0);
        }
        trunk.fill(1.0);
    }

    fn device(&self) -> Option<DeviceCodec> {
        Some(DeviceCodec { name: "Clipped", source: include_str!("clipped.cu"), constants: vec![] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reward_is_clipped_before_the_n_step_sum() {
        let mut encoded = [0.0];
        for reward in [5.0, -0.5, 2.0] {
            Clipped.encode_reward(reward, 1.0, &mut encoded);
        }
        assert_eq!(encoded, [1.5]);
    }

    #[test]
    fn errors_are_clipped() {
        let (mut gradients, mut trunk) = ([0.0; 3], [0.0]);
        let rows =
            Rows { outputs: &[5.0, 0.25, -7.0], targets: &[0.0; 3], returns: &[0.0; 3], live: &[true; 3] };
        Clipped.gradient(&rows, &mut [], &mut gradients, &mut trunk);
        assert_eq!((gradients, trunk), ([1.0, 0.25, -1.0], [1.0]));
    }
}
