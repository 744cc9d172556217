//! Plays frozen games on threads of their own while a device trains.
//!
//! The threads have the lowest priority, so that they take the time that stepping tasks leaves. They keep nothing that counts:
//! what is still to be played belongs to the actors, and is in their checkpoints.

use super::actor_slot::ActorSlot;
use super::lock;
use crate::error::TrainError;
use crate::frozen_games::{FrozenGames, Request, Row};
use crate::machine::give_way;
use crate::resolve::ResolvedRun;
use rayon::ThreadPoolBuilder;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// One request, and where its rows belong.
struct Job {
    agent: usize,
    run: Arc<ResolvedRun>,
    request: Arc<Request>,
}

/// What came of a job.
type Done = (usize, Result<Vec<Row>, TrainError>);

/// What the threads share.
#[derive(Default)]
struct Shared {
    jobs: Mutex<VecDeque<Job>>,
    wake: Condvar,
    done: Mutex<Vec<Done>>,
    has_done: AtomicBool,
    closing: AtomicBool,
}

/// Threads that play frozen games, and which agents' games they have.
pub(super) struct Evaluator {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The most threads.
    limit: usize,
    /// Agents whose games are being played, or wait for a thread.
    playing: Vec<usize>,
}

impl Evaluator {
    /// Beside so many threads that step tasks. Its own are started when they are needed.
    pub(super) fn new(workers: usize) -> Self {
        let machine = std::thread::available_parallelism().map_or(1, |n| n.get());
        let limit = most_threads(workers, machine);
        Evaluator { shared: Arc::default(), threads: Vec::new(), limit, playing: Vec::new() }
    }

    /// Whether games are being played.
    pub(super) fn is_busy(&self) -> bool {
        !self.playing.is_empty()
    }

    /// Whether games are over that nobody has written down.
    pub(super) fn has_done(&self) -> bool {
        self.shared.has_done.load(Ordering::Acquire)
    }

    /// Writes down how games went, and begins with those that are still to be played: of each agent one evaluation at a time,
    /// in order.
    pub(super) fn tend(&mut self, slots: &[Vec<Mutex<ActorSlot>>]) -> Result<(), TrainError> {
        self.shared.has_done.store(false, Ordering::Release);
        let agents: Vec<&Mutex<ActorSlot>> = slots.iter().flatten().collect();
        let done = std::mem::take(&mut *hold(&self.shared.done));
        for (agent, rows) in done {
            self.playing.retain(|&playing| playing != agent);
            lock(agents[agent]).actor.evaluated(&rows?)?;
        }
        for (agent, slot) in agents.iter().enumerate() {
            if self.playing.contains(&agent) {
                continue;
            }
            let Some((run, request)) = lock(slot).actor.first_evaluation() else { continue };
            self.playing.push(agent);
            hold(&self.shared.jobs).push_back(Job { agent, run, request });
            self.shared.wake.notify_one();
            if self.threads.len() < self.limit.min(self.playing.len()) {
                self.start_thread()?;
            }
        }
        Ok(())
    }

    fn start_thread(&mut self) -> Result<(), TrainError> {
        let failed = |e: &dyn std::fmt::Display| {
            TrainError::Usage(format!("the system gives no thread for frozen games: {e}"))
        };
        // A pool of one thread, so that large products are not shared with threads of another priority.
        let pool = ThreadPoolBuilder::new().num_threads(1).start_handler(|_| give_way()).build();
        let pool = pool.map_err(|e| failed(&e))?;
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("frozen games".into());
        let thread = thread.spawn(move || pool.install(|| shared.work())).map_err(|e| failed(&e))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Evaluator {
    /// Ends games between two steps; their requests are the actors'.
    fn drop(&mut self) {
        {
            let _jobs = hold(&self.shared.jobs);
            self.shared.closing.store(true, Ordering::Release);
        }
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// A thread's main loop.
    fn work(&self) {
        while let Some(Job { agent, run, request }) = self.next_job() {
            let play = || FrozenGames::new(run, request)?.advance_to_end(&mut || self.is_closing());
            let rows = match catch_unwind(AssertUnwindSafe(play)) {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(rows))) => Ok(rows),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(TrainError::Task("a thread that plays frozen games panicked".into())),
            };
            hold(&self.done).push((agent, rows));
            self.has_done.store(true, Ordering::Release);
        }
    }

    /// Waits for a job; none if the threads are to end.
    fn next_job(&self) -> Option<Job> {
        let mut jobs = hold(&self.jobs);
        loop {
            if self.is_closing() {
                return None;
            }
            match jobs.pop_front() {
                Some(job) => return Some(job),
                None => jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// The most threads for frozen games. Priority decides who gets a hyperthread, not who gets the core: a thread slows the worker
/// on its core's other hyperthread however nice it is, so most cores are left to the workers.
fn most_threads(workers: usize, machine: usize) -> usize {
    workers.min(machine / 4).max(1)
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::most_threads;

    #[test]
    fn most_of_the_machine_is_left_to_the_workers() {
        assert_eq!([1, 2, 4, 16, 128].map(|machine| most_threads(machine, machine)), [1, 1, 1, 4, 32]);
        assert_eq!((most_threads(2, 16), most_threads(16, 2)), (2, 1));
    }
}
