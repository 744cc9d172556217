//! A pool of threads that share small jobs with low latency.
//!
//! A job is a number of items, each of which takes a few microseconds to a millisecond, and a new job arrives every few
//! hundred microseconds. That is too often for threads that sleep in between, so workers poll for a while before they sleep.
//! Several jobs may be in progress at once, each in a slot of its own. Workers prefer the items that they own (see
//! [`job_board`](super::job_board)), and of those the ones that were posted first.

use super::job_board::{JobBoard, WorkItem, WorkerCursor};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long only its owner may claim an item: several times what a polling owner needs to start, and short compared with a
/// step of a game.
pub(super) const HEAD_START: Duration = Duration::from_micros(10);
/// On machines with fewer cores than this, polling threads yield: other processes need the cores too.
const MANY_CORES: usize = 4;

/// How a thread polls for work before it sleeps.
#[derive(Clone, Copy)]
struct PollPolicy {
    /// How long it polls.
    limit: Duration,
    /// Whether it yields its core between two polls.
    yields: bool,
}

/// The state that all threads share.
struct Shared {
    board: JobBoard,
    closing: AtomicBool,
    panicked: AtomicBool,
    sleeping: Vec<AtomicBool>,
    /// The thread that posts jobs. It sleeps until the last item of one is finished.
    main_thread: Thread,
    main_sleeps: AtomicBool,
    polling: PollPolicy,
}

/// Processes one item of a job, given the job's slot, its phase and the item's index.
type Work<'a> = &'a (dyn Fn(usize, u8, usize) + Sync);

/// The size of a pool and of its jobs.
pub(super) struct PoolConfig<'a> {
    /// Threads in addition to the calling one.
    pub(super) workers: usize,
    /// Whether the calling thread owns items too.
    pub(super) main_works: bool,
    /// Per slot, the most items that a job can have.
    pub(super) items: &'a [usize],
    /// How long only its owner may claim an item.
    pub(super) head_start: Duration,
}

/// A running pool, as the thread that posts jobs sees it.
pub(super) struct WorkerPool<'a> {
    shared: &'a Shared,
    workers: Vec<Thread>,
    work: Work<'a>,
    cursor: WorkerCursor<'a>,
    /// The number of the last job.
    job: u64,
    /// Per slot, the number of items of the job that was posted and has not been reported as done.
    posted: Vec<Option<usize>>,
    /// Since when the main thread has had nothing to do but poll.
    idle_since: Option<Instant>,
}

