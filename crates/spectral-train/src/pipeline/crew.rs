//! Threads that share small jobs with little delay.
//!
//! A job is a count of parts, each a few microseconds to a millisecond long, and comes again every few hundred microseconds:
//! too often for threads that sleep in between, so they watch for a while before they do. Several jobs may be at hand at
//! once, each on a sheet of its own; threads prefer the parts that they own (see [`board`](super::board)), and of those
//! the ones that were posted first.

use super::board::{Board, Part, Taker};
use super::places::{Places, Seated};
use crate::machine::{tie_to_core, usable_cores};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long a part waits for its owner alone: several times what an owner that watches needs to begin, and little beside a
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
struct Shop {
    board: Board,
    closing: AtomicBool,
    panicked: AtomicBool,
    sleeping: Vec<AtomicBool>,
    /// The one who posts jobs sleeps until the last part of one is done.
    foreman: Thread,
    foreman_sleeps: AtomicBool,
    patience: Patience,
}

/// What is to be done with one part of a job: the number of the sheet, the task, the number of the part.
type Work<'a> = &'a (dyn Fn(usize, u8, usize) + Sync);

/// Who works, and on how much.
pub(super) struct Roster<'a> {
    /// Threads beside the calling one.
    pub(super) workers: usize,
    /// The calling one has its share of the parts too.
    pub(super) foreman_works: bool,
    /// Per sheet, the most parts of a job.
    pub(super) parts: &'a [usize],
    /// How long a part waits for its owner alone.
    pub(super) head_start: Duration,
}

/// The threads at work, as the one who posts jobs sees them.
pub(super) struct Crew<'a> {
    shop: &'a Shop,
    workers: Vec<Thread>,
    work: Work<'a>,
    taker: Taker<'a>,
    /// The number of the last job.
    job: u64,
    /// Per sheet, the parts of the job that was posted and not yet found done.
    posted: Vec<Option<usize>>,
    /// Since when there has been nothing to do but to look.
    idle_since: Option<Instant>,
}

