//! Jobs in slots, and which worker may claim which item of them.
//!
//! Every item has an owner, which is always the same worker for the same item of the same slot. An item is one agent's task
//! (a game console with its pictures), which is large, and the worker that ran it last still has it in its core's caches.
//! Other workers may claim an item only after it has waited for a while because its owner is busy or asleep.
//!
//! An item's claim holds the number of the job in which the item was claimed last. Job numbers only grow, and a job does not
//! end before all its items were claimed. So an item can be claimed in job `n` only while its claim is below `n`, and a worker
//! that still looks at an older job finds nothing to claim.

use super::sync::Ordering::{Relaxed, SeqCst};
use super::sync::{AtomicU8, AtomicU64, AtomicUsize};
use crossbeam_utils::CachePadded;
use std::time::{Duration, Instant};

/// Bits of a slot's word that hold the number of items. The other bits number the job, which is enough for five years of one
/// job every ten microseconds.
const ITEM_BITS: u32 = 20;
/// The most items that one job can have.
pub(super) const MAX_ITEMS: usize = (1 << ITEM_BITS) - 1;

/// Holds one job at a time.
struct JobSlot {
    /// The field that workers poll.
    posted: CachePadded<Posted>,
    /// Number of finished items, which the main thread polls.
    done: CachePadded<AtomicUsize>,
    /// Per item, the number of the job in which it was claimed last.
    claims: Box<[CachePadded<AtomicU64>]>,
    /// The index of the slot's first item among the items of all slots.
    first: usize,
}

/// The job that was posted last.
#[derive(Default)]
struct Posted {
    /// The job's number, which is larger than that of every earlier job in any slot, and its number of items in the lowest
    /// bits.
    word: AtomicU64,
    phase: AtomicU8,
    /// Nanoseconds since the board was created.
    when: AtomicU64,
}

/// A job, unpacked from a slot's word.
#[derive(Clone, Copy)]
struct Job {
    number: u64,
    count: usize,
}

/// All slots.
pub(super) struct JobBoard {
    slots: Vec<JobSlot>,
    owners: usize,
    /// Nanoseconds during which only its owner may claim an item.
    head_start: u64,
    created: Instant,
}

/// An item that was claimed, and that its claimant must therefore process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkItem {
    pub(super) slot: usize,
    pub(super) phase: u8,
    pub(super) index: usize,
    /// The number of items of its job.
    pub(super) count: usize,
}

impl JobBoard {
    /// One slot per entry of `items`, which is the most items that a job in the slot can have. Items are assigned to the
    /// owners round-robin, and only the owner may claim an item during its `head_start`.
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
            created: Instant::now(),
        }
    }

    /// The number of owners.
    pub(super) fn owners(&self) -> usize {
        self.owners
    }

    /// The owner of an item.
    pub(super) fn owner(&self, slot: usize, index: usize) -> usize {
        (self.slots[slot].first + index) % self.owners
    }

    /// Posts a job in a slot whose last job is done. `number` must grow from job to job.
    pub(super) fn post(&self, slot: usize, number: u64, phase: u8, count: usize) {
        let JobSlot { posted, done, claims, .. } = &self.slots[slot];
        assert!(count <= claims.len(), "{count} items in a slot for {}", claims.len());
        done.store(0, Relaxed);
        posted.phase.store(phase, Relaxed);
        posted.when.store(self.now(), Relaxed);
        // This store comes last: a worker that reads the word sees the other fields too, and may claim items from now on.
        posted.word.store(number << ITEM_BITS | count as u64, SeqCst);
    }

    /// The number of finished items of a slot's job.
    pub(super) fn done(&self, slot: usize) -> usize {
        self.slots[slot].done.load(SeqCst)
    }

    /// Counts an item as finished, and returns true if it was the job's last.
    pub(super) fn finish(&self, item: &WorkItem) -> bool {
        self.slots[item.slot].done.fetch_add(1, SeqCst) + 1 == item.count
    }

    fn now(&self) -> u64 {
        self.created.elapsed().as_nanos() as u64
    }
}

impl JobSlot {
    fn job(&self) -> Job {
        let word = self.posted.word.load(SeqCst);
        Job { number: word >> ITEM_BITS, count: word as usize & MAX_ITEMS }
    }

    /// Claims an item, unless a worker claimed it in this job already or the job is over.
    fn claim(&self, job: Job, index: usize) -> bool {
        let claim = &self.claims[index];
        let last = claim.load(SeqCst);
        last < job.number && claim.compare_exchange(last, job.number, SeqCst, SeqCst).is_ok()
    }

    /// An item that was just claimed. The slot keeps its job, and so its phase, until the item is finished.
    fn claimed(&self, slot: usize, job: Job, index: usize) -> WorkItem {
        WorkItem { slot, phase: self.posted.phase.load(Relaxed), index, count: job.count }
    }
}

/// One worker's view of the board. It remembers which jobs have nothing left, so that no worker scans those twice.
pub(super) struct WorkerCursor<'a> {
    board: &'a JobBoard,
    /// The worker's number. It owns items only if the number is below the number of owners.
    worker: usize,
    /// Per slot, the last job of which none of the worker's own items is left.
    own: Vec<u64>,
    /// Per slot, the last job of which no item at all is left.
    any: Vec<u64>,
}

