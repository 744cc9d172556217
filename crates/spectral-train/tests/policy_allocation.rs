//! A policy allocates its results and nothing else.

mod counting;

use counting::ALLOCATIONS;
use spectral_agent::learner::Learner;
use spectral_core::bytes::StateWriter;
use spectral_nn::Samples;
use spectral_train::config::Configuration;
use spectral_train::policy::Policy;
use spectral_train::registry::Registry;
use std::sync::atomic::Ordering;

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
