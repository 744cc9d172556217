//! An agent as the device holds it.

use super::{BATCH, CAPACITY};
use crate::gpu::abi;
use crate::learner::Learner;
use crate::testing::Emulator;
use spectral_env::ObservationSpec;
use spectral_nn::abi::DevicePtr;
use spectral_nn::{DenseHead, Which};

/// What the device holds of one agent, in main memory.
pub(super) struct Twin {
    pub online: &'static mut [f32],
    pub target: &'static mut [f32],
    pub bytes: &'static mut [u8],
    pub floats: &'static mut [f32],
    pub actions: &'static mut [u8],
    pub rewards: &'static mut [f32],
    pub flags: &'static mut [u8],
    pub scores: &'static mut [u8],
    pub legal: &'static mut [u8],
    /// What the host staged.
    pub legal_seen: &'static mut [u8],
    pub online_state: &'static mut [f64],
    pub frozen: &'static mut [f64],
    pub codec: &'static mut [f64],
    pub sums: &'static mut [f64],
    /// Empty if the agent draws uniformly.
    pub priorities: &'static mut [f64],
    pub norms: &'static mut [f64],
    pub drawn: &'static mut [u64],
    pub importance: &'static mut [f32],
    pub counters: &'static mut [abi::Counters],
}

/// A learner's parameters as the device holds them: dueling streams as one layer.
pub(super) fn parameters(learner: &Learner, which: Which) -> Vec<f32> {
    let own = learner.network.parameters(which, 0);
    let dense = DenseHead::of(learner.network.architecture()).expect("the learner has this network");
    dense.map_or(own.to_vec(), |dense| dense.spread(own))
}

impl Twin {
    pub fn new(emulator: &Emulator, learner: &Learner, constants: &[f64], mask_bytes: usize) -> Self {
        let len = CAPACITY * learner.replay.spec().len();
        let vector = matches!(learner.replay.spec(), ObservationSpec::Vector { .. });
        Twin {
            online: emulator.buffer(parameters(learner, Which::Online)),
            target: emulator.buffer(parameters(learner, Which::Target)),
            bytes: emulator.buffer(vec![0; if vector { 0 } else { len }]),
            floats: emulator.buffer(vec![0.0; if vector { len } else { 0 }]),
            actions: emulator.buffer(vec![0; CAPACITY]),
            rewards: emulator.buffer(vec![0.0; CAPACITY]),
            flags: emulator.buffer(vec![0; CAPACITY]),
            scores: emulator.buffer(vec![0; CAPACITY]),
            legal: emulator.buffer(vec![0; CAPACITY * mask_bytes]),
            legal_seen: emulator.buffer(vec![0; mask_bytes]),
            online_state: emulator.buffer(learner.codec.init()),
            frozen: emulator.buffer(learner.codec.init()),
            codec: emulator.buffer(constants.to_vec()),
            sums: emulator.buffer(learner.diagnostics.to_sums()),
            priorities: emulator
                .buffer(learner.priorities.as_ref().map_or(vec![], |p| p.tree.nodes().to_vec())),
            norms: emulator.buffer(vec![f64::NAN; BATCH]),
            drawn: emulator.buffer(vec![u64::MAX; BATCH]),
            importance: emulator.buffer(vec![f32::NAN; BATCH]),
            counters: emulator.buffer(vec![abi::Counters {
                starting: 1,
                largest: 1.0,
                ..Default::default()
            }]),
        }
    }

    pub fn counters(&self) -> &abi::Counters {
        &self.counters[0]
    }

    pub fn agent(&mut self, learner: &Learner, kind: u32) -> abi::Agent {
        fn at<T, P>(buffer: &mut [T]) -> DevicePtr<P> {
            (buffer.as_mut_ptr() as u64).into()
        }
        let (settings, codec) = (&learner.settings, &learner.codec);
        let vector = self.bytes.is_empty();
        abi::Agent {
            online: at(self.online),
            target: at(self.target),
            online_half: DevicePtr::default(),
            target_half: DevicePtr::default(),
            frames: if vector { at(self.floats) } else { at(self.bytes) },
            actions: at(self.actions),
            rewards: at(self.rewards),
            flags: at(self.flags),
            scores: at(self.scores),
            legal: at(self.legal),
            legal_seen: at(self.legal_seen),
            online_state: at(self.online_state),
            frozen: at(self.frozen),
            codec: at(self.codec),
            sums: at(self.sums),
            counters: at(self.counters),
            priorities: if self.priorities.is_empty() { DevicePtr::default() } else { at(self.priorities) },
            norms: at(self.norms),
            drawn: at(self.drawn),
            importance: at(self.importance),
            priority_exponent: settings.priority_exponent,
            importance_exponent: settings.importance_exponent,
            leaves: self.priorities.len() as u64 / 2,
            seed: learner.seed,
            capacity: CAPACITY as u64,
            parameters: self.online.len() as u32,
            kind,
            outputs: codec.outputs() as u32,
            encoded: codec.encoded() as u32,
            state: self.online_state.len() as u32,
            frequencies: if codec.has_frequencies() { codec.outputs() as u32 } else { 0 },
            scores_told: 4,
            error_correction: codec.error_correction().into(),
            undo_last_layer: codec.undo_last_layer().into(),
            host_resident: 0,
            double_q: settings.double.into(),
            unused: 0,
            discount: settings.discount as f32,
            learning_rate: settings.learning_rate as f32,
            beta1: settings.adam_beta1 as f32,
            beta2: settings.adam_beta2 as f32,
        }
    }
}
