//! Pausing and cancelling a run from outside: from another thread, a signal, a notebook.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A handle on a run. Clones steer the same run.
///
/// ```
/// use spectral_train::control::Control;
/// let control = Control::default();
/// let elsewhere = control.clone();
/// elsewhere.cancel();
/// assert!(control.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Set while agents are to stop between two steps, whatever the reason.
    stop: AtomicBool,
    cancelled: AtomicBool,
    paused: Mutex<bool>,
    changed: Condvar,
}

impl Control {
    /// Ends the run at the next step, with a checkpoint. It can be resumed.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
        self.0.stop.store(true, Ordering::Relaxed);
        self.0.changed.notify_all();
    }

    /// Whether the run is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }

    /// Stops the run at the next step, with a checkpoint, until [`resume`](Control::resume) or [`cancel`](Control::cancel).
    pub fn pause(&self) {
        *self.paused() = true;
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// Lets a paused run go on.
    pub fn resume(&self) {
        let mut paused = self.paused();
        *paused = false;
        self.0.stop.store(self.is_cancelled(), Ordering::Relaxed);
        self.0.changed.notify_all();
    }

    /// Whether the run is paused, or about to be.
    pub fn is_paused(&self) -> bool {
        *self.paused()
    }

    /// Ends the training at the next step for a reason that is not the user's.
    pub(crate) fn halt(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
        self.0.changed.notify_all();
    }

    /// Forgets that another training was [halted](Control::halt).
    pub(crate) fn forget_halt(&self) {
        let paused = self.paused();
        self.0.stop.store(*paused || self.is_cancelled(), Ordering::Relaxed);
    }

    /// What a population watches.
    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.0.stop
    }

    /// Waits while the run is paused, not cancelled and not `over` for another reason.
    pub(crate) fn wait_while_paused(&self, over: impl Fn() -> bool) {
        let mut paused = self.paused();
        while *paused && !self.is_cancelled() && !over() {
            // Not for ever: cancelling takes no lock, so that it may come from anywhere.
            let wait = std::time::Duration::from_millis(50);
            paused = self.0.changed.wait_timeout(paused, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn paused(&self) -> std::sync::MutexGuard<'_, bool> {
        self.0.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
