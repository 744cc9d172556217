//! Threads that share small jobs with little delay.
//!
//! A job is a count of parts, each a few microseconds long, and comes again every few hundred microseconds: too often for
//! threads that sleep in between, so they watch for a while before they do. A thread takes a part by adding one to a single
//! word, which holds the job's number, what is to be done, how many parts there are and how many were taken.

use crate::machine::pin_to_core;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Bits of the word that count the parts taken, and as many for the parts there are.
const PART_BITS: u32 = 20;
const PART_MASK: u64 = (1 << PART_BITS) - 1;
/// Leaves room for threads that look for one part more than there are.
pub(super) const MOST_PARTS: usize = 1 << (PART_BITS - 1);
const TASK_BITS: u32 = 8;
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
struct Board {
    /// Job number, task, count of parts, parts taken: from the highest bits to the lowest.
    word: AtomicU64,
    done: AtomicUsize,
    closing: AtomicBool,
    panicked: AtomicBool,
    sleeping: Vec<AtomicBool>,
    /// The one who posts jobs sleeps until the last part is done.
    foreman: Thread,
    foreman_sleeps: AtomicBool,
    patience: Patience,
}

/// The threads at work, as the one who posts jobs sees them.
pub(super) struct Crew<'a> {
    board: &'a Board,
    workers: Vec<Thread>,
    work: &'a (dyn Fn(u8, usize) + Sync),
    job: u64,
}

/// Runs `lead` with `workers` threads beside the calling one; jobs that it posts are done by `work(task, part)`.
pub(super) fn with_crew<T>(
    workers: usize,
    work: &(dyn Fn(u8, usize) + Sync),
    lead: impl FnOnce(&mut Crew<'_>) -> T,
) -> T {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let many = cores >= MANY_CORES && workers < cores;
    let limit = Duration::from_micros(if many { 2000 } else { 100 });
    let board = Board {
        word: AtomicU64::new(0),
        done: AtomicUsize::new(0),
        closing: AtomicBool::new(false),
        panicked: AtomicBool::new(false),
        sleeping: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        foreman: std::thread::current(),
        foreman_sleeps: AtomicBool::new(false),
        patience: Patience { limit, yields: !many },
    };
    std::thread::scope(|scope| {
        let board = &board;
        let spawn = |number: usize| {
            let thread = scope.spawn(move || {
                if many {
                    // The first core stays with the caller.
                    pin_to_core(number + 1);
                }
                board.serve(number, work);
            });
            thread.thread().clone()
        };
        let workers = (0..workers).map(spawn).collect();
        let mut crew = Crew { board, workers, work, job: 0 };
        // Also if `lead` panics: the scope waits for its threads.
        let _close = Close { board, workers: crew.workers.clone() };
        lead(&mut crew)
    })
}

impl Crew<'_> {
    /// Does `work(task, part)` for every part below `count`, and returns when all are done.
    pub(super) fn perform(&mut self, task: u8, count: usize) {
        assert!(count <= MOST_PARTS, "{count} parts are too many for one job");
        let board = self.board;
        board.done.store(0, SeqCst);
        self.job = (self.job + 1) & (u64::MAX >> (2 * PART_BITS + TASK_BITS));
        let word = (self.job << TASK_BITS | u64::from(task)) << (2 * PART_BITS) | (count as u64) << PART_BITS;
        board.word.store(word, SeqCst);
        for (thread, sleeping) in self.workers.iter().zip(&board.sleeping).take(count.saturating_sub(1)) {
            if sleeping.load(SeqCst) {
                thread.unpark();
            }
        }
        while board.take_part(self.work) {}
        let finished = || board.done.load(SeqCst) >= count;
        if !board.patience.watch(finished) {
            board.foreman_sleeps.store(true, SeqCst);
            while !finished() {
                std::thread::park();
            }
            board.foreman_sleeps.store(false, SeqCst);
        }
        assert!(!board.panicked.load(SeqCst), "a thread that steps tasks panicked");
    }
}

impl Board {
    /// Takes one part of the job at hand and does it; false if none is left.
    fn take_part(&self, work: &(dyn Fn(u8, usize) + Sync)) -> bool {
        if !has_parts(self.word.load(SeqCst)) {
            return false;
        }
        let word = self.word.fetch_add(1, SeqCst);
        if !has_parts(word) {
            return false;
        }
        let _done = Done { board: self, count: (word >> PART_BITS & PART_MASK) as usize };
        work((word >> (2 * PART_BITS)) as u8, (word & PART_MASK) as usize);
        true
    }

    /// A worker's life.
    fn serve(&self, number: usize, work: &(dyn Fn(u8, usize) + Sync)) {
        let called = || has_parts(self.word.load(SeqCst)) || self.closing.load(SeqCst);
        loop {
            while self.take_part(work) {}
            if !self.patience.watch(called) {
                // Said before the last look, so that a job posted after it is followed by a call.
                self.sleeping[number].store(true, SeqCst);
                while !called() {
                    std::thread::park();
                }
                self.sleeping[number].store(false, SeqCst);
            }
            if self.closing.load(SeqCst) {
                return;
            }
        }
    }
}

fn has_parts(word: u64) -> bool {
    word & PART_MASK < word >> PART_BITS & PART_MASK
}

impl Patience {
    /// Watches until something is so; false if patience ended first.
    fn watch(self, so: impl Fn() -> bool) -> bool {
        let mut start = None;
        loop {
            for _ in 0..32 {
                if so() {
                    return true;
                }
                if self.yields {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
            }
            if start.get_or_insert_with(Instant::now).elapsed() >= self.limit {
                return false;
            }
        }
    }
}

/// Counts a part as done, even if it panicked: else the others would be waited for without end.
struct Done<'a> {
    board: &'a Board,
    count: usize,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.board.panicked.store(true, SeqCst);
        }
        let last = self.board.done.fetch_add(1, SeqCst) + 1 == self.count;
        if last && self.board.foreman_sleeps.load(SeqCst) {
            self.board.foreman.unpark();
        }
    }
}

/// Sends the workers home.
struct Close<'a> {
    board: &'a Board,
    workers: Vec<Thread>,
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.board.closing.store(true, SeqCst);
        self.workers.iter().for_each(Thread::unpark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_every_job_is_done_once() {
        for workers in [0, 1, 3, 8] {
            let counts: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
            let work = |task: u8, part: usize| {
                counts[part].fetch_add(usize::from(task), SeqCst);
                if part == 7 && task == 3 {
                    // Long enough for the others to fall asleep.
                    std::thread::sleep(Duration::from_millis(3));
                }
            };
            let mut expected = [0usize; 50];
            with_crew(workers, &work, |crew| {
                for round in 0..2000usize {
                    let task = [1, 2, 5, 3][if round % 97 == 0 { 3 } else { round % 3 }];
                    let count = round * 7 % 51;
                    crew.perform(task, count);
                    expected[..count].iter_mut().for_each(|e| *e += usize::from(task));
                    // When a job is reported done, it is.
                    let found: Vec<usize> = counts.iter().map(|c| c.load(SeqCst)).collect();
                    assert_eq!(found, expected, "{workers} workers, round {round}");
                }
            });
        }
    }

    #[test]
    fn a_panic_in_a_worker_is_not_waited_for() {
        let work = |_: u8, part: usize| assert_ne!(part, 5, "on purpose");
        let outcome = std::panic::catch_unwind(|| with_crew(2, &work, |crew| crew.perform(0, 10)));
        assert!(outcome.is_err());
    }
}
