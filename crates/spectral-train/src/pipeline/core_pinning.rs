//! CpuPopulation for threads, where some are slower than others.
//!
//! On a rented machine the twin of a core may be busy with somebody else's work, which nothing says: the same step of a game
//! then takes half as long again there, for seconds or minutes. A group waits for its slowest agent. So threads that have free
//! cores to go to compare how long their parts take, and move to where parts take less; now and then one of those that are
//! slow tries a core that nobody knows.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// Nanoseconds below which a part says nothing of a core: its agent has stopped, or its task takes less than the handing over.
const NOTHING: u64 = 1000;
/// Parts over which a thread takes the mean.
const WINDOW: u32 = 128;
/// A thread moves if it would take less than this share of its time elsewhere: less than means differ by chance.
const WORTH_IT: f64 = 0.87;
/// Milliseconds between two trials of cores that nobody knows, of all threads together.
const BETWEEN_TRIALS: u64 = 500;
/// Milliseconds after which nobody knows any more how fast a core is.
const FORGOTTEN: u64 = 20_000;

/// All cores that threads may be tied to.
pub(super) struct CorePinning {
    places: Vec<Place>,
    made: Instant,
    /// When somebody last tried a core that nobody knew, in milliseconds.
    tried: AtomicU64,
}

struct Place {
    core: usize,
    taken: AtomicBool,
    /// The mean of the last parts that were done there, in nanoseconds, and when that was, in milliseconds. 0: never.
    mean: AtomicU64,
    known: AtomicU64,
}

/// One thread's place, and what it has seen of it.
pub(super) struct PinnedThread<'a> {
    places: &'a CorePinning,
    at: usize,
    parts: u32,
    nanoseconds: u64,
    /// Ties the thread to a core.
    tie: fn(usize),
}

impl CorePinning {
    /// The cores in the order in which they are to be taken.
    pub(super) fn new(cores: &[usize]) -> CorePinning {
        let place = |&core: &usize| Place {
            core,
            taken: AtomicBool::new(false),
            mean: AtomicU64::new(0),
            known: AtomicU64::new(0),
        };
        CorePinning {
            places: cores.iter().map(place).collect(),
            made: Instant::now(),
            tried: AtomicU64::new(0),
        }
    }

    /// Gives the calling thread the core with this number in their order; several may share one.
    pub(super) fn seat(&self, number: usize, tie: fn(usize)) -> PinnedThread<'_> {
        let at = number % self.places.len().max(1);
        if let Some(place) = self.places.get(at) {
            place.taken.store(true, SeqCst);
            tie(place.core);
        }
        PinnedThread { places: self, at, parts: 0, nanoseconds: 0, tie }
    }

    /// Milliseconds since these were made, from 1 on.
    fn now(&self) -> u64 {
        self.made.elapsed().as_millis() as u64 + 1
    }

    /// How long parts take at a place, if that is known.
    fn mean(&self, at: usize, now: u64) -> Option<f64> {
        let place = &self.places[at];
        let fresh = now.saturating_sub(place.known.load(Relaxed)) < FORGOTTEN;
        let mean = place.mean.load(Relaxed);
        (mean > 0 && fresh).then_some(mean as f64)
    }

    /// Where whoever takes so long should go.
    fn better_than(&self, mean: f64, now: u64) -> Option<usize> {
        let free = |at: &usize| !self.places[*at].taken.load(SeqCst);
        let all = 0..self.places.len();
        let known = |at: usize| Some((at, self.mean(at, now)?));
        let best = all.clone().filter(free).filter_map(known).min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((at, _)) = best.filter(|&(_, there)| there < WORTH_IT * mean) {
            return Some(at);
        }
        // A core that nobody knows is worth a trial for those who are slower than others are.
        let least = all.clone().filter_map(|at| self.mean(at, now)).fold(f64::INFINITY, f64::min);
        let last = self.tried.load(SeqCst);
        if least >= WORTH_IT * mean || now < last + BETWEEN_TRIALS {
            return None;
        }
        let unknown = all.filter(free).find(|&at| self.mean(at, now).is_none())?;
        self.tried.compare_exchange(last, now, SeqCst, SeqCst).ok().map(|_| unknown)
    }
}

