//! A population that trains on the cores of a CPU.
//!
//! Agents share nothing, so no thread waits for another: each takes the agent that is furthest behind, trains it for a
//! fraction of a second and puts it back. The order in which agents train never changes a result, because the random numbers
//! of each agent depend only on its own seed and step.

use crate::actor::Actor;
use crate::agent_run::AgentRun;
use crate::error::TrainError;
use crate::lockstep;
use crate::plan::Plan;
use crate::population::{AgentProgress, ModelKind, Population, TICK, TrainSlice};
use crate::resolve::ResolvedRun;
use crate::store::Records;
use rayon::{ThreadPool, ThreadPoolBuilder};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::StepTogether;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a thread trains one agent before it takes another.
const AGENT_TIME: Duration = Duration::from_millis(50);
/// The shortest wait between two ticks. Ticks become this short between the moment when a checkpoint is due and the moment when
/// all threads have stopped for it.
const MIN_TICK: Duration = Duration::from_millis(2);
/// More threads than any machine offers.
const MAX_THREADS: usize = 4096;

/// Agents that train independently on the threads of a CPU.
pub struct CpuPopulation {
    agents: Vec<AgentRun>,
    /// One thread pool per worker. Its threads share the large matrix products of the worker's current agent.
    pools: Vec<ThreadPool>,
    steps: Steps,
}

/// How agents take their steps.
enum Steps {
    /// Each for itself.
    Alone,
    /// All at once; what steps their tasks by one call, if anything does.
    Together(Option<Box<dyn StepTogether>>),
}

impl CpuPopulation {
    /// A fresh population.
    pub fn new(run: &ResolvedRun) -> Result<Self, TrainError> {
        let count = run.plan.agents.len();
        let Some(group) = run.make_group()? else {
            let agents = (0..count).map(|agent| AgentRun::new(run, agent)).collect::<Result<_, _>>()?;
            let (pools, steps) = match run.step_together {
                false => (pools(&run.plan, count)?, Steps::Alone),
                true => (pools(&run.plan, 1)?, Steps::Together(None)),
            };
            return Ok(CpuPopulation { agents, pools, steps });
        };
        let agents = group.tasks.into_iter().enumerate().map(|(agent, task)| AgentRun::on(run, agent, task));
        let agents = agents.collect::<Result<_, _>>()?;
        Ok(CpuPopulation { agents, pools: pools(&run.plan, 1)?, steps: Steps::Together(Some(group.stepper)) })
    }
}

impl Population for CpuPopulation {
    fn len(&self) -> usize {
        self.agents.len()
    }

    fn actor(&mut self, agent: usize) -> &mut Actor {
        &mut self.agents[agent].actor
    }

    fn metric_columns(&mut self, agent: usize) -> Vec<String> {
        self.agents[agent].learner.metric_columns()
    }

    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, TrainError> {
        Ok(self.agents[agent].learner.save_model_of(kind, out))
    }

    fn save(&mut self, agent: usize) -> Result<Vec<u8>, TrainError> {
        let AgentRun { actor, learner, .. } = &mut self.agents[agent];
        actor.save(|out| {
            learner.save(out);
            Ok(())
        })
    }

