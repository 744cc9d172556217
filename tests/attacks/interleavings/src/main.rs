//! The pipeline's job board in every interleaving: its file is compiled here against loom's atomics, whose model runs each check
//! once for every order in which threads may see each other's operations (up to a number of preemptions).
//!
//! ```sh
//! cargo run --release --manifest-path tests/attacks/interleavings/Cargo.toml
//! LOOM_MAX_PREEMPTIONS=4 cargo run --release --manifest-path tests/attacks/interleavings/Cargo.toml   # more of them
//! ```
//!
//! Loom knows no order of sequentially consistent operations beyond acquire and release. What holds here holds all the more
//! where they have one; so the board must need no more, and the checks show that it does not.

/// What the board takes from its parent.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
}

#[allow(dead_code)]
#[path = "../../../../crates/spectral-train/src/pipeline/job_board.rs"]
mod job_board;

use job_board::{JobBoard, WorkerCursor};
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::{model, thread};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Tries so many preemptions unless LOOM_MAX_PREEMPTIONS says otherwise.
fn every_interleaving(name: &str, preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = model::Builder::new();
    let preemptions = *builder.preemption_bound.get_or_insert(preemptions);
    let (count, begun) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let counted = count.clone();
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        test();
    });
    let count = count.load(Relaxed);
    println!("{name}: {count} interleavings with up to {preemptions} preemptions in {:.1?}", begun.elapsed());
}

/// What was done: for each job, how often each item.
type Done = Arc<[[AtomicUsize; 2]; 3]>;

fn nothing_done() -> Done {
    Arc::new(std::array::from_fn(|_| std::array::from_fn(|_| AtomicUsize::new(0))))
}

/// Processes an item; the job's number is its phase. Returns whether there was one.
fn work(board: &JobBoard, cursor: &mut WorkerCursor<'_>, done: &Done) -> bool {
    let Some(item) = cursor.claim() else { return false };
    // Without an order of its own: what makes it visible to the main thread must be the board.
    done[usize::from(item.phase)][item.index].fetch_add(1, Relaxed);
    board.finish(&item);
    true
}

/// Waits for a job's items, helping, and looks at what the workers have done.
fn finish(
    board: &JobBoard,
    slot: usize,
    cursor: &mut WorkerCursor<'_>,
    done: &Done,
    job: usize,
    count: usize,
) {
    while board.done(slot) < count {
        if !work(board, cursor, done) {
            thread::yield_now();
        }
    }
    let found: Vec<usize> = done[job].iter().map(|item| item.load(Relaxed)).collect();
    let expected: Vec<usize> = (0..2).map(|index| usize::from(index < count)).collect();
    assert_eq!(found, expected, "job {job}");
}

/// A worker that looks three times, perhaps late, perhaps at a job that is over.
fn worker(board: &Arc<JobBoard>, number: usize, done: &Done) -> thread::JoinHandle<()> {
    let (board, done) = (board.clone(), done.clone());
    thread::spawn(move || {
        let mut cursor = WorkerCursor::new(&board, number);
        for _ in 0..3 {
            work(&board, &mut cursor, &done);
        }
    })
}

fn every_item_of_successive_jobs_is_done_once() {
    // That a late worker claims what belongs to a newer job takes three: one to begin, one in its claim, one before the main thread looks.
    every_interleaving("successive jobs", 4, || {
        let (board, done) = (Arc::new(JobBoard::new(&[2], 2, Duration::ZERO)), nothing_done());
        let other = worker(&board, 0, &done);
        let mut cursor = WorkerCursor::new(&board, 1);
        board.post(0, 1, 0, 2);
        finish(&board, 0, &mut cursor, &done, 0, 2);
        // Fewer items: the other's claim is of the job before, and its view may be, too.
        board.post(0, 2, 1, 1);
        finish(&board, 0, &mut cursor, &done, 1, 1);
        board.post(0, 3, 2, 2);
        finish(&board, 0, &mut cursor, &done, 2, 2);
        other.join().unwrap();
    });
}

fn two_workers_and_the_main_thread_share_jobs_in_two_slots() {
    // Two already make 1.7 million interleavings here.
    every_interleaving("two workers, two slots", 2, || {
        let (board, done) = (Arc::new(JobBoard::new(&[1, 1], 2, Duration::ZERO)), nothing_done());
        let others = [worker(&board, 0, &done), worker(&board, 1, &done)];
        let mut cursor = WorkerCursor::new(&board, 2);
        board.post(0, 1, 0, 1);
        board.post(1, 2, 1, 1);
        finish(&board, 1, &mut cursor, &done, 1, 1);
        finish(&board, 0, &mut cursor, &done, 0, 1);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

fn main() {
    every_item_of_successive_jobs_is_done_once();
    two_workers_and_the_main_thread_share_jobs_in_two_slots();
}
