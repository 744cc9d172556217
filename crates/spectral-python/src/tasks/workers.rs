//! Threads that step many tasks together. They live as long as their batch: none is started for a step.
//!
//! Every thread has an even share of the jobs, always the same ones, so that a task stays in the caches of one core. A thread
//! that has none left takes the last one of another's. The thread that asks works too, and waits only for jobs that somebody
//! has begun: it never waits for a thread that is slow to wake up.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{hint, process, thread};

/// How long a thread polls for the next step before it sleeps. Python needs about this long between two steps of a loop
/// without a network, and waking a thread takes longer.
const POLL: Duration = Duration::from_micros(50);
/// Steps that take less than this altogether are not worth waking anybody.
const WORTH_SHARING: f64 = 20e-6;

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// The threads of one batch.
pub struct Workers {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// Threads do not survive a fork, but a forked process may go on with what it has inherited.
    process: u32,
    /// Seconds that one job takes, about.
    seconds: f64,
}

struct Shared {
    /// Each thread's jobs that nobody has begun: first in the upper half, end in the lower one.
    shares: Vec<Share>,
    finished: AtomicUsize,
    work: WorkCell,
    failure: Mutex<Option<String>>,
    /// Changes when there is something to do.
    round: AtomicU64,
    sleepers: AtomicUsize,
    quit: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

/// On a cache line of its own, because each thread writes to its own most of the time.
#[repr(align(128))]
struct Share(AtomicU64);

struct WorkCell(UnsafeCell<Option<*const Work<'static>>>);

// SAFETY: the cell is written by `Workers::run` only, while no job is begun and none can be; it is read only by a thread that
// has begun a job, before it says that the job is finished. The pointer is to a function that may be called by many threads.
unsafe impl Sync for WorkCell {}
// SAFETY: as for `Sync`; the pointer itself may be sent anywhere.
unsafe impl Send for WorkCell {}

impl Share {
    fn set(&self, first: usize, end: usize) {
        self.0.store((first as u64) << 32 | end as u64, Ordering::Release);
    }

    /// Takes one job: the owner the first, a thief the last.
    fn take(&self, own: bool) -> Option<usize> {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let (first, end) = (seen >> 32, seen & u64::from(u32::MAX));
            if first >= end {
                return None;
            }
            let (job, left) =
                if own { (first, (first + 1) << 32 | end) } else { (end - 1, first << 32 | (end - 1)) };
            match self.0.compare_exchange_weak(seen, left, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(job as usize),
                Err(now) => seen = now,
            }
        }
    }
}

impl Shared {
    /// Works until nobody has jobs left to begin.
    fn help(&self, number: usize) {
        let count = self.shares.len();
        for other in 0..count {
            let share = &self.shares[(number + other) % count];
            while let Some(job) = share.take(other == 0) {
                // SAFETY: this thread has begun a job of the round under way, so `run` has set the function and cannot return
                // before `finished` counts this job.
                let work = unsafe { &*(*self.work.0.get()).expect("set before jobs are offered") };
                if let Err(reason) = catch_unwind(AssertUnwindSafe(|| work(job))) {
                    *locked(&self.failure) = Some(words(&*reason));
                }
                self.finished.fetch_add(1, Ordering::Release);
            }
        }
    }

    fn serve(&self, number: usize) {
        let mut seen = 0;
        loop {
            self.wait(seen);
            if self.quit.load(Ordering::Acquire) {
                return;
            }
            seen = self.round.load(Ordering::Acquire);
            self.help(number);
        }
    }

    fn wait(&self, seen: u64) {
        let since = Instant::now();
        let mut polls = 0u32;
        while self.round.load(Ordering::Acquire) == seen {
            polls += 1;
            if !polls.is_multiple_of(64) {
                hint::spin_loop();
            } else if since.elapsed() < POLL {
                thread::yield_now();
            } else {
                // Either this thread sees the new round here, or the one who begins it sees the sleeper.
                let mut guard = locked(&self.lock);
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                while self.round.load(Ordering::SeqCst) == seen {
                    guard = self.bell.wait(guard).unwrap_or_else(PoisonError::into_inner);
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    fn ring(&self) {
        self.round.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = locked(&self.lock);
            self.bell.notify_all();
        }
    }
}

impl Workers {
    /// So many threads, the one that asks included.
    pub fn new(threads: usize) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            shares: (0..threads.max(1)).map(|_| Share(AtomicU64::new(0))).collect(),
            finished: AtomicUsize::new(0),
            work: WorkCell(UnsafeCell::new(None)),
            failure: Mutex::new(None),
            round: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            quit: AtomicBool::new(false),
            lock: Mutex::new(()),
            bell: Condvar::new(),
        });
        let mut workers = Workers { shared, handles: Vec::new(), process: process::id(), seconds: f64::MAX };
        for number in 1..threads {
            let shared = workers.shared.clone();
            let thread = thread::Builder::new().name(format!("spectral-tasks-{number}"));
            let handle = thread.spawn(move || shared.serve(number));
            workers
                .handles
                .push(handle.map_err(|e| format!("cannot start thread {number} of {threads}: {e}"))?);
        }
        Ok(workers)
    }

    /// How many threads it has, the one that asks included.
    pub fn threads(&self) -> usize {
        self.shared.shares.len()
    }

    /// Does `jobs` jobs, each once, and returns when all are finished. The error is what a job that panicked said.
    pub fn run(&mut self, jobs: usize, work: &Work<'_>) -> Result<(), String> {
        assert!(jobs < u32::MAX as usize, "more jobs than a share can count");
        let since = Instant::now();
        let alone = self.threads() == 1
            || jobs as f64 * self.seconds < WORTH_SHARING
            || process::id() != self.process;
        let threads = if alone { 1 } else { self.threads() };
        if alone {
            let all = AssertUnwindSafe(|| (0..jobs).for_each(work));
            catch_unwind(all).map_err(|reason| words(&*reason))?;
        } else {
            self.run_together(jobs, work)?;
        }
        // Only a guide to whether others are called next time, which changes no result.
        let seconds = since.elapsed().as_secs_f64() * threads as f64 / jobs.max(1) as f64;
        self.seconds = if self.seconds == f64::MAX { seconds } else { 0.9 * self.seconds + 0.1 * seconds };
        Ok(())
    }

    fn run_together(&mut self, jobs: usize, work: &Work<'_>) -> Result<(), String> {
        let shared = &*self.shared;
        let pointer: *const Work<'_> = work;
        // SAFETY: only the lifetime changes. All shares are empty and all jobs of the round before are finished, so nobody reads
        // the cell now; this function returns only when all jobs of this round are finished, so nobody calls `work` later.
        unsafe {
            *shared.work.0.get() =
                Some(std::mem::transmute::<*const Work<'_>, *const Work<'static>>(pointer));
        }
        shared.finished.store(0, Ordering::Relaxed);
        let count = shared.shares.len();
        for (number, share) in shared.shares.iter().enumerate() {
            share.set(number * jobs / count, (number + 1) * jobs / count);
        }
        shared.ring();
        shared.help(0);
        let mut polls = 0u32;
        while shared.finished.load(Ordering::Acquire) < jobs {
            polls += 1;
            if polls.is_multiple_of(64) { thread::yield_now() } else { hint::spin_loop() }
        }
        match locked(&shared.failure).take() {
            Some(said) => Err(said),
            None => Ok(()),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if process::id() != self.process {
            return;
        }
        self.shared.quit.store(true, Ordering::Release);
        self.shared.ring();
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a panic said.
fn words(reason: &(dyn Any + Send)) -> String {
    let text = reason.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| reason.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it did not say why".into())
}
