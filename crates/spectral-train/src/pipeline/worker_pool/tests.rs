//! Every item is processed exactly once, and by its owner where possible, whatever happens.

use super::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::thread::ThreadId;

/// So long that no worker ever claims an item that it does not own.
const LONG: Duration = Duration::from_secs(3600);

impl WorkerPool<'_> {
    /// Waits until one of the posted jobs is done, and returns its slot.
    fn finish(&mut self, helps: bool) -> usize {
        loop {
            if let Some(slot) = (0..self.posted.len()).find(|&slot| self.is_done(slot)) {
                return slot;
            }
            if helps && self.help() {
                self.reset_idle();
            } else {
                self.idle(false);
            }
        }
    }
}

/// Posts `jobs` jobs in whatever slot is free. `job(round)` returns phase and count. After each job every item must have been
/// processed as often as it was posted.
fn check_counts(
    config: &PoolConfig<'_>,
    jobs: usize,
    job: impl Fn(usize) -> (u8, usize),
    pause: (u8, usize),
) {
    let &PoolConfig { workers, main_works, items, head_start } = config;
    let slots = items.len();
    let sums: Vec<Vec<AtomicUsize>> =
        items.iter().map(|&items| (0..items).map(|_| AtomicUsize::new(0)).collect()).collect();
    let work = |slot: usize, phase: u8, item: usize| {
        sums[slot][item].fetch_add(usize::from(phase), SeqCst);
        if (phase, item) == pause {
            // Long enough for the others to fall asleep.
            std::thread::sleep(Duration::from_millis(3));
        }
    };
    let mut expected: Vec<Vec<usize>> = items.iter().map(|&items| vec![0; items]).collect();
    with_worker_pool(config, &work, |pool| {
        let mut in_progress = vec![(0u8, 0usize); slots];
        for round in 0..jobs + slots {
            // Every slot is free at first, and again when its job is reported as done.
            let slot = if round < slots { round } else { pool.finish(main_works) };
            let (phase, count) = in_progress[slot];
            expected[slot][..count].iter_mut().for_each(|sum| *sum += usize::from(phase));
            // A job that is reported as done is done, and no other job in its slot has begun.
            let found: Vec<usize> = sums[slot].iter().map(|sum| sum.load(SeqCst)).collect();
            assert_eq!(found, expected[slot], "{workers} workers, {head_start:?}, round {round}");
            if round < jobs {
                let (phase, count) = job(round);
                in_progress[slot] = (phase, count.min(items[slot]));
                pool.post(slot, phase, in_progress[slot].1);
            }
        }
    });
}

#[test]
fn every_item_of_every_job_is_processed_once() {
    for (workers, main_works) in [(0, true), (1, true), (1, false), (3, true), (8, false)] {
        let config = PoolConfig { workers, main_works, items: &[50; 3], head_start: HEAD_START };
        let job = |round: usize| {
            ([1, 2, 5, 3][if round.is_multiple_of(97) { 3 } else { round % 3 }], round * 7 % 51)
        };
        check_counts(&config, 4000, job, (3, 7));
    }
}

/// Jobs so short that threads still look for items of the last one when the next arrives, with various head starts.
#[test]
fn many_short_jobs_in_uneven_slots_lose_no_item() {
    let waits = [Duration::ZERO, Duration::from_nanos(300), HEAD_START, LONG];
    for (workers, main_works) in [(2, true), (3, false), (5, true)] {
        for head_start in waits {
            let config = PoolConfig { workers, main_works, items: &[1, 3, 6, 2], head_start };
            check_counts(&config, 10_000, |round| ((round % 5) as u8 + 1, round * 5 % 7), (0, 0));
        }
    }
}

