//! The pipeline's loop allocates nothing: what a run of twice the length allocates more comes from its end alone.

mod counting;

use counting::ALLOCATIONS;
use spectral_train::config::Configuration;
use spectral_train::registry::Registry;
use spectral_train::trainer::Trainer;
use std::sync::atomic::Ordering;

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
