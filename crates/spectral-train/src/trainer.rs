//! A run from its first step or its last checkpoint to its end: directory, population, checkpoints, state.

use crate::checkpoint::{Checkpoints, Loaded, Saving};
use crate::claim::{Fence, RunLock};
use crate::control::Control;
use crate::cpu_population::{CpuPopulation, threads};
use crate::devices::{Chosen, DeviceChoice};
use crate::error::TrainError;
use crate::events::Events;
use crate::glimpse::GlimpseSlot;
use crate::model_file;
use crate::pipeline::DevicePopulation;
use crate::plan::{MAX_FRAMES, Plan};
pub use crate::population::{AgentProgress, Observer, StepTaken};
use crate::population::{ModelKind, Population, TrainSlice};
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use crate::run_dir::{AgentState, RunDir, Status};
use crate::store::{disk, why_folders_are_not_synced};
use spectral_core::bytes::StateWriter;
use spectral_core::shell::quote_path;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How training ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainSummary {
    /// At the planned end, or interrupted before.
    pub status: Status,
    /// Wall-clock seconds of training, earlier starts of the run included.
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
    /// Leave out the replay of the checkpoint, as if it were a light one.
    pub without_replay: bool,
    /// Another device than the run asked for when it was made.
    pub device: Option<DeviceChoice>,
    /// Take steps together ([`ResolvedRun::step_together`]) although the task does not ask for it.
    pub step_together: bool,
}

/// Is told when a run is this process's, before anything of it is loaded, which may take minutes. An error ends it there.
pub type OnceHeld<'a> = &'a dyn Fn(Fence) -> Result<(), TrainError>;

/// A run at work: its directory, what it was resolved to, its population.
pub struct Trainer {
    dir: RunDir,
    run: ResolvedRun,
    population: Box<dyn Population>,
    checkpoints: Checkpoints,
    seconds_before: f64,
    control: Control,
    /// Keeps other processes out of the folder.
    lock: RunLock,
}

impl Trainer {
    /// Starts a new run in a new folder.
    pub fn create(
        path: &Path,
        run: ResolvedRun,
        registry: &Registry,
        command: &str,
    ) -> Result<Self, TrainError> {
        Self::create_telling(path, run, registry, command, &|_| Ok(()))
    }

    /// [`create`](Trainer::create), for somebody who wants to know when the run is this process's.
    pub fn create_telling(
        path: &Path,
        mut run: ResolvedRun,
        registry: &Registry,
        command: &str,
        once_held: OnceHeld<'_>,
    ) -> Result<Self, TrainError> {
        // Whatever can be refused is refused before anything is made.
        threads(&run.plan)?;
        run.memory.check()?;
        let (dir, lock) = RunDir::create(path, &run, registry, command)?;
        once_held(lock.fence())?;
        let first = run.device_name();
        let mut population = populate(&mut run)?;
        if run.device_name() != first {
            dir.record_device(&run.device_name(), &lock.fence())?;
        }
        note_saving(&mut run, population.as_mut());
        let saving = decide_saving(&dir, &mut run, population.as_mut());
        Self::fresh(dir, run, population, saving, lock)
    }

    /// Goes on with a run, perhaps elsewhere or further than it was planned.
    pub fn resume(path: &Path, registry: &Registry, how: Resumption<'_>) -> Result<Self, TrainError> {
        Self::resume_telling(path, registry, how, &|_| Ok(()))
    }

