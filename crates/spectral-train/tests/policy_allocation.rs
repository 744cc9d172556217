//! A policy allocates its results and nothing else.

use spectral_agent::learner::Learner;
use spectral_core::bytes::StateWriter;
use spectral_nn::Samples;
use spectral_train::config::Configuration;
use spectral_train::policy::Policy;
use spectral_train::registry::Registry;
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

#[test]
fn a_call_allocates_its_result_and_nothing_else() {
    let registry = Registry::default();
    let names: Vec<String> = registry.agents().into_iter().map(|(_, preset)| preset.name).collect();
    for name in names {
        let mut config = Configuration::default();
        for pair in ["task=catch-scale", "hidden=16", "device=cpu", &format!("agents={name}")] {
            config.set(pair).unwrap();
        }
        let run = registry.resolve(&config).unwrap();
        let settings = run.plan.agents[0].settings.clone();
        let learner = Learner::new(settings, run.codecs[0].clone(), &run.task, 1).unwrap();
        let mut model = StateWriter::default();
        learner.save_model(&mut model);
        let mut policy = Policy::from_model(&run, 0, 0, &model.into_bytes()).unwrap();
        let observations = vec![0.5; 100 * policy.observation_len()];
        let mask = vec![true; 100 * run.task.actions.len()];
        let samples = Samples::Floats(&observations);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let (values, outputs) = (policy.q_values(samples).unwrap(), policy.outputs(samples).unwrap());
        let actions = policy.act(samples, Some(&mask)).unwrap();
        let count = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(count, 3, "{name}: {} {} {}", values.len(), outputs.len(), actions.len());
    }
}