impl PinnedThread<'_> {
    /// Says how long a part took, and moves now and then.
    pub(super) fn worked(&mut self, nanoseconds: u64) {
        if nanoseconds < NOTHING {
            return;
        }
        self.parts += 1;
        self.nanoseconds += nanoseconds;
        if self.parts < WINDOW {
            return;
        }
        let mean = self.nanoseconds / u64::from(self.parts);
        (self.parts, self.nanoseconds) = (0, 0);
        self.compare(mean, self.places.now());
    }

    fn compare(&mut self, mean: u64, now: u64) {
        let Some(here) = self.places.places.get(self.at) else { return };
        here.mean.store(mean, Relaxed);
        here.known.store(now, Relaxed);
        let Some(better) = self.places.better_than(mean as f64, now) else { return };
        let there = &self.places.places[better];
        // Somebody else may have been quicker.
        if !there.taken.swap(true, SeqCst) {
            here.taken.store(false, SeqCst);
            self.at = better;
            (self.tie)(there.core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere(_: usize) {}

    #[test]
    fn threads_find_the_fast_cores_and_follow_them() {
        // Nanoseconds of a part on each core; two of them change places halfway.
        let mut speed = [90u64, 50, 88, 91, 52, 89, 50, 87];
        let cores: Vec<usize> = (0..speed.len()).collect();
        let places = CorePinning::new(&cores);
        let mut slots: Vec<PinnedThread<'_>> = (1..4).map(|number| places.seat(number, nowhere)).collect();
        for millisecond in 1..60_000 {
            if millisecond == 30_000 {
                speed.swap(4, 5);
            }
            for seat in &mut slots {
                let noise = (millisecond + seat.at as u64) % 5;
                seat.compare(speed[seat.at] + noise, millisecond);
            }
            let mut at: Vec<usize> = slots.iter().map(|seat| seat.at).collect();
            at.sort_unstable();
            at.dedup();
            assert_eq!(at.len(), 3, "nobody shares a core");
            if millisecond == 29_999 {
                assert_eq!(at, [1, 4, 6]);
            }
        }
        let at: Vec<usize> = slots.iter().map(|seat| seat.at).collect();
        assert!(at.contains(&1) && at.contains(&6) && at.contains(&5), "{at:?}");
    }

    #[test]
    fn nobody_moves_for_differences_of_chance_or_with_nowhere_to_go() {
        let places = CorePinning::new(&[3, 5, 7, 9]);
        let mut alike: Vec<PinnedThread<'_>> = (0..2).map(|number| places.seat(number, nowhere)).collect();
        let full = CorePinning::new(&[3, 5]);
        let mut unlike: Vec<PinnedThread<'_>> = (0..2).map(|number| full.seat(number, nowhere)).collect();
        for millisecond in 1..30_000 {
            for (number, seat) in alike.iter_mut().enumerate() {
                seat.compare(100 + (millisecond + number as u64) % 9, millisecond);
                assert_eq!(seat.at, number);
            }
            for (number, seat) in unlike.iter_mut().enumerate() {
                seat.compare(100 * (1 + number as u64), millisecond);
                assert_eq!(seat.at, number);
            }
        }
        // More threads than cores, or none that is known.
        assert_eq!((full.seat(2, nowhere).at, CorePinning::new(&[]).seat(2, nowhere).at), (0, 0));
        CorePinning::new(&[]).seat(0, nowhere).worked(NOTHING);
    }

    #[test]
    fn a_thread_is_tied_where_it_sits_and_looks_round_after_a_window() {
        use std::sync::atomic::AtomicUsize;
        static TIED: AtomicUsize = AtomicUsize::new(0);
        let places = CorePinning::new(&[30, 50, 70]);
        let mut seat = places.seat(1, |core| TIED.store(core, SeqCst));
        assert_eq!(TIED.load(SeqCst), 50);
        places.places[2].mean.store(10_000, Relaxed);
        places.places[2].known.store(1, Relaxed);
        for part in 0..WINDOW {
            assert_eq!(TIED.load(SeqCst), 50, "after {part} parts");
            seat.worked(100_000);
            // An agent that has stopped does not make this core look faster.
            (0..WINDOW).for_each(|_| seat.worked(NOTHING - 1));
        }
        assert_eq!(TIED.load(SeqCst), 70);
        assert!(!places.places[1].taken.load(SeqCst) && places.places[2].taken.load(SeqCst));
    }
}
