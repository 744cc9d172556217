//! Jobs on sheets, and who may take which part of them.
//!
//! A part belongs to somebody: always the same one for the same part of the same sheet. What is worked on is large (a game
//! console with its pictures), and whoever worked on it last has it in the caches next to its core. Others take a part only
//! when it has waited for a while, because its owner is busy or asleep.
//!
//! A part's claim holds the number of the job in which it was taken last. Numbers only grow, and a job is not over before all
//! its parts were taken; so a part can be taken in job `n` as long as its claim is below `n`, and whoever still has an older
//! job in mind finds nothing to take.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Bits of a sheet's word that count the parts; the others number the job: enough for five years of one every ten
/// microseconds.
const PART_BITS: u32 = 20;
/// The most parts of one job.
pub(super) const MOST_PARTS: usize = (1 << PART_BITS) - 1;

/// Something on cache lines of its own: threads that write to neighbours of it do not slow it down.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Alone<T>(pub(super) T);

/// One job at a time.
struct Sheet {
    /// What threads watch.
    posted: Alone<Posted>,
    /// Parts done, for the one who posted the job.
    done: Alone<AtomicUsize>,
    /// Per part, the number of the job in which it was taken last.
    claims: Box<[Alone<AtomicU64>]>,
    /// The number of its first part among those of all sheets.
    first: usize,
}

/// What is to be done.
#[derive(Default)]
struct Posted {
    /// The job's number, which is above that of all before on any sheet, and its count of parts in the lowest bits.
    word: AtomicU64,
    task: AtomicU8,
    /// Nanoseconds since the board was made.
    when: AtomicU64,
}

/// A job as a sheet's word tells it.
#[derive(Clone, Copy)]
struct Job {
    number: u64,
    count: usize,
}

/// All sheets.
pub(super) struct Board {
    sheets: Vec<Sheet>,
    owners: usize,
    /// Nanoseconds for which a part waits for its owner alone.
    head_start: u64,
    made: Instant,
}

/// A part that was taken, and so is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) sheet: usize,
    pub(super) task: u8,
    pub(super) part: usize,
    /// The parts of its job.
    pub(super) count: usize,
}

impl Board {
    /// Sheets for jobs of at most so many parts each, which belong to the owners in turn and wait for them for a
    /// while before others may take them.
    pub(super) fn new(parts: &[usize], owners: usize, head_start: Duration) -> Board {
        let mut next = 0;
        let sheet = |&parts: &usize| {
            assert!(parts <= MOST_PARTS, "{parts} parts are too many for one job");
            next += parts;
            Sheet {
                posted: Alone::default(),
                done: Alone::default(),
                claims: (0..parts).map(|_| Alone::default()).collect(),
                first: next - parts,
            }
        };
        Board {
            sheets: parts.iter().map(sheet).collect(),
            owners: owners.max(1),
            head_start: head_start.as_nanos() as u64,
            made: Instant::now(),
        }
    }

    /// Those who own parts.
    pub(super) fn owners(&self) -> usize {
        self.owners
    }

    /// Who owns a part.
    pub(super) fn owner(&self, sheet: usize, part: usize) -> usize {
        (self.sheets[sheet].first + part) % self.owners
    }

    /// Puts a job on a sheet whose last one is done; numbers grow from job to job.
    pub(super) fn post(&self, sheet: usize, number: u64, task: u8, count: usize) {
        let Sheet { posted, done, claims, .. } = &self.sheets[sheet];
        assert!(count <= claims.len(), "{count} parts on a sheet for {}", claims.len());
        done.0.store(0, Relaxed);
        posted.0.task.store(task, Relaxed);
        posted.0.when.store(self.now(), Relaxed);
        // The last: whoever reads this word sees the rest too, and from here on parts are taken.
        posted.0.word.store(number << PART_BITS | count as u64, SeqCst);
    }

    /// Parts of a sheet's job that are done.
    pub(super) fn done(&self, sheet: usize) -> usize {
        self.sheets[sheet].done.0.load(SeqCst)
    }

    /// Counts a part as done; true if it was the last.
    pub(super) fn finish(&self, part: &Part) -> bool {
        self.sheets[part.sheet].done.0.fetch_add(1, SeqCst) + 1 == part.count
    }

    fn now(&self) -> u64 {
        self.made.elapsed().as_nanos() as u64
    }
}

impl Sheet {
    fn job(&self) -> Job {
        let word = self.posted.0.word.load(SeqCst);
        Job { number: word >> PART_BITS, count: word as usize & MOST_PARTS }
    }

    /// Takes the part if nobody has yet in this job, and the job is not over.
    fn claim(&self, job: Job, part: usize) -> bool {
        let claim = &self.claims[part].0;
        let last = claim.load(SeqCst);
        last < job.number && claim.compare_exchange(last, job.number, SeqCst, SeqCst).is_ok()
    }

