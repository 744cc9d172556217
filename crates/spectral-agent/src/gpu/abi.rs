//! What the host and the learner's kernels agree on: structures and constants, each defined here or where the learner on the
//! CPU has it, and put into the kernels' text by [`header`].
//!
//! The group's own constants arrive as macros too; [`source`](super::source) explains them.

use crate::diagnostics::SCORE_RATE;
use crate::learner::{CORRECTION_FLOOR, CORRECTION_LEVEL, CORRECTION_RATE, MIN_PRIORITY};
use crate::replay::{START, TERMINAL, TRUNCATED};
use spectral_core::rng::Purpose;
use spectral_nn::abi::{C_INTEGERS, Const, DevicePtr};
use std::ffi::c_void;
use std::fmt::Write;

spectral_nn::device_structs! {
    /// What moves with every step of an agent.
    pub struct Counters {
        /// One past the newest complete record.
        newest: u64,
        /// Records before this one are gone, though the ring had room for them.
        floor: u64,
        /// Updates made.
        updates: u64,
        /// 0, or 1 + the update at which values stopped being finite.
        not_finite: u64,
        /// Running mean of |error| (error-magnitude correction).
        error_magnitude: f64,
        /// Adam, for this update: learning_rate / (1 - beta1^t).
        step_size: f64,
        /// Adam, for this update: 1 / sqrt(1 - beta2^t).
        root_correction: f64,
        /// The largest priority so far, before its exponent: what a new record gets.
        largest: f64,
        /// 1 if the next observation begins an episode.
        starting: u32,
        /// 1 if this update changes the agent: it is staged, has something to sample and is finite.
        learns: u32,
    }

    /// One agent as every kernel sees it.
    pub struct Agent {
        /// Online parameters.
        online: DevicePtr<f32>,
        /// Target parameters.
        target: DevicePtr<f32>,
        /// A copy of the online parameters in bf16, current where layers use it; or null.
        online_half: DevicePtr<u16>,
        /// The same of the target parameters.
        target_half: DevicePtr<u16>,
        /// Ring `[capacity][OBSERVATION]` of bytes or floats; may lie in pinned memory of the host.
        frames: DevicePtr<c_void>,
        /// Ring `[capacity]` of actions.
        actions: DevicePtr<u8>,
        /// Ring `[capacity]` of rewards.
        rewards: DevicePtr<f32>,
        /// Ring `[capacity]` of flags.
        flags: DevicePtr<u8>,
        /// Ring `[capacity]` of player's scores.
        scores: DevicePtr<u8>,
        /// Ring `[capacity][MASK_BYTES]` of legal actions, a bit each; null if the task does not say which they are.
        legal: DevicePtr<u8>,
        /// The legal actions of the observation that the host staged, in its memory; or null.
        legal_seen: DevicePtr<u8>,
        /// The codec's state, which moves with the online network.
        online_state: DevicePtr<f64>,
        /// The codec's state at the last refresh of the target network.
        frozen: DevicePtr<f64>,
        /// The codec's constants.
        codec: DevicePtr<Const<f64>>,
        /// Diagnostics: rows, q, |td|, loss; `[K][3]` if the codec has frequencies; `[scores][3]`.
        sums: DevicePtr<f64>,
        /// What moves with every step.
        counters: DevicePtr<Counters>,
        /// The tree of the records' priorities, `[2][leaves]`; null if the agent draws uniformly.
        priorities: DevicePtr<f64>,
        /// Of a minibatch drawn by priority: the norms of the rows' gradients `[BATCH]`,
        norms: DevicePtr<f64>,
        /// the rows' records `[BATCH]`,
        drawn: DevicePtr<u64>,
        /// and their importance weights `[BATCH]`.
        importance: DevicePtr<f32>,
        /// How strongly priorities count.
        priority_exponent: f64,
        /// How far the bias of such draws is corrected.
        importance_exponent: f64,
        /// Leaves of the tree of priorities.
        leaves: u64,
        /// The agent's seed.
        seed: u64,
        /// Records that the rings have room for.
        capacity: u64,
        /// Floats in `online`.
        parameters: u32,
        /// Which codec of the group's list.
        kind: u32,
        /// K: outputs per action.
        outputs: u32,
        /// E: numbers of an encoded return.
        encoded: u32,
        /// Numbers of the codec's state.
        state: u32,
        /// K if outputs are frequencies, else 0.
        frequencies: u32,
        /// Player's scores told apart.
        scores_told: u32,
        /// 1 if errors are divided by their running magnitude.
        error_correction: u32,
        /// 1 if the last layer trains as if every trunk weight were 1.
        undo_last_layer: u32,
        /// 1 if `frames` lies in the host's memory.
        host_resident: u32,
        /// 1 if the online network chooses the actions that the target network values.
        double_q: u32,
        /// 0, so that nothing pads what follows.
        unused: u32,
        /// Discount per step.
        discount: f32,
        /// Adam's step size.
        learning_rate: f32,
        /// Adam's decay of the first moment.
        beta1: f32,
        /// Adam's decay of the second moment.
        beta2: f32,
    }

    /// What the host stages for one agent before a submission.
    pub struct Staged {
        /// 0 if this agent takes no part in this submission.
        active: u32,
        /// 1 if the outcome completes the current observation.
        has_outcome: u32,
        /// The action taken.
        action: u32,
        /// TERMINAL, TRUNCATED.
        flags: u32,
        /// The player's score in the state in which the action was taken.
        player_score: u32,
        /// The raw reward.
        reward: f32,
        /// The number of the submission.
        sequence: u64,
    }

    /// One sampled transition, without its rewards: see Row in replay.cuh.
    pub struct RowHead {
        /// The record's number.
        index: u64,
        /// The action taken.
        action: u32,
        /// Rewards that count, 1 to N_STEP.
        count: u32,
        /// gamma^n, or 0 if the episode ended within the n steps.
        bootstrap: f32,
        /// The player's score in the first state.
        player_score: u16,
        /// 0 if a time-out lies within the n steps.
        mask: u16,
    }

    /// What comes back from acting.
    pub struct Decision {
        /// The greedy action.
        action: u64,
        /// As in Counters.
        not_finite: u64,
        /// Of the submission that this answers.
        sequence: u64,
    }
}

