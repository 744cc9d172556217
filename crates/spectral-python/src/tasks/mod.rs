//! Spectral's tasks for Gymnasium: many copies of one task, stepped by all cores.
//!
//! `python/spectral_rl/tasks.py` makes Gymnasium's two classes of it, one with a single copy and one with many.

mod batch;
mod buffers;
mod catalogue;
mod player;
#[cfg(feature = "atari")]
mod raw;
mod report;
mod workers;

pub use batch::TaskBatch;
pub use catalogue::{add_rom_folder, list_tasks};
