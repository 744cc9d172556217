//! Drives one group of a device population: the order of its work.

use super::actor_slot::{ActorSlot, Phase};
use super::lock;
use super::worker_pool::WorkerPool;
use crate::error::TrainError;
use crate::population::{AgentProgress, ModelKind};
use spectral_agent::learner::NotFinite;
use spectral_agent::lockstep::{Decision, Group};
use spectral_agent::replay::Outcome;
use spectral_core::bytes::StateWriter;
use std::sync::Mutex;

/// What a group is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing: the group has finished this slice.
    Idle,
    /// Frozen games are being played while those after them are due already.
    Waiting,
    /// Threads make the first observations.
    Observing,
    /// The device works on a submission.
    OnDevice,
    /// Threads play actions.
    Stepping {
        /// No observation follows: the participating agents stop after this step.
        ends: bool,
        /// The slice ends too.
        last: bool,
    },
}

/// The most evaluations of an agent that may be under way while it trains: one is played, and the copy for the next is taken only
/// once that is over.
const MAX_WAITING: usize = 1;

/// A group in training: the device's side and the tasks' side of the same agents.
pub(super) struct GroupDriver<'a> {
    /// The group's slot on the job board.
    slot: usize,
    group: &'a mut dyn Group,
    actors: &'a [Mutex<ActorSlot>],
    /// Frames per agent at the run's end.
    frames: u64,
    /// The step that the participating agents have reached.
    steps: u64,
    /// The step at which they stop, because one of them is done, another agent of the group waits there, or a copy of the model
    /// is to be taken for frozen games.
    stop_step: u64,
    stage: Stage,
    /// Frozen games were asked for since [`takes_request`](GroupDriver::takes_request) last said so.
    requests: bool,
    outcomes: Vec<(usize, Outcome)>,
}

impl<'a> GroupDriver<'a> {
    pub(super) fn new(
        slot: usize,
        group: &'a mut dyn Group,
        actors: &'a [Mutex<ActorSlot>],
        frames: u64,
    ) -> Self {
        let outcomes = Vec::with_capacity(actors.len());
        let (steps, stop_step, stage, requests) = (0, 0, Stage::Idle, false);
        GroupDriver { slot, group, actors, frames, steps, stop_step, stage, requests, outcomes }
    }

