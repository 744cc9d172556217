//! A run from its first step or its last checkpoint to its end: directory, population, checkpoints, state.

use crate::checkpoint::{Checkpoints, Loaded};
use crate::cpu_population::{CpuPopulation, threads};
use crate::devices::{self, Chosen, DeviceChoice};
use crate::error::TrainError;
use crate::memory::{Memory, light_checkpoints};
use crate::pipeline::DevicePopulation;
use crate::plan::{MOST_FRAMES, Plan};
pub use crate::population::{AgentProgress, Observer};
use crate::population::{Population, TrainSlice};
use crate::run_dir::{AgentState, RunDir, Status};
use crate::store::write_atomically;
use crate::workshop::Workshop;
use spectral_core::bytes::StateWriter;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a sitting ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// At the planned end, or interrupted before.
    pub status: Status,
    /// Wall-clock seconds of training, earlier sittings included.
    pub seconds: f64,
    /// One entry per agent.
    pub agents: Vec<AgentProgress>,
}

/// How to go on with a run; by default as before, from the newest checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resumption<'a> {
    /// A later end.
    pub frames: Option<u64>,
    /// Threads; 0 uses every core.
    pub threads: usize,
    /// Another checkpoint than the newest.
    pub checkpoint: Option<&'a Path>,
    /// Another device than the run asked for when it was made.
    pub device: Option<DeviceChoice>,
}

/// A run: its directory, its plan, its population.
pub struct Trainer {
    dir: RunDir,
    plan: Plan,
    population: Box<dyn Population>,
    checkpoints: Checkpoints,
    seconds_before: f64,
    notes: Vec<String>,
    /// Keeps other processes out of the folder.
    _lock: File,
}

impl Trainer {
    /// Starts a new run in a new folder.
    pub fn create(path: &Path, plan: Plan, workshop: &Workshop, command: &str) -> Result<Self, TrainError> {
        // Whatever can be refused is refused before anything is made.
        threads(&plan)?;
        let (mut chosen, note) = devices::choose(&plan, workshop)?;
        Memory::of(&plan, workshop, &chosen)?.check()?;
        let dir = RunDir::create(path, &plan, command, &chosen.name(plan.precision))?;
        let lock = dir.lock()?;
        let mut notes: Vec<String> = note.into_iter().collect();
        let first = chosen.clone();
        let mut population = populate(&plan, workshop, &mut chosen, &mut notes)?;
        if chosen != first {
            dir.record_device(&chosen.name(plan.precision))?;
        }
        let light = decide_light(&dir, &plan, population.as_mut(), &mut notes);
        Self::fresh(dir, plan, population, light, notes, lock)
    }

    /// Goes on with a run from its newest checkpoint, or from a chosen one.
    pub fn resume(
        path: &Path,
        workshop: &Workshop,
        frames: Option<u64>,
        threads: usize,
        chosen: Option<&Path>,
    ) -> Result<Self, TrainError> {
        let how = Resumption { frames, threads, checkpoint: chosen, device: None };
        Self::resume_with(path, workshop, how)
    }

    /// Goes on with a run, perhaps elsewhere or further than it was planned.
    pub fn resume_with(path: &Path, workshop: &Workshop, how: Resumption<'_>) -> Result<Self, TrainError> {
        let (dir, mut plan) = RunDir::open(path)?;
        plan.threads = how.threads;
        plan.device = how.device.unwrap_or(plan.device);
        if let Some(frames) = how.frames.filter(|&f| f < plan.frames || f > MOST_FRAMES) {
            return Err(TrainError::Usage(format!(
                "--frames {frames}: the run is planned for {} frames already; give more, up to {MOST_FRAMES}",
                plan.frames
            )));
        }
        let lock = dir.lock()?;
        let (mut chosen, note) = devices::choose(&plan, workshop)?;
        Memory::of(&plan, workshop, &chosen)?.check()?;
        let mut notes: Vec<String> = note.into_iter().collect();
        let mut population = populate(&plan, workshop, &mut chosen, &mut notes)?;
        let later = Plan { frames: how.frames.unwrap_or(plan.frames), ..plan.clone() };
        let light = decide_light(&dir, &later, population.as_mut(), &mut notes);
        let loaded = Checkpoints::load(&dir, &plan, population.as_mut(), how.checkpoint, light)?;
        if loaded.is_none() && dir.has_progress() {
            return Err(TrainError::Data(format!(
                "{} holds no checkpoint, though the run had come further than its start; put them back to resume it, or \
                 train anew with another --out (nothing was changed)",
                dir.checkpoints().display()
            )));
        }
        if let Some(frames) = how.frames {
            dir.extend(&mut plan, frames)?;
        }
        dir.record_device(&chosen.name(plan.precision))?;
        let Some(Loaded { checkpoints, without_replay }) = loaded else {
            return Self::fresh(dir, plan, population, light, notes, lock);
        };
        if without_replay {
            notes.push("the checkpoint is a light one: replay fills anew before learning goes on".into());
        }
        let seconds_before = dir.seconds();
        Ok(Trainer { dir, plan, population, checkpoints, seconds_before, notes, _lock: lock })
    }

