//! Pins worker threads to cores, and moves them away from slow ones.
//!
//! On a rented machine another tenant may keep the sibling hyperthread of a core busy, and nothing tells us. The same step of
//! a game then takes half as long again on that core, for seconds or minutes, and a group waits for its slowest agent. So
//! threads compare how long their items take and move to free cores where items take less time. Now and then a slow thread
//! tries a core about which nothing is known.

use std::sync::LazyLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// Items shorter than this many nanoseconds say nothing about a core: the agent has stopped, or the task takes less time than
/// claiming the item.
const MIN_MEASURED: u64 = 1000;
/// The number of items over which a thread takes the mean.
const WINDOW: u32 = 128;
/// A thread moves if items take less than this share of its own time on the other core. Smaller differences can be chance.
const WORTH_MOVING: f64 = 0.87;
/// The least milliseconds between two trials of unknown cores, counted over all threads.
const TRIAL_INTERVAL: u64 = 500;
/// Milliseconds after which a measurement of a core is no longer used.
const MAX_AGE: u64 = 20_000;

/// Whether threads are pinned at all. `SPECTRAL_CORE_PINNING=off` switches pinning off, so that its effect can be measured
/// alone on a machine with a GPU. The variable is for that measurement only and is read once.
pub(super) fn is_enabled() -> bool {
    static ENABLED: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("SPECTRAL_CORE_PINNING").is_none_or(|value| value != "off"));
    *ENABLED
}

/// All cores that threads may be pinned to.
pub(super) struct CorePinning {
    cores: Vec<Core>,
    created: Instant,
    /// When a thread last tried an unknown core, in milliseconds.
    last_trial: AtomicU64,
}

struct Core {
    id: usize,
    taken: AtomicBool,
    /// The mean time of the last items that ran on the core, in nanoseconds, and when it was measured, in milliseconds. 0
    /// means never.
    mean: AtomicU64,
    measured: AtomicU64,
}

/// One thread's core, and the items that it has run there.
pub(super) struct PinnedThread<'a> {
    pinning: &'a CorePinning,
    /// Index of its core.
    core: usize,
    items: u32,
    nanoseconds: u64,
    /// Pins the calling thread to a core.
    pin: fn(usize),
}

impl CorePinning {
    /// The cores, in the order in which threads are to take them.
    pub(super) fn new(cores: &[usize]) -> CorePinning {
        let core = |&id: &usize| Core {
            id,
            taken: AtomicBool::new(false),
            mean: AtomicU64::new(0),
            measured: AtomicU64::new(0),
        };
        let cores = cores.iter().map(core).collect();
        CorePinning { cores, created: Instant::now(), last_trial: AtomicU64::new(0) }
    }

    /// Pins the calling thread, a worker with this number, to its first core. With more workers than cores, several share one.
    pub(super) fn pin(&self, worker: usize, pin: fn(usize)) -> PinnedThread<'_> {
        let index = worker % self.cores.len().max(1);
        if let Some(core) = self.cores.get(index) {
            core.taken.store(true, SeqCst);
            pin(core.id);
        }
        PinnedThread { pinning: self, core: index, items: 0, nanoseconds: 0, pin }
    }

    /// Milliseconds since creation, starting with 1.
    fn now(&self) -> u64 {
        self.created.elapsed().as_millis() as u64 + 1
    }

    /// How long items take on a core, if that is known.
    fn mean(&self, index: usize, now: u64) -> Option<f64> {
        let core = &self.cores[index];
        let fresh = now.saturating_sub(core.measured.load(Relaxed)) < MAX_AGE;
        let mean = core.mean.load(Relaxed);
        (mean > 0 && fresh).then_some(mean as f64)
    }

    /// The core to which a thread should move if its items take `mean` nanoseconds.
    fn better_than(&self, mean: f64, now: u64) -> Option<usize> {
        let free = |index: &usize| !self.cores[*index].taken.load(SeqCst);
        let all = 0..self.cores.len();
        let known = |index: usize| Some((index, self.mean(index, now)?));
        let best = all.clone().filter(free).filter_map(known).min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((index, _)) = best.filter(|&(_, there)| there < WORTH_MOVING * mean) {
            return Some(index);
        }
        // An unknown core is worth a trial only for a thread that is slower than others.
        let least = all.clone().filter_map(|index| self.mean(index, now)).fold(f64::INFINITY, f64::min);
        let last = self.last_trial.load(SeqCst);
        if least >= WORTH_MOVING * mean || now < last + TRIAL_INTERVAL {
            return None;
        }
        let unknown = all.filter(free).find(|&index| self.mean(index, now).is_none())?;
        self.last_trial.compare_exchange(last, now, SeqCst, SeqCst).ok().map(|_| unknown)
    }
}

