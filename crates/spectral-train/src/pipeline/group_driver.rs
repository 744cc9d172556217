//! One group of the pipeline and the order of its work.

use super::actor_slot::{ActorSlot, Phase};
use super::lock;
use super::worker_pool::WorkerPool;
use crate::error::TrainError;
use crate::population::AgentProgress;
use spectral_agent::learner::NotFinite;
use spectral_agent::lockstep::{Decision, Group};
use spectral_agent::replay::Outcome;
use std::sync::Mutex;

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is left to do in this sitting.
    Idle,
    /// Threads look at the tasks for the first time.
    Beginning,
    /// The device works for a submission.
    OnDevice,
    /// Threads play.
    Stepping {
        /// Nobody looks at what follows: those that take part stop here.
        ends: bool,
        /// And so does the sitting.
        last: bool,
    },
}

/// A group at work: the device's side and the tasks' side of the same agents.
pub(super) struct GroupDriver<'a> {
    /// Its sheet on the pool's board.
    number: usize,
    group: &'a mut dyn Group,
    slots: &'a [Mutex<ActorSlot>],
    /// Frames per agent at the run's end.
    frames: u64,
    /// The step at which those that take part stand.
    steps: u64,
    /// The step at which they stop, because they are done or others wait there.
    until: u64,
    stage: Stage,
    outcomes: Vec<(usize, Outcome)>,
}

impl<'a> GroupDriver<'a> {
    pub(super) fn new(
        number: usize,
        group: &'a mut dyn Group,
        slots: &'a [Mutex<ActorSlot>],
        frames: u64,
    ) -> Self {
        let outcomes = Vec::with_capacity(slots.len());
        GroupDriver { number, group, slots, frames, steps: 0, until: 0, stage: Stage::Idle, outcomes }
    }

    /// Whether nothing is left to do in this sitting.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Whether the device works for it.
    pub(super) fn is_on_device(&self) -> bool {
        self.stage == Stage::OnDevice
    }

    /// Whether threads may be at work for it.
    pub(super) fn is_stepping(&self) -> bool {
        matches!(self.stage, Stage::Beginning | Stage::Stepping { .. })
    }

    /// The step at which those that take part stand.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Where its agents stand; to be asked while no thread plays for them.
    pub(super) fn progress(&self, progress: &mut [AgentProgress]) {
        for (progress, slot) in progress.iter_mut().zip(self.slots) {
            *progress = AgentProgress::of(&lock(slot).actor);
        }
    }

    /// Lets those furthest behind take part, and has their tasks looked at. Those that are ahead, as after a sitting on a
    /// CPU, wait for them: an update is one for all that take part.
    pub(super) fn start(&mut self, pool: &mut WorkerPool<'_>) {
        self.stage = Stage::Idle;
        let steps = |slot: &Mutex<ActorSlot>| {
            let slot = lock(slot);
            slot.actor.is_active(self.frames).then(|| slot.actor.steps())
        };
        let Some(behind) = self.slots.iter().filter_map(steps).min() else { return };
        self.steps = behind;
        self.until = u64::MAX;
        for slot in self.slots {
            let mut slot = lock(slot);
            slot.takes_part = slot.actor.is_active(self.frames) && slot.actor.steps() == behind;
            let stops_at = match slot.takes_part {
                true => slot.actor.steps_of(self.frames),
                false if slot.actor.is_active(self.frames) => slot.actor.steps(),
                false => u64::MAX,
            };
            self.until = self.until.min(stops_at);
        }
        self.post(pool, Phase::Begin, Stage::Beginning);
    }

