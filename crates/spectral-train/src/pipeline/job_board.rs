//! Jobs on slots, and who may take which item of them.
//!
//! A item belongs to somebody: always the same one for the same item of the same slot. What is worked on is large (a game
//! console with its pictures), and whoever worked on it last has it in the caches next to its core. Others take a item only
//! when it has waited for a while, because its owner is busy or asleep.
//!
//! A item's claim holds the number of the job in which it was taken last. Numbers only grow, and a job is not over before all
//! its items were taken; so a item can be taken in job `n` as long as its claim is below `n`, and whoever still has an older
//! job in mind finds nothing to take.

use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Bits of a slot's word that count the items; the others number the job: enough for five years of one every ten
/// microseconds.
const ITEM_BITS: u32 = 20;
/// The most items of one job.
pub(super) const MAX_ITEMS: usize = (1 << ITEM_BITS) - 1;

/// One job at a time.
struct JobSlot {
    /// What threads watch.
    posted: CachePadded<Posted>,
    /// Parts done, for the one who posted the job.
    done: CachePadded<AtomicUsize>,
    /// Per item, the number of the job in which it was taken last.
    claims: Box<[CachePadded<AtomicU64>]>,
    /// The number of its first item among those of all slots.
    first: usize,
}

/// What is to be done.
#[derive(Default)]
struct Posted {
    /// The job's number, which is above that of all before on any slot, and its count of items in the lowest bits.
    word: AtomicU64,
    task: AtomicU8,
    /// Nanoseconds since the board was made.
    when: AtomicU64,
}

/// A job as a slot's word tells it.
#[derive(Clone, Copy)]
struct Job {
    number: u64,
    count: usize,
}

/// All slots.
pub(super) struct JobBoard {
    slots: Vec<JobSlot>,
    owners: usize,
    /// Nanoseconds for which a item waits for its owner alone.
    head_start: u64,
    made: Instant,
}

/// A item that was taken, and so is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkItem {
    pub(super) slot: usize,
    pub(super) task: u8,
    pub(super) item: usize,
    /// The items of its job.
    pub(super) count: usize,
}

impl JobBoard {
    /// Sheets for jobs of at most so many items each, which belong to the owners in turn and wait for them for a
    /// while before others may take them.
    pub(super) fn new(items: &[usize], owners: usize, head_start: Duration) -> JobBoard {
        let mut next = 0;
        let slot = |&items: &usize| {
            assert!(items <= MAX_ITEMS, "{items} items are too many for one job");
            next += items;
            JobSlot {
                posted: CachePadded::default(),
                done: CachePadded::default(),
                claims: (0..items).map(|_| CachePadded::default()).collect(),
                first: next - items,
            }
        };
        JobBoard {
            slots: items.iter().map(slot).collect(),
            owners: owners.max(1),
            head_start: head_start.as_nanos() as u64,
            made: Instant::now(),
        }
    }

    /// Those who own items.
    pub(super) fn owners(&self) -> usize {
        self.owners
    }

    /// Who owns a item.
    pub(super) fn owner(&self, slot: usize, item: usize) -> usize {
        (self.slots[slot].first + item) % self.owners
    }

    /// Puts a job on a slot whose last one is done; numbers grow from job to job.
    pub(super) fn post(&self, slot: usize, number: u64, task: u8, count: usize) {
        let JobSlot { posted, done, claims, .. } = &self.slots[slot];
        assert!(count <= claims.len(), "{count} items on a slot for {}", claims.len());
        done.store(0, Relaxed);
        posted.task.store(task, Relaxed);
        posted.when.store(self.now(), Relaxed);
        // The last: whoever reads this word sees the rest too, and from here on items are taken.
        posted.word.store(number << ITEM_BITS | count as u64, SeqCst);
    }

    /// Parts of a slot's job that are done.
    pub(super) fn done(&self, slot: usize) -> usize {
        self.slots[slot].done.load(SeqCst)
    }

    /// Counts a item as done; true if it was the last.
    pub(super) fn finish(&self, item: &WorkItem) -> bool {
        self.slots[item.slot].done.fetch_add(1, SeqCst) + 1 == item.count
    }

    fn now(&self) -> u64 {
        self.made.elapsed().as_nanos() as u64
    }
}

impl JobSlot {
    fn job(&self) -> Job {
        let word = self.posted.word.load(SeqCst);
        Job { number: word >> ITEM_BITS, count: word as usize & MAX_ITEMS }
    }

    /// Takes the item if nobody has yet in this job, and the job is not over.
    fn claim(&self, job: Job, item: usize) -> bool {
        let claim = &self.claims[item];
        let last = claim.load(SeqCst);
        last < job.number && claim.compare_exchange(last, job.number, SeqCst, SeqCst).is_ok()
    }

    /// A item that was just claimed. Until it is done the slot keeps its job, and so its task.
    fn taken(&self, slot: usize, job: Job, item: usize) -> WorkItem {
        WorkItem { slot, task: self.posted.task.load(Relaxed), item, count: job.count }
    }
}