    /// [`resume`](Trainer::resume), for somebody who wants to know when the run is this process's.
    pub fn resume_telling(
        path: &Path,
        registry: &Registry,
        how: Resumption<'_>,
        once_held: OnceHeld<'_>,
    ) -> Result<Self, TrainError> {
        let (dir, file) = RunDir::open(path, registry)?;
        let mut plan = file.plan;
        plan.run.threads = how.threads;
        plan.run.device = how.device.unwrap_or(plan.run.device);
        if let Some(frames) = how.frames.filter(|&f| f < plan.run.frames || f > MAX_FRAMES) {
            return Err(TrainError::Usage(format!(
                "--frames {frames}: the run is planned for {} frames already; give more, up to {MAX_FRAMES}",
                plan.run.frames
            )));
        }
        let lock = dir.lock()?;
        once_held(lock.fence())?;
        let mut run = registry.resolve_plan(plan)?;
        run.check_task(file.task.as_ref(), dir.path())?;
        run.memory.check()?;
        run.step_together |= how.step_together;
        let mut population = populate(&mut run)?;
        let planned = run.plan.run.frames;
        run.plan.run.frames = how.frames.unwrap_or(planned);
        let saving = decide_saving(&dir, &mut run, population.as_mut());
        let (seconds_before, has_progress) = dir.before(&run.plan)?;
        let fence = lock.fence();
        let Resumption { checkpoint, without_replay, .. } = how;
        let loaded =
            Checkpoints::load_as(&dir, &run, population.as_mut(), checkpoint, saving, without_replay, &fence)
                .map_err(|error| fence.explain(error))?;
        if loaded.is_none() && has_progress {
            return Err(TrainError::Data(format!(
                "{} holds no checkpoint, though the run had come further than its start; put them back to resume it, or \
                 train anew with another --out (nothing was changed)",
                dir.checkpoints().display()
            )));
        }
        if let Some(frames) = how.frames {
            run.plan.run.frames = planned;
            dir.extend(&mut run.plan, frames, &fence)?;
        }
        dir.record_device(&run.device_name(), &fence)?;
        note_saving(&mut run, population.as_mut());
        let Some(Loaded { checkpoints, without_replay }) = loaded else {
            // Tables are about to be begun anew.
            dir.forget_tables(&fence)?;
            return Self::fresh(dir, run, population, saving, lock);
        };
        if without_replay {
            let why = if how.without_replay { "replay is left out" } else { "the checkpoint is a light one" };
            run.notes.push(format!("{why}: replay fills anew before learning goes on"));
        }
        Self::of(dir, run, population, checkpoints, seconds_before, lock)
    }

    fn fresh(
        dir: RunDir,
        run: ResolvedRun,
        mut population: Box<dyn Population>,
        saving: Saving,
        lock: RunLock,
    ) -> Result<Self, TrainError> {
        for (number, agent) in run.plan.agents.iter().enumerate() {
            let columns = population.metric_columns(number);
            lock.confirm()?;
            population.actor(number).create_files(&dir.agent(&agent.id), &columns)?;
        }
        let checkpoints = Checkpoints::new(&dir, &run.plan, saving);
        Self::of(dir, run, population, checkpoints, 0.0, lock)
    }

    fn of(
        dir: RunDir,
        mut run: ResolvedRun,
        mut population: Box<dyn Population>,
        mut checkpoints: Checkpoints,
        seconds_before: f64,
        lock: RunLock,
    ) -> Result<Self, TrainError> {
        checkpoints.begin(&run, population.as_mut())?;
        run.notes.extend_from_slice(lock.notes());
        run.notes.extend(why_folders_are_not_synced(dir.path()).map(|e| {
            format!(
                "the file system of {} does not sync folders ({e}): a kill loses nothing, but a power cut may take the newest \
                 checkpoints",
                dir.path().display()
            )
        }));
        checkpoints.set_fence(lock.fence());
        for agent in 0..population.len() {
            population.actor(agent).set_fence(&lock.fence());
        }
        Ok(Trainer { dir, run, population, checkpoints, seconds_before, control: Control::default(), lock })
    }

    /// The run's plan.
    pub fn plan(&self) -> &Plan {
        &self.run.plan
    }

    /// The run as it was resolved.
    pub fn resolved(&self) -> &ResolvedRun {
        &self.run
    }

    /// The run's folder.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// What was decided for the user and should be told: the device, and checkpoints that leave something out.
    pub fn notes(&self) -> &[String] {
        &self.run.notes
    }

    /// A handle that pauses or cancels the run from elsewhere.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Lets another handle pause or cancel the run, one that was made before the run.
    pub fn set_control(&mut self, control: Control) {
        self.control = control;
    }

