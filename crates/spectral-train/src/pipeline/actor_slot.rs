//! One agent of a device population: its task, and the data that travels between task and device.

use crate::actor::Actor;
use crate::devices::Member;
use crate::error::TrainError;
use crate::resolve::ResolvedRun;
use spectral_agent::lockstep::{Lent, Seen};
use spectral_agent::replay::Outcome;
use spectral_env::{Observation, ObservationSpec};

/// What a thread does with an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Observe the task, after a reset if an episode ended.
    Begin,
    /// Play the action, then observe.
    Step,
    /// Play the action without a new observation, because a checkpoint or the end follows.
    Last,
}

impl Phase {
    pub(super) const ALL: [Phase; 3] = [Phase::Begin, Phase::Step, Phase::Last];
}

/// An agent without its learner. It has cache lines of its own, because other cores work on its neighbours.
#[repr(align(128))]
pub(super) struct ActorSlot {
    pub(super) actor: Actor,
    observation: Buffer,
    /// The device's action for the observation.
    pub(super) greedy: usize,
    /// The outcome of the last action, until the device receives it.
    pub(super) outcome: Option<Outcome>,
    /// Whether it takes part in its group's steps.
    pub(super) participates: bool,
    /// Whether a step has ended since metrics were last written.
    pub(super) unlogged: bool,
    pub(super) failure: Option<TrainError>,
}

/// Where the task writes its observation.
enum Buffer {
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
    /// Memory that the device reads itself.
    LentBytes(Box<dyn Lent>),
    LentFloats(Box<dyn Lent>),
}

impl ActorSlot {
    pub(super) fn new(run: &ResolvedRun, agent: usize) -> Result<Self, TrainError> {
        let actor = Actor::new(run, agent)?;
        let spec = actor.task().observation;
        let observation = match spec {
            ObservationSpec::Planes { .. } => Buffer::Bytes(vec![0; spec.len()]),
            ObservationSpec::Vector { len } => Buffer::Floats(vec![0.0; len]),
        };
        let (greedy, outcome, participates, unlogged, failure) = (0, None, false, false, None);
        Ok(ActorSlot { actor, observation, greedy, outcome, participates, unlogged, failure })
    }

    /// What a device needs to know of the agent.
    pub(super) fn member(&self) -> Member<'_> {
        Member { plan: self.actor.plan(), codec: self.actor.codec().clone(), task: self.actor.task() }
    }

    /// The observation that the device is to act on.
    pub(super) fn observation(&self) -> Seen<'_> {
        match &self.observation {
            Buffer::Bytes(bytes) => Seen::Planes(bytes),
            Buffer::Floats(floats) => Seen::Vector(floats),
            Buffer::LentBytes(_) | Buffer::LentFloats(_) => Seen::Lent,
        }
    }

    /// Makes the task write its observations to this buffer from now on.
    pub(super) fn observe_into(&mut self, buffer: Box<dyn Lent>) {
        self.observation = match self.actor.task().observation {
            ObservationSpec::Planes { .. } => Buffer::LentBytes(buffer),
            ObservationSpec::Vector { .. } => Buffer::LentFloats(buffer),
        };
    }

    /// Carries out a phase, if the agent participates.
    pub(super) fn work(&mut self, phase: Phase) {
        if self.participates && phase != Phase::Begin {
            self.play();
        }
        if self.participates && phase != Phase::Last {
            self.actor.begin(match &mut self.observation {
                Buffer::Bytes(bytes) => Observation::Planes(bytes),
                Buffer::Floats(floats) => Observation::Vector(floats),
                Buffer::LentBytes(buffer) => Observation::Planes(buffer.bytes()),
                Buffer::LentFloats(buffer) => Observation::Vector(buffer.floats()),
            });
        }
    }

    fn play(&mut self) {
        let action = self.actor.explore().unwrap_or(self.greedy);
        self.unlogged = true;
        match self.actor.play(action) {
            Ok(Some(outcome)) => self.outcome = Some(outcome),
            Ok(None) => self.participates = false,
            Err(error) => {
                self.failure = Some(error);
                self.participates = false;
            }
        }
    }
}
