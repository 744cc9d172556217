//! Somebody changes a run's folder while it is trained.

use spectral_train::checkpoint::Cost;
use spectral_train::config::Configuration;
use spectral_train::error::TrainError;
use spectral_train::registry::Registry;
use spectral_train::trainer::{AgentProgress, Observer, Resumption, Trainer};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does something once, after a checkpoint.
struct Meddler<F: Fn()>(F, AtomicBool);

impl<F: Fn() + Sync> Observer for Meddler<F> {
    fn tick(&self, _: &[AgentProgress]) {}
    fn checkpoint(&self, _: Cost) {
        if !self.1.swap(true, Ordering::SeqCst) {
            self.0();
        }
    }
}

/// Trains until an error ends it.
fn train(run: &Path, meddle: impl Fn() + Sync) -> TrainError {
    let mut config = Configuration::default();
    for pair in ["task=catch-scale", "frames=1000000000", "hidden=8", "checkpoint_seconds=0.05"] {
        config.set(pair).unwrap();
    }
    let registry = Registry::default();
    let plan = registry.resolve(&config).unwrap();
    let mut trainer = Trainer::create(run, plan, &registry, "test").unwrap();
    trainer.run_watched(&Meddler(meddle, AtomicBool::new(false))).unwrap_err()
}

#[cfg(unix)]
#[test]
fn nothing_behind_a_link_is_written_or_removed() {
    for inside in ["checkpoints", "agents", "agents/spectral-s1"] {
        let place = tempfile::tempdir().unwrap();
        let (run, victim) = (place.path().join("run"), place.path().join("victim"));
        std::fs::create_dir(&victim).unwrap();
        let names = ["00000001.checkpoint", "spectral-s1-000000000000-1.segment", "model-best.safetensors"];
        names.iter().for_each(|name| std::fs::write(victim.join(name), "keep").unwrap());
        let error = train(&run, || {
            std::fs::rename(run.join(inside), place.path().join("moved")).unwrap();
            std::os::unix::fs::symlink(&victim, run.join(inside)).unwrap();
        });
        assert!(error.to_string().contains("link"), "{inside}: {error}");
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), names.len(), "{inside}");
        for name in names {
            assert_eq!(std::fs::read_to_string(victim.join(name)).unwrap(), "keep", "{inside}/{name}");
        }
    }
}

/// Every later checkpoint would count on rows that are not there.
#[test]
fn a_table_that_is_lost_ends_the_run_and_leaves_its_checkpoints() {
    for replaced in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        let table = run.join("agents/spectral-s1/episodes.csv");
        let kept = std::sync::Mutex::new(Vec::new());
        let error = train(&run, || {
            *kept.lock().unwrap() = std::fs::read(&table).unwrap();
            std::fs::remove_file(&table).unwrap();
            if replaced {
                std::fs::write(&table, "episode\n").unwrap();
            }
        });
        assert!(error.to_string().contains("episodes.csv"), "{error}");
        assert_eq!(error.exit_code(), 3);
        // Put back, it goes on from the last checkpoint that was written before.
        std::fs::write(&table, kept.into_inner().unwrap()).unwrap();
        Trainer::resume(&run, &Registry::default(), Resumption::default()).unwrap();
    }
}
