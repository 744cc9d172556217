//! Threads that share small jobs with little delay.
//!
//! A job is a count of items, each a few microseconds to a millisecond long, and comes again every few hundred microseconds:
//! too often for threads that sleep in between, so they watch for a while before they do. Several jobs may be at hand at
//! once, each on a slot of its own; threads prefer the items that they own (see [`board`](super::job_board)), and of those
//! the ones that were posted first.

use super::core_pinning::{CorePinning, PinnedThread};
use super::job_board::{JobBoard, WorkItem, WorkerCursor};
use crate::machine::{tie_to_core, usable_cores};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long a item waits for its owner alone: several times what an owner that watches needs to begin, and little beside a
/// step of a game.
pub(super) const HEAD_START: Duration = Duration::from_micros(10);
/// Machines with fewer cores than this need them for whatever else goes on.
const MANY_CORES: usize = 4;

/// How long a thread watches for work before it sleeps.
#[derive(Clone, Copy)]
struct Patience {
    limit: Duration,
    /// Gives the core away between two looks.
    yields: bool,
}

/// What the threads share.
struct Shared {
    board: JobBoard,
    closing: AtomicBool,
    panicked: AtomicBool,
    sleeping: Vec<AtomicBool>,
    /// The one who posts jobs sleeps until the last item of one is done.
    main_thread: Thread,
    main_sleeps: AtomicBool,
    patience: Patience,
}

/// What is to be done with one item of a job: the number of the slot, the task, the number of the item.
type Work<'a> = &'a (dyn Fn(usize, u8, usize) + Sync);

/// Who works, and on how much.
pub(super) struct PoolConfig<'a> {
    /// Threads beside the calling one.
    pub(super) workers: usize,
    /// The calling one has its share of the items too.
    pub(super) main_works: bool,
    /// Per slot, the most items of a job.
    pub(super) items: &'a [usize],
    /// How long a item waits for its owner alone.
    pub(super) head_start: Duration,
}

/// The threads at work, as the one who posts jobs sees them.
pub(super) struct WorkerPool<'a> {
    shared: &'a Shared,
    workers: Vec<Thread>,
    work: Work<'a>,
    cursor: WorkerCursor<'a>,
    /// The number of the last job.
    job: u64,
    /// Per slot, the items of the job that was posted and not yet found done.
    posted: Vec<Option<usize>>,
    /// Since when there has been nothing to do but to look.
    idle_since: Option<Instant>,
}

/// Runs `lead` with threads beside the calling one; jobs that it posts on one of the slots are done by
/// `work(slot, task, item)`.
pub(super) fn with_worker_pool<T>(
    config: &PoolConfig<'_>,
    work: Work<'_>,
    lead: impl FnOnce(&mut WorkerPool<'_>) -> T,
) -> T {
    let &PoolConfig { workers, main_works, items, head_start } = config;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let many = cores >= MANY_CORES && workers < cores;
    let limit = Duration::from_micros(if many { 2000 } else { 100 });
    let shared = Shared {
        board: JobBoard::new(items, workers + usize::from(main_works), head_start),
        closing: AtomicBool::new(false),
        panicked: AtomicBool::new(false),
        sleeping: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        main_thread: std::thread::current(),
        main_sleeps: AtomicBool::new(false),
        patience: Patience { limit, yields: !many },
    };
    // The first core stays with the caller.
    let cores = if many { usable_cores() } else { Vec::new() };
    let places = CorePinning::new(cores.get(1..).unwrap_or_default());
    std::thread::scope(|scope| {
        let (shared, places) = (&shared, &places);
        let spawn = |number: usize| {
            let thread = scope.spawn(move || shared.serve(number, work, places.seat(number, tie_to_core)));
            thread.thread().clone()
        };
        // Also if `lead` panics, or a thread cannot be had: the scope waits for those that there are.
        let mut close = Close { shared, workers: Vec::with_capacity(workers) };
        for number in 0..workers {
            close.workers.push(spawn(number));
        }
        let threads = close.workers.clone();
        lead(&mut WorkerPool {
            shared,
            workers: threads,
            work,
            cursor: WorkerCursor::new(&shared.board, workers),
            job: 0,
            posted: vec![None; items.len()],
            idle_since: None,
        })
    })
}

impl WorkerPool<'_> {
    /// Has `work(slot, task, item)` done for every item below `count`, and returns at once. The slot's last job must have
    /// been found done.
    pub(super) fn post(&mut self, slot: usize, task: u8, count: usize) {
        assert!(self.posted[slot].is_none(), "a job is on this slot already");
        self.posted[slot] = Some(count);
        self.job += 1;
        self.shared.board.post(slot, self.job, task, count);
        // Owners first; then, as some may be busy, others until there is one for every item.
        let owners =
            (0..count.min(self.shared.board.owners())).map(|item| self.shared.board.owner(slot, item));
        let mut calls = count;
        for worker in owners.chain(0..self.workers.len()) {
            if calls == 0 {
                break;
            }
            calls -= usize::from(self.call(worker));
        }
    }

    /// Wakes a worker; false if it is awake, or was called already for another job and counts for that one.
    fn call(&self, worker: usize) -> bool {
        let Some(sleeping) = self.shared.sleeping.get(worker) else { return false };
        let sleeps = sleeping.load(SeqCst) && sleeping.swap(false, SeqCst);
        if sleeps {
            self.workers[worker].unpark();
        }
        sleeps
    }

    /// Whether every item of the slot's job is done; the slot is free then.
    pub(super) fn is_done(&mut self, slot: usize) -> bool {
        assert!(!self.shared.panicked.load(SeqCst), "a thread that steps tasks panicked");
        let done = self.finished(slot);
        if done {
            self.posted[slot] = None;
        }
        done
    }

    fn finished(&self, slot: usize) -> bool {
        self.posted[slot].is_some_and(|count| self.shared.board.done(slot) >= count)
    }

    /// Does one item: one of the main_thread's own, or one that nobody took for a while. False if there is none.
    pub(super) fn help(&mut self) -> bool {
        self.shared.take_part(&mut self.cursor, self.work).is_some()
    }

    /// Says that there was something to do.
    pub(super) fn is_busy(&mut self) {
        self.idle_since = None;
    }

    /// Passes a moment in which there is nothing to do. After a while it sleeps until a job is done, unless something
    /// else must be looked at meanwhile.
    pub(super) fn rest(&mut self, watches: bool) {
        let shared = self.shared;
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if watches || since.elapsed() < shared.patience.limit {
            return shared.patience.pass();
        }
        // Said before the last look, so that a job which is done after it is followed by a call.
        shared.main_sleeps.store(true, SeqCst);
        let waits = self.posted.iter().any(Option::is_some) && !shared.panicked.load(SeqCst);
        if waits && !(0..self.posted.len()).any(|slot| self.finished(slot)) {
            std::thread::park();
        }
        shared.main_sleeps.store(false, SeqCst);
    }
}

