//! Quantities that move linearly in time, such as the rate of exploration.

/// A value that is `from` up to frame `start`, moves linearly for `duration` frames and then stays at `to`.
///
/// With a duration of 0 the value jumps: it is `to` from frame `start` on.
///
/// ```
/// use spectral_core::schedule::Linear;
/// let exploration = Linear { from: 1.0, to: 0.5, start: 100, duration: 50 };
/// assert_eq!(exploration.at(0), 1.0);
/// assert_eq!(exploration.at(125), 0.75);
/// assert_eq!(exploration.at(u64::MAX), 0.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// The value at the beginning.
    pub from: f64,
    /// The value at the end.
    pub to: f64,
    /// The frame at which the value begins to move.
    pub start: u64,
    /// How many frames the movement takes.
    pub duration: u64,
}

impl Linear {
    /// The same value at every frame.
    pub fn constant(value: f64) -> Self {
        Linear { from: value, to: value, start: 0, duration: 0 }
    }

    /// The value at this frame.
    pub fn at(&self, frame: u64) -> f64 {
        let Some(elapsed) = frame.checked_sub(self.start) else { return self.from };
        if elapsed >= self.duration {
            // Returned as it is: interpolation need not end in exactly this number.
            return self.to;
        }
        let share = elapsed as f64 / self.duration as f64;
        self.from + (self.to - self.from) * share
    }
}