#[test]
fn items_are_processed_by_their_owners() {
    const SIZES: [usize; 2] = [4, 3];
    for (workers, main_works) in [(3, false), (2, true), (7, false), (6, true)] {
        let owners = workers + usize::from(main_works);
        let seen: Mutex<HashMap<(usize, usize), HashMap<ThreadId, usize>>> = Mutex::default();
        let work = |slot: usize, _: u8, item: usize| {
            let mut seen = seen.lock().unwrap();
            *seen.entry((slot, item)).or_default().entry(std::thread::current().id()).or_default() += 1;
        };
        let config = PoolConfig { workers, main_works, items: &SIZES, head_start: LONG };
        let main_thread = with_worker_pool(&config, &work, |pool| {
            for round in 0..300 {
                let slot = if round < 2 { round } else { pool.finish(main_works) };
                pool.post(slot, 0, SIZES[slot]);
                if round % 50 == 7 {
                    // A pause between two jobs.
                    std::thread::sleep(pool.shared.polling.limit * 3);
                }
            }
            for _ in 0..2 {
                pool.finish(main_works);
            }
            std::thread::current().id()
        });
        let seen = seen.into_inner().unwrap();
        let only = |slot: usize, item: usize| {
            let by = &seen[&(slot, item)];
            assert_eq!(by.len(), 1, "item {item} of slot {slot} moved between threads: {by:?}");
            *by.keys().next().unwrap()
        };
        let by: Vec<ThreadId> = (0..4).map(|item| only(0, item)).chain((0..3).map(|p| only(1, p))).collect();
        for (one, other) in (0..7).flat_map(|one| (0..7).map(move |other| (one, other))) {
            assert_eq!(by[one] == by[other], one % owners == other % owners, "{one}, {other}: {by:?}");
        }
        for (item, by) in by.into_iter().enumerate() {
            assert_eq!(by == main_thread, main_works && item % owners == workers, "{item}");
        }
    }
}

/// An owner's first item ends only when its other items are finished, which other workers must therefore do.
#[test]
fn items_of_a_busy_owner_are_claimed_by_others() {
    const OWN: usize = 5;
    let left = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let blocked = AtomicBool::new(true);
    let work = |_: usize, _: u8, item: usize| {
        left[item % 2].fetch_sub(1, SeqCst);
        let start = Instant::now();
        // Only the first to run it is blocked: some thread must be free to claim the rest.
        if item == 0 && blocked.swap(false, SeqCst) {
            while left[0].load(SeqCst) > 0 {
                assert!(start.elapsed() < Duration::from_secs(60), "no worker claims a busy owner's items");
                std::thread::yield_now();
            }
        }
    };
    for main_works in [false, true] {
        let workers = 2 - usize::from(main_works);
        let config = PoolConfig { workers, main_works, items: &[2 * OWN], head_start: HEAD_START };
        with_worker_pool(&config, &work, |pool| {
            for _ in 0..50 {
                left.iter().for_each(|left| left.store(OWN, SeqCst));
                blocked.store(true, SeqCst);
                pool.post(0, 0, 2 * OWN);
                pool.finish(main_works);
            }
        });
    }
}

#[test]
fn the_job_posted_first_is_begun_first() {
    let order = Mutex::new(Vec::new());
    let work = |slot: usize, _: u8, item: usize| order.lock().unwrap().push((slot, item));
    let config = PoolConfig { workers: 0, main_works: true, items: &[2; 3], head_start: HEAD_START };
    with_worker_pool(&config, &work, |pool| {
        for slot in [2, 0, 1] {
            pool.post(slot, 0, 2);
        }
        while pool.help() {}
    });
    assert_eq!(*order.lock().unwrap(), [(2, 0), (2, 1), (0, 0), (0, 1), (1, 0), (1, 1)]);
}

#[test]
fn a_panic_in_a_worker_is_not_waited_for() {
    let work = |_: usize, _: u8, item: usize| assert_ne!(item, 5, "on purpose");
    // A single worker leaves the other items unprocessed.
    for (workers, main_works) in [(2, true), (2, false), (1, false)] {
        let result = std::panic::catch_unwind(|| {
            let config = PoolConfig { workers, main_works, items: &[10], head_start: HEAD_START };
            with_worker_pool(&config, &work, |pool| {
                pool.post(0, 0, 10);
                pool.finish(main_works)
            })
        });
        assert!(result.is_err());
    }
}
