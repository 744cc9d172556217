//! Replay, value codecs and the one learner.
//!
//! One DQN, many value codecs: [`codecs`] holds all that differs between agents, [`learner`] everything they share,
//! [`replay`] what they remember, [`mod@settings`] what can be chosen.

pub mod codecs;
pub mod diagnostics;
pub mod learner;
pub mod replay;
pub mod settings;
