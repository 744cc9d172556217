//! Threads that share small jobs with little delay.
//!
//! A job is a count of parts, each a few microseconds to a millisecond long, and comes again every few hundred microseconds:
//! too often for threads that sleep in between, so they watch for a while before they do. Several jobs may be at hand at
//! once, each on a sheet of its own; threads prefer the one that was posted first. A thread takes a part by adding one to
//! the sheet's word, which holds the job's number, what is to be done, how many parts there are and how many were taken.

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

/// One job at a time, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Sheet {
    /// Job number (16 bits), task, count of parts, parts taken: from the highest bits to the lowest.
    word: AtomicU64,
    done: AtomicUsize,
}

/// What the threads share.
struct Board {
    sheets: Vec<Sheet>,
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

/// The threads at work, as the one who posts jobs sees them.
pub(super) struct Crew<'a> {
    board: &'a Board,
    workers: Vec<Thread>,
    work: Work<'a>,
    job: u16,
    /// Per sheet, the parts of the job that was posted and not yet found done.
    posted: Vec<Option<usize>>,
    /// Since when there has been nothing to do but to look.
    idle_since: Option<Instant>,
}

/// Runs `lead` with `workers` threads beside the calling one; jobs that it posts on one of the `sheets` are done by
/// `work(sheet, task, part)`.
pub(super) fn with_crew<T>(
    workers: usize,
    sheets: usize,
    work: Work<'_>,
    lead: impl FnOnce(&mut Crew<'_>) -> T,
) -> T {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let many = cores >= MANY_CORES && workers < cores;
    let limit = Duration::from_micros(if many { 2000 } else { 100 });
    let board = Board {
        sheets: (0..sheets).map(|_| Sheet::default()).collect(),
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
        let mut crew = Crew { board, workers, work, job: 0, posted: vec![None; sheets], idle_since: None };
        // Also if `lead` panics: the scope waits for its threads.
        let _close = Close { board, workers: crew.workers.clone() };
        lead(&mut crew)
    })
}

impl Crew<'_> {
    /// Has `work(sheet, task, part)` done for every part below `count`, and returns at once. The sheet's last job must have
    /// been found done.
    pub(super) fn post(&mut self, sheet: usize, task: u8, count: usize) {
        assert!(count <= MOST_PARTS, "{count} parts are too many for one job");
        assert!(self.posted[sheet].is_none(), "a job is on this sheet already");
        self.posted[sheet] = Some(count);
        self.job = self.job.wrapping_add(1);
        let Sheet { word, done } = &self.board.sheets[sheet];
        done.store(0, SeqCst);
        let head = u64::from(self.job) << TASK_BITS | u64::from(task);
        word.store(head << (2 * PART_BITS) | (count as u64) << PART_BITS, SeqCst);
        let mut calls = count;
        for (thread, sleeping) in self.workers.iter().zip(&self.board.sleeping) {
            if calls == 0 {
                break;
            }
            // Whoever is called already for another job counts for that one.
            if sleeping.load(SeqCst) && sleeping.swap(false, SeqCst) {
                thread.unpark();
                calls -= 1;
            }
        }
    }

    /// Whether every part of the sheet's job is done; the sheet is free then.
    pub(super) fn is_done(&mut self, sheet: usize) -> bool {
        assert!(!self.board.panicked.load(SeqCst), "a thread that steps tasks panicked");
        let done = self.finished(sheet);
        if done {
            self.posted[sheet] = None;
        }
        done
    }

    fn finished(&self, sheet: usize) -> bool {
        self.posted[sheet].is_some_and(|count| self.board.sheets[sheet].done.load(SeqCst) >= count)
    }

    /// Does one part of the job posted first; false if none is left to be taken.
    pub(super) fn help(&self) -> bool {
        self.board.take_part(self.work)
    }

    /// Says that there was something to do.
    pub(super) fn is_busy(&mut self) {
        self.idle_since = None;
    }

    /// Passes a moment in which there is nothing to do. After a while it sleeps until a job is done, unless something
    /// else must be looked at meanwhile.
    pub(super) fn rest(&mut self, watches: bool) {
        let board = self.board;
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if watches || since.elapsed() < board.patience.limit {
            return board.patience.pass();
        }
        // Said before the last look, so that a job which is done after it is followed by a call.
        board.foreman_sleeps.store(true, SeqCst);
        let waits = self.posted.iter().any(Option::is_some) && !board.panicked.load(SeqCst);
        if waits && !(0..self.posted.len()).any(|sheet| self.finished(sheet)) {
            std::thread::park();
        }
        board.foreman_sleeps.store(false, SeqCst);
    }
}

impl Board {
    /// The sheet of the job posted first of those that have parts left.
    fn oldest(&self) -> Option<usize> {
        let mut oldest: Option<(usize, u16)> = None;
        for (sheet, Sheet { word, .. }) in self.sheets.iter().enumerate() {
            let word = word.load(SeqCst);
            let job = (word >> (2 * PART_BITS + TASK_BITS)) as u16;
            // Numbers come round again; those at hand are close to each other.
            if has_parts(word) && oldest.is_none_or(|(_, other)| (job.wrapping_sub(other) as i16) < 0) {
                oldest = Some((sheet, job));
            }
        }
        oldest.map(|(sheet, _)| sheet)
    }

