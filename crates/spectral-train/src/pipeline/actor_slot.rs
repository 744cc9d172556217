//! One agent's place in the pipeline: its task, and what travels between the task and the device.

use crate::actor::Actor;
use crate::devices::Member;
use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use crate::workshop::Workshop;
use spectral_agent::lockstep::{Lent, Seen};
use spectral_agent::replay::Outcome;
use spectral_env::{Observation, ObservationSpec};

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
pub(super) struct ActorSlot {
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
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
    /// In memory that the device reads itself.
    LentBytes(Box<dyn Lent>),
    LentFloats(Box<dyn Lent>),
}

impl ActorSlot {
    pub(super) fn new(plan: &Plan, agent: &AgentPlan, workshop: &Workshop) -> Result<Self, TrainError> {
        let actor = Actor::new(plan, agent, workshop)?;
        let spec = actor.task().observation;
        let observation = match spec {
            ObservationSpec::Planes { .. } => Buffer::Bytes(vec![0; spec.len()]),
            ObservationSpec::Vector { len } => Buffer::Floats(vec![0.0; len]),
        };
        let (greedy, outcome, takes_part, unlogged, failure) = (0, None, false, false, None);
        Ok(ActorSlot { actor, observation, greedy, outcome, takes_part, unlogged, failure })
    }

    /// The agent as a device makes it.
    pub(super) fn member(&self) -> Member<'_> {
        Member { plan: self.actor.plan(), codec: self.actor.codec().clone(), task: self.actor.task() }
    }

    /// The observation that the device is to act on.
    pub(super) fn seen(&self) -> Seen<'_> {
        match &self.observation {
            Buffer::Bytes(bytes) => Seen::Planes(bytes),
            Buffer::Floats(floats) => Seen::Vector(floats),
            Buffer::LentBytes(_) | Buffer::LentFloats(_) => Seen::Lent,
        }
    }

    /// Has the task leave its observations there from now on.
    pub(super) fn borrow(&mut self, room: Box<dyn Lent>) {
        self.observation = match self.actor.task().observation {
            ObservationSpec::Planes { .. } => Buffer::LentBytes(room),
            ObservationSpec::Vector { .. } => Buffer::LentFloats(room),
        };
    }

    pub(super) fn work(&mut self, phase: Phase) {
        if self.takes_part && phase != Phase::Begin {
            self.play();
        }
        if self.takes_part && phase != Phase::Last {
            self.actor.begin(match &mut self.observation {
                Buffer::Bytes(bytes) => Observation::Planes(bytes),
                Buffer::Floats(floats) => Observation::Vector(floats),
                Buffer::LentBytes(room) => Observation::Planes(room.bytes()),
                Buffer::LentFloats(room) => Observation::Vector(room.floats()),
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
