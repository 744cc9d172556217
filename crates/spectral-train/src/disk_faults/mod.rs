//! Runs on a disk that fails, fills up, is cut short, or loses its power: at every point, by a walk, and where it once went wrong.
//!
//! The run is as small as one can be that has everything: three checkpoints, episodes, updates, frozen games, a mean of weights,
//! TD errors by score, a replay that is overwritten.

mod defects;
mod sleep;
mod tables;
mod walk;

use crate::config::Configuration;
use crate::error::TrainError;
use crate::population::Observer;
use crate::registry::Registry;
use crate::run_dir::Status;
use crate::store::disk::power::{Tree, tree_of};
use crate::trainer::{Resumption, Trainer};
use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Frames at which there is a checkpoint; the run ends at the last.
const ENDS: [u64; 3] = [240, 480, 720];

const SETTINGS: [&str; 18] = [
    "task=exponential-pong-mini",
    "frame_skip=6",
    "agents=spectral",
    "hidden=4",
    "batch=2",
    "replay=60",
    "learning_starts=96",
    "update_period=48",
    "target_period=96",
    "log_frames=120",
    "average=200",
    "eval_every=240",
    "eval_games=1",
    "eval_epsilon=1",
    "checkpoint_seconds=1000",
    "device=cpu",
    "threads=1",
    "prioritised=true",
];

/// Frames of the newest checkpoint that is known to be complete.
#[derive(Default)]
struct Saved {
    /// Those of the one that comes next.
    next: AtomicU64,
    frames: AtomicU64,
}

impl Observer for Saved {
    fn checkpoint(&self, _: crate::checkpoint::Cost) {
        self.frames.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Saved {
    fn with(frames: u64) -> Self {
        Saved { frames: AtomicU64::new(frames), ..Saved::default() }
    }

    fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }
}

fn create(run: &Path) -> Result<Trainer, TrainError> {
    create_with(run, "checkpoint=full")
}

fn create_with(run: &Path, further: &str) -> Result<Trainer, TrainError> {
    let mut config = Configuration::default();
    SETTINGS.iter().chain([&further]).for_each(|pair| config.set(pair).unwrap());
    config.set(&format!("frames={}", ENDS[0])).unwrap();
    let registry = Registry::default();
    Trainer::create(run, registry.resolve(&config)?, &registry, "test")
}

fn resume(run: &Path, checkpoint: Option<&Path>) -> Result<Trainer, TrainError> {
    let how = Resumption { threads: 1, checkpoint, ..Resumption::default() };
    Trainer::resume(run, &Registry::default(), how)
}

/// Trains to the last end, with a checkpoint at each on the way.
fn finish(mut trainer: Trainer, saved: &Saved) -> Result<(), TrainError> {
    loop {
        let end = trainer.plan().run.frames;
        saved.next.store(end, Ordering::Relaxed);
        assert_eq!(trainer.run_watched(saved)?.status, Status::Finished);
        match ENDS.into_iter().find(|&next| next > end) {
            Some(next) => trainer.set_end(next)?,
            None => return Ok(()),
        }
    }
}

/// The whole run, from nothing.
fn whole(run: &Path, saved: &Saved) -> Result<(), TrainError> {
    finish(create(run)?, saved)
}

/// What a run leaves, apart from what tells of times and places.
fn results(run: &Path) -> BTreeMap<String, Vec<u8>> {
    results_in(&tree_of(&run.join("agents")))
}

fn results_in(agents: &Tree) -> BTreeMap<String, Vec<u8>> {
    let counts = |name: &String| name.ends_with(".csv") || name.ends_with(".safetensors");
    let named = agents.iter().filter_map(|(path, content)| {
        Some((path.to_string_lossy().into_owned(), content.clone()?)).filter(|(name, _)| counts(name))
    });
    named.collect()
}

#[track_caller]
fn assert_same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    expected.iter().for_each(|(name, bytes)| assert!(&found[name] == bytes, "{name} differs: {what}"));
}

/// As if a while had passed in which nobody was heard of.
fn let_a_while_pass(run: &Path) {
    let times = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(100));
    for entry in std::fs::read_dir(run).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".claim-") {
            File::options().write(true).open(entry.path()).unwrap().set_times(times).unwrap();
        }
    }
}
