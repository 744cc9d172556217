//! A population at work on a device, in two halves: while the device works for one, the CPU's cores step the tasks of the
//! other.
//!
//! Each half goes through the same round for ever: the device answers what to do, threads play it and look at what followed,
//! the device is told. An agent sees what it sees on a CPU, in the same order: act, play, record, update, refresh, and
//! the next action by the weights after that. So a population whose learners compute the same bits writes the same files.

mod crew;
mod half;
mod seat;
#[cfg(test)]
mod tests;

use crate::actor::Actor;
use crate::agent_run::learner;
use crate::cores::threads;
use crate::devices::{self, Chosen, Member};
use crate::error::TrainError;
use crate::plan::Plan;
use crate::population::{AgentProgress, Population, Sitting, TICK};
use crate::store::Records;
use crate::workshop::Workshop;
use crew::with_crew;
use half::Half;
use seat::{Phase, Seat};
use spectral_agent::lockstep::{CpuGroup, Group};
use spectral_agent::replay::Replay;
use spectral_core::bytes::{StateError, StateWriter};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Agents whose learners live on a device.
pub struct Pipeline {
    groups: Vec<Box<dyn Group>>,
    /// Per group, the tasks' side of its agents.
    seats: Vec<Vec<Mutex<Seat>>>,
    threads: usize,
}

impl Pipeline {
    /// A fresh population on the chosen device.
    pub fn new(plan: &Plan, workshop: &Workshop, chosen: &Chosen) -> Result<Self, TrainError> {
        let mut groups: Vec<Box<dyn Group>> = Vec::new();
        let mut halves = Vec::new();
        let size = if plan.agents.len() == 1 { 1 } else { plan.agents.len().div_ceil(2) };
        if size > crew::MOST_PARTS {
            return Err(TrainError::Usage(format!(
                "{} agents are too many for one device",
                plan.agents.len()
            )));
        }
        for agents in plan.agents.chunks(size) {
            let seats: Vec<Seat> =
                agents.iter().map(|agent| Seat::new(plan, agent, workshop)).collect::<Result<_, _>>()?;
            groups.push(match chosen {
                Chosen::Cuda(gpu) => {
                    let members: Vec<Member<'_>> = seats.iter().map(Seat::member).collect();
                    devices::open(gpu, plan.precision, &members)?
                }
                Chosen::Cpu | Chosen::CpuLockstep => {
                    let learners = seats.iter().map(|seat| learner(&seat.actor));
                    Box::new(CpuGroup::new(learners.collect::<Result<_, _>>()?))
                }
            });
            halves.push(seats.into_iter().map(Mutex::new).collect::<Vec<_>>());
        }
        Ok(Pipeline { groups, seats: halves, threads: threads(plan)? })
    }

    /// The group that an agent is in, and its number there.
    fn find(&self, agent: usize) -> (usize, usize) {
        let size = self.seats[0].len();
        (agent / size, agent % size)
    }

    fn seat(&mut self, agent: usize) -> (&mut dyn Group, usize, &mut Seat) {
        let (group, index) = self.find(agent);
        let seat = self.seats[group][index].get_mut().unwrap_or_else(|e| e.into_inner());
        (self.groups[group].as_mut(), index, seat)
    }
}

impl Population for Pipeline {
    fn len(&self) -> usize {
        self.seats.iter().map(Vec::len).sum()
    }

    fn actor(&mut self, agent: usize) -> &mut Actor {
        &mut self.seat(agent).2.actor
    }

    fn metric_columns(&mut self, agent: usize) -> Vec<String> {
        let (group, index, _) = self.seat(agent);
        group.metric_columns(index)
    }

    fn save_model(&mut self, agent: usize, out: &mut StateWriter) -> Result<(), TrainError> {
        let (group, index, _) = self.seat(agent);
        Ok(group.save_model(index, out)?)
    }

    fn save(&mut self, agent: usize) -> Result<Vec<u8>, TrainError> {
        let (group, index, seat) = self.seat(agent);
        seat.actor.save(|out| Ok(group.save(index, out)?))
    }

    fn restore(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError> {
        let (group, index, seat) = self.seat(agent);
        seat.actor.restore(state, |from| group.restore(index, from))
    }

    fn forget_before(&mut self, agent: usize, first: u64) {
        let (group, index, _) = self.seat(agent);
        group.forget_before(index, first);
    }

    fn records(&mut self, agent: usize) -> Box<dyn Records + '_> {
        let (group, agent, seat) = self.seat(agent);
        let bytes_per_record = Replay::bytes_per_record(seat.actor.task().observation);
        Box::new(DeviceRecords { group, agent, bytes_per_record })
    }

    fn train(&mut self, sitting: Sitting<'_>) -> Result<(), TrainError> {
        let seats = &self.seats;
        let work = |task: u8, part: usize| {
            let (group, phase) = (usize::from(task) / Phase::ALL.len(), usize::from(task) % Phase::ALL.len());
            lock(&seats[group][part]).work(Phase::ALL[phase]);
        };
        let groups = self.groups.iter_mut().zip(seats).enumerate();
        let mut halves: Vec<Half<'_>> = groups
            .map(|(number, (group, seats))| Half::new(number, group.as_mut(), seats, sitting.frames))
            .collect();
        // The calling thread takes its share of the tasks whenever it would wait for them.
        let workers = (self.threads - 1).min(seats[0].len().saturating_sub(1));
        with_crew(workers, &work, |crew| {
            halves.iter_mut().try_for_each(|half| half.start(crew))?;
            let mut told = Instant::now();
            while halves.iter().any(|half| !half.is_idle()) {
                let now = Instant::now();
                let last = now >= sitting.due || sitting.interrupted();
                for half in halves.iter_mut().filter(|half| !half.is_idle()) {
                    half.step(crew, last)?;
                }
                if now.duration_since(told) >= TICK {
                    told = now;
                    sitting.observer.tick(&progress(seats));
                }
            }
            sitting.observer.tick(&progress(seats));
            Ok(())
        })
    }
}

fn progress(seats: &[Vec<Mutex<Seat>>]) -> Vec<AgentProgress> {
    seats.iter().flatten().map(|seat| AgentProgress::of(&lock(seat).actor)).collect()
}

/// A lock whose holder panicked is still a lock: the panic itself is reported when the scope ends.
fn lock(seat: &Mutex<Seat>) -> MutexGuard<'_, Seat> {
    seat.lock().unwrap_or_else(|e| e.into_inner())
}

/// One agent's replay on a device.
struct DeviceRecords<'a> {
    group: &'a mut dyn Group,
    agent: usize,
    bytes_per_record: usize,
}

impl Records for DeviceRecords<'_> {
    fn oldest(&self) -> u64 {
        self.group.records(self.agent).start
    }
    fn newest(&self) -> u64 {
        self.group.records(self.agent).end
    }
    fn write_range(&mut self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), StateError> {
        self.group.get_records(self.agent, first, count, out).map_err(|e| StateError(e.0))
    }
    fn bytes_per_record(&self) -> usize {
        self.bytes_per_record
    }
    fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        self.group.put_records(self.agent, first, count, bytes)
    }
}
