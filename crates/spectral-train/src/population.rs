//! A population as the trainer sees it: agents that train together, wherever their learners live.

use crate::actor::Actor;
use crate::checkpoint::Cost;
use crate::error::TrainError;
use crate::store::Records;
use spectral_core::bytes::{StateError, StateWriter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the observer is told.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Where one agent stands, for people who watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentProgress {
    /// Frames seen.
    pub frames: u64,
    /// Mean score of about the last twenty episodes.
    pub score: Option<f64>,
    /// Why it was stopped.
    pub stopped: Option<String>,
    /// Rewards beyond the codec's capacity.
    pub saturated: u64,
}

impl AgentProgress {
    /// Where this agent stands.
    pub fn of(actor: &Actor) -> Self {
        AgentProgress {
            frames: actor.frames(),
            score: actor.recent_score(),
            stopped: actor.stopped().map(String::from),
            saturated: actor.saturated(),
        }
    }
}

/// Told how the work goes.
pub trait Observer: Sync {
    /// Called about ten times a second, with one entry per agent in the plan's order.
    fn tick(&self, _progress: &[AgentProgress]) {}
    /// Called after each checkpoint.
    fn checkpoint(&self, _cost: Cost) {}
}

/// Watches nothing.
impl Observer for () {}

/// The work from one checkpoint to the next.
#[derive(Clone, Copy)]
pub struct TrainSlice<'a> {
    /// Frames per agent at the run's end.
    pub frames: u64,
    /// When the checkpoint is due.
    pub due: Instant,
    /// Set by the user.
    pub interrupt: &'a AtomicBool,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

impl TrainSlice<'_> {
    /// Whether the user wants it to end.
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }
}

/// Agents, numbered as in the plan, and what they learn with.
pub trait Population {
    /// How many agents.
    fn len(&self) -> usize;

    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The side of an agent that faces its task.
    fn actor(&mut self, agent: usize) -> &mut Actor;

    /// Names of the learner's metrics.
    fn metric_columns(&mut self, agent: usize) -> Vec<String>;

    /// Writes what acting needs.
    fn save_model(&mut self, agent: usize, out: &mut StateWriter) -> Result<(), TrainError>;

    /// Writes the agent's whole state but for replay's records.
    fn save(&mut self, agent: usize) -> Result<Vec<u8>, TrainError>;

    /// Restores what [`save`](Population::save) wrote, wherever that was.
    fn restore(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError>;

    /// Counts replay's records before `first` as gone.
    fn forget_before(&mut self, agent: usize, first: u64);

    /// Replay's records.
    fn records(&mut self, agent: usize) -> Box<dyn Records + '_>;

    /// Trains until the checkpoint is due, everything is done, or the user interrupts. All agents end between two steps.
    fn train(&mut self, slice: TrainSlice<'_>) -> Result<(), TrainError>;
}
