//! Every part is done once, by the one it belongs to where that is possible, whatever happens.

use super::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::thread::ThreadId;

/// So long that nobody ever takes a part that is not its own.
const LONG: Duration = Duration::from_secs(3600);

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

/// Posts jobs on whatever sheet is free, `jobs` in all; `job(round)` says task and count. After each job every part must have
/// been done as often as it was posted.
fn check_counts(roster: &Roster<'_>, jobs: usize, job: impl Fn(usize) -> (u8, usize), pause: (u8, usize)) {
    let &Roster { workers, foreman_works, parts, head_start } = roster;
    let sheets = parts.len();
    let sums: Vec<Vec<AtomicUsize>> =
        parts.iter().map(|&parts| (0..parts).map(|_| AtomicUsize::new(0)).collect()).collect();
    let work = |sheet: usize, task: u8, part: usize| {
        sums[sheet][part].fetch_add(usize::from(task), SeqCst);
        if (task, part) == pause {
            // Long enough for the others to fall asleep.
            std::thread::sleep(Duration::from_millis(3));
        }
    };
    let mut expected: Vec<Vec<usize>> = parts.iter().map(|&parts| vec![0; parts]).collect();
    with_crew(roster, &work, |crew| {
        let mut on_the_way = vec![(0u8, 0usize); sheets];
        for round in 0..jobs + sheets {
            // Each is free when one comes whose number it has not had yet, or after it was found done.
            let sheet = if round < sheets { round } else { crew.finish(foreman_works) };
            let (task, count) = on_the_way[sheet];
            expected[sheet][..count].iter_mut().for_each(|sum| *sum += usize::from(task));
            // When a job is reported done, it is; and no other on its sheet has begun.
            let found: Vec<usize> = sums[sheet].iter().map(|sum| sum.load(SeqCst)).collect();
            assert_eq!(found, expected[sheet], "{workers} workers, {head_start:?}, round {round}");
            if round < jobs {
                let (task, count) = job(round);
                on_the_way[sheet] = (task, count.min(parts[sheet]));
                crew.post(sheet, task, on_the_way[sheet].1);
            }
        }
    });
}

#[test]
fn every_part_of_every_job_is_done_once() {
    for (workers, foreman_works) in [(0, true), (1, true), (1, false), (3, true), (8, false)] {
        let roster = Roster { workers, foreman_works, parts: &[50; 3], head_start: HEAD_START };
        let job = |round: usize| {
            ([1, 2, 5, 3][if round.is_multiple_of(97) { 3 } else { round % 3 }], round * 7 % 51)
        };
        check_counts(&roster, 4000, job, (3, 7));
    }
}

/// Jobs so short that threads still look for the last one's parts when the next is there; with all kinds of patience.
#[test]
fn many_short_jobs_on_uneven_sheets_lose_no_part() {
    let waits = [Duration::ZERO, Duration::from_nanos(300), HEAD_START, LONG];
    for (workers, foreman_works) in [(2, true), (3, false), (5, true)] {
        for head_start in waits {
            let roster = Roster { workers, foreman_works, parts: &[1, 3, 6, 2], head_start };
            check_counts(&roster, 10_000, |round| ((round % 5) as u8 + 1, round * 5 % 7), (0, 0));
        }
    }
}

#[test]
fn parts_are_done_by_their_owners() {
    const SIZES: [usize; 2] = [4, 3];
    for (workers, foreman_works) in [(3, false), (2, true), (7, false), (6, true)] {
        let owners = workers + usize::from(foreman_works);
        let seen: Mutex<HashMap<(usize, usize), HashMap<ThreadId, usize>>> = Mutex::default();
        let work = |sheet: usize, _: u8, part: usize| {
            let mut seen = seen.lock().unwrap();
            *seen.entry((sheet, part)).or_default().entry(std::thread::current().id()).or_default() += 1;
        };
        let roster = Roster { workers, foreman_works, parts: &SIZES, head_start: LONG };
        let foreman = with_crew(&roster, &work, |crew| {
            for round in 0..300 {
                let sheet = if round < 2 { round } else { crew.finish(foreman_works) };
                crew.post(sheet, 0, SIZES[sheet]);
                if round % 50 == 7 {
                    // A pause between two jobs.
                    std::thread::sleep(crew.shop.patience.limit * 3);
                }
            }
            for _ in 0..2 {
                crew.finish(foreman_works);
            }
            std::thread::current().id()
        });
        let seen = seen.into_inner().unwrap();
        let only = |sheet: usize, part: usize| {
            let by = &seen[&(sheet, part)];
            assert_eq!(by.len(), 1, "part {part} of sheet {sheet} wandered: {by:?}");
            *by.keys().next().unwrap()
        };
        let by: Vec<ThreadId> = (0..4).map(|part| only(0, part)).chain((0..3).map(|p| only(1, p))).collect();
        for (one, other) in (0..7).flat_map(|one| (0..7).map(move |other| (one, other))) {
            assert_eq!(by[one] == by[other], one % owners == other % owners, "{one}, {other}: {by:?}");
        }
        for (part, by) in by.into_iter().enumerate() {
            assert_eq!(by == foreman, foreman_works && part % owners == workers, "{part}");
        }
    }
}

/// The first part of each owner ends only when the others of it have been done, and so by others.
#[test]
fn parts_of_a_busy_owner_are_taken_by_others() {
    const OWN: usize = 5;
    let left = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let blocked = AtomicBool::new(true);
    let work = |_: usize, _: u8, part: usize| {
        left[part % 2].fetch_sub(1, SeqCst);
        let begun = Instant::now();
        // Only the one who takes it first is blocked: somebody must be free to take the rest.
        if part == 0 && blocked.swap(false, SeqCst) {
            while left[0].load(SeqCst) > 0 {
                assert!(begun.elapsed() < Duration::from_secs(60), "nobody takes a busy owner's parts");
                std::thread::yield_now();
            }
        }
    };
    for foreman_works in [false, true] {
        let workers = 2 - usize::from(foreman_works);
        let roster = Roster { workers, foreman_works, parts: &[2 * OWN], head_start: HEAD_START };
        with_crew(&roster, &work, |crew| {
            for _ in 0..50 {
                left.iter().for_each(|left| left.store(OWN, SeqCst));
                blocked.store(true, SeqCst);
                crew.post(0, 0, 2 * OWN);
                crew.finish(foreman_works);
            }
        });
    }
}

#[test]
fn the_job_posted_first_is_begun_first() {
    let order = Mutex::new(Vec::new());
    let work = |sheet: usize, _: u8, part: usize| order.lock().unwrap().push((sheet, part));
    let roster = Roster { workers: 0, foreman_works: true, parts: &[2; 3], head_start: HEAD_START };
    with_crew(&roster, &work, |crew| {
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
    for (workers, foreman_works) in [(2, true), (2, false), (1, false)] {
        let outcome = std::panic::catch_unwind(|| {
            let roster = Roster { workers, foreman_works, parts: &[10], head_start: HEAD_START };
            with_crew(&roster, &work, |crew| {
                crew.post(0, 0, 10);
                crew.finish(foreman_works)
            })
        });
        assert!(outcome.is_err());
    }
}