impl Shared {
    /// Takes a item and does it, and says how long that took; `None` if there is none for this cursor.
    fn take_part(&self, cursor: &mut WorkerCursor<'_>, work: Work<'_>) -> Option<Duration> {
        let item = cursor.take()?;
        let begun = Instant::now();
        let _done = Done { shared: self, item };
        work(item.slot, item.task, item.item);
        Some(begun.elapsed())
    }

    /// A worker's life.
    fn serve(&self, number: usize, work: Work<'_>, mut seat: PinnedThread<'_>) {
        let mut cursor = WorkerCursor::new(&self.board, number);
        let mut idle = Idle::default();
        while !self.closing.load(SeqCst) {
            if let Some(took) = self.take_part(&mut cursor, work) {
                seat.worked(took.as_nanos() as u64);
                idle = Idle::default();
            } else if idle.is_over(self.patience.limit) {
                self.sleep(number, &cursor);
                idle = Idle::default();
            } else {
                self.patience.pass();
            }
        }
    }

    /// Sleeps until somebody calls, unless there is something to do after all.
    fn sleep(&self, number: usize, cursor: &WorkerCursor<'_>) {
        // Said before the last look, so that a job posted after it is followed by a call.
        self.sleeping[number].store(true, SeqCst);
        if !cursor.sees_work() && !self.closing.load(SeqCst) {
            std::thread::park();
        }
        self.sleeping[number].store(false, SeqCst);
    }
}

impl Patience {
    /// The time between two looks.
    fn pass(self) {
        if self.yields {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// How long a worker has found nothing. The clock is read at some looks only.
#[derive(Default)]
struct Idle {
    looks: u32,
    since: Option<Instant>,
}

impl Idle {
    fn is_over(&mut self, limit: Duration) -> bool {
        self.looks += 1;
        self.looks.is_multiple_of(32) && self.since.get_or_insert_with(Instant::now).elapsed() >= limit
    }
}

/// Counts a item as done, even if it panicked: else the others would be waited for without end.
struct Done<'a> {
    shared: &'a Shared,
    item: WorkItem,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        if panicked {
            self.shared.panicked.store(true, SeqCst);
        }
        let last = self.shared.board.finish(&self.item);
        if (last || panicked) && self.shared.main_sleeps.load(SeqCst) {
            self.shared.main_thread.unpark();
        }
    }
}

/// Sends the workers home.
struct Close<'a> {
    shared: &'a Shared,
    workers: Vec<Thread>,
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        self.workers.iter().for_each(Thread::unpark);
    }
}
