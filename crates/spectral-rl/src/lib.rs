//! Reinforcement learning where rewards grow: games whose scores explode, investing, anything that compounds.
//!
//! There, value-based agents tend to forget the cheap early part once they find the rich late part. Spectral DQN
//! (Dann & Thangarajah, ICLR 2021) splits every reward into exponentially wide buckets and learns one bounded value per
//! bucket. This crate trains it, and its rivals on equal terms, on tasks that are built in and on tasks of your own.
//!
//! # A first run
//!
//! ```
//! use spectral_rl::prelude::*;
//!
//! # fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("run");
//! let run = Run::task("catch-scale")
//!     .agents(["spectral", "clipped"])
//!     .seeds(1..=2)
//!     .frames(500)
//!     .dir(&folder)
//!     .train()?;
//! for agent in run.agents() {
//!     println!("{agent}: {:.2}", agent.evaluate(10)?.mean());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The folder holds everything about the run: settings, metrics, checkpoints, weights. The same program run again goes on
//! where it was stopped; with more `frames` it trains further.
//!
//! # A task of your own
//!
//! A task says what it is, begins an episode, plays a step and shows what an agent sees. It owns no randomness: it is handed
//! a stream of random numbers, so that a run is decided by its seed.
//!
//! ```
//! use spectral_rl::prelude::*;
//!
//! /// Stop or go on: each step doubles the stake or, one time in three, loses it.
//! struct Stop {
//!     spec: TaskSpec,
//!     stake: f64,
//! }
//!
//! impl Stop {
//!     fn new() -> Self {
//!         Stop { spec: TaskSpec::vector("stop", 1, &["stop", "go on"]), stake: 1.0 }
//!     }
//! }
//!
//! impl Env for Stop {
//!     fn spec(&self) -> &TaskSpec {
//!         &self.spec
//!     }
//!     fn reset(&mut self, _rng: &mut Stream) {
//!         self.stake = 1.0;
//!     }
//!     fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
//!         if action == 1 && rng.chance(2.0 / 3.0) && self.stake < 1024.0 {
//!             self.stake *= 2.0;
//!             return Step::default();
//!         }
//!         let reward = if action == 0 { self.stake } else { 0.0 };
//!         Step { reward, score: reward, terminated: true, ..Step::default() }
//!     }
//!     fn observe(&self, out: Observation<'_>) {
//!         out.vector()[0] = self.stake.log2() as f32 / 10.0;
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let (runs, report) = (folder.path().join("stop"), folder.path().join("report"));
//! let run = Run::new("stop", Stop::new)
//!     .agents(["spectral", "popart"])
//!     .set(|s| {
//!         s.learning_starts = 100;
//!         s.hidden = "16".into();
//!     })
//!     .frames(400)
//!     .dir(&runs)
//!     .train()?;
//! assert!(run.agents().all(|agent| agent.evaluate(5).is_ok_and(|games| games.mean() >= 0.0)));
//! run.report(&report)?; // figures, tables and one self-contained HTML page
//! # Ok(())
//! # }
//! ```
//!
//! [`Env::save`](prelude::Env::save) and [`Env::restore`](prelude::Env::restore) are optional: with them a run that was
//! killed goes on bit for bit, without them it goes on at an episode's start.
//!
//! # A codec of your own
//!
//! Every agent here is the same DQN. What differs is the *value codec*: how a reward becomes a training target, and how the
//! network's outputs become an action-value. A codec of your own is a [`Codec`](prelude::Codec) and a
//! [`CodecEntry`](prelude::CodecEntry) that says what it is called and what can be set about it; [`Run::codec`] adds it. The
//! example `own_codec` has one with settings and GPU code.
//!
//! # Further
//!
//! - [`Run`] collects what a run consists of; [`Run::option`] takes any setting that `spectral agents --settings` lists.
//! - [`Control`](prelude::Control) pauses and cancels a run from another thread; [`Run::on_progress`] watches it.
//! - [`train`], [`agent`], [`mod@env`], [`math`] and [`report`] are the crates underneath, for everything else.
//! - Features: `atari` (the Arcade games and the paper's tasks), `cuda` (NVIDIA GPUs), `command` (the `spectral` command
//!   for your own tasks and codecs), `testing` (a codec's GPU code against its Rust code). None of these is on by default;
//!   `report` is, and can be left out.

mod error;
mod run;

pub use error::{Error, Result};
pub use run::{Run, TrainedAgent, TrainedRun};

pub use spectral_agent as agent;
pub use spectral_core as math;
pub use spectral_env as env;
#[cfg(feature = "report")]
pub use spectral_report as report;
pub use spectral_train as train;

/// The `spectral` command for tasks and codecs of your own.
///
/// ```no_run
/// use spectral_rl::{command, prelude::*};
/// # fn my_task() -> TaskEntry { spectral_rl::env::entries().remove(0) }
/// fn main() -> std::process::ExitCode {
///     command::main(Registry::default().with_task(my_task()).expect("a free name"))
/// }
/// ```
#[cfg(feature = "command")]
pub use spectral_cli as command;

#[cfg(feature = "testing")]
pub use spectral_agent::testing;

/// Settings of tasks and codecs of your own, declared once: see [`mod@math::settings`].
pub use spectral_core::{choices, settings};

/// What most programs need.
pub mod prelude {
    pub use crate::{Error, Result, Run, TrainedAgent, TrainedRun};
    pub use spectral_agent::codecs::{Affine, Codec, CodecEntry, DeviceCodec, Rows};
    pub use spectral_agent::settings::{AgentSettings, Setting, SettingError, Settings};
    pub use spectral_env::{
        ActionMask, Env, Observation, ObservationSpec, Picture, Purpose, StateError, StateReader,
        StateWriter, Step, Stream, TaskEntry, TaskError, TaskSpec,
    };
    pub use spectral_train::control::Control;
    pub use spectral_train::registry::Registry;
    pub use spectral_train::trainer::AgentProgress;
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
