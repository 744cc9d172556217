//! What only networks in main memory offer: slices of parameters, gradients and optimiser state.

use crate::cpu::Cpu;
use crate::network::{Network, Which};

impl Network<Cpu> {
    /// Draws an agent's weights uniformly within ±1/√fan_in from numbers in [0, 1), in the order of the canonical
    /// [layout](crate::layout); biases are 0, and so is the last layer if the head says so. The target becomes a
    /// copy, and Adam starts afresh.
    pub fn init(&mut self, agent: usize, mut uniform: impl FnMut() -> f32) {
        let range = self.range(agent);
        let own = &mut self.online[range.clone()];
        let head_at = self.plan.head_at();
        for layer in self.plan.affines() {
            let bound = 1.0 / (layer.fan_in() as f32).sqrt();
            let zero = layer.weights_at >= head_at && self.architecture.head.zero_init;
            for weight in &mut own[layer.weights_at..layer.bias_at()] {
                *weight = if zero { 0.0 } else { (2.0 * uniform() - 1.0) * bound };
            }
            own[layer.bias_at()..layer.end()].fill(0.0);
        }
        for buffer in [&mut self.adam_m, &mut self.adam_v, &mut self.gradients] {
            buffer[range.clone()].fill(0.0);
        }
        self.steps[agent] = 0;
        self.refresh_target(agent);
    }

    /// An agent's parameters in the canonical [layout](crate::layout).
    pub fn parameters(&self, which: Which, agent: usize) -> &[f32] {
        let range = self.range(agent);
        match which {
            Which::Online => &self.online[range],
            Which::Target => &self.target[range],
        }
    }

    /// An agent's parameters, to be changed.
    pub fn parameters_mut(&mut self, which: Which, agent: usize) -> &mut [f32] {
        let range = self.range(agent);
        match which {
            Which::Online => &mut self.online[range],
            Which::Target => &mut self.target[range],
        }
    }

    /// The gradients that the last `backward` computed for an agent, in the canonical [layout](crate::layout).
    pub fn gradients(&self, agent: usize) -> &[f32] {
        let range = self.range(agent);
        &self.gradients[range]
    }

    /// An agent's gradients, to be changed before `adam`.
    pub fn gradients_mut(&mut self, agent: usize) -> &mut [f32] {
        let range = self.range(agent);
        &mut self.gradients[range]
    }

    /// Where the last layer's parameters start within an agent's parameters and gradients.
    pub fn last_layer_at(&self) -> usize {
        self.plan.head_at()
    }

    /// An agent's first moments, second moments and number of Adam steps taken.
    pub fn adam_state(&self, agent: usize) -> (&[f32], &[f32], u64) {
        let range = self.range(agent);
        (&self.adam_m[range.clone()], &self.adam_v[range], self.steps[agent])
    }

    /// Restores what [`adam_state`](Self::adam_state) gave.
    ///
    /// # Panics
    /// If the slices do not have one entry per parameter.
    pub fn set_adam_state(&mut self, agent: usize, adam_m: &[f32], adam_v: &[f32], steps: u64) {
        let range = self.range(agent);
        self.adam_m[range.clone()].copy_from_slice(adam_m);
        self.adam_v[range].copy_from_slice(adam_v);
        self.steps[agent] = steps;
    }

    fn range(&self, agent: usize) -> std::ops::Range<usize> {
        self.check_agent(agent);
        agent * self.plan.stride..agent * self.plan.stride + self.plan.parameters
    }
}