/// Threads of a block of the kernels that serve one agent each.
pub const AGENT_THREADS: usize = 256;
/// Threads of a block of the kernels that go through an agent's minibatch.
pub const BATCH_THREADS: usize = 512;
/// Threads of a block of `gather`, which serves one row.
pub const ROW_THREADS: usize = 128;

/// The CUDA C of the structures, and constants that the learner on the CPU has, too.
pub fn header() -> String {
    let mut text =
        String::from("// What the host and every kernel of the learner agree on: generated from abi.rs.\n");
    text.push_str(C_INTEGERS);
    for (name, value) in [
        ("TERMINAL", usize::from(TERMINAL)),
        ("TRUNCATED", usize::from(TRUNCATED)),
        ("START", usize::from(START)),
        ("SAMPLING", Purpose::Sampling as usize),
        ("AGENT_THREADS", AGENT_THREADS),
        ("BATCH_THREADS", BATCH_THREADS),
        ("ROW_THREADS", ROW_THREADS),
    ] {
        let _ = writeln!(text, "#define {name} {value}");
    }
    for (name, value) in [
        ("SCORE_RATE", SCORE_RATE),
        ("CORRECTION_RATE", CORRECTION_RATE),
        ("CORRECTION_LEVEL", CORRECTION_LEVEL),
        ("CORRECTION_FLOOR", CORRECTION_FLOOR),
        ("MIN_PRIORITY", MIN_PRIORITY),
    ] {
        // As few digits as name the same double.
        let _ = writeln!(text, "#define {name} {value:e}");
    }
    for part in [Counters::c_text(), Agent::c_text(), Staged::c_text(), RowHead::c_text(), Decision::c_text()]
    {
        text.push_str(&part);
    }
    text
}

/// Bytes of one sampled transition with its rewards.
///
/// ```
/// assert_eq!(spectral_agent::gpu::abi::row_bytes(3), 40);
/// ```
pub const fn row_bytes(n_step: usize) -> usize {
    (size_of::<RowHead>() + n_step * size_of::<f32>()).next_multiple_of(align_of::<RowHead>())
}
