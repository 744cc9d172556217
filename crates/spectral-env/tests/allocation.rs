//! Playing, observing and drawing allocate nothing; a picture does the first time it is drawn.

use spectral_env::{Observation, ObservationSpec, Picture, Purpose, Stream, TaskOptions, make, tasks};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of each thread's allocations.
struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more, and nothing to be counted.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `alloc` got the pointer from the same allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steps_and_observations_do_not_allocate() {
    let count = || ALLOCATIONS.with(Cell::get);
    let start = count();
    drop(std::hint::black_box(vec![0u8; 100]));
    assert!(count() > start, "the counter counts");
    for task in tasks() {
        for &observation in task.observations {
            let options = TaskOptions { observation, ..TaskOptions::default() };
            let mut env = make(task.name, &options).unwrap();
            let spec = env.spec().clone();
            let mut bytes = vec![0; spec.observation.len()];
            let mut numbers = vec![0.0; spec.observation.len()];
            let mut picture = Picture::default();
            assert!(env.picture(&mut picture), "{}", task.name);
            let before = count();
            env.reset(&mut Stream::new(1, Purpose::Other, 0));
            for n in 1..3_000 {
                let mut rng = Stream::new(1, Purpose::Other, n);
                let step = env.step(rng.below(spec.actions.len()), &mut rng);
                if step.terminated || step.truncated {
                    env.reset(&mut rng);
                }
                env.observe(match spec.observation {
                    ObservationSpec::Planes { .. } => Observation::Planes(&mut bytes),
                    ObservationSpec::Vector { .. } => Observation::Vector(&mut numbers),
                });
                env.picture(&mut picture);
            }
            assert_eq!(count(), before, "{} as {observation}", task.name);
        }
    }
}
