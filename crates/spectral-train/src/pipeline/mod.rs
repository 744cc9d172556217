//! A population that trains on a device, in several groups: while the device works for some groups, CPU threads step the
//! tasks of the others.
//!
//! Each group repeats the same cycle: the device chooses actions, threads play them and observe the result, and the device
//! receives it. A group never waits for another group, only for the device or for threads. An agent goes through the same
//! sequence as on a CPU: act, update, refresh the target, play, record, and then choose the next action with the updated
//! weights. The only difference is that the device updates while threads play. A population whose learners compute the same
//! bits therefore writes the same files.

mod actor_slot;
#[cfg(test)]
mod average_tests;
#[cfg(test)]
mod compact_tests;
mod evaluator;
mod group_driver;
mod job_board;
#[cfg(test)]
mod legal_tests;
#[cfg(test)]
mod slow_device_tests;
#[cfg(test)]
mod tests;
mod worker_pool;

/// What the job board is made of. A model of threads puts its own in their place: tests/attacks/interleavings.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
}

use crate::actor::Actor;
use crate::agent_run::learner;
use crate::cpu_population::threads;
use crate::devices::{self, Chosen, Member};
use crate::error::TrainError;
use crate::plan::Plan;
use crate::population::{AgentProgress, ModelKind, Population, TICK, TrainSlice};
use crate::resolve::ResolvedRun;
use crate::store::Records;
use actor_slot::{ActorSlot, Phase};
use evaluator::Evaluator;
use group_driver::GroupDriver;
use spectral_agent::lockstep::{CpuGroup, Group};
use spectral_agent::replay::Replay;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use worker_pool::{HEAD_START, PoolConfig, with_worker_pool};

/// A population whose learners live on a device.
pub struct DevicePopulation {
    groups: Vec<Box<dyn Group>>,
    /// Per group, the actors of its agents.
    slots: Vec<Vec<Mutex<ActorSlot>>>,
    threads: usize,
    evaluator: Evaluator,
}

impl DevicePopulation {
    /// A fresh population on the chosen device.
    pub fn new(run: &ResolvedRun) -> Result<Self, TrainError> {
        let (plan, chosen) = (&run.plan, &run.device);
        let mut groups: Vec<Box<dyn Group>> = Vec::new();
        let mut slots = Vec::new();
        let sizes = group_sizes(plan);
        if sizes.iter().any(|&size| size > job_board::MAX_ITEMS) {
            return Err(TrainError::Usage(format!(
                "{} agents are too many for one device",
                plan.agents.len()
            )));
        }
        let host_resident = match chosen {
            Chosen::Cuda(gpu) => devices::need(run.parts(), gpu)?.host_resident,
            Chosen::Cpu | Chosen::CpuLockstep => vec![false; plan.agents.len()],
        };
        let mut first = 0;
        for size in sizes {
            let (agents, host_resident) = (first..first + size, &host_resident[first..first + size]);
            first += size;
            let mut actors: Vec<ActorSlot> =
                agents.map(|agent| ActorSlot::new(run, agent)).collect::<Result<_, _>>()?;
            let mut group: Box<dyn Group> = match chosen {
                Chosen::Cuda(gpu) => {
                    let members: Vec<Member<'_>> = actors.iter().map(ActorSlot::member).collect();
                    devices::open(gpu, plan.run.precision, &members, host_resident)?
                }
                Chosen::Cpu | Chosen::CpuLockstep => {
                    let learners = actors.iter().map(|slot| learner(&slot.actor));
                    Box::new(CpuGroup::new(learners.collect::<Result<_, _>>()?))
                }
            };
            for (agent, slot) in actors.iter_mut().enumerate() {
                if let Some(buffer) = group.lend(agent) {
                    slot.observe_into(buffer);
                }
            }
            groups.push(group);
            slots.push(actors.into_iter().map(Mutex::new).collect::<Vec<_>>());
        }
        let threads = threads(plan)?;
        Ok(DevicePopulation { groups, slots, threads, evaluator: Evaluator::new(threads) })
    }

    /// The group that an agent is in, and its index there.
    fn find(&self, agent: usize) -> (usize, usize) {
        let mut index = agent;
        for (group, slots) in self.slots.iter().enumerate() {
            match index.checked_sub(slots.len()) {
                None => return (group, index),
                Some(beyond) => index = beyond,
            }
        }
        panic!("there is no agent {agent}");
    }