/// Runs `lead` with a pool of threads. For each item of a job that `lead` posts, some thread calls `work(slot, phase, index)`.
pub(super) fn with_worker_pool<T>(
    config: &PoolConfig<'_>,
    work: Work<'_>,
    lead: impl FnOnce(&mut WorkerPool<'_>) -> T,
) -> T {
    let &PoolConfig { workers, main_works, items, head_start } = config;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let core_for_each = cores >= MANY_CORES && workers < cores;
    let limit = Duration::from_micros(if core_for_each { 2000 } else { 100 });
    let shared = Shared {
        board: JobBoard::new(items, workers + usize::from(main_works), head_start),
        closing: AtomicBool::new(false),
        panicked: AtomicBool::new(false),
        sleeping: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        main_thread: std::thread::current(),
        main_sleeps: AtomicBool::new(false),
        polling: PollPolicy { limit, yields: !core_for_each },
    };
    std::thread::scope(|scope| {
        let shared = &shared;
        let spawn = |worker: usize| {
            let thread = scope.spawn(move || shared.run_worker(worker, work));
            thread.thread().clone()
        };
        // This runs too if `lead` panics or a thread cannot be spawned: the scope waits for the threads that exist.
        let mut stop = StopOnDrop { shared, workers: Vec::with_capacity(workers) };
        for worker in 0..workers {
            stop.workers.push(spawn(worker));
        }
        let threads = stop.workers.clone();
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
    /// Posts a job for which `work(slot, phase, index)` is called with every index below `count`, and returns at once. The
    /// slot's last job must have been reported as done.
    pub(super) fn post(&mut self, slot: usize, phase: u8, count: usize) {
        assert!(self.posted[slot].is_none(), "the slot already holds a job");
        self.posted[slot] = Some(count);
        self.job += 1;
        self.shared.board.post(slot, self.job, phase, count);
        // Wake the owners first. Some may be busy, so wake others until there is one worker for every item.
        let board = &self.shared.board;
        let owners = (0..count.min(board.owners())).map(|index| board.owner(slot, index));
        let mut wakes = count;
        for worker in owners.chain(0..self.workers.len()) {
            if wakes == 0 {
                break;
            }
            wakes -= usize::from(self.wake(worker));
        }
    }

    /// Wakes a worker. Returns false if it is awake, or was woken already for another job and counts for that one.
    fn wake(&self, worker: usize) -> bool {
        let Some(sleeping) = self.shared.sleeping.get(worker) else { return false };
        let sleeps = sleeping.load(SeqCst) && sleeping.swap(false, SeqCst);
        if sleeps {
            self.workers[worker].unpark();
        }
        sleeps
    }

    /// Whether every item of the slot's job is finished. If so, the slot is free again.
    pub(super) fn is_done(&mut self, slot: usize) -> bool {
        assert!(!self.shared.panicked.load(SeqCst), "a thread that steps tasks panicked");
        let done = self.all_finished(slot);
        if done {
            self.posted[slot] = None;
        }
        done
    }

    fn all_finished(&self, slot: usize) -> bool {
        self.posted[slot].is_some_and(|count| self.shared.board.done(slot) >= count)
    }

    /// Processes one item on the main thread: one of its own, or one whose head start is over. Returns false if there is none.
    pub(super) fn help(&mut self) -> bool {
        self.shared.process_item(&mut self.cursor, self.work)
    }

    /// Tells the pool that the main thread had something to do.
    pub(super) fn reset_idle(&mut self) {
        self.idle_since = None;
    }

    /// Called when the main thread has nothing to do. It polls for a while, and then sleeps until a job is done, unless
    /// `keep_polling` says that it must watch something else too.
    pub(super) fn idle(&mut self, keep_polling: bool) {
        let shared = self.shared;
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if keep_polling || since.elapsed() < shared.polling.limit {
            return shared.polling.pause();
        }
        // Set before the last check, so that whoever finishes a job after that check wakes this thread.
        shared.main_sleeps.store(true, SeqCst);
        let waits = self.posted.iter().any(Option::is_some) && !shared.panicked.load(SeqCst);
        if waits && !(0..self.posted.len()).any(|slot| self.all_finished(slot)) {
            std::thread::park();
        }
        shared.main_sleeps.store(false, SeqCst);
    }
}

impl Shared {
    /// Claims an item, processes it and returns how long that took; `None` if there is none to claim.
    fn process_item(&self, cursor: &mut WorkerCursor<'_>, work: Work<'_>) -> bool {
        let Some(item) = cursor.claim() else { return false };
        let _finish = FinishOnDrop { shared: self, item };
        work(item.slot, item.phase, item.index);
        true
    }

    /// A worker's main loop.
    fn run_worker(&self, worker: usize, work: Work<'_>) {
        let mut cursor = WorkerCursor::new(&self.board, worker);
        let mut idle = IdleTimer::default();
        while !self.closing.load(SeqCst) {
            if self.process_item(&mut cursor, work) {
                idle = IdleTimer::default();
            } else if idle.is_over(self.polling.limit) {
                self.sleep(worker, &cursor);
                idle = IdleTimer::default();
            } else {
                self.polling.pause();
            }
        }
    }

    /// Sleeps until woken, unless there is work after all.
    fn sleep(&self, worker: usize, cursor: &WorkerCursor<'_>) {
        // Set before the last check, so that whoever posts a job after that check wakes this worker.
        self.sleeping[worker].store(true, SeqCst);
        if !cursor.sees_work() && !self.closing.load(SeqCst) {
            std::thread::park();
        }
        self.sleeping[worker].store(false, SeqCst);
    }
}

impl PollPolicy {
    /// The pause between two polls.
    fn pause(self) {
        if self.yields {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Measures how long a worker has found nothing. It reads the clock only at every 32nd poll.
#[derive(Default)]
struct IdleTimer {
    polls: u32,
    since: Option<Instant>,
}

impl IdleTimer {
    fn is_over(&mut self, limit: Duration) -> bool {
        self.polls += 1;
        self.polls.is_multiple_of(32) && self.since.get_or_insert_with(Instant::now).elapsed() >= limit
    }
}

/// Counts an item as finished even if its work panicked; otherwise the main thread would wait forever.
struct FinishOnDrop<'a> {
    shared: &'a Shared,
    item: WorkItem,
}

impl Drop for FinishOnDrop<'_> {
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

/// Ends the workers' loops.
struct StopOnDrop<'a> {
    shared: &'a Shared,
    workers: Vec<Thread>,
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        self.workers.iter().for_each(Thread::unpark);
    }
}