/// One of those who take items, with what it has seen of the board: nobody looks twice at a job that has nothing left.
pub(super) struct WorkerCursor<'a> {
    board: &'a JobBoard,
    /// Its number among the owners; beyond them if it owns nothing.
    number: usize,
    /// Per slot, the last job of which none of its own items is left.
    own: Vec<u64>,
    /// Per slot, the last job of which no item at all is left.
    any: Vec<u64>,
}

impl<'a> WorkerCursor<'a> {
    pub(super) fn new(board: &'a JobBoard, number: usize) -> Self {
        let slots = board.slots.len();
        let own = if number < board.owners { 0 } else { u64::MAX };
        WorkerCursor { board, number, own: vec![own; slots], any: vec![0; slots] }
    }

    /// Whether items may be left, though perhaps for their owners only.
    pub(super) fn sees_work(&self) -> bool {
        oldest(self.board, &self.any).is_some()
    }

    /// Takes a item: one of its own if there is one, else one that has waited for its owner too long; of several the one
    /// whose job was posted first.
    pub(super) fn take(&mut self) -> Option<WorkItem> {
        let WorkerCursor { board, number, own, any } = self;
        while let Some((at, job)) = oldest(board, own) {
            let slot = &board.slots[at];
            // Numbers of items, counted over all slots, go round the owners.
            let mine = (*number + board.owners - slot.first % board.owners) % board.owners;
            let mut items = (mine..job.count).step_by(board.owners);
            match items.find(|&item| slot.claim(job, item)) {
                Some(item) => return Some(slot.taken(at, job, item)),
                None => own[at] = job.number,
            }
        }
        while let Some((at, job)) = oldest(board, any) {
            let slot = &board.slots[at];
            // Those that were posted later have not waited longer.
            let waited = board.now().saturating_sub(slot.posted.when.load(Relaxed));
            if waited < board.head_start {
                return None;
            }
            match (0..job.count).find(|&item| slot.claim(job, item)) {
                Some(item) => return Some(slot.taken(at, job, item)),
                None => any[at] = job.number,
            }
        }
        None
    }
}

/// The job posted first of those after the given ones, and its slot.
fn oldest(board: &JobBoard, after: &[u64]) -> Option<(usize, Job)> {
    let jobs = board.slots.iter().map(JobSlot::job).enumerate();
    jobs.filter(|&(slot, job)| job.number > after[slot]).min_by_key(|(_, job)| job.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// Takes and does all that it gets, as (slot, item).
    fn all(cursor: &mut WorkerCursor<'_>) -> Vec<(usize, usize)> {
        let mut taken = Vec::new();
        while let Some(item) = cursor.take() {
            cursor.board.finish(&item);
            taken.push((item.slot, item.item));
        }
        taken
    }

    #[test]
    fn parts_of_all_sheets_go_round_the_owners() {
        let board = JobBoard::new(&[3, 4], 2, LONG);
        let [mut even, mut odd, mut guest] = [0, 1, 2].map(|number| WorkerCursor::new(&board, number));
        for round in 0..3 {
            // The second slot first: its items are 3 to 6 of all.
            board.post(1, 2 * round + 1, 9, 4);
            board.post(0, 2 * round + 2, 9, 3);
            assert_eq!(all(&mut guest), []);
            assert_eq!(all(&mut even), [(1, 1), (1, 3), (0, 0), (0, 2)]);
            assert!(odd.sees_work());
            assert_eq!(all(&mut odd), [(1, 0), (1, 2), (0, 1)]);
            assert_eq!((board.done(0), board.done(1)), (3, 4));
            assert_eq!((board.owner(0, 1), board.owner(1, 1)), (1, 0));
        }
    }

    #[test]
    fn what_has_waited_is_anybody_s_after_one_s_own() {
        let board = JobBoard::new(&[3, 3], 3, Duration::ZERO);
        let mut cursor = WorkerCursor::new(&board, 1);
        board.post(0, 1, 0, 3);
        board.post(1, 2, 0, 2);
        assert_eq!(all(&mut cursor), [(0, 1), (1, 1), (0, 0), (0, 2), (1, 0)]);
        assert!(!cursor.sees_work());
    }

    /// A thread may sleep between any two of its looks, and act on what it saw long ago.
    #[test]
    fn nothing_is_taken_by_whoever_has_an_older_job_in_mind() {
        let board = JobBoard::new(&[4], 1, LONG);
        let mut owner = WorkerCursor::new(&board, 0);
        board.post(0, 7, 0, 4);
        let slot = &board.slots[0];
        let old = slot.job();
        assert_eq!(all(&mut owner).len(), 4);
        let claim_late = || (0..old.count).any(|item| slot.claim(old, item));
        assert!(!claim_late(), "after its end");
        // The next job has fewer items; those beyond were last taken in the old one.
        board.post(0, 8, 0, 2);
        assert!(!claim_late(), "in the next job");
        assert_eq!(owner.take().map(|item| item.item), Some(0));
        assert!(!claim_late(), "in the midst of the next job");
        assert_eq!(owner.take().map(|item| item.item), Some(1));
        assert_eq!(owner.take(), None);
    }
}