impl PinnedThread<'_> {
    /// Reports how long an item took. After every full window the thread may move to another core.
    pub(super) fn item_took(&mut self, nanoseconds: u64) {
        if nanoseconds < MIN_MEASURED {
            return;
        }
        self.items += 1;
        self.nanoseconds += nanoseconds;
        if self.items < WINDOW {
            return;
        }
        let mean = self.nanoseconds / u64::from(self.items);
        (self.items, self.nanoseconds) = (0, 0);
        self.move_if_slow(mean, self.pinning.now());
    }

    fn move_if_slow(&mut self, mean: u64, now: u64) {
        let Some(here) = self.pinning.cores.get(self.core) else { return };
        here.mean.store(mean, Relaxed);
        here.measured.store(now, Relaxed);
        let Some(better) = self.pinning.better_than(mean as f64, now) else { return };
        let there = &self.pinning.cores[better];
        // Another thread may have taken it first.
        if !there.taken.swap(true, SeqCst) {
            here.taken.store(false, SeqCst);
            self.core = better;
            (self.pin)(there.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere(_: usize) {}

    #[test]
    fn threads_find_the_fast_cores_and_follow_them() {
        // Nanoseconds per item on each core. Two cores change speeds halfway.
        let mut speed = [90u64, 50, 88, 91, 52, 89, 50, 87];
        let cores: Vec<usize> = (0..speed.len()).collect();
        let pinning = CorePinning::new(&cores);
        let mut threads: Vec<PinnedThread<'_>> = (1..4).map(|number| pinning.pin(number, nowhere)).collect();
        for millisecond in 1..60_000 {
            if millisecond == 30_000 {
                speed.swap(4, 5);
            }
            for thread in &mut threads {
                let noise = (millisecond + thread.core as u64) % 5;
                thread.move_if_slow(speed[thread.core] + noise, millisecond);
            }
            let mut at: Vec<usize> = threads.iter().map(|thread| thread.core).collect();
            at.sort_unstable();
            at.dedup();
            assert_eq!(at.len(), 3, "no two threads share a core");
            if millisecond == 29_999 {
                assert_eq!(at, [1, 4, 6]);
            }
        }
        let at: Vec<usize> = threads.iter().map(|thread| thread.core).collect();
        assert!(at.contains(&1) && at.contains(&6) && at.contains(&5), "{at:?}");
    }

    #[test]
    fn no_thread_moves_for_chance_differences_or_without_a_free_core() {
        let pinning = CorePinning::new(&[3, 5, 7, 9]);
        let mut alike: Vec<PinnedThread<'_>> = (0..2).map(|number| pinning.pin(number, nowhere)).collect();
        let full = CorePinning::new(&[3, 5]);
        let mut unlike: Vec<PinnedThread<'_>> = (0..2).map(|number| full.pin(number, nowhere)).collect();
        for millisecond in 1..30_000 {
            for (number, thread) in alike.iter_mut().enumerate() {
                thread.move_if_slow(100 + (millisecond + number as u64) % 9, millisecond);
                assert_eq!(thread.core, number);
            }
            for (number, thread) in unlike.iter_mut().enumerate() {
                thread.move_if_slow(100 * (1 + number as u64), millisecond);
                assert_eq!(thread.core, number);
            }
        }
        // More threads than cores, or no known cores.
        assert_eq!((full.pin(2, nowhere).core, CorePinning::new(&[]).pin(2, nowhere).core), (0, 0));
        CorePinning::new(&[]).pin(0, nowhere).item_took(MIN_MEASURED);
    }

    #[test]
    fn a_thread_is_pinned_and_may_move_after_a_window() {
        use std::sync::atomic::AtomicUsize;
        static PINNED: AtomicUsize = AtomicUsize::new(0);
        let pinning = CorePinning::new(&[30, 50, 70]);
        let mut thread = pinning.pin(1, |core| PINNED.store(core, SeqCst));
        assert_eq!(PINNED.load(SeqCst), 50);
        pinning.cores[2].mean.store(10_000, Relaxed);
        pinning.cores[2].measured.store(1, Relaxed);
        for item in 0..WINDOW {
            assert_eq!(PINNED.load(SeqCst), 50, "after {item} items");
            thread.item_took(100_000);
            // An agent that has stopped does not make this core look faster.
            (0..WINDOW).for_each(|_| thread.item_took(MIN_MEASURED - 1));
        }
        assert_eq!(PINNED.load(SeqCst), 70);
        assert!(!pinning.cores[1].taken.load(SeqCst) && pinning.cores[2].taken.load(SeqCst));
    }
}
