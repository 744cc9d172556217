//! The pipeline's loop allocates nothing: what a run of twice the length allocates more comes from its end alone.

use spectral_train::config::Configuration;
use spectral_train::registry::Registry;
use spectral_train::trainer::Trainer;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: everything is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of a run, from its first step to its last.
fn allocations(frames: u64, groups: usize) -> u64 {
    let mut config = Configuration::default();
    for pair in [
        "task=exponential-pong-mini",
        "agents=spectral,popart,categorical",
        "device=cpu-lockstep",
        "hidden=16",
        "batch=8",
        "replay=500",
        "learning_starts=100",
        "log_frames=1000000",
        "threads=2",
    ] {
        config.set(pair).unwrap();
    }
    config.add("frames", frames.to_string());
    config.add("groups", groups.to_string());
    let folder = std::env::temp_dir().join(format!("spectral-allocation-{}-{frames}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let registry = Registry::default();
    let run = registry.resolve(&config).unwrap();
    let mut trainer = Trainer::create(&folder, run, &registry, "test").unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    trainer.run().unwrap();
    let count = ALLOCATIONS.load(Ordering::Relaxed) - before;
    std::fs::remove_dir_all(&folder).unwrap();
    count
}

#[test]
fn steps_allocate_nothing() {
    for groups in [2, 3] {
        let (short, long) = (allocations(2_000, groups), allocations(12_000, groups));
        // 30,000 agent steps and 10,000 submissions of each group more. People are told how far it is ten times a second,
        // which takes a few.
        assert!(
            long < short + 300,
            "{short} allocations in a short run, {long} in a long one, {groups} groups"
        );
    }
}