impl<'a> WorkerCursor<'a> {
    pub(super) fn new(board: &'a JobBoard, worker: usize) -> Self {
        let slots = board.slots.len();
        let own = if worker < board.owners { 0 } else { u64::MAX };
        WorkerCursor { board, worker, own: vec![own; slots], any: vec![0; slots] }
    }

    /// Whether unclaimed items may be left, even if only their owners may claim them yet.
    pub(super) fn sees_work(&self) -> bool {
        oldest(self.board, &self.any).is_some()
    }

    /// Claims an item: one of the worker's own if there is one, otherwise one whose head start is over. Of several it claims
    /// the one whose job was posted first.
    pub(super) fn claim(&mut self) -> Option<WorkItem> {
        let WorkerCursor { board, worker, own, any } = self;
        while let Some((at, job)) = oldest(board, own) {
            let slot = &board.slots[at];
            // Items are numbered over all slots, and those numbers go round the owners.
            let first = (*worker + board.owners - slot.first % board.owners) % board.owners;
            let mut items = (first..job.count).step_by(board.owners);
            match items.find(|&index| slot.claim(job, index)) {
                Some(index) => return Some(slot.claimed(at, job, index)),
                None => own[at] = job.number,
            }
        }
        while let Some((at, job)) = oldest(board, any) {
            let slot = &board.slots[at];
            // Jobs that were posted later have waited no longer than this one.
            let waited = board.now().saturating_sub(slot.posted.when.load(Relaxed));
            if waited < board.head_start {
                return None;
            }
            match (0..job.count).find(|&index| slot.claim(job, index)) {
                Some(index) => return Some(slot.claimed(at, job, index)),
                None => any[at] = job.number,
            }
        }
        None
    }
}

/// The job that was posted first among those newer than `after`, which holds one job number per slot, and its slot.
fn oldest(board: &JobBoard, after: &[u64]) -> Option<(usize, Job)> {
    let jobs = board.slots.iter().map(JobSlot::job).enumerate();
    jobs.filter(|&(slot, job)| job.number > after[slot]).min_by_key(|(_, job)| job.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// Claims and finishes all items that it can get, and returns them as (slot, index).
    fn claim_all(cursor: &mut WorkerCursor<'_>) -> Vec<(usize, usize)> {
        let mut claimed = Vec::new();
        while let Some(item) = cursor.claim() {
            cursor.board.finish(&item);
            claimed.push((item.slot, item.index));
        }
        claimed
    }

    #[test]
    fn items_of_all_slots_go_round_the_owners() {
        let board = JobBoard::new(&[3, 4], 2, LONG);
        let [mut even, mut odd, mut guest] = [0, 1, 2].map(|number| WorkerCursor::new(&board, number));
        for round in 0..3 {
            // The second slot is posted first. Its items are numbers 3 to 6 of all items.
            board.post(1, 2 * round + 1, 9, 4);
            board.post(0, 2 * round + 2, 9, 3);
            assert_eq!(claim_all(&mut guest), []);
            assert_eq!(claim_all(&mut even), [(1, 1), (1, 3), (0, 0), (0, 2)]);
            assert!(odd.sees_work());
            assert_eq!(claim_all(&mut odd), [(1, 0), (1, 2), (0, 1)]);
            assert_eq!((board.done(0), board.done(1)), (3, 4));
            assert_eq!((board.owner(0, 1), board.owner(1, 1)), (1, 0));
        }
    }

    #[test]
    fn own_items_come_before_items_whose_head_start_is_over() {
        let board = JobBoard::new(&[3, 3], 3, Duration::ZERO);
        let mut cursor = WorkerCursor::new(&board, 1);
        board.post(0, 1, 0, 3);
        board.post(1, 2, 0, 2);
        assert_eq!(claim_all(&mut cursor), [(0, 1), (1, 1), (0, 0), (0, 2), (1, 0)]);
        assert!(!cursor.sees_work());
    }

    /// A thread may be descheduled at any point, and then act on what it read long ago.
    #[test]
    fn a_stale_view_of_an_older_job_claims_nothing() {
        let board = JobBoard::new(&[4], 1, LONG);
        let mut owner = WorkerCursor::new(&board, 0);
        board.post(0, 7, 0, 4);
        let slot = &board.slots[0];
        let old = slot.job();
        assert_eq!(claim_all(&mut owner).len(), 4);
        let claim_late = || (0..old.count).any(|index| slot.claim(old, index));
        assert!(!claim_late(), "after its end");
        // The next job has fewer items. The others were last claimed in the old job.
        board.post(0, 8, 0, 2);
        assert!(!claim_late(), "in the next job");
        assert_eq!(owner.claim().map(|item| item.index), Some(0));
        assert!(!claim_late(), "in the midst of the next job");
        assert_eq!(owner.claim().map(|item| item.index), Some(1));
        assert_eq!(owner.claim(), None);
    }
}
