//! The structures of `abi.cuh`, where their fields are explained, as the host sees them. Pointers are device addresses.
//!
//! Every field is 8 bytes wide, so nothing is padded; a test compares every field's place with a C++ compiler's.

/// Declares mirrors, and with them the places of their fields for the test.
macro_rules! mirrors {
    ($($(#[$meta:meta])* $name:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $($(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $type),* }

        impl $name {
            /// The places of the fields, in bytes, in order.
            pub const OFFSETS: &[usize] = &[$(std::mem::offset_of!($name, $field)),*];

            /// The structure as bytes, for a copy to the device.
            pub fn as_bytes(&self) -> &[u8] {
                // SAFETY: fields of 8 bytes in C order leave no padding, so every byte is initialised.
                unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
            }

            /// The structure that these bytes are; `None` if they are not as many.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                // SAFETY: as many bytes as the structure has, and every pattern of bits is a value of every field.
                (bytes.len() == size_of::<Self>())
                    .then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
            }
        })*
    };
}

mirrors! {
    /// What moves with every step of an agent.
    Counters {
        /// One past the newest complete record.
        newest: u64,
        /// Records before this one are gone.
        floor: u64,
        /// 1 if the next observation begins an episode.
        starting: u64,
        /// Updates made.
        updates: u64,
        /// 1 if this update changes the agent.
        learns: u64,
        /// 0, or 1 + the update at which values stopped being finite.
        not_finite: u64,
        /// Running mean of |error|.
        error_magnitude: f64,
        /// Adam, for this update: learning_rate / (1 − β₁ᵗ).
        step_size: f64,
        /// Adam, for this update: 1 / √(1 − β₂ᵗ).
        root_correction: f64,
    }

    /// One agent as every kernel sees it.
    Agent {
        /// Online parameters.
        online: u64,
        /// Target parameters.
        target: u64,
        /// Adam's first moments.
        first: u64,
        /// Adam's second moments.
        second: u64,
        /// Ring of observations.
        frames: u64,
        /// Ring of actions.
        actions: u64,
        /// Ring of rewards.
        rewards: u64,
        /// Ring of flags.
        flags: u64,
        /// Ring of player's scores.
        scores: u64,
        /// The codec's state.
        live: u64,
        /// The codec's state at the last refresh of the target network.
        frozen: u64,
        /// The codec's constants.
        codec: u64,
        /// Sums of the diagnostics.
        sums: u64,
        /// The agent's [`Counters`].
        counters: u64,
        /// The agent's seed.
        seed: u64,
        /// Records that the rings have room for.
        capacity: u64,
        /// Which codec of the group's list.
        kind: u64,
        /// Outputs per action.
        outputs: u64,
        /// Numbers of an encoded return.
        encoded: u64,
        /// Numbers of the codec's state.
        state: u64,
        /// Outputs if they are frequencies, else 0.
        frequencies: u64,
        /// Player's scores told apart.
        scores_told: u64,
        /// 1 if errors are divided by their running magnitude.
        error_correction: u64,
        /// 1 if the last layer trains as if every trunk weight were 1.
        undo_last_layer: u64,
        /// Floats in `online`.
        parameters: u64,
        /// The copy of the online parameters in bf16, or 0.
        online_half: u64,
        /// The copy of the target parameters in bf16, or 0.
        target_half: u64,
        /// 1 if observations lie in the host's memory.
        far: u64,
        /// Discount per step.
        discount: f64,
        /// Adam's step size.
        learning_rate: f64,
        /// Adam's decay of the first moment.
        beta1: f64,
        /// Adam's decay of the second moment.
        beta2: f64,
        /// Adam's regularisation constant.
        epsilon: f64,
    }

    /// What the host stages for one agent before a submission.
    Staged {
        /// 0 if this agent takes no part.
        active: u64,
        /// 1 if the outcome completes the current observation.
        has_outcome: u64,
        /// The action taken.
        action: u64,
        /// [`TERMINAL`], [`TRUNCATED`].
        flags: u64,
        /// The player's score in the state in which the action was taken.
        player_score: u64,
        /// The raw reward, exact in f32.
        reward: f64,
        /// The number of the submission.
        turn: u64,
    }

    /// One sampled transition, without the n rewards that follow it in memory.
    RowHead {
        /// The record's number.
        index: u64,
        /// The action taken.
        action: u64,
        /// 0 if a time-out lies within the n steps.
        live: u64,
        /// The player's score in the first state.
        player_score: u64,
        /// Rewards that count.
        count: u64,
        /// γⁿ, or 0 if the episode ended within the n steps.
        bootstrap: f64,
    }

    /// What comes back from acting.
    Decision {
        /// The greedy action.
        action: u64,
        /// As in [`Counters`].
        not_finite: u64,
        /// Of the submission that this answers.
        turn: u64,
    }
}

/// No value follows a transition.
pub const TERMINAL: u64 = 1;
/// The episode was cut off at a transition.
pub const TRUNCATED: u64 = 2;

/// Bytes of one sampled transition with its rewards.
///
/// ```
/// assert_eq!(spectral_agent::gpu::abi::row_bytes(3), 72);
/// ```
pub const fn row_bytes(n_step: usize) -> usize {
    size_of::<RowHead>() + n_step * size_of::<f64>()
}

/// Numbers of the diagnostics' sums: rows, q, |TD error|, loss; three per frequency; three per score.
pub const fn sums_len(frequencies: usize, scores: usize) -> usize {
    4 + 3 * frequencies + 3 * scores
}
