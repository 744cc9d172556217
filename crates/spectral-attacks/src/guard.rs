//! Notices what a function that only returns does not show: memory beyond bounds, and that it does not return.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most bytes that one allocation may ask for while a target runs. All inputs are short.
pub const LIMIT: usize = 64 << 20;
/// An execution that takes longer is a hang. Most take less than a millisecond, but machines may be busy.
pub const HANG: Duration = Duration::from_secs(120);

static LARGEST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which notes the largest allocation. A program has to make it its own.
pub struct Noting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is the same there.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller keeps `realloc`'s contract, which is the same there; the pointer came from there.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the same allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The largest allocation since the last call, in bytes; 0 where [`Noting`] is not the program's allocator.
pub fn take_largest() -> usize {
    LARGEST.swap(0, Ordering::Relaxed)
}

/// Watches over executions, and ends the process if one does not.
pub struct Watch {
    count: Arc<AtomicU64>,
    input: Arc<Mutex<Vec<u8>>>,
}

impl Watch {
    /// `hung` gets the input of an execution that did not end, and the process ends after it.
    pub fn new(hung: impl Fn(&[u8]) + Send + 'static) -> Self {
        let (count, input) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (seen, at_work) = (Arc::downgrade(&count), input.clone());
        std::thread::spawn(move || {
            let mut last = u64::MAX;
            loop {
                // Two looks may lie just before and just after the beginning of an execution.
                std::thread::sleep(HANG / 2);
                let Some(count) = seen.upgrade().map(|count| count.load(Ordering::Relaxed)) else { return };
                if count == last {
                    hung(&at_work.lock().unwrap_or_else(PoisonError::into_inner));
                    std::process::exit(70);
                }
                last = count;
            }
        });
        Watch { count, input }
    }

    /// An execution begins, with this input.
    pub fn begin(&self, bytes: &[u8]) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.clear();
        input.extend_from_slice(bytes);
        drop(input);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}