/// Runs `lead` with threads beside the calling one; jobs that it posts on one of the sheets are done by
/// `work(sheet, task, part)`.
pub(super) fn with_crew<T>(roster: &Roster<'_>, work: Work<'_>, lead: impl FnOnce(&mut Crew<'_>) -> T) -> T {
    let &Roster { workers, foreman_works, parts, head_start } = roster;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let many = cores >= MANY_CORES && workers < cores;
    let limit = Duration::from_micros(if many { 2000 } else { 100 });
    let shop = Shop {
        board: Board::new(parts, workers + usize::from(foreman_works), head_start),
        closing: AtomicBool::new(false),
        panicked: AtomicBool::new(false),
        sleeping: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        foreman: std::thread::current(),
        foreman_sleeps: AtomicBool::new(false),
        patience: Patience { limit, yields: !many },
    };
    // The first core stays with the caller.
    let cores = if many { usable_cores() } else { Vec::new() };
    let places = Places::new(cores.get(1..).unwrap_or_default());
    std::thread::scope(|scope| {
        let (shop, places) = (&shop, &places);
        let spawn = |number: usize| {
            let thread = scope.spawn(move || shop.serve(number, work, places.seat(number, tie_to_core)));
            thread.thread().clone()
        };
        // Also if `lead` panics, or a thread cannot be had: the scope waits for those that there are.
        let mut close = Close { shop, workers: Vec::with_capacity(workers) };
        for number in 0..workers {
            close.workers.push(spawn(number));
        }
        let threads = close.workers.clone();
        lead(&mut Crew {
            shop,
            workers: threads,
            work,
            taker: Taker::new(&shop.board, workers),
            job: 0,
            posted: vec![None; parts.len()],
            idle_since: None,
        })
    })
}

impl Crew<'_> {
    /// Has `work(sheet, task, part)` done for every part below `count`, and returns at once. The sheet's last job must have
    /// been found done.
    pub(super) fn post(&mut self, sheet: usize, task: u8, count: usize) {
        assert!(self.posted[sheet].is_none(), "a job is on this sheet already");
        self.posted[sheet] = Some(count);
        self.job += 1;
        self.shop.board.post(sheet, self.job, task, count);
        // Owners first; then, as some may be busy, others until there is one for every part.
        let owners = (0..count.min(self.shop.board.owners())).map(|part| self.shop.board.owner(sheet, part));
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
        let Some(sleeping) = self.shop.sleeping.get(worker) else { return false };
        let sleeps = sleeping.load(SeqCst) && sleeping.swap(false, SeqCst);
        if sleeps {
            self.workers[worker].unpark();
        }
        sleeps
    }

    /// Whether every part of the sheet's job is done; the sheet is free then.
    pub(super) fn is_done(&mut self, sheet: usize) -> bool {
        assert!(!self.shop.panicked.load(SeqCst), "a thread that steps tasks panicked");
        let done = self.finished(sheet);
        if done {
            self.posted[sheet] = None;
        }
        done
    }

    fn finished(&self, sheet: usize) -> bool {
        self.posted[sheet].is_some_and(|count| self.shop.board.done(sheet) >= count)
    }

    /// Does one part: one of the foreman's own, or one that nobody took for a while. False if there is none.
    pub(super) fn help(&mut self) -> bool {
        self.shop.take_part(&mut self.taker, self.work).is_some()
    }

    /// Says that there was something to do.
    pub(super) fn is_busy(&mut self) {
        self.idle_since = None;
    }

    /// Passes a moment in which there is nothing to do. After a while it sleeps until a job is done, unless something
    /// else must be looked at meanwhile.
    pub(super) fn rest(&mut self, watches: bool) {
        let shop = self.shop;
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if watches || since.elapsed() < shop.patience.limit {
            return shop.patience.pass();
        }
        // Said before the last look, so that a job which is done after it is followed by a call.
        shop.foreman_sleeps.store(true, SeqCst);
        let waits = self.posted.iter().any(Option::is_some) && !shop.panicked.load(SeqCst);
        if waits && !(0..self.posted.len()).any(|sheet| self.finished(sheet)) {
            std::thread::park();
        }
        shop.foreman_sleeps.store(false, SeqCst);
    }
}

impl Shop {
    /// Takes a part and does it, and says how long that took; `None` if there is none for this taker.
    fn take_part(&self, taker: &mut Taker<'_>, work: Work<'_>) -> Option<Duration> {
        let part = taker.take()?;
        let begun = Instant::now();
        let _done = Done { shop: self, part };
        work(part.sheet, part.task, part.part);
        Some(begun.elapsed())
    }

    /// A worker's life.
    fn serve(&self, number: usize, work: Work<'_>, mut seat: Seated<'_>) {
        let mut taker = Taker::new(&self.board, number);
        let mut idle = Idle::default();
        while !self.closing.load(SeqCst) {
            if let Some(took) = self.take_part(&mut taker, work) {
                seat.worked(took.as_nanos() as u64);
                idle = Idle::default();
            } else if idle.is_over(self.patience.limit) {
                self.sleep(number, &taker);
                idle = Idle::default();
            } else {
                self.patience.pass();
            }
        }
    }

    /// Sleeps until somebody calls, unless there is something to do after all.
    fn sleep(&self, number: usize, taker: &Taker<'_>) {
        // Said before the last look, so that a job posted after it is followed by a call.
        self.sleeping[number].store(true, SeqCst);
        if !taker.sees_work() && !self.closing.load(SeqCst) {
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

/// Counts a part as done, even if it panicked: else the others would be waited for without end.
struct Done<'a> {
    shop: &'a Shop,
    part: Part,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        if panicked {
            self.shop.panicked.store(true, SeqCst);
        }
        let last = self.shop.board.finish(&self.part);
        if (last || panicked) && self.shop.foreman_sleeps.load(SeqCst) {
            self.shop.foreman.unpark();
        }
    }
}

/// Sends the workers home.
struct Close<'a> {
    shop: &'a Shop,
    workers: Vec<Thread>,
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.shop.closing.store(true, SeqCst);
        self.workers.iter().for_each(Thread::unpark);
    }
}