    /// Whether another process has taken the run over: then nothing of it is this process's to write any more.
    pub fn is_lost(&self) -> bool {
        matches!(self.lock.confirm(), Err(TrainError::Busy(_)))
    }

    /// Plans another end, to which [`run`](Trainer::run) then goes on. No agent may be past it.
    pub fn set_end(&mut self, frames: u64) -> Result<(), TrainError> {
        let reached = self.progress().iter().map(|agent| agent.frames).max().unwrap_or(0).max(1);
        if frames < reached || frames > MAX_FRAMES {
            return Err(TrainError::Usage(format!(
                "the run's end can be at {reached} frames, where it is now, up to {MAX_FRAMES}, not at {frames}"
            )));
        }
        self.lock.confirm()?;
        self.dir.extend(&mut self.run.plan, frames, &self.lock.fence())
    }

    /// Tells of episodes and metrics from now on.
    pub fn tell(&mut self, events: &Arc<Events>) {
        for agent in 0..self.population.len() {
            self.population.actor(agent).tell(agent, events.clone());
        }
    }

    /// Lets those who watch ask each agent for glimpses: one slot per agent, in the plan's order.
    pub fn show(&mut self) -> Vec<Arc<GlimpseSlot>> {
        let observation = self.run.task.observation;
        let give = |agent: usize| {
            let slot = Arc::new(GlimpseSlot::new(observation));
            self.population.actor(agent).show(slot.clone());
            slot
        };
        (0..self.run.plan.agents.len()).map(give).collect()
    }

    /// What one agent needs to act, as a policy reads it, and the frames that it has seen.
    pub fn model(&mut self, agent: usize) -> Result<(Vec<u8>, u64), TrainError> {
        let mut model = StateWriter::default();
        self.population.save_model(agent, ModelKind::Last, &mut model)?;
        Ok((model.into_bytes(), self.population.actor(agent).frames()))
    }

    /// How far each agent has come.
    pub fn progress(&mut self) -> Vec<AgentProgress> {
        (0..self.population.len()).map(|agent| AgentProgress::of(self.population.actor(agent))).collect()
    }

    /// Trains to the planned end, or until [`Control::cancel`]; either way the last thing done is a checkpoint.
    pub fn run(&mut self) -> Result<TrainSummary, TrainError> {
        self.run_watched(&())
    }

    /// [`run`](Trainer::run), watched by somebody.
    ///
    /// If another process has taken the run over meanwhile, which may happen to one of which nothing was heard for a while, it ends
    /// with [`TrainError::Busy`] and writes nothing more.
    pub fn run_watched(&mut self, observer: &dyn Observer) -> Result<TrainSummary, TrainError> {
        self.control.forget_halt();
        self.lock.set_error(None);
        self.lock.watch(Some(&self.control));
        let result = self.work(observer);
        self.lock.watch(None);
        // Whatever else goes wrong may be what a process sees whose run is another's.
        let result = result.map_err(|error| self.lock.fence().explain(error));
        self.lock.set_error(result.as_ref().err().map(TrainError::to_string));
        result
    }

    fn work(&mut self, observer: &dyn Observer) -> Result<TrainSummary, TrainError> {
        let start = Instant::now();
        self.write_state(Status::Running, self.seconds_before)?;
        let frames = self.run.plan.run.frames;
        loop {
            let due = Instant::now() + Duration::from_secs_f64(self.run.plan.run.checkpoint_seconds);
            let interrupt = self.control.stop_flag();
            self.population.train(TrainSlice { frames, due, interrupt, observer })?;
            self.lock.confirm()?;
            // Somebody may have put another folder there meanwhile.
            self.dir.refuse_linked_folders()?;
            let cost = self.checkpoints.write(self.population.as_mut())?;
            observer.checkpoint(cost);
            let seconds = self.seconds_before + start.elapsed().as_secs_f64();
            let done = (0..self.population.len()).all(|agent| !self.population.actor(agent).has_work(frames));
            let status = match (done, self.control.is_cancelled()) {
                (true, _) => Status::Finished,
                (false, true) => Status::Interrupted,
                (false, false) => Status::Running,
            };
            if status == Status::Finished {
                self.write_models()?;
            }
            self.write_state(status, seconds)?;
            if status != Status::Running {
                return Ok(TrainSummary { status, seconds, agents: self.progress() });
            }
            self.control.wait_while_paused(|| self.lock.is_lost());
        }
    }

