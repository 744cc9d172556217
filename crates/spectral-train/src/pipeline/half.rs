//! One group of the pipeline and the order of its work.

use super::crew::Crew;
use super::lock;
use super::seat::{Phase, Seat};
use crate::error::TrainError;
use spectral_agent::learner::NotFinite;
use spectral_agent::lockstep::Group;
use spectral_agent::replay::Outcome;
use std::sync::Mutex;

/// A group at work: the device's side and the tasks' side of the same agents.
pub(super) struct Half<'a> {
    pub(super) number: usize,
    pub(super) group: &'a mut dyn Group,
    pub(super) seats: &'a [Mutex<Seat>],
    /// Frames per agent at the run's end.
    pub(super) frames: u64,
    /// The step at which those that take part stop, because they are done or others wait there.
    until: u64,
    /// A submission is under way.
    submitted: bool,
    outcomes: Vec<(usize, Outcome)>,
}

impl<'a> Half<'a> {
    pub(super) fn new(
        number: usize,
        group: &'a mut dyn Group,
        seats: &'a [Mutex<Seat>],
        frames: u64,
    ) -> Self {
        let outcomes = Vec::with_capacity(seats.len());
        Half { number, group, seats, frames, until: 0, submitted: false, outcomes }
    }

    /// Whether nothing is left to do in this sitting.
    pub(super) fn is_idle(&self) -> bool {
        !self.submitted
    }

    /// Lets those furthest behind take part, and asks the device for their first actions. Those that are ahead, as after a
    /// sitting on a CPU, wait for them: an update is one for all that take part.
    pub(super) fn start(&mut self, crew: &mut Crew<'_>) -> Result<(), TrainError> {
        let steps = |seat: &Mutex<Seat>| {
            let seat = lock(seat);
            seat.actor.is_active(self.frames).then(|| seat.actor.steps())
        };
        let Some(behind) = self.seats.iter().filter_map(steps).min() else { return Ok(()) };
        self.until = u64::MAX;
        for seat in self.seats {
            let mut seat = lock(seat);
            seat.takes_part = seat.actor.is_active(self.frames) && seat.actor.steps() == behind;
            let stops_at = match seat.takes_part {
                true => seat.actor.steps_of(self.frames),
                false if seat.actor.is_active(self.frames) => seat.actor.steps(),
                false => u64::MAX,
            };
            self.until = self.until.min(stops_at);
        }
        self.perform(crew, Phase::Begin);
        self.submit(false, false)
    }

    /// One step of those that take part: takes the device's answer, lets threads play it, and hands the device what it
    /// brought. `last` ends between two steps, with nothing left on the way.
    pub(super) fn step(&mut self, crew: &mut Crew<'_>, last: bool) -> Result<(), TrainError> {
        self.collect()?;
        let next = self.seats.iter().map(lock).find(|s| s.takes_part).map(|s| s.actor.steps() + 1);
        let ends = last || next.is_none_or(|next| next >= self.until);
        self.perform(crew, if ends { Phase::Last } else { Phase::Step });
        self.review()?;
        let due = |due: fn(&Seat) -> bool| {
            let mut part = self.seats.iter().map(lock).filter(|seat| seat.takes_part).peekable();
            part.peek().is_some() && part.all(|seat| due(&seat))
        };
        // All have the same schedule. Only where replay is filling anew after a light checkpoint can some be later.
        let update = due(|seat| seat.actor.update_due());
        let refresh = due(|seat| seat.actor.refresh_due());
        if !ends && self.seats.iter().any(|seat| lock(seat).takes_part) {
            return self.submit(update, refresh);
        }
        self.settle(update, refresh)?;
        if last { Ok(()) } else { self.start(crew) }
    }

    fn perform(&self, crew: &mut Crew<'_>, phase: Phase) {
        crew.perform((self.number * Phase::ALL.len() + phase as usize) as u8, self.seats.len());
    }

    fn submit(&mut self, update: bool, refresh: bool) -> Result<(), TrainError> {
        for (agent, seat) in self.seats.iter().enumerate() {
            let mut seat = lock(seat);
            if seat.takes_part {
                let outcome = seat.outcome.take();
                self.group.stage(agent, outcome, seat.seen());
            }
        }
        self.group.submit(update, refresh)?;
        self.submitted = true;
        Ok(())
    }

    /// Waits for the device; stops agents whose values are not finite; writes metrics where they are due.
    fn collect(&mut self) -> Result<(), TrainError> {
        self.submitted = false;
        for (decision, seat) in self.group.wait()?.iter().zip(self.seats) {
            let mut seat = lock(seat);
            if seat.takes_part {
                seat.greedy = decision.action;
                if let Some(update) = decision.not_finite {
                    seat.actor.stop(NotFinite { update }.to_string());
                    seat.takes_part = false;
                }
            }
        }
        self.log()
    }

    /// After threads have played: failures of files end the run; agents that were stopped write their last row.
    fn review(&mut self) -> Result<(), TrainError> {
        let mut stopped = false;
        for seat in self.seats {
            let mut seat = lock(seat);
            if let Some(failure) = seat.failure.take() {
                return Err(failure);
            }
            stopped |= seat.unlogged && seat.actor.stopped().is_some();
        }
        if !stopped {
            return Ok(());
        }
        for (agent, seat) in self.seats.iter().enumerate() {
            if lock(seat).actor.stopped().is_some() {
                self.log_agent(agent)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, update: bool, refresh: bool) -> Result<(), TrainError> {
        self.outcomes.clear();
        for (agent, seat) in self.seats.iter().enumerate() {
            let mut seat = lock(seat);
            if seat.takes_part {
                self.outcomes.extend(seat.outcome.take().map(|outcome| (agent, outcome)));
            }
        }
        if !self.outcomes.is_empty() {
            self.group.settle(&self.outcomes, update, refresh)?;
        }
        self.log()
    }

    fn log(&mut self) -> Result<(), TrainError> {
        (0..self.seats.len()).try_for_each(|agent| self.log_agent(agent))
    }

    /// Writes an agent's row of metrics if it is due and the device has learned from its last step.
    fn log_agent(&mut self, agent: usize) -> Result<(), TrainError> {
        let mut seat = lock(&self.seats[agent]);
        if !std::mem::take(&mut seat.unlogged) || !seat.actor.log_due() {
            return Ok(());
        }
        let group = &mut self.group;
        let (updates, metrics) = (group.updates(agent)?, group.drain_metrics(agent)?);
        let td = group.td_by_score(agent)?;
        seat.actor.log(updates, metrics, td.into_iter())
    }
}