    fn restore(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError> {
        let AgentRun { actor, learner, .. } = &mut self.agents[agent];
        actor.restore(state, |from| learner.restore(from))
    }

    fn save_average(&mut self, agent: usize) -> Result<Option<Vec<u8>>, TrainError> {
        let mut out = StateWriter::default();
        Ok(self.agents[agent].learner.save_average(&mut out).then(|| out.into_bytes()))
    }

    fn restore_average(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError> {
        let mut from = StateReader::new(state);
        self.agents[agent].learner.restore_average(&mut from)?;
        from.finish()
    }

    fn forget_before(&mut self, agent: usize, first: u64) {
        self.agents[agent].learner.forget_before(first);
    }

    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError> {
        self.agents[agent].learner.replay_mut().begin_episode();
        Ok(())
    }

    fn records(&mut self, agent: usize) -> Box<dyn Records + '_> {
        Box::new(self.agents[agent].learner.replay_mut())
    }

    fn train(&mut self, slice: TrainSlice<'_>) -> Result<(), TrainError> {
        // The end may have been moved to where an agent is already.
        let ended = self.agents.iter_mut().filter(|agent| agent.actor.stopped().is_none());
        ended.for_each(|agent| agent.evaluate_if_due(slice.frames));
        if let Steps::Together(stepper) = &mut self.steps {
            return lockstep::train(&mut self.agents, stepper.as_deref_mut(), &self.pools[0], slice);
        }
        let TrainSlice { frames, due, observer, .. } = slice;
        let progress =
            Mutex::new(self.agents.iter().map(|a| AgentProgress::of(&a.actor)).collect::<Vec<_>>());
        let active = self.agents.iter_mut().enumerate().filter(|(_, a)| a.actor.has_work(frames));
        let queue: Mutex<Vec<(usize, &mut AgentRun)>> = Mutex::new(active.collect());
        let failure: Mutex<Option<TrainError>> = Mutex::new(None);
        let (running, ended) = (Mutex::new(self.pools.len()), Condvar::new());
        let stop = AtomicBool::new(false);
        let halt = || stop.load(Ordering::Relaxed) || slice.interrupted();
        let worker = || {
            let _ended = EndOnDrop { running: &running, ended: &ended, stop: &stop };
            while !halt() {
                let Some((index, agent)) = take_furthest_behind(&queue) else { break };
                let until = Instant::now() + AGENT_TIME;
                let mut count = 0u32;
                let result = agent.advance(frames, || {
                    count += 1;
                    // Reading the clock at every step would cost as much as a built-in task's step.
                    count.is_multiple_of(16) && (Instant::now() >= until || halt())
                });
                agent.give_model();
                lock(&progress)[index] = AgentProgress::of(&agent.actor);
                if let Err(error) = result {
                    lock(&failure).get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                } else if agent.actor.has_work(frames) {
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
                let tick = TICK.min(due.saturating_duration_since(Instant::now())).max(MIN_TICK);
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
}

fn take_furthest_behind<'a>(
    queue: &Mutex<Vec<(usize, &'a mut AgentRun)>>,
) -> Option<(usize, &'a mut AgentRun)> {
    let mut queue = lock(queue);
    let furthest = (0..queue.len()).min_by_key(|&i| (queue[i].1.actor.frames(), queue[i].0))?;
    Some(queue.swap_remove(furthest))
}

/// Counts a worker as ended even if it panicked; otherwise the main thread would wait forever.
struct EndOnDrop<'a> {
    running: &'a Mutex<usize>,
    ended: &'a Condvar,
    stop: &'a AtomicBool,
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop.store(true, Ordering::Relaxed);
        }
        *lock(self.running) -= 1;
        self.ended.notify_all();
    }
}

/// Locks even if a holder of the lock panicked: the panic itself is reported when the scope ends.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The number of threads that a plan asks for.
pub(crate) fn threads(plan: &Plan) -> Result<usize, TrainError> {
    match plan.run.threads {
        0 => Ok(std::thread::available_parallelism().map_or(1, |n| n.get())),
        n if n <= MAX_THREADS => Ok(n),
        n => Err(TrainError::Usage(format!("{n} threads are too many: 1 to {MAX_THREADS}, or 0 for all"))),
    }
}

/// One pool per worker, with at most `workers` workers and no more than there are threads for. Spare threads share each agent's
/// large matrix products.
fn pools(plan: &Plan, workers: usize) -> Result<Vec<ThreadPool>, TrainError> {
    let threads = threads(plan)?;
    let workers = threads.min(workers).max(1);
    let pool = || ThreadPoolBuilder::new().num_threads((threads / workers).max(1)).build();
    let failed = |e| TrainError::Usage(format!("the system gives no {threads} threads: {e}"));
    (0..workers).map(|_| pool().map_err(failed)).collect()
}
