//! A population at work on the cores of a CPU.
//!
//! Agents share nothing, so nothing has to wait: each thread takes the agent that is furthest behind, trains it for a
//! fraction of a second and puts it back. Who trains when never changes a result, because every agent's randomness is keyed
//! by its own seed and step.

use crate::agent_run::AgentRun;
use crate::checkpoint::{Checkpoints, Cost};
use crate::error::TrainError;
use crate::machine::{available_memory, human_bytes};
use crate::plan::{AgentPlan, MOST_FRAMES, Plan};
use crate::run_dir::{AgentState, RunDir, Status};
use crate::store::{StoreError, write_atomically};
use crate::workshop::Workshop;
use rayon::{ThreadPool, ThreadPoolBuilder};
use spectral_agent::learner::memory_bytes;
use spectral_core::bytes::StateWriter;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a thread stays with one agent.
const SLICE: Duration = Duration::from_millis(50);
/// How often the observer is told.
const TICK: Duration = Duration::from_millis(100);
/// Between the moment when a checkpoint is due and the moment when all threads have stopped for it.
const SHORTEST_TICK: Duration = Duration::from_millis(2);
/// Beyond this, bytes could no longer be counted.
const MOST_TRANSITIONS: usize = 1_000_000_000_000_000;
/// More threads than any machine has for this.
const MOST_THREADS: usize = 4096;

/// Where one agent stands, for people who watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentProgress {
    /// Frames seen.
    pub frames: u64,
    /// Mean score of about the last twenty episodes.
    pub score: Option<f64>,
    /// Why it was stopped.
    pub stopped: Option<String>,
    /// Rewards beyond the codec's capacity.
    pub saturated: u64,
}

/// Told how the work goes.
pub trait Observer: Sync {
    /// Called about ten times a second, with one entry per agent in the plan's order.
    fn tick(&self, _progress: &[AgentProgress]) {}
    /// Called after each checkpoint.
    fn checkpoint(&self, _cost: Cost) {}
}

/// Watches nothing.
impl Observer for () {}

/// How a sitting ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// At the planned end, or interrupted before.
    pub status: Status,
    /// Wall-clock seconds of training, earlier sittings included.
    pub seconds: f64,
    /// One entry per agent.
    pub agents: Vec<AgentProgress>,
}

/// Memory that a plan needs and the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that the population needs.
    pub needed: u64,
    /// Bytes that the machine can give, if it says so.
    pub available: Option<u64>,
}

impl Memory {
    /// What this plan needs.
    pub fn of(plan: &Plan, workshop: &Workshop) -> Result<Self, TrainError> {
        let task = workshop.task(plan)?;
        let mut needed = 0;
        for agent in &plan.agents {
            let replay = agent.settings.replay;
            if replay > MOST_TRANSITIONS {
                return Err(TrainError::Usage(format!(
                    "a replay of {replay} transitions is more than any memory holds: use a smaller one (--set replay=…)"
                )));
            }
            needed += memory_bytes(&agent.settings, task.spec(), workshop.codec(agent)?.as_ref())?;
        }
        Ok(Memory { needed, available: available_memory() })
    }

    /// Refuses what does not fit.
    pub fn check(&self) -> Result<(), TrainError> {
        match self.available {
            Some(available) if self.needed > available => Err(TrainError::Usage(format!(
                "this run needs {} of memory and {} is available: use fewer agents or seeds, or a smaller replay \
                 (--set replay=…)",
                human_bytes(self.needed),
                human_bytes(available)
            ))),
            _ => Ok(()),
        }
    }
}

/// A run: its directory, its plan, its population.
pub struct Trainer {
    dir: RunDir,
    plan: Plan,
    agents: Vec<AgentRun>,
    checkpoints: Checkpoints,
    /// One pool per worker; its threads share the large matrix products of the agent at hand.
    pools: Vec<ThreadPool>,
    seconds_before: f64,
    /// Keeps other processes out of the folder.
    _lock: File,
}

impl Trainer {
    /// Starts a new run in a new folder.
    pub fn create(path: &Path, plan: Plan, workshop: &Workshop, command: &str) -> Result<Self, TrainError> {
        Memory::of(&plan, workshop)?.check()?;
        let pools = pools(&plan)?;
        let dir = RunDir::create(path, &plan, command)?;
        let lock = dir.lock()?;
        Self::fresh(dir, plan, workshop, pools, lock)
    }

