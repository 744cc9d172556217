//! A population as the trainer sees it: agents that train together, whether their learners run on a CPU or on a device.

use crate::actor::Actor;
use crate::checkpoint::Cost;
use crate::error::TrainError;
use crate::store::Records;
pub use spectral_agent::average::ModelKind;
use spectral_core::bytes::{StateError, StateWriter};
use spectral_env::Step;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the observer is called.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// One agent's progress, for display.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentProgress {
    /// The agent's id: its name and seed.
    pub id: String,
    /// Frames seen.
    pub frames: u64,
    /// Mean score of about the last twenty episodes.
    pub score: Option<f64>,
    /// Why it was stopped, if it was.
    pub stopped: Option<String>,
    /// Rewards beyond the codec's capacity.
    pub saturated: u64,
}

impl AgentProgress {
    /// The progress of this agent.
    pub fn of(actor: &Actor) -> Self {
        AgentProgress {
            id: actor.plan().id.clone(),
            frames: actor.frames(),
            score: actor.recent_score(),
            stopped: actor.stopped().map(String::from),
            saturated: actor.saturated(),
        }
    }
}

/// A step that an agent took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTaken {
    /// The agent's number in the plan.
    pub agent: usize,
    /// Frames that it has seen.
    pub frame: u64,
    /// The action that it played.
    pub action: usize,
    /// What that brought.
    pub step: Step,
}

/// Receives progress while a population trains.
pub trait Observer: Sync {
    /// Called about ten times a second, with one entry per agent in the plan's order.
    fn tick(&self, _progress: &[AgentProgress]) {}
    /// Whether [`steps`](Observer::steps) is to be called.
    fn wants_steps(&self) -> bool {
        false
    }
    /// Called after every step of a population that takes its steps together
    /// ([`ResolvedRun::step_together`](crate::resolve::ResolvedRun::step_together)), with one entry per agent that took it.
    fn steps(&self, _taken: &[StepTaken]) {}
    /// Called after each checkpoint.
    fn checkpoint(&self, _cost: Cost) {}
}

/// Ignores all progress.
impl Observer for () {}

/// The training between two checkpoints.
#[derive(Clone, Copy)]
pub struct TrainSlice<'a> {
    /// Frames per agent at the run's end.
    pub frames: u64,
    /// When the checkpoint is due.
    pub due: Instant,
    /// Set when the user asks the run to stop.
    pub interrupt: &'a AtomicBool,
    /// Receives progress.
    pub observer: &'a dyn Observer,
}

impl TrainSlice<'_> {
    /// Whether the user asked the run to stop.
    pub fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }
}

/// Agents, numbered as in the plan, and their learners.
pub trait Population: Send {
    /// The number of agents.
    fn len(&self) -> usize;

    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An agent's actor: its task, counters and files.
    fn actor(&mut self, agent: usize) -> &mut Actor;

    /// The names of the learner's metrics.
    fn metric_columns(&mut self, agent: usize) -> Vec<String>;

    /// Writes what is needed to act: one of the agent's models. False if there is none of this kind.
    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, TrainError>;

    /// Writes the agent's whole state except the records of its replay and the mean of its weights.
    fn save(&mut self, agent: usize) -> Result<Vec<u8>, TrainError>;

    /// Restores what [`save`](Population::save) of any population wrote.
    fn restore(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError>;

    /// The state of the running mean of the agent's weights; `None` if it keeps none.
    fn save_average(&mut self, agent: usize) -> Result<Option<Vec<u8>>, TrainError>;

    /// Restores what [`save_average`](Population::save_average) of any population wrote, after
    /// [`restore`](Population::restore), with which the mean begins anew.
    fn restore_average(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError>;

    /// Treats all replay records before `first` as missing.
    fn forget_before(&mut self, agent: usize, first: u64);

    /// Lets an agent's next observation begin an episode, whatever came before.
    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError>;

    /// The records of the agent's replay.
    fn records(&mut self, agent: usize) -> Box<dyn Records + '_>;

    /// Trains until the checkpoint is due, all agents are done, or the user interrupts. All agents end between two steps.
    fn train(&mut self, slice: TrainSlice<'_>) -> Result<(), TrainError>;
}
