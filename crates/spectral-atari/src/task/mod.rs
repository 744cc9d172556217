//! The Atari tasks: every game as it is, and the paper's tasks made of Pong and Atlantis.
//!
//! [`make`] makes a task by name, and [`tasks`] lists them. A [`Protocol`] says how a game becomes a task. Underneath, an
//! [`AleGame`] starts and plays a game as the Arcade Learning Environment does.

mod ale_game;
mod atari;
mod entries;
mod error;
mod protocol;
mod registry;
mod rules;

pub use ale_game::{AleGame, FrameResult};
pub use atari::AtariTask;
pub use entries::{ComposedSettings, GameNumber, GameSettings, entries};
pub use error::AtariError;
pub use protocol::{AtariOptions, FRAME_LIMIT, FRAME_SKIP, Protocol};
pub use registry::{AtariTaskInfo, Choices, choices, make, make_atari, tasks};

#[cfg(test)]
mod tests;