    /// A part that was just claimed. Until it is done the sheet keeps its job, and so its task.
    fn taken(&self, sheet: usize, job: Job, part: usize) -> Part {
        Part { sheet, task: self.posted.0.task.load(Relaxed), part, count: job.count }
    }
}

/// One of those who take parts, with what it has seen of the board: nobody looks twice at a job that has nothing left.
pub(super) struct Taker<'a> {
    board: &'a Board,
    /// Its number among the owners; beyond them if it owns nothing.
    number: usize,
    /// Per sheet, the last job of which none of its own parts is left.
    own: Vec<u64>,
    /// Per sheet, the last job of which no part at all is left.
    any: Vec<u64>,
}

impl<'a> Taker<'a> {
    pub(super) fn new(board: &'a Board, number: usize) -> Self {
        let sheets = board.sheets.len();
        let own = if number < board.owners { 0 } else { u64::MAX };
        Taker { board, number, own: vec![own; sheets], any: vec![0; sheets] }
    }

    /// Whether parts may be left, though perhaps for their owners only.
    pub(super) fn sees_work(&self) -> bool {
        oldest(self.board, &self.any).is_some()
    }

    /// Takes a part: one of its own if there is one, else one that has waited for its owner too long; of several the one
    /// whose job was posted first.
    pub(super) fn take(&mut self) -> Option<Part> {
        let Taker { board, number, own, any } = self;
        while let Some((at, job)) = oldest(board, own) {
            let sheet = &board.sheets[at];
            // Numbers of parts, counted over all sheets, go round the owners.
            let mine = (*number + board.owners - sheet.first % board.owners) % board.owners;
            let mut parts = (mine..job.count).step_by(board.owners);
            match parts.find(|&part| sheet.claim(job, part)) {
                Some(part) => return Some(sheet.taken(at, job, part)),
                None => own[at] = job.number,
            }
        }
        while let Some((at, job)) = oldest(board, any) {
            let sheet = &board.sheets[at];
            // Those that were posted later have not waited longer.
            let waited = board.now().saturating_sub(sheet.posted.0.when.load(Relaxed));
            if waited < board.head_start {
                return None;
            }
            match (0..job.count).find(|&part| sheet.claim(job, part)) {
                Some(part) => return Some(sheet.taken(at, job, part)),
                None => any[at] = job.number,
            }
        }
        None
    }
}

/// The job posted first of those after the given ones, and its sheet.
fn oldest(board: &Board, after: &[u64]) -> Option<(usize, Job)> {
    let jobs = board.sheets.iter().map(Sheet::job).enumerate();
    jobs.filter(|&(sheet, job)| job.number > after[sheet]).min_by_key(|(_, job)| job.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// Takes and does all that it gets, as (sheet, part).
    fn all(taker: &mut Taker<'_>) -> Vec<(usize, usize)> {
        let mut taken = Vec::new();
        while let Some(part) = taker.take() {
            taker.board.finish(&part);
            taken.push((part.sheet, part.part));
        }
        taken
    }

    #[test]
    fn parts_of_all_sheets_go_round_the_owners() {
        let board = Board::new(&[3, 4], 2, LONG);
        let [mut even, mut odd, mut guest] = [0, 1, 2].map(|number| Taker::new(&board, number));
        for round in 0..3 {
            // The second sheet first: its parts are 3 to 6 of all.
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
        let board = Board::new(&[3, 3], 3, Duration::ZERO);
        let mut taker = Taker::new(&board, 1);
        board.post(0, 1, 0, 3);
        board.post(1, 2, 0, 2);
        assert_eq!(all(&mut taker), [(0, 1), (1, 1), (0, 0), (0, 2), (1, 0)]);
        assert!(!taker.sees_work());
    }

    /// A thread may sleep between any two of its looks, and act on what it saw long ago.
    #[test]
    fn nothing_is_taken_by_whoever_has_an_older_job_in_mind() {
        let board = Board::new(&[4], 1, LONG);
        let mut owner = Taker::new(&board, 0);
        board.post(0, 7, 0, 4);
        let sheet = &board.sheets[0];
        let old = sheet.job();
        assert_eq!(all(&mut owner).len(), 4);
        let claim_late = || (0..old.count).any(|part| sheet.claim(old, part));
        assert!(!claim_late(), "after its end");
        // The next job has fewer parts; those beyond were last taken in the old one.
        board.post(0, 8, 0, 2);
        assert!(!claim_late(), "in the next job");
        assert_eq!(owner.take().map(|part| part.part), Some(0));
        assert!(!claim_late(), "in the midst of the next job");
        assert_eq!(owner.take().map(|part| part.part), Some(1));
        assert_eq!(owner.take(), None);
    }
}
