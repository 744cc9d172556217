//! Buffers of floats in main memory, aligned to cache lines and with slack behind them.

use super::kernels::SLACK;

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A buffer of floats of fixed length, aligned to cache lines.
#[derive(Clone, Debug, Default)]
pub struct Floats {
    lines: Vec<Line>,
    len: usize,
}

impl Floats {
    /// A buffer of zeros. What lies behind its end may be read, but never matters.
    pub(crate) fn zeros(len: usize) -> Floats {
        Floats { lines: vec![Line([0.0; 16]); (len + SLACK).div_ceil(16)], len }
    }

    /// A pointer to the float at `at`, valid for reads up to the end of the slack.
    pub(crate) fn at(&self, at: usize) -> *const f32 {
        self.lines.as_ptr().cast::<f32>().wrapping_add(at)
    }

    /// A pointer to the float at `at`, valid for writes up to the end.
    pub(crate) fn at_mut(&mut self, at: usize) -> *mut f32 {
        self.lines.as_mut_ptr().cast::<f32>().wrapping_add(at)
    }
}

impl std::ops::Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `zeros` made at least `len` floats of lines, initialised and without gaps, and the length never changes; a
        // default buffer has no lines and length 0, for which any aligned pointer will do.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl std::ops::DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}