    /// Goes on with a run from its newest checkpoint, or from a chosen one.
    pub fn resume(
        path: &Path,
        workshop: &Workshop,
        frames: Option<u64>,
        threads: usize,
        chosen: Option<&Path>,
    ) -> Result<Self, TrainError> {
        let (dir, mut plan) = RunDir::open(path)?;
        plan.threads = threads;
        if let Some(frames) = frames.filter(|&f| f < plan.frames || f > MOST_FRAMES) {
            return Err(TrainError::Usage(format!(
                "--frames {frames}: the run is planned for {} frames already; give more, up to {MOST_FRAMES}",
                plan.frames
            )));
        }
        let lock = dir.lock()?;
        Memory::of(&plan, workshop)?.check()?;
        let pools = pools(&plan)?;
        let loaded = Checkpoints::load(&dir, &plan, workshop, chosen)?;
        if loaded.is_none() && dir.has_progress() {
            return Err(TrainError::Data(format!(
                "{} holds no checkpoint, though the run had come further than its start; put them back to resume it, or \
                 train anew with another --out (nothing was changed)",
                dir.checkpoints().display()
            )));
        }
        if let Some(frames) = frames {
            dir.extend(&mut plan, frames)?;
        }
        let Some((checkpoints, agents)) = loaded else {
            return Self::fresh(dir, plan, workshop, pools, lock);
        };
        let seconds_before = dir.seconds();
        Ok(Trainer { dir, plan, agents, checkpoints, pools, seconds_before, _lock: lock })
    }

    fn fresh(
        dir: RunDir,
        plan: Plan,
        workshop: &Workshop,
        pools: Vec<ThreadPool>,
        lock: File,
    ) -> Result<Self, TrainError> {
        let make = |agent: &AgentPlan| AgentRun::create(&plan, agent, workshop, &dir.agent(&agent.id));
        let agents = plan.agents.iter().map(make).collect::<Result<_, _>>()?;
        let checkpoints = Checkpoints::new(&dir, &plan);
        Ok(Trainer { dir, plan, agents, checkpoints, pools, seconds_before: 0.0, _lock: lock })
    }

    /// The run's plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The run's folder.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Trains to the planned end, or until `interrupt` is set; either way the last thing done is a checkpoint.
    pub fn run(&mut self, observer: &dyn Observer, interrupt: &AtomicBool) -> Result<Outcome, TrainError> {
        let start = Instant::now();
        self.write_state(Status::Running, self.seconds_before)?;
        loop {
            let due = Instant::now() + Duration::from_secs_f64(self.plan.checkpoint_seconds);
            self.sitting(observer, interrupt, due)?;
            let mut agents: Vec<&mut AgentRun> = self.agents.iter_mut().collect();
            let cost = self.checkpoints.write(&mut agents)?;
            observer.checkpoint(cost);
            let seconds = self.seconds_before + start.elapsed().as_secs_f64();
            let done = self.agents.iter().all(|a| a.stopped().is_some() || a.frames() >= self.plan.frames);
            let status = match (done, interrupt.load(Ordering::Relaxed)) {
                (true, _) => Status::Finished,
                (false, true) => Status::Interrupted,
                (false, false) => Status::Running,
            };
            if status == Status::Finished {
                self.write_models()?;
            }
            self.write_state(status, seconds)?;
            if status != Status::Running {
                let agents = self.agents.iter().map(progress_of).collect();
                return Ok(Outcome { status, seconds, agents });
            }
        }
    }

