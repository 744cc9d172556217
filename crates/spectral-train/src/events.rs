//! What happens to agents while they train, for programs that want to be told: episodes that ended, rows of metrics.

use crate::metrics_writer::Episode;
use std::sync::{Mutex, PoisonError};

/// Something that happened to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An episode ended.
    Episode {
        /// The agent's number in the plan.
        agent: usize,
        /// The episode.
        episode: Episode,
    },
    /// A row of metrics was written.
    Metrics {
        /// The agent's number in the plan.
        agent: usize,
        /// Columns and their values, as `metrics.csv` has them; a value that does not exist yet is left out.
        values: Vec<(String, f64)>,
    },
}

/// Collects events until somebody takes them.
///
/// ```
/// use spectral_train::events::Events;
/// assert!(Events::default().take().is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Events(Mutex<Vec<Event>>);

impl Events {
    pub(crate) fn push(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Whether nothing has happened since the last call of [`take`](Events::take).
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The events since the last call, those of one agent in the order in which they happened.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
