//! The training loop of one agent on a CPU, which the rest of this crate configures, observes and saves. Read this first.

use crate::actor::Actor;
use crate::error::TrainError;
use crate::evaluations::MODELS;
use crate::frozen_games::FrozenGames;
use crate::resolve::ResolvedRun;
use crate::store::Records;
use spectral_agent::learner::{Learner, NotFinite};
use spectral_agent::replay::Replay;
use spectral_core::bytes::{StateError, StateWriter};
use spectral_env::Env;

/// One agent with its task, its files and its learner.
pub struct AgentRun {
    /// Steps the task and keeps counters and files.
    pub actor: Actor,
    /// Learns from the steps.
    pub learner: Learner,
    /// Frozen games that were begun and not finished.
    frozen: Option<FrozenGames>,
}

impl AgentRun {
    /// A new agent whose files are not open yet.
    pub fn new(run: &ResolvedRun, agent: usize) -> Result<Self, TrainError> {
        Self::on(run, agent, run.make_task()?)
    }

    /// A new agent on this instance of the task.
    pub fn on(run: &ResolvedRun, agent: usize, task: Box<dyn Env>) -> Result<Self, TrainError> {
        let actor = Actor::new(run, agent, task);
        let learner = learner(&actor)?;
        Ok(AgentRun { actor, learner, frozen: None })
    }

    /// Trains until the agent has seen `frames` frames or `pause` returns true between two steps. Frozen games are played
    /// when they are due, before the next step.
    ///
    /// Problems of the agent itself (values that are not finite, rewards that are not numbers, states without legal actions)
    /// stop the agent and are kept as the reason. Only problems with its files are returned as errors.
    pub fn advance(&mut self, frames: u64, mut pause: impl FnMut() -> bool) -> Result<(), TrainError> {
        while self.play_frozen(&mut pause)? && self.actor.is_active(frames) && !pause() {
            let action = self.choose_action();
            let learned = if self.learning_due() { self.learn() } else { Ok(()) };
            self.play(action, learned)?;
            self.evaluate_if_due(frames);
        }
        Ok(())
    }

    /// Asks for frozen games with the model as it is now, if they are due.
    pub(crate) fn evaluate_if_due(&mut self, frames: u64) {
        if self.actor.evaluation_due(frames) {
            let saved = |(name, kind)| {
                let mut model = StateWriter::default();
                self.learner.save_model_of(kind, &mut model).then(|| (name, model.into_bytes()))
            };
            self.actor.request_evaluation(MODELS.into_iter().filter_map(saved).collect());
        }
    }

    /// Plays the frozen games that were asked for. Returns false if `pause` returned true before all were over; the next call
    /// goes on with them.
    pub(crate) fn play_frozen(&mut self, pause: &mut dyn FnMut() -> bool) -> Result<bool, TrainError> {
        while let Some((run, request)) = self.actor.first_evaluation() {
            let games = match &mut self.frozen {
                Some(games) => games,
                none => none.insert(FrozenGames::new(run, request)?),
            };
            let Some(rows) = games.advance(pause)? else { return Ok(false) };
            self.actor.evaluated(rows)?;
            self.frozen = None;
        }
        Ok(true)
    }

    // One step: observe, act, learn, play, record. Like the original DQN it learns between choosing an action and playing it,
    // which lets a device learn while tasks are stepped.

    /// Begins a step: observes the task and chooses an action.
    pub(crate) fn choose_action(&mut self) -> usize {
        let AgentRun { actor, learner, .. } = self;
        actor.begin(learner.observation());
        if let Some(legal) = actor.legal() {
            learner.allow(legal);
        }
        if let Some((all, values)) = actor.wanted_values() {
            learner.values(all, values);
        }
        actor.explore().unwrap_or_else(|| learner.act())
    }

    /// Whether there is something to learn, or a target to refresh, in the current step.
    pub(crate) fn learning_due(&self) -> bool {
        self.actor.refresh_due() || (self.actor.update_due() && self.learner.can_update())
    }

    /// Learns once its action is chosen.
    pub(crate) fn learn(&mut self) -> Result<(), NotFinite> {
        let AgentRun { actor, learner, .. } = self;
        if actor.update_due() && learner.can_update() {
            learner.update()?;
        }
        if actor.refresh_due() {
            learner.refresh_target();
        }
        Ok(())
    }

    /// Ends a step: plays the action, records what came of it, and writes a row of metrics if one is due.
    pub(crate) fn play(&mut self, action: usize, learned: Result<(), NotFinite>) -> Result<(), TrainError> {
        let AgentRun { actor, learner, .. } = self;
        if let Some(outcome) = actor.play(action)? {
            learner.record(outcome);
            if let Err(error) = learned {
                actor.stop(error.to_string());
            }
        }
        if actor.log_due() {
            actor.log(learner.updates(), learner.drain_metrics(), learner.td_by_score())?;
        }
        Ok(())
    }
}

impl AgentRun {
    /// Hands a copy of the model to those who watch, if they asked for it.
    pub(crate) fn give_model(&self) {
        if self.actor.wants_model() {
            let mut model = StateWriter::default();
            self.learner.save_model(&mut model);
            self.actor.give_model(model.into_bytes());
        }
    }
}

/// A new learner for an actor.
pub fn learner(actor: &Actor) -> Result<Learner, TrainError> {
    let plan = actor.plan();
    Ok(Learner::new(plan.settings.clone(), actor.codec().clone(), actor.task(), plan.seed)?)
}

impl Records for Replay {
    fn oldest(&self) -> u64 {
        Replay::oldest(self)
    }
    fn newest(&self) -> u64 {
        Replay::newest(self)
    }
    fn write_range(&mut self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), StateError> {
        Replay::write_range(self, first, count, out);
        Ok(())
    }
    fn bytes_per_record(&self) -> usize {
        Replay::record_bytes(self)
    }
    fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        Replay::read_range(self, first, count, bytes)
    }
}