    /// Trains until the checkpoint is due, everything is done, or the user interrupts.
    fn sitting(
        &mut self,
        observer: &dyn Observer,
        interrupt: &AtomicBool,
        due: Instant,
    ) -> Result<(), TrainError> {
        let frames = self.plan.frames;
        let progress = Mutex::new(self.agents.iter().map(progress_of).collect::<Vec<_>>());
        let queue: Mutex<Vec<(usize, &mut AgentRun)>> = Mutex::new(
            self.agents
                .iter_mut()
                .enumerate()
                .filter(|(_, a)| a.stopped().is_none() && a.frames() < frames)
                .collect(),
        );
        let failure: Mutex<Option<TrainError>> = Mutex::new(None);
        let (running, ended) = (Mutex::new(self.pools.len()), Condvar::new());
        let stop = AtomicBool::new(false);
        let halt = || stop.load(Ordering::Relaxed) || interrupt.load(Ordering::Relaxed);
        let worker = || {
            let _ended = Ended { running: &running, ended: &ended, stop: &stop };
            while !halt() {
                let Some((index, agent)) = take_furthest_behind(&queue) else { break };
                let slice = Instant::now() + SLICE;
                let mut count = 0u32;
                let result = agent.advance(frames, || {
                    count += 1;
                    // Reading the clock at every step would cost as much as a built-in task's step.
                    count.is_multiple_of(16) && (Instant::now() >= slice || halt())
                });
                lock(&progress)[index] = progress_of(agent);
                if let Err(error) = result {
                    lock(&failure).get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                } else if agent.stopped().is_none() && agent.frames() < frames {
                    lock(&queue).push((index, agent));
                }
            }
        };
        std::thread::scope(|scope| {
            for pool in &self.pools {
                scope.spawn(|| pool.install(worker));
            }
            let mut left = lock(&running);
            while *left > 0 {
                let tick = TICK.min(due.saturating_duration_since(Instant::now())).max(SHORTEST_TICK);
                left = ended.wait_timeout(left, tick).unwrap_or_else(|e| e.into_inner()).0;
                drop(left);
                observer.tick(&lock(&progress));
                if Instant::now() >= due {
                    stop.store(true, Ordering::Relaxed);
                }
                left = lock(&running);
            }
        });
        failure.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
    }

    fn write_state(&self, status: Status, seconds: f64) -> Result<(), TrainError> {
        let state = |a: &AgentRun| AgentState {
            id: a.id().into(),
            frames: a.frames(),
            finished: a.frames() >= self.plan.frames,
            stopped: a.stopped().map(String::from),
        };
        let agents: Vec<AgentState> = self.agents.iter().map(state).collect();
        self.dir.write_state(status, seconds, &agents)
    }

    fn write_models(&self) -> Result<(), StoreError> {
        for agent in &self.agents {
            let mut model = StateWriter::default();
            agent.learner().save_model(&mut model);
            let path = self.dir.agent(agent.id()).join("model.bin");
            write_atomically(&path, |out| {
                let mut container = crate::store::ContainerWriter::new(out)?;
                container.section("model", &model.into_bytes())?;
                container.finish()
            })?;
        }
        Ok(())
    }
}

fn progress_of(agent: &AgentRun) -> AgentProgress {
    AgentProgress {
        frames: agent.frames(),
        score: agent.recent_score(),
        stopped: agent.stopped().map(String::from),
        saturated: agent.saturated(),
    }
}

fn take_furthest_behind<'a>(
    queue: &Mutex<Vec<(usize, &'a mut AgentRun)>>,
) -> Option<(usize, &'a mut AgentRun)> {
    let mut queue = lock(queue);
    let furthest = (0..queue.len()).min_by_key(|&i| (queue[i].1.frames(), queue[i].0))?;
    Some(queue.swap_remove(furthest))
}

/// Says that a worker has ended, even if it panicked: else the others would be waited for without end.
struct Ended<'a> {
    running: &'a Mutex<usize>,
    ended: &'a Condvar,
    stop: &'a AtomicBool,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop.store(true, Ordering::Relaxed);
        }
        *lock(self.running) -= 1;
        self.ended.notify_all();
    }
}

/// A lock whose holder panicked is still a lock: the panic itself is reported when the scope ends.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// As many workers as there are agents and threads for; threads left over serve each agent's large matrix products.
fn pools(plan: &Plan) -> Result<Vec<ThreadPool>, TrainError> {
    let threads = match plan.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        n if n <= MOST_THREADS => n,
        n => {
            return Err(TrainError::Usage(format!(
                "{n} threads are too many: 1 to {MOST_THREADS}, or 0 for all"
            )));
        }
    };
    let workers = threads.min(plan.agents.len()).max(1);
    let pool = || ThreadPoolBuilder::new().num_threads((threads / workers).max(1)).build();
    let refused = |e| TrainError::Usage(format!("the system gives no {threads} threads: {e}"));
    (0..workers).map(|_| pool().map_err(refused)).collect()
}
