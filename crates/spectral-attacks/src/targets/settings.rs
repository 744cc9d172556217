//! Texts of settings: what a run was made with, what a user wants, what an experiment consists of.

use spectral_train::config::Configuration;
use spectral_train::experiment::{Experiment, Overrides};
use spectral_train::registry::Registry;
use spectral_train::run_file::RunFile;
use std::path::Path;

pub(super) const WORDS: &[&[u8]] = &[
    b"[[agents]]\n",
    b"[agents.settings]\n",
    b"[task_settings]\n",
    b"[[task]]\nname = ",
    b"[agent.popart]\n",
    b"\"conv 32 8 4, 512\"",
    b"\"1..99999999999\"",
    b"inf",
    b"nan",
    b"-1",
    b"1e308",
    b"true",
    b"[]",
    b"{}",
    b"''",
    b"task = ",
    b"seeds = ",
    b"frames = ",
    b"hidden = ",
    b"network = ",
    b"replay = ",
    b"batch = ",
    b"vary = ",
];

thread_local! {
    static REGISTRY: Registry = Registry::default();
}

/// The first byte chooses who reads the rest.
pub(super) fn run(bytes: &[u8]) {
    let [kind, text @ ..] = bytes else { return };
    let text = String::from_utf8_lossy(text);
    REGISTRY.with(|registry| match kind % 3 {
        0 => {
            let Ok(file) = RunFile::read(&text, Path::new("run.toml"), registry) else { return };
            // A run that is read has one fingerprint, and can be resolved or is refused.
            assert_eq!(file.plan.fingerprint(), file.plan.clone().fingerprint());
            let _ = registry.resolve_plan(file.plan);
        }
        1 => {
            let mut config = Configuration::default();
            if config.toml(&text, "attack.toml").is_ok() {
                let _ = registry.resolve(&config);
            }
        }
        _ => drop(Experiment::read("attack", &text, &Overrides::default(), registry)),
    });
}
