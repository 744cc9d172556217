//! What a page is told, as it stands now: whoever makes it writes here, and every connection reads at its own pace.
//!
//! Nothing here grows with time: pictures replace each other, tables are thinned, and the last minute is cut off at its end and
//! by its size.

use crate::film::{Film, LastMinute};
use crate::picture::Indexed;
use crate::tables::AgentTables;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The newest of everything.
#[derive(Debug, Default)]
pub struct Feed {
    state: Mutex<State>,
    changed: Condvar,
    /// Per agent, connections that want its pictures.
    watchers: Vec<AtomicUsize>,
    closing: AtomicBool,
    ended: AtomicBool,
    /// Pictures of the last minute.
    film: Mutex<LastMinute>,
}

/// What readers see.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Increases with every change.
    pub version: u64,
    /// The newest `progress` event, as JSON.
    pub progress: Option<Arc<str>>,
    pub tables: Vec<Arc<AgentTables>>,
    /// Per agent, the newest message of the picture stream and its number.
    pub pictures: Vec<Option<(u64, Arc<[u8]>)>>,
    /// What to tell readers before the server goes.
    pub farewell: Option<Arc<str>>,
}

impl Feed {
    /// A feed for this many agents.
    pub fn new(agents: usize) -> Self {
        let state = State {
            tables: (0..agents).map(|_| Arc::default()).collect(),
            pictures: vec![None; agents],
            ..State::default()
        };
        Feed {
            state: Mutex::new(state),
            watchers: (0..agents).map(|_| AtomicUsize::new(0)).collect(),
            ..Feed::default()
        }
    }

    /// The number of agents.
    pub(crate) fn agents(&self) -> usize {
        self.watchers.len()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and wakes all readers.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state);
        state.version += 1;
        drop(state);
        self.changed.notify_all();
        result
    }

    /// The state once it is not of this version any more, or after `wait`.
    pub(crate) fn wait(&self, version: u64, wait: Duration) -> MutexGuard<'_, State> {
        let state = self.state();
        let same = |state: &mut State| state.version == version && !self.has_ended();
        self.changed.wait_timeout_while(state, wait, same).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until the feed is about to end, at most for `wait`.
    pub(crate) fn wait_for_close(&self, wait: Duration) {
        let going_on = |_: &mut State| !self.is_closing();
        drop(self.changed.wait_timeout_while(self.state(), wait, going_on));
    }

    /// Asks those who write here for their last word.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // With the lock, so that nobody misses it who is about to wait.
        drop(self.state());
        self.changed.notify_all();
    }

    /// Whether only last words are to come.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Keeps a picture for the film of the last minute.
    pub(crate) fn remember(&self, agent: usize, picture: &Indexed) {
        self.film.lock().unwrap_or_else(PoisonError::into_inner).add(agent, picture, Instant::now());
    }

    /// Lets the film begin anew.
    pub(crate) fn forget(&self) {
        self.film.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The film of the last minute of an agent.
    pub(crate) fn film(&self, agent: usize) -> Film {
        self.film.lock().unwrap_or_else(PoisonError::into_inner).of(agent)
    }

    /// Publishes a picture of an agent.
    pub(crate) fn show(&self, agent: usize, message: Arc<[u8]>) {
        self.change(|state| {
            state.pictures[agent] = Some((state.version + 1, message));
        });
    }

    /// Takes back the picture of an agent that nobody looks at: it would be old when somebody does.
    pub(crate) fn hide(&self, agent: usize) {
        self.state().pictures[agent] = None;
    }

    /// Counts a connection that wants pictures of this agent, until the guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>, agent: usize) -> Watching {
        self.watchers[agent].fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
        Watching { feed: self.clone(), agent }
    }

    /// Whether somebody wants pictures of this agent.
    pub(crate) fn is_watched(&self, agent: usize) -> bool {
        self.watchers[agent].load(Ordering::Relaxed) > 0
    }

    /// Says good-bye to all readers, and ends.
    pub(crate) fn end(&self, text: &str) {
        self.closing.store(true, Ordering::Release);
        self.ended.store(true, Ordering::Release);
        self.change(|state| state.farewell = Some(text.into()));
    }

    /// Whether nothing more will come.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// A connection that wants pictures of an agent.
#[derive(Debug)]
pub(crate) struct Watching {
    feed: Arc<Feed>,
    pub agent: usize,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.feed.watchers[self.agent].fetch_sub(1, Ordering::Relaxed);
    }
}