    /// Takes one part of the job posted first and does it; false if none is left.
    fn take_part(&self, work: Work<'_>) -> bool {
        while let Some(number) = self.oldest() {
            let sheet = &self.sheets[number];
            let word = sheet.word.fetch_add(1, SeqCst);
            if has_parts(word) {
                let count = (word >> PART_BITS & PART_MASK) as usize;
                let _done = Done { board: self, sheet, count };
                work(number, (word >> (2 * PART_BITS)) as u8, (word & PART_MASK) as usize);
                return true;
            }
        }
        false
    }

    /// A worker's life.
    fn serve(&self, number: usize, work: Work<'_>) {
        let closing = || self.closing.load(SeqCst);
        let called = || self.oldest().is_some() || closing();
        loop {
            while !closing() && self.take_part(work) {}
            if !self.patience.watch(called) {
                loop {
                    // Said before the last look, so that a job posted after it is followed by a call.
                    self.sleeping[number].store(true, SeqCst);
                    if called() {
                        break;
                    }
                    std::thread::park();
                }
                self.sleeping[number].store(false, SeqCst);
            }
            if closing() {
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
                self.pass();
            }
            if start.get_or_insert_with(Instant::now).elapsed() >= self.limit {
                return false;
            }
        }
    }

    /// The time between two looks.
    fn pass(self) {
        if self.yields {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Counts a part as done, even if it panicked: else the others would be waited for without end.
struct Done<'a> {
    board: &'a Board,
    sheet: &'a Sheet,
    count: usize,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        if panicked {
            self.board.panicked.store(true, SeqCst);
        }
        let last = self.sheet.done.fetch_add(1, SeqCst) + 1 == self.count;
        if (last || panicked) && self.board.foreman_sleeps.load(SeqCst) {
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

    impl Crew<'_> {
        /// Does jobs that were posted until one is done, and says on which sheet it was.
        fn finish(&mut self, helps: bool) -> usize {
            loop {
                if let Some(sheet) = (0..self.posted.len()).find(|&sheet| self.is_done(sheet)) {
                    return sheet;
                }
                if helps && self.help() {
                    self.is_busy();
                } else {
                    self.rest(false);
                }
            }
        }
    }

    #[test]
    fn every_part_of_every_job_is_done_once() {
        const SHEETS: usize = 3;
        for (workers, helps) in [(0, true), (1, true), (1, false), (3, true), (8, false)] {
            let counts: Vec<AtomicUsize> = (0..SHEETS * 50).map(|_| AtomicUsize::new(0)).collect();
            let work = |sheet: usize, task: u8, part: usize| {
                counts[50 * sheet + part].fetch_add(usize::from(task), SeqCst);
                if part == 7 && task == 3 {
                    // Long enough for the others to fall asleep.
                    std::thread::sleep(Duration::from_millis(3));
                }
            };
            let mut expected = [0usize; SHEETS * 50];
            with_crew(workers, SHEETS, &work, |crew| {
                let mut on_the_way = [(0u8, 0usize); SHEETS];
                for round in 0..4000usize {
                    // Each is free when one comes whose number it has not had yet, or after it was found done.
                    let sheet = if round < SHEETS { round } else { crew.finish(helps) };
                    let (task, count) = on_the_way[sheet];
                    let parts = 50 * sheet..50 * sheet + count;
                    expected[parts].iter_mut().for_each(|e| *e += usize::from(task));
                    // When a job is reported done, it is; and no other on its sheet has begun.
                    for part in 50 * sheet..50 * (sheet + 1) {
                        assert_eq!(
                            counts[part].load(SeqCst),
                            expected[part],
                            "{workers} workers, round {round}"
                        );
                    }
                    on_the_way[sheet] =
                        ([1, 2, 5, 3][if round % 97 == 0 { 3 } else { round % 3 }], round * 7 % 51);
                    crew.post(sheet, on_the_way[sheet].0, on_the_way[sheet].1);
                }
            });
        }
    }

    #[test]
    fn the_job_posted_first_is_begun_first() {
        let order = std::sync::Mutex::new(Vec::new());
        let work = |sheet: usize, _: u8, part: usize| order.lock().unwrap().push((sheet, part));
        with_crew(0, 3, &work, |crew| {
            // Numbers come round again between the two.
            crew.job = u16::MAX - 1;
            for sheet in [2, 0, 1] {
                crew.post(sheet, 0, 2);
            }
            while crew.help() {}
        });
        assert_eq!(*order.lock().unwrap(), [(2, 0), (2, 1), (0, 0), (0, 1), (1, 0), (1, 1)]);
    }

    #[test]
    fn a_panic_in_a_worker_is_not_waited_for() {
        let work = |_: usize, _: u8, part: usize| assert_ne!(part, 5, "on purpose");
        // One worker alone leaves the other parts behind.
        for (workers, helps) in [(2, true), (2, false), (1, false)] {
            let outcome = std::panic::catch_unwind(|| {
                with_crew(workers, 1, &work, |crew| {
                    crew.post(0, 0, 10);
                    crew.finish(helps)
                })
            });
            assert!(outcome.is_err());
        }
    }
}