    /// Goes on if what it waits for has come; false if not. One step is: the device's answer is taken and threads play it;
    /// when they have, the device is handed what it brought. `last` ends between two steps, with nothing left on the
    /// way.
    pub(super) fn advance(&mut self, pool: &mut WorkerPool<'_>, last: bool) -> Result<bool, TrainError> {
        match self.stage {
            Stage::Idle => return Ok(false),
            Stage::OnDevice if self.group.ready()? => {
                self.collect()?;
                let none_left = !self.slots.iter().any(|slot| lock(slot).takes_part);
                let ends = last || none_left || self.steps + 1 >= self.until;
                let phase = if ends { Phase::Last } else { Phase::Step };
                self.post(pool, phase, Stage::Stepping { ends, last });
            }
            Stage::Beginning if pool.is_done(self.number) => self.submit()?,
            Stage::Stepping { ends, last } if pool.is_done(self.number) => self.finish(pool, ends, last)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// After threads have played.
    fn finish(&mut self, pool: &mut WorkerPool<'_>, ends: bool, last: bool) -> Result<(), TrainError> {
        self.steps += 1;
        self.review()?;
        if !ends && self.slots.iter().any(|slot| lock(slot).takes_part) {
            return self.submit();
        }
        self.settle()?;
        self.stage = Stage::Idle;
        if !last {
            self.start(pool);
        }
        Ok(())
    }

    fn post(&mut self, pool: &mut WorkerPool<'_>, phase: Phase, stage: Stage) {
        pool.post(self.number, phase as u8, self.slots.len());
        self.stage = stage;
    }

    fn submit(&mut self) -> Result<(), TrainError> {
        let due = |due: fn(&ActorSlot) -> bool| {
            let mut part = self.slots.iter().map(lock).filter(|slot| slot.takes_part).peekable();
            part.peek().is_some() && part.all(|slot| due(&slot))
        };
        // All have the same schedule. Only where replay is filling anew after a light checkpoint can some be later.
        let update = due(|slot| slot.actor.update_due());
        let refresh = due(|slot| slot.actor.refresh_due());
        for (agent, slot) in self.slots.iter().enumerate() {
            let mut slot = lock(slot);
            if slot.takes_part {
                let outcome = slot.outcome.take();
                self.group.stage(agent, outcome, slot.seen());
            }
        }
        self.group.submit(update, refresh)?;
        self.stage = Stage::OnDevice;
        Ok(())
    }

    /// Waits for the device and hands its decisions to the threads.
    fn collect(&mut self) -> Result<(), TrainError> {
        let stopped = hear(self.group.wait()?, self.slots);
        if stopped { self.log() } else { Ok(()) }
    }

    /// After threads have played: failures of files end the run; metrics are written where they are due, before the device
    /// learns anything more.
    fn review(&mut self) -> Result<(), TrainError> {
        for slot in self.slots {
            if let Some(failure) = lock(slot).failure.take() {
                return Err(failure);
            }
        }
        self.log()
    }

    fn settle(&mut self) -> Result<(), TrainError> {
        self.outcomes.clear();
        for (agent, slot) in self.slots.iter().enumerate() {
            let mut slot = lock(slot);
            if slot.takes_part {
                self.outcomes.extend(slot.outcome.take().map(|outcome| (agent, outcome)));
            }
        }
        if self.outcomes.is_empty() {
            return Ok(());
        }
        let stopped = hear(self.group.settle(&self.outcomes)?, self.slots);
        if stopped { self.log() } else { Ok(()) }
    }

    fn log(&mut self) -> Result<(), TrainError> {
        (0..self.slots.len()).try_for_each(|agent| self.log_agent(agent))
    }

    /// Writes an agent's row of metrics if it is due and not written yet.
    fn log_agent(&mut self, agent: usize) -> Result<(), TrainError> {
        let mut slot = lock(&self.slots[agent]);
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

/// Hands decisions to those that take part, and stops those whose values are not finite; whether there are any.
fn hear(decisions: &[Decision], slots: &[Mutex<ActorSlot>]) -> bool {
    let mut stopped = false;
    for (decision, slot) in decisions.iter().zip(slots) {
        let mut slot = lock(slot);
        if slot.takes_part {
            slot.greedy = decision.action;
            if let Some(update) = decision.not_finite {
                slot.actor.stop(NotFinite { update }.to_string());
                slot.takes_part = false;
                stopped = true;
            }
        }
    }
    stopped
}
