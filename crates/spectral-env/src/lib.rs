//! The task contract, the registry of tasks and the built-in tasks.
//!
//! A task is an [`Env`]: a deterministic machine whose only randomness is the [`Stream`] handed to it. The
//! trainer keys that stream by (seed, step), so a saved state plus the actions that followed re-create an episode
//! bit for bit, and nothing random has to be saved.
//!
//! ```
//! use spectral_core::rng::{Purpose, Stream};
//! use spectral_env::{Observation, TaskOptions, make};
//!
//! let mut env = make("pong-mini", &TaskOptions::default())?;
//! env.reset(&mut Stream::new(1, Purpose::Environment, 0));
//! let mut features = vec![0.0; env.spec().observation.len()];
//! env.observe(Observation::Vector(&mut features));
//! let step = env.step(0, &mut Stream::new(1, Purpose::Environment, 1));
//! assert!(step.reward.is_finite());
//! # Ok::<(), spectral_env::TaskError>(())
//! ```

mod action_mask;
pub mod analysis;
pub mod bench;
mod catch;
mod entry;
mod env;
mod game;
mod group;
mod investor;
mod picture;
mod pong;
mod ponglantis;
mod registry;
mod shooting;
mod spec_difference;
mod twenty48;

pub use action_mask::ActionMask;
pub use entry::{ReferenceScores, TaskEntry};
pub use env::{Env, Observation, ObservationSpec, Step, TaskSpec};
pub use group::{StepTogether, TaskGroup};
pub use picture::{Colour, Picture};
pub use registry::{MAX_FRAME_SKIP, ObservationKind, TaskError, TaskInfo, TaskOptions, entries, make, tasks};
pub use spectral_core::bytes::{StateError, StateReader, StateWriter};
pub use spectral_core::nearest::nearest;
pub use spectral_core::rng::{Purpose, Stream};
pub use twenty48::Twenty48Options;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