    /// What is left of the run after [`run`](Trainer::run) failed, and how to go on.
    pub fn how_to_go_on(&self, error: &TrainError) -> String {
        let path = quote_path(self.dir.path());
        let saved = match self.checkpoints.last() {
            Some(last) => format!(
                "the last checkpoint, {}, is whole: `spectral resume {path}` goes on from there",
                last.display()
            ),
            None => {
                format!("no checkpoint had been written: `spectral resume {path}` goes on from the start")
            }
        };
        match error {
            // Nobody goes on with it, and what its checkpoints are called is known where it is now.
            TrainError::Busy(_) if matches!(self.dir.path().try_exists(), Ok(false)) => {
                "what its last checkpoint has is there, if the folder is".into()
            }
            TrainError::Busy(_) => "the other process goes on with it from its last checkpoint".into(),
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
                finished: actor.frames() >= self.run.plan.run.frames,
                stopped: actor.stopped().map(String::from),
                tables: self.checkpoints.tables(agent).to_vec(),
            }
        };
        let agents: Vec<AgentState> = (0..self.run.plan.agents.len()).map(state).collect();
        self.lock.confirm()?;
        self.dir.write_state(status, seconds, &agents, &self.lock.fence())
    }

    fn write_models(&mut self) -> Result<(), TrainError> {
        for number in 0..self.run.plan.agents.len() {
            let (model, frames) = self.model(number)?;
            let folder = self.dir.agent(&self.run.plan.agents[number].id);
            let fence = self.lock.fence();
            fence.check()?;
            model_file::write(&folder, &self.run, number, frames, &model, &fence)?;
            let mut average = StateWriter::default();
            let kept = self.population.save_model(number, ModelKind::Average, &mut average)?;
            let average = kept.then(|| average.into_bytes());
            model_file::write_average(&folder, &self.run, number, frames, average.as_deref(), &fence)?;
        }
        Ok(())
    }
}

/// A fresh population where it was chosen to train. A GPU that was found and then fails is replaced by the CPU only if the
/// user left the choice open; `run` then says so.
fn populate(run: &mut ResolvedRun) -> Result<Box<dyn Population>, TrainError> {
    if run.device == Chosen::Cpu {
        return Ok(Box::new(CpuPopulation::new(run)?));
    }
    match DevicePopulation::new(run) {
        Err(TrainError::Device(reason)) if run.plan.run.device == DeviceChoice::Auto => {
            *run = run.on_cpu(&reason)?;
            run.memory.check()?;
            Ok(Box::new(CpuPopulation::new(run)?))
        }
        made => Ok(Box::new(made?)),
    }
}

fn decide_saving(dir: &RunDir, run: &mut ResolvedRun, population: &mut dyn Population) -> Saving {
    let folder = dir.checkpoints();
    let entries = disk::read_dir(&folder).into_iter().flatten().flatten();
    let taken = entries.filter_map(|entry| entry.metadata().ok()).map(|m| m.len()).sum();
    let saves_task = !population.is_empty() && population.actor(0).saves_task();
    let (saving, note) = run.checkpoints_hold(&folder, taken, saves_task);
    run.notes.extend(note);
    saving
}

/// Tells the user if the task cannot be saved in the middle of an episode.
fn note_saving(run: &mut ResolvedRun, population: &mut dyn Population) {
    if !population.is_empty() && !population.actor(0).saves_task() {
        run.notes.push(format!(
            "the task {} saves no state (Env::save): a resumed run begins a new episode, so it does not go on bit for bit",
            run.plan.task
        ));
    }
}
