//! The Atari tasks: every game as it is, and the paper's tasks made of Pong and Atlantis.
//!
//! [`make`] makes a task by name, [`tasks`] lists them. A [`Protocol`] says how a game becomes a task. Underneath, a
//! [`Cabinet`] starts and plays a game as the Arcade Learning Environment does.

mod atari;
mod cabinet;
mod entries;
mod error;
mod protocol;
mod registry;
mod rules;

pub use atari::AtariTask;
pub use cabinet::{Cabinet, Outcome};
pub use entries::{ComposedSettings, GameNumber, GameSettings, entries};
pub use error::AtariError;
pub use protocol::{AtariOptions, FRAME_LIMIT, FRAME_SKIP, Protocol};
pub use registry::{AtariTaskInfo, Choices, choices, make, make_atari, tasks};

#[cfg(test)]
mod tests;
