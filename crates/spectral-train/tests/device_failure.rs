//! A device that fails while a checkpoint is written or read, or has too little memory, on machines without one: the device
//! is blamed and not a file, what was saved before stays as it was, and the numbers are told.

use spectral_core::bytes::{StateError, StateWriter};
use spectral_train::actor::Actor;
use spectral_train::checkpoint::{Checkpoints, Saving};
use spectral_train::config::Configuration;
use spectral_train::cpu_population::CpuPopulation;
use spectral_train::devices::{Chosen, Gpu};
use spectral_train::error::TrainError;
use spectral_train::memory::Memory;
use spectral_train::population::{ModelKind, Population, TrainSlice};
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::RunDir;
use spectral_train::store::Records;
use spectral_train::trainer::{Resumption, Trainer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const GONE: &str = "gone on purpose";

/// Agents on the CPU; those from number `lost` on give nothing back and take nothing, as if their device were gone.
struct Failing {
    population: CpuPopulation,
    lost: usize,
}

struct Gone {
    newest: u64,
}

impl Records for Gone {
    fn oldest(&self) -> u64 {
        0
    }
    fn newest(&self) -> u64 {
        self.newest
    }
    fn write_range(&mut self, _: u64, _: u64, _: &mut Vec<u8>) -> Result<(), StateError> {
        Err(StateError(GONE.into()))
    }
    fn bytes_per_record(&self) -> usize {
        100
    }
    fn read_range(&mut self, _: u64, _: u64, _: &[u8]) -> Result<(), StateError> {
        Err(StateError(GONE.into()))
    }
}

impl Failing {
    fn check(&self, agent: usize) -> Result<(), TrainError> {
        if agent >= self.lost { Err(TrainError::Device(GONE.into())) } else { Ok(()) }
    }
}

impl Population for Failing {
    fn len(&self) -> usize {
        self.population.len()
    }
    fn actor(&mut self, agent: usize) -> &mut Actor {
        self.population.actor(agent)
    }
    fn metric_columns(&mut self, agent: usize) -> Vec<String> {
        self.population.metric_columns(agent)
    }
    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, TrainError> {
        self.check(agent)?;
        self.population.save_model(agent, kind, out)
    }
    fn save(&mut self, agent: usize) -> Result<Vec<u8>, TrainError> {
        self.check(agent)?;
        self.population.save(agent)
    }
    fn restore(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError> {
        self.check(agent).map_err(|_| StateError(GONE.into()))?;
        self.population.restore(agent, state)
    }
    fn save_average(&mut self, agent: usize) -> Result<Option<Vec<u8>>, TrainError> {
        self.check(agent)?;
        self.population.save_average(agent)
    }
    fn restore_average(&mut self, agent: usize, state: &[u8]) -> Result<(), StateError> {
        self.check(agent).map_err(|_| StateError(GONE.into()))?;
        self.population.restore_average(agent, state)
    }
    fn forget_before(&mut self, agent: usize, first: u64) {
        self.population.forget_before(agent, first);
    }
    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError> {
        self.population.begin_episode(agent)
    }
    fn records(&mut self, agent: usize) -> Box<dyn Records + '_> {
        let newest = self.population.records(agent).newest();
        if agent >= self.lost { Box::new(Gone { newest }) } else { self.population.records(agent) }
    }
    fn train(&mut self, slice: TrainSlice<'_>) -> Result<(), TrainError> {
        self.population.train(slice)
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("spectral-failure-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn resolved() -> ResolvedRun {
    let mut config = Configuration::default();
    for pair in [
        "task=exponential-pong-mini",
        "agents=spectral",
        "seeds=3",
        "hidden=8",
        "batch=4",
        "replay=200",
        "learning_starts=20",
        "frames=300",
        "device=cpu",
    ] {
        config.set(pair).unwrap();
    }
    Registry::default().resolve(&config).unwrap()
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn train(population: &mut Failing, frames: u64) {
    let (due, interrupt) = (Instant::now() + Duration::from_secs(600), AtomicBool::new(false));
    population.train(TrainSlice { frames, due, interrupt: &interrupt, observer: &() }).unwrap();
}

#[track_caller]
fn assert_device_blamed(error: &TrainError) {
    assert!(matches!(error, TrainError::Device(_)), "{error:?}");
    assert_eq!(error.to_string(), format!("the device failed: {GONE}"));
    assert_eq!(error.exit_code(), 5);
}

#[test]
fn a_device_that_fails_under_a_checkpoint_leaves_the_last_one_as_it_was() {
    let (scratch, run) = (Scratch::new("checkpoint"), resolved());
    let plan = &run.plan;
    let fresh = |lost| Failing { population: CpuPopulation::new(&run).unwrap(), lost };
    let (dir, _lock) = RunDir::create(&scratch.0, &run, &Registry::default(), "test").unwrap();
    let mut population = fresh(3);
    for (number, agent) in plan.agents.iter().enumerate() {
        let columns = population.metric_columns(number);
        population.actor(number).create_files(&dir.agent(&agent.id), &columns).unwrap();
    }
    let mut checkpoints = Checkpoints::new(&dir, plan, Saving::Full);
    assert_eq!(checkpoints.last(), None);
    train(&mut population, 120);
    checkpoints.write(&mut population).unwrap();
    let saved = files(&dir.checkpoints());
    train(&mut population, 240);
    // The device gives back the replay of all, of some, of none.
    for lost in [0, 1, 2] {
        population.lost = lost;
        assert_device_blamed(&checkpoints.write(&mut population).err().unwrap());
        assert!(files(&dir.checkpoints()) == saved, "something changed");
    }
    let last = checkpoints.last().unwrap().to_path_buf();
    assert!(saved.contains_key(&last));
    // A device that fails while it is read is not taken for a damaged file.
    let mut gone = fresh(0);
    let read = Checkpoints::load(&dir, &run, &mut gone, None, Saving::Full, false);
    assert_device_blamed(&read.err().unwrap());
    // A file that is damaged still is, and the checkpoint itself is as good as ever.
    let mut whole = fresh(3);
    std::fs::write(&last, &saved[&last][..saved[&last].len() - 9]).unwrap();
    let read = Checkpoints::load(&dir, &run, &mut whole, None, Saving::Full, false);
    assert!(matches!(read.err().unwrap(), TrainError::Data(text) if text.contains("cut short")));
    std::fs::write(&last, &saved[&last]).unwrap();
    let loaded = Checkpoints::load(&dir, &run, &mut whole, None, Saving::Full, false).unwrap().unwrap();
    assert_eq!(loaded.checkpoints.last(), Some(last.as_path()));
    assert!((0..3).all(|agent| whole.actor(agent).frames() == 120));
}

#[test]
fn a_failure_is_followed_by_what_to_do() {
    let scratch = Scratch::new("advice");
    let mut trainer = Trainer::create(&scratch.0, resolved(), &Registry::default(), "test").unwrap();
    let (lost, full) = (TrainError::Device(GONE.into()), TrainError::Data("full".into()));
    let resume = format!("`spectral resume {}`", scratch.0.display());
    let says = |trainer: &Trainer, error: &TrainError, words: &[&str]| {
        let text = trainer.how_to_go_on(error);
        words.iter().for_each(|word| assert!(text.contains(word), "{text}"));
        for word in ["--device cpu", "nvidia-smi"] {
            assert_eq!(text.contains(word), matches!(error, TrainError::Device(_)), "{text}");
        }
    };
    for error in [&lost, &full] {
        says(&trainer, error, &["no checkpoint had been written", &resume, "goes on from the start"]);
    }
    trainer.run().unwrap();
    let name = "checkpoints/00000001.checkpoint";
    for error in [&lost, &full] {
        says(&trainer, error, &[name, "is whole", &resume, "goes on from there"]);
    }
    // Who went back to an older one need not choose it again: it is the newest now, also beside a newer file that was passed over.
    let folder = scratch.0.join("checkpoints");
    std::fs::write(folder.join("00000002.checkpoint"), "damaged").unwrap();
    drop(trainer);
    let first = folder.join("00000001.checkpoint");
    let how = Resumption { frames: Some(400), threads: 1, checkpoint: Some(&first), ..Resumption::default() };
    let trainer = Trainer::resume(&scratch.0, &Registry::default(), how).unwrap();
    says(&trainer, &lost, &["00000003.checkpoint, is whole", &resume, "goes on from there"]);
    assert!(!trainer.how_to_go_on(&lost).contains("--checkpoint"));
}

/// The largest card that there is, and one that others have filled; the machine's own memory is as it is.
#[test]
fn what_fits_neither_into_a_gpu_nor_beside_it_is_refused_with_the_numbers() {
    let needs = |free_bytes: u64, replay: usize| {
        let mut config = Configuration::default();
        for pair in ["task=exponential-pong-mini", "observation=pixels", "agents=spectral", "seeds=1"] {
            config.set(pair).unwrap();
        }
        config.add("replay", replay.to_string());
        config.add("device", "cpu");
        let gpu = Gpu { number: 0, name: "Some GPU".into(), free_bytes };
        Registry::default().resolve(&config).unwrap().memory_on(&Chosen::Cuda(gpu)).unwrap()
    };
    let refused = |memory: Memory, words: &[&str]| {
        let error = memory.check().unwrap_err();
        assert!(matches!(error, TrainError::Machine(_)), "{error:?}");
        let text = error.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "{text}"));
    };
    const CARD: u64 = 140_000_000_000;
    let beside = needs(CARD, 1_000_000_000);
    // Actions, rewards, flags and scores stay on the device; it has room for them.
    assert!(beside.device.as_ref().is_some_and(|device| device.needed < CARD));
    assert_eq!(beside.check().is_err(), beside.available.is_some());
    refused(
        Memory { available: Some(100_000_000_000), ..beside },
        &["needs 7.1 TB of memory and 100.0 GB is available", "smaller replay"],
    );
    let nowhere = needs(CARD, 1_000_000_000_000);
    refused(nowhere, &["needs 7.0 TB of memory on Some GPU, where 140.0 GB is free", "--device cpu"]);
    let full = needs(3_000_000, 2000);
    refused(full, &["needs 1.", " GB of memory on Some GPU, where 3.0 MB is free", "fewer agents"]);
    needs(CARD, 2000).check().unwrap();
}
