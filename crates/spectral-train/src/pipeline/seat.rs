//! One agent's place in the pipeline: its task, and what travels between the task and the device.

use crate::actor::Actor;
use crate::devices::Member;
use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use crate::workshop::Workshop;
use spectral_agent::lockstep::{ObservationBuffer, ObservationRef};
use spectral_agent::replay::{Observations, Outcome};

/// What threads do with an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Look at the task, resetting it first if an episode ended.
    Begin,
    /// Play the action, then look.
    Step,
    /// Play the action and leave the task there: a checkpoint follows, or the end.
    Last,
}

impl Phase {
    pub(super) const ALL: [Phase; 3] = [Phase::Begin, Phase::Step, Phase::Last];
}

/// An agent without its learner. On cache lines of its own: its neighbours are at work on other cores.
#[repr(align(128))]
pub(super) struct Seat {
    pub(super) actor: Actor,
    observation: Buffer,
    /// The device's action for the observation.
    pub(super) greedy: usize,
    /// What the last action brought, until the device has been told.
    pub(super) outcome: Option<Outcome>,
    /// It steps together with the others of its group.
    pub(super) takes_part: bool,
    /// A step has ended since metrics were last written.
    pub(super) unlogged: bool,
    pub(super) failure: Option<TrainError>,
}

/// Where the task leaves its observation.
enum Buffer {
    Owned(Observations),
    /// In memory that the device reads itself.
    Lent(Box<dyn ObservationBuffer>),
}

impl Seat {
    pub(super) fn new(plan: &Plan, agent: &AgentPlan, workshop: &Workshop) -> Result<Self, TrainError> {
        let actor = Actor::new(plan, agent, workshop)?;
        let spec = actor.task().observation;
        let observation = Buffer::Owned(Observations::new(spec, 1));
        let (greedy, outcome, takes_part, unlogged, failure) = (0, None, false, false, None);
        Ok(Seat { actor, observation, greedy, outcome, takes_part, unlogged, failure })
    }

    /// The agent as a device makes it.
    pub(super) fn member(&self) -> Member<'_> {
        Member { plan: self.actor.plan(), codec: self.actor.codec().clone(), task: self.actor.task() }
    }

    /// The observation that the device is to act on.
    pub(super) fn seen(&self) -> Option<ObservationRef<'_>> {
        match &self.observation {
            Buffer::Owned(observation) => Some(observation.samples()),
            Buffer::Lent(_) => None,
        }
    }

    /// Has the task leave its observations there from now on.
    pub(super) fn borrow(&mut self, buffer: Box<dyn ObservationBuffer>) {
        self.observation = Buffer::Lent(buffer);
    }

    pub(super) fn work(&mut self, phase: Phase) {
        if self.takes_part && phase != Phase::Begin {
            self.play();
        }
        if self.takes_part && phase != Phase::Last {
            self.actor.begin(match &mut self.observation {
                Buffer::Owned(observation) => observation.all(),
                Buffer::Lent(buffer) => buffer.observation(),
            });
        }
    }

    fn play(&mut self) {
        let action = self.actor.explore().unwrap_or(self.greedy);
        self.unlogged = true;
        match self.actor.play(action) {
            Ok(Some(outcome)) => self.outcome = Some(outcome),
            Ok(None) => self.takes_part = false,
            Err(error) => {
                self.failure = Some(error);
                self.takes_part = false;
            }
        }
    }
}