    /// Asks for the last frozen games of agents that are at the end already, because it was moved there.
    fn evaluate_where_ended(&mut self, frames: u64) -> Result<(), TrainError> {
        for (group, slots) in self.groups.iter_mut().zip(&mut self.slots) {
            for (agent, slot) in slots.iter_mut().enumerate() {
                let slot = slot.get_mut().unwrap_or_else(|e| e.into_inner());
                if slot.actor.stopped().is_none() {
                    slot.evaluate_if_due(frames, group.as_mut(), agent)?;
                }
            }
        }
        Ok(())
    }

    /// An agent's group, its index there, and its slot.
    fn slot(&mut self, agent: usize) -> (&mut dyn Group, usize, &mut ActorSlot) {
        let (group, index) = self.find(agent);
        let slot = self.slots[group][index].get_mut().unwrap_or_else(|e| e.into_inner());
        (self.groups[group].as_mut(), index, slot)
    }
}

impl Population for DevicePopulation {
    fn len(&self) -> usize {
        self.slots.iter().map(Vec::len).sum()
    }

    fn actor(&mut self, agent: usize) -> &mut Actor {
        &mut self.slot(agent).2.actor
    }

    fn metric_columns(&mut self, agent: usize) -> Vec<String> {
        let (group, index, _) = self.slot(agent);
        group.metric_columns(index)
    }

    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, TrainError> {
        let (group, index, _) = self.slot(agent);
        Ok(group.save_model(index, kind, out)?)
    }

    fn save(&mut self, agent: usize) -> Result<Vec<u8>, TrainError> {
        let (group, index, slot) = self.slot(agent);
        slot.actor.save(|out| Ok(group.save(index, out)?))
    }