    fn fresh(
        dir: RunDir,
        plan: Plan,
        mut population: Box<dyn Population>,
        light: bool,
        notes: Vec<String>,
        lock: File,
    ) -> Result<Self, TrainError> {
        for (number, agent) in plan.agents.iter().enumerate() {
            let columns = population.metric_columns(number);
            population.actor(number).create_files(&dir.agent(&agent.id), &columns)?;
        }
        let checkpoints = Checkpoints::new(&dir, &plan, light);
        Ok(Trainer { dir, plan, population, checkpoints, seconds_before: 0.0, notes, _lock: lock })
    }

    /// The run's plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The run's folder.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// What was decided for the user and should be told: the device, and checkpoints that leave something out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Trains to the planned end, or until `interrupt` is set; either way the last thing done is a checkpoint.
    pub fn run(&mut self, observer: &dyn Observer, interrupt: &AtomicBool) -> Result<Outcome, TrainError> {
        let start = Instant::now();
        self.write_state(Status::Running, self.seconds_before)?;
        loop {
            let due = Instant::now() + Duration::from_secs_f64(self.plan.checkpoint_seconds);
            self.population.train(TrainSlice { frames: self.plan.frames, due, interrupt, observer })?;
            let cost = self.checkpoints.write(self.population.as_mut())?;
            observer.checkpoint(cost);
            let seconds = self.seconds_before + start.elapsed().as_secs_f64();
            let done = (0..self.population.len())
                .all(|agent| !self.population.actor(agent).is_active(self.plan.frames));
            let status = match (done, interrupt.load(Ordering::Relaxed)) {
                (true, _) => Status::Finished,
                (false, true) => Status::Interrupted,
                (false, false) => Status::Running,
            };
            if status == Status::Finished {
                self.write_models()?;
            }
            self.write_state(status, seconds)?;
            if status != Status::Running {
                let progress = |agent| AgentProgress::of(self.population.actor(agent));
                let agents = (0..self.plan.agents.len()).map(progress).collect();
                return Ok(Outcome { status, seconds, agents });
            }
        }
    }

    /// What is left of the run after [`run`](Trainer::run) failed, and how to go on.
    pub fn how_to_go_on(&self, error: &TrainError) -> String {
        let path = self.dir.path().display();
        let saved = match self.checkpoints.last() {
            Some(last) => {
                // One that was chosen in place of a newer file has to be chosen again.
                let newest = Checkpoints::list(&self.dir).unwrap_or_default().pop();
                let last_path = last.display();
                let choice = match newest.as_deref() == Some(last) {
                    true => String::new(),
                    false => format!(" --checkpoint {last_path}"),
                };
                format!(
                    "the last checkpoint, {last_path}, is whole: `spectral resume {path}{choice}` goes on from there"
                )
            }
            None => {
                format!("no checkpoint had been written: `spectral resume {path}` goes on from the start")
            }
        };
        match error {
            TrainError::Device(_) => {
                saved
                    + ", and with --device cpu it goes on without that device (`nvidia-smi` and the system's log say \
                       whether it is well)"
            }
            _ => saved,
        }
    }

    fn write_state(&mut self, status: Status, seconds: f64) -> Result<(), TrainError> {
        let state = |agent: usize| {
            let actor = self.population.actor(agent);
            AgentState {
                id: actor.plan().id.clone(),
                frames: actor.frames(),
                finished: actor.frames() >= self.plan.frames,
                stopped: actor.stopped().map(String::from),
            }
        };
        let agents: Vec<AgentState> = (0..self.plan.agents.len()).map(state).collect();
        self.dir.write_state(status, seconds, &agents)
    }

    fn write_models(&mut self) -> Result<(), TrainError> {
        for (number, agent) in self.plan.agents.iter().enumerate() {
            let mut model = StateWriter::default();
            self.population.save_model(number, &mut model)?;
            let path = self.dir.agent(&agent.id).join("model.bin");
            write_atomically(&path, |out| {
                let mut container = crate::store::ContainerWriter::new(out)?;
                container.section("model", &model.into_bytes())?;
                container.finish()
            })?;
        }
        Ok(())
    }
}

/// A fresh population where it was chosen to train. A GPU that was found and then fails is replaced by the CPU only if the
/// user left the choice open; `chosen` then says so.
fn populate(
    plan: &Plan,
    workshop: &Workshop,
    chosen: &mut Chosen,
    notes: &mut Vec<String>,
) -> Result<Box<dyn Population>, TrainError> {
    if *chosen == Chosen::Cpu {
        return Ok(Box::new(CpuPopulation::new(plan, workshop)?));
    }
    match DevicePopulation::new(plan, workshop, chosen) {
        Err(TrainError::Device(reason)) if plan.device == DeviceChoice::Auto => {
            Memory::of(plan, workshop, &Chosen::Cpu)?.check()?;
            *notes = vec![format!("trains on the CPU: {reason}")];
            *chosen = Chosen::Cpu;
            Ok(Box::new(CpuPopulation::new(plan, workshop)?))
        }
        made => Ok(Box::new(made?)),
    }
}

fn decide_light(dir: &RunDir, plan: &Plan, population: &mut dyn Population, notes: &mut Vec<String>) -> bool {
    let folder = dir.checkpoints();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let taken = entries.filter_map(|entry| entry.metadata().ok()).map(|m| m.len()).sum();
    let (light, note) = light_checkpoints(plan, population.actor(0).task(), &folder, taken);
    notes.extend(note);
    light
}