    /// Whether the group has finished this slice.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Whether its agents take steps.
    pub(super) fn is_at_work(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Waiting)
    }

    /// Whether frozen games were asked for since the last call.
    pub(super) fn takes_request(&mut self) -> bool {
        std::mem::take(&mut self.requests)
    }

    /// Whether the device works on a submission of this group.
    pub(super) fn is_on_device(&self) -> bool {
        self.stage == Stage::OnDevice
    }

    /// Whether threads may be working on its tasks.
    pub(super) fn is_stepping(&self) -> bool {
        matches!(self.stage, Stage::Observing | Stage::Stepping { .. })
    }

    /// The step that the participating agents have reached.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Writes the progress of its agents. Only to be called while no thread steps their tasks.
    pub(super) fn progress(&self, progress: &mut [AgentProgress]) {
        for (progress, slot) in progress.iter_mut().zip(self.actors) {
            *progress = AgentProgress::of(&lock(slot).actor);
        }
    }

    /// Starts with the agents that are furthest behind, and has their tasks observed. Agents that are ahead, as after training
    /// on a CPU, wait for them, because one update serves all participating agents.
    pub(super) fn start(&mut self, pool: &mut WorkerPool<'_>) {
        self.stage = Stage::Idle;
        let steps = |slot: &Mutex<ActorSlot>| {
            let slot = lock(slot);
            slot.actor.is_active(self.frames).then(|| slot.actor.steps())
        };
        let Some(slowest) = self.actors.iter().filter_map(steps).min() else { return };
        if self.actors.iter().any(|slot| lock(slot).actor.evaluations_waiting() > MAX_WAITING) {
            self.stage = Stage::Waiting;
            return;
        }
        self.steps = slowest;
        self.stop_step = u64::MAX;
        for slot in self.actors {
            let mut slot = lock(slot);
            slot.participates = slot.actor.is_active(self.frames) && slot.actor.steps() == slowest;
            let stops_at = match slot.participates {
                true => {
                    let end = slot.actor.steps_of(self.frames);
                    slot.actor.next_evaluation().map_or(end, |next| next.min(end))
                }
                false if slot.actor.is_active(self.frames) => slot.actor.steps(),
                false => u64::MAX,
            };
            self.stop_step = self.stop_step.min(stops_at);
        }
        self.post(pool, Phase::Begin, Stage::Observing);
    }

    /// Advances if the group's device or threads are ready, and returns false if they are not. In one step, threads play the
    /// device's answer, and then the device receives the outcomes. With `last` the group stops between two steps with nothing
    /// in flight.
    pub(super) fn advance(&mut self, pool: &mut WorkerPool<'_>, last: bool) -> Result<bool, TrainError> {
        match self.stage {
            Stage::Idle => return Ok(false),
            Stage::Waiting if last => self.stage = Stage::Idle,
            Stage::Waiting => {
                self.start(pool);
                return Ok(self.stage != Stage::Waiting);
            }
            Stage::OnDevice if self.group.ready()? => {
                self.collect()?;
                let none_left = !self.actors.iter().any(|slot| lock(slot).participates);
                let ends = last || none_left || self.steps + 1 >= self.stop_step;
                let phase = if ends { Phase::Last } else { Phase::Step };
                self.post(pool, phase, Stage::Stepping { ends, last });
            }
            Stage::Observing if pool.is_done(self.slot) => self.submit()?,
            Stage::Stepping { ends, last } if pool.is_done(self.slot) => self.finish(pool, ends, last)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Continues after threads have played.
    fn finish(&mut self, pool: &mut WorkerPool<'_>, ends: bool, last: bool) -> Result<(), TrainError> {
        self.steps += 1;
        self.check_and_log()?;
        if !ends && self.actors.iter().any(|slot| lock(slot).participates) {
            return self.submit();
        }
        self.flush()?;
        self.evaluate_where_due()?;
        self.stage = Stage::Idle;
        if !last {
            self.start(pool);
        }
        Ok(())
    }

    fn post(&mut self, pool: &mut WorkerPool<'_>, phase: Phase, stage: Stage) {
        pool.post(self.slot, phase as u8, self.actors.len());
        self.stage = stage;
    }

    fn submit(&mut self) -> Result<(), TrainError> {
        let due = |due: fn(&ActorSlot) -> bool| {
            let mut agents = self.actors.iter().map(lock).filter(|slot| slot.participates).peekable();
            agents.peek().is_some() && agents.all(|slot| due(&slot))
        };
        // All agents have the same schedule. Some are later only while replay refills after a light checkpoint.
        let update = due(|slot| slot.actor.update_due());
        let refresh = due(|slot| slot.actor.refresh_due());
        for (agent, slot) in self.actors.iter().enumerate() {
            let mut slot = lock(slot);
            if slot.participates {
                let outcome = slot.outcome.take();
                self.group.stage(agent, outcome, slot.observation(), slot.actor.legal());
            }
        }
        self.group.submit(update, refresh)?;
        self.stage = Stage::OnDevice;
        Ok(())
    }

    /// Waits for the device and applies its decisions.
    fn collect(&mut self) -> Result<(), TrainError> {
        let stopped = apply_decisions(self.group.wait()?, self.actors);
        if stopped { self.log() } else { Ok(()) }
    }

    /// Returns the first file error of a played step, which ends the run. Writes metrics where they are due, before the device
    /// learns anything more.
    fn check_and_log(&mut self) -> Result<(), TrainError> {
        for slot in self.actors {
            if let Some(failure) = lock(slot).failure.take() {
                return Err(failure);
            }
        }
        self.log()?;
        self.give_models()
    }

    /// Hands copies of models to those who watch, if they asked for them. The device answers as it does for metrics: between
    /// two submissions of the group.
    fn give_models(&mut self) -> Result<(), TrainError> {
        for (agent, slot) in self.actors.iter().enumerate() {
            let slot = lock(slot);
            if slot.actor.wants_model() {
                let mut model = StateWriter::default();
                self.group.save_model(agent, ModelKind::Last, &mut model)?;
                slot.actor.give_model(model.into_bytes());
            }
        }
        Ok(())
    }

    /// Hands the last outcomes to the device without new observations.
    fn flush(&mut self) -> Result<(), TrainError> {
        self.outcomes.clear();
        for (agent, slot) in self.actors.iter().enumerate() {
            let mut slot = lock(slot);
            if slot.participates {
                self.outcomes.extend(slot.outcome.take().map(|outcome| (agent, outcome)));
            }
        }
        if self.outcomes.is_empty() {
            return Ok(());
        }
        let stopped = apply_decisions(self.group.flush(&self.outcomes)?, self.actors);
        if stopped { self.log() } else { Ok(()) }
    }

    /// Takes copies of models with which frozen games are due.
    fn evaluate_where_due(&mut self) -> Result<(), TrainError> {
        for (agent, slot) in self.actors.iter().enumerate() {
            self.requests |= lock(slot).evaluate_if_due(self.frames, self.group, agent)?;
        }
        Ok(())
    }

    fn log(&mut self) -> Result<(), TrainError> {
        (0..self.actors.len()).try_for_each(|agent| self.log_agent(agent))
    }

    /// Writes an agent's row of metrics if it is due and has not been written.
    fn log_agent(&mut self, agent: usize) -> Result<(), TrainError> {
        let mut slot = lock(&self.actors[agent]);
        if !slot.unlogged || !slot.actor.log_due() {
            return Ok(());
        }
        slot.unlogged = false;
        let group = &mut self.group;
        let (updates, metrics) = (group.updates(agent)?, group.drain_metrics(agent)?);
        let td = group.td_by_score(agent)?;
        slot.actor.log(updates, metrics, td.into_iter())
    }
}

/// Hands decisions to the participating agents, and stops those whose values are not finite. Returns whether it stopped any.
fn apply_decisions(decisions: &[Decision], actors: &[Mutex<ActorSlot>]) -> bool {
    let mut stopped = false;
    for (decision, slot) in decisions.iter().zip(actors) {
        let mut slot = lock(slot);
        if slot.participates {
            slot.greedy = decision.action;
            if let Some(update) = decision.not_finite {
                slot.actor.stop(NotFinite { update }.to_string());
                slot.participates = false;
                stopped = true;
            }
        }
    }
    stopped
}
