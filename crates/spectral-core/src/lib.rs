//! The mathematics of spectral reinforcement learning: pure functions, no dependencies.

pub mod bytes;
pub mod rng;