    fn restore(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError> {
        let (group, index, slot) = self.slot(agent);
        slot.actor.restore(state, |from| group.restore(index, from))
    }

    fn save_average(&mut self, agent: usize) -> Result<Option<Vec<u8>>, TrainError> {
        let (group, index, _) = self.slot(agent);
        let mut out = StateWriter::default();
        Ok(group.save_average(index, &mut out)?.then(|| out.into_bytes()))
    }

    fn restore_average(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError> {
        let (group, index, _) = self.slot(agent);
        let mut from = StateReader::new(state);
        group.restore_average(index, &mut from)?;
        from.finish()
    }

    fn forget_before(&mut self, agent: usize, first: u64) {
        let (group, index, _) = self.slot(agent);
        group.forget_before(index, first);
    }

    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError> {
        let (group, index, _) = self.slot(agent);
        group.begin_episode(index)
    }

    fn records(&mut self, agent: usize) -> Box<dyn Records + '_> {
        let (group, agent, slot) = self.slot(agent);
        let bytes_per_record = Replay::bytes_per_record(slot.actor.task());
        Box::new(DeviceRecords { group, agent, bytes_per_record })
    }

    fn train(&mut self, slice: TrainSlice<'_>) -> Result<(), TrainError> {
        self.evaluate_where_ended(slice.frames)?;
        let (slots, evaluator) = (&self.slots, &mut self.evaluator);
        evaluator.tend(slots)?;
        let work = |group: usize, phase: u8, agent: usize| {
            lock(&slots[group][agent]).work(Phase::ALL[usize::from(phase)]);
        };
        let groups = self.groups.iter_mut().zip(slots).enumerate();
        let mut drivers: Vec<GroupDriver<'_>> = groups
            .map(|(number, (group, slots))| GroupDriver::new(number, group.as_mut(), slots, slice.frames))
            .collect();
        let mut reporter = ProgressReporter::new(slots);
        let main_works = drivers.len() == 1 || self.threads < MANY_THREADS;
        let items: Vec<usize> = slots.iter().map(Vec::len).collect();
        let workers = (self.threads - 1).min(items.iter().sum::<usize>() - usize::from(main_works));
        let config = PoolConfig { workers, main_works, items: &items, head_start: HEAD_START };
        with_worker_pool(&config, &work, |pool| {
            drivers.iter_mut().for_each(|driver| driver.start(pool));
            loop {
                let now = Instant::now();
                let last = now >= slice.due || slice.interrupted();
                if drivers.iter().all(GroupDriver::is_idle) && (last || !evaluator.is_busy()) {
                    break;
                }
                if evaluator.has_done() || drivers.iter_mut().any(GroupDriver::takes_request) {
                    evaluator.tend(slots)?;
                }
                let at_work = drivers.iter().filter(|d| d.is_at_work());
                let slowest = at_work.map(GroupDriver::steps).min().unwrap_or(u64::MAX - MAX_LEAD);
                let mut advanced = false;
                for driver in &mut drivers {
                    // A group that is far ahead would only keep the others from catching up.
                    let waits = !last && driver.is_on_device() && driver.steps() > slowest + MAX_LEAD;
                    advanced |= !waits && driver.advance(pool, last)?;
                }
                if reporter.is_due(now) && reporter.collect(&drivers) {
                    slice.observer.tick(&reporter.progress);
                    reporter.restart(now);
                }
                if advanced || (main_works && pool.help()) {
                    pool.reset_idle();
                } else if !drivers.iter().any(GroupDriver::is_at_work) {
                    // Only frozen games are played; they shall have the cores.
                    std::thread::sleep(FROZEN_GAMES_TIME);
                } else {
                    pool.idle(drivers.iter().any(GroupDriver::is_on_device));
                }
            }
            // Progress that was collected earlier may not be final.
            reporter.restart(Instant::now());
            reporter.collect(&drivers);
            slice.observer.tick(&reporter.progress);
            Ok(())
        })
    }
}

/// How often to look for the end of frozen games if there is nothing else to do.
const FROZEN_GAMES_TIME: Duration = Duration::from_millis(1);
/// With fewer threads than this, the thread that serves the device steps tasks too. With more threads that would gain little,
/// and the device would wait while a long step lasts.
const MANY_THREADS: usize = 8;
/// The most steps by which a group may be ahead of another.
const MAX_LEAD: u64 = 64;
/// The default number of groups, and the default from `MANY_AGENTS` agents on. With more groups, cores and device wait less for
/// each other, but a device needs longer for several small updates than for one (benches/results/gpu-end-to-end.txt).
const GROUPS: usize = 2;
const GROUPS_OF_MANY: usize = 4;
const MANY_AGENTS: usize = 48;

/// The number of agents in each group of a population that a device trains. Sizes differ by one at most, and no group is empty.
///
/// ```
/// use spectral_train::{config::Configuration, pipeline::group_sizes, registry::Registry};
/// let mut config = Configuration::default();
/// config.set("task=pong-mini")?;
/// config.set("seeds=5")?;
/// assert_eq!(group_sizes(&Registry::default().plan(&config)?), [3, 2]);
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
pub fn group_sizes(plan: &Plan) -> Vec<usize> {
    let agents = plan.agents.len();
    let groups = match plan.run.groups {
        0 if agents < MANY_AGENTS => GROUPS,
        0 => GROUPS_OF_MANY,
        groups => groups,
    };
    let groups = groups.clamp(1, agents.max(1));
    (0..groups).map(|group| agents / groups + usize::from(group < agents % groups)).collect()
}

/// Collects progress for the observer. It asks a group only between two steps, so that it never waits for a thread in the
/// middle of one.
struct ProgressReporter {
    progress: Vec<AgentProgress>,
    /// Per group, the range of its agents in `progress`.
    ranges: Vec<Range<usize>>,
    /// Groups whose progress was collected since the last report.
    collected: Vec<bool>,
    reported: Instant,
}

impl ProgressReporter {
    fn new(slots: &[Vec<Mutex<ActorSlot>>]) -> Self {
        let mut end = 0;
        let range = |slots: &Vec<Mutex<ActorSlot>>| {
            end += slots.len();
            end - slots.len()..end
        };
        ProgressReporter {
            progress: slots.iter().flatten().map(|slot| AgentProgress::of(&lock(slot).actor)).collect(),
            ranges: slots.iter().map(range).collect(),
            collected: vec![false; slots.len()],
            reported: Instant::now(),
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        now.duration_since(self.reported) >= TICK
    }

    /// Collects the progress of groups that are not stepping tasks. Returns true once it has that of all groups.
    fn collect(&mut self, drivers: &[GroupDriver<'_>]) -> bool {
        for ((driver, collected), range) in drivers.iter().zip(&mut self.collected).zip(&self.ranges) {
            if !*collected && !driver.is_stepping() {
                driver.progress(&mut self.progress[range.clone()]);
                *collected = true;
            }
        }
        self.collected.iter().all(|&collected| collected)
    }

    /// Starts collecting anew after a report.
    fn restart(&mut self, now: Instant) {
        self.reported = now;
        self.collected.fill(false);
    }
}

/// Locks a slot even if a holder of the lock panicked: the panic itself is reported when the scope ends.
fn lock(slot: &Mutex<ActorSlot>) -> MutexGuard<'_, ActorSlot> {
    slot.lock().unwrap_or_else(|e| e.into_inner())
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
