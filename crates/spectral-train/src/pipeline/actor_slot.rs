//! One agent of a device population: its task, and the data that travels between task and device.

use crate::actor::Actor;
use crate::devices::Member;
use crate::error::TrainError;
use crate::evaluations::MODELS;
use crate::resolve::ResolvedRun;
use spectral_agent::lockstep::{Group, ObservationBuffer, ObservationRef};
use spectral_agent::replay::{Observations, Outcome};
use spectral_core::bytes::StateWriter;

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
    Owned(Observations),
    /// In memory that the device reads itself.
    Lent(Box<dyn ObservationBuffer>),
}

impl ActorSlot {
    pub(super) fn new(run: &ResolvedRun, agent: usize) -> Result<Self, TrainError> {
        let actor = Actor::new(run, agent, run.make_task()?);
        let spec = actor.task().observation;
        let observation = Buffer::Owned(Observations::new(spec, 1));
        let (greedy, outcome, participates, unlogged, failure) = (0, None, false, false, None);
        Ok(ActorSlot { actor, observation, greedy, outcome, participates, unlogged, failure })
    }

    /// What a device needs to know of the agent.
    pub(super) fn member(&self) -> Member<'_> {
        Member { plan: self.actor.plan(), codec: self.actor.codec().clone(), task: self.actor.task() }
    }

    /// The observation that the device is to act on.
    pub(super) fn observation(&self) -> Option<ObservationRef<'_>> {
        match &self.observation {
            Buffer::Owned(observation) => Some(observation.samples()),
            Buffer::Lent(_) => None,
        }
    }

    /// Makes the task write its observations to this buffer from now on.
    pub(super) fn observe_into(&mut self, buffer: Box<dyn ObservationBuffer>) {
        self.observation = Buffer::Lent(buffer);
    }

    /// Carries out a phase, if the agent participates.
    pub(super) fn work(&mut self, phase: Phase) {
        if self.participates && phase != Phase::Begin {
            self.play();
        }
        if self.participates && phase != Phase::Last {
            self.actor.begin(match &mut self.observation {
                Buffer::Owned(observation) => observation.all(),
                Buffer::Lent(buffer) => buffer.observation(),
            });
        }
    }

    /// Asks for frozen games with the model as it is now, if they are due. Only to be called between two submissions.
    /// Returns whether they are.
    pub(super) fn evaluate_if_due(
        &mut self,
        frames: u64,
        group: &mut dyn Group,
        agent: usize,
    ) -> Result<bool, TrainError> {
        let due = self.actor.evaluation_due(frames);
        if due {
            let mut models = Vec::new();
            for (name, kind) in MODELS {
                let mut model = StateWriter::default();
                if group.save_model(agent, kind, &mut model)? {
                    models.push((name, model.into_bytes()));
                }
            }
            self.actor.request_evaluation(models);
        }
        Ok(due)
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
