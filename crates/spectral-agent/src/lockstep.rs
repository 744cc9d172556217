//! Agents that step together: the interface between a trainer and a device that trains a whole group at once.
//!
//! One *submission* is one step of every participating agent: the outcome of its last action, the observation that followed, and
//! the request for the next action. The device answers asynchronously, so that a trainer with several groups can step the
//! environments of some while the device works for the others.

mod cpu;

pub use cpu::CpuGroup;

use crate::average::ModelKind;
use crate::diagnostics::ScoreError;
use crate::replay::Outcome;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{ActionMask, Observation};
use spectral_nn::Samples;

/// An observation handed over to a device: bytes for planes, floats for vectors.
pub type ObservationRef<'a> = Samples<'a>;

/// Memory for one agent's observations that a device reads itself. Only to be filled while no submission that the agent
/// takes part in is under way: what the device would see otherwise is anybody's guess.
pub trait ObservationBuffer: Send {
    /// Where the environment writes its observation.
    fn observation(&mut self) -> Observation<'_>;
}

/// The device's answer for one agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The greedy action for the observation submitted last, among the legal ones; of equal values the first.
    pub action: usize,
    /// The update at which this agent's values stopped being finite. It has not changed since.
    pub not_finite: Option<u64>,
}

/// Why a device failed. The last checkpoint is intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFailure(pub String);

impl std::fmt::Display for DeviceFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeviceFailure {}

/// A group of agents that step together on one device.
///
/// The order within a submission: the outcome completes the current observation; the new one is stored and acted on; then, if
/// asked for, an update, and a refresh of the target networks. The answer comes before these two, so that tasks are
/// played while the device learns. Only staged agents change.
pub trait Group: Send {
    /// The number of agents.
    fn len(&self) -> usize;

    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A buffer for an agent's observations, so that whoever makes one need not hand it over. `None` if the device
    /// takes observations only from [`stage`](Group::stage), or if the buffer was lent before; an agent whose buffer was lent always
    /// uses it.
    fn lend(&mut self, _agent: usize) -> Option<Box<dyn ObservationBuffer>> {
        None
    }

    /// Stages one agent's part of the next submission: what its last action brought (nothing at its first step, or after
    /// a restore at which the last outcome had been recorded already) and the observation that followed; `None` if that is in
    /// the buffer that the group [lent](Group::lend). A task that says which actions are legal says so of this observation;
    /// for other tasks `legal` is `None`.
    fn stage(
        &mut self,
        agent: usize,
        outcome: Option<Outcome>,
        observation: Option<ObservationRef<'_>>,
        legal: Option<&ActionMask>,
    );

    /// Starts the work for the staged agents and returns at once; [`wait`](Group::wait) must come before the next. An update
    /// changes the agents whose replay holds something to learn from; what it does shows in what follows, never in this answer.
    fn submit(&mut self, update: bool, refresh: bool) -> Result<(), DeviceFailure>;

    /// Whether [`wait`](Group::wait) would return at once.
    fn ready(&mut self) -> Result<bool, DeviceFailure> {
        Ok(true)
    }

    /// Waits for the answer and returns one decision per agent. Those of agents that were not staged are meaningless.
    fn wait(&mut self) -> Result<&[Decision], DeviceFailure>;

    /// Records the last outcomes without new observations, before a checkpoint, so that replay and counters equal those of an
    /// agent trained on the CPU. Waits until the device is idle. In the decisions of the agents given here only
    /// [`not_finite`](Decision::not_finite) is meaningful.
    fn flush(&mut self, outcomes: &[(usize, Outcome)]) -> Result<&[Decision], DeviceFailure>;

    /// Updates that an agent has made.
    fn updates(&mut self, agent: usize) -> Result<u64, DeviceFailure>;

    /// Names of an agent's metrics, as [`Learner::metric_columns`](crate::learner::Learner::metric_columns).
    fn metric_columns(&self, agent: usize) -> Vec<String>;

    /// An agent's metrics since the last call, as [`Learner::drain_metrics`](crate::learner::Learner::drain_metrics).
    fn drain_metrics(&mut self, agent: usize) -> Result<Vec<Option<f64>>, DeviceFailure>;

    /// An agent's TD errors by the player's score, as [`Learner::td_by_score`](crate::learner::Learner::td_by_score).
    fn td_by_score(&mut self, agent: usize) -> Result<Vec<ScoreError>, DeviceFailure>;

    /// Writes one of an agent's models as [`Learner::save_model`](crate::learner::Learner::save_model) does; false if there is none
    /// of this kind.
    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, DeviceFailure>;

    /// Writes what [`Learner::save`](crate::learner::Learner::save) writes, byte for byte the same format.
    fn save(&mut self, agent: usize, out: &mut StateWriter) -> Result<(), DeviceFailure>;

    /// Restores what either `save` wrote; [`put_records`](Group::put_records) brings replay's records.
    fn restore(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError>;

    /// Writes what [`Average::save`](crate::average::Average::save) writes; false if the agent keeps no mean of its weights.
    fn save_average(&mut self, agent: usize, out: &mut StateWriter) -> Result<bool, DeviceFailure>;

    /// Restores what [`save_average`](Group::save_average) of any group wrote, after [`restore`](Group::restore), with which the
    /// mean begins anew.
    fn restore_average(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError>;

    /// Counts the records of an agent's replay before number `first` as gone, as
    /// [`Learner::forget_before`](crate::learner::Learner::forget_before) does. A checkpoint without records needs this:
    /// after [`restore`](Group::restore) the counters speak of records that nobody has.
    fn forget_before(&mut self, agent: usize, first: u64);

    /// Lets an agent's next observation begin an episode, whatever came before.
    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError>;

    /// The oldest and one past the newest record of an agent's replay.
    fn records(&self, agent: usize) -> std::ops::Range<u64>;

    /// Appends replay's records to `out` in the format of [`Replay::write_range`](crate::replay::Replay::write_range).
    fn get_records(
        &mut self,
        agent: usize,
        first: u64,
        count: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), DeviceFailure>;

    /// Puts back what [`get_records`](Group::get_records) or [`Replay::write_range`](crate::replay::Replay::write_range) wrote.
    fn put_records(&mut self, agent: usize, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError>;
}
