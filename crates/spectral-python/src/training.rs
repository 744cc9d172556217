//! Runs that are steered from Python.

use crate::errors::raise_for;
use crate::gym::{GymTask, Source};
use crate::observer::{PyObserver, Told};
use crate::policy;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use spectral_agent::learner::Learner;
use spectral_cli::Registry;
use spectral_core::bytes::StateWriter;
use spectral_train::config::Configuration;
use spectral_train::control::Control;
use spectral_train::error::TrainError;
use spectral_train::events::Events;
use spectral_train::plan::Plan;
use spectral_train::policy::Policy;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::{RunDir, Status};
use spectral_train::trainer::{Resumption, Trainer};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// A task: one of Gymnasium's, or the name of one of ours.
#[derive(FromPyObject)]
enum Task<'py> {
    Gym(PyRef<'py, GymTask>),
    Name(String),
}

/// A run: agents and seeds on one task, in one folder.
#[pyclass(frozen)]
pub struct Training {
    inner: Mutex<Inner>,
    /// Outside, so that it can be cancelled while it trains.
    control: Mutex<Control>,
    source: Option<Arc<Source>>,
}

struct Inner {
    registry: Registry,
    /// What the user asked for; of a run that was found in its folder, nothing.
    config: Option<Configuration>,
    path: PathBuf,
    run: ResolvedRun,
    trainer: Option<Trainer>,
    /// The folder may be emptied to begin anew, if there is no checkpoint in it.
    disposable: bool,
    /// The folder is not to be held between two calls.
    closed: bool,
}

#[pymethods]
impl Training {
    #[new]
    #[pyo3(signature = (task, agents, seeds, settings, run_dir, disposable=false))]
    fn new(
        py: Python<'_>,
        task: Task<'_>,
        agents: Vec<String>,
        seeds: Vec<u64>,
        settings: Vec<(String, String)>,
        run_dir: PathBuf,
        disposable: bool,
    ) -> PyResult<Self> {
        let (name, source) = match task {
            Task::Gym(task) => (task.0.name.clone(), Some(task.0.clone())),
            Task::Name(name) => (name, None),
        };
        let mut config = Configuration::default();
        config.add("task", name);
        config.add("agents", agents.join(","));
        // With a comma behind each, a single seed is a list too, and not a count.
        config.add("seeds", seeds.iter().map(|seed| format!("{seed},")).collect::<String>());
        settings.iter().for_each(|(key, value)| config.add(key, value.as_str()));
        // How long the run will be is not known yet, and `evaluate` is at hand: frozen games only for those who ask.
        if !settings.iter().any(|(key, _)| key == "eval_every" || key == "eval_games") {
            config.add("eval_games", "0");
        }
        let made = py.detach(|| {
            let registry = registry(source.as_ref())?;
            let run = registry.resolve(&config)?;
            let config = Some(config);
            Ok(Inner { registry, config, path: run_dir, run, trainer: None, disposable, closed: false })
        });
        let inner = made.map_err(|error| raise_for(error, source.as_deref()))?;
        Ok(Training { inner: Mutex::new(inner), control: Mutex::new(Control::default()), source })
    }

    /// A run that is in its folder already, with the agents and settings that it was made with.
    #[staticmethod]
    fn found(py: Python<'_>, task: Task<'_>, run_dir: PathBuf) -> PyResult<Self> {
        let source = match task {
            Task::Gym(task) => Some(task.0.clone()),
            Task::Name(_) => None,
        };
        let made = py.detach(|| {
            let registry = registry(source.as_ref())?;
            let (_, file) = RunDir::open(&run_dir, &registry)?;
            let run = registry.resolve_plan(file.plan)?;
            let (config, trainer, disposable, closed) = (None, None, false, false);
            let mut inner = Inner { registry, config, path: run_dir, run, trainer, disposable, closed };
            inner.open(0, false)?;
            Ok(inner)
        });
        let inner = made.map_err(|error| raise_for(error, source.as_deref()))?;
        Ok(Training { inner: Mutex::new(inner), control: Mutex::new(Control::default()), source })
    }

    /// Trains until every agent has seen `frames` frames. Returns whether they have; false if the run was cancelled.
    #[pyo3(signature = (frames, callback=None, wants_steps=false, wants_episodes=false, progress=None))]
    fn learn(
        &self,
        py: Python<'_>,
        frames: u64,
        callback: Option<Py<PyAny>>,
        wants_steps: bool,
        wants_episodes: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<bool> {
        let control = Control::default();
        *self.control.lock().unwrap_or_else(|e| e.into_inner()) = control.clone();
        let events = Arc::new(Events::default());
        let wants_events = callback.is_some();
        // Whoever may end the run after an episode is told of it before the next step.
        let prompt = wants_steps || wants_episodes;
        let told = Told { callback, steps: wants_steps, prompt, progress };
        let observer = PyObserver::new(told, events.clone(), control.clone());
        let trained = py.detach(|| {
            let mut guard = self.try_inner()?;
            let inner = &mut *guard;
            inner.closed = false;
            let trainer = inner.open(frames, prompt)?;
            let (planned, progress) = (trainer.plan().run.frames, trainer.progress());
            let at = |end: u64| progress.iter().all(|agent| agent.frames >= end || agent.stopped.is_some());
            // A run that was killed between its last checkpoint and its end has still to write what a finished one leaves.
            let unfinished = at(planned) && !trainer.dir().finished();
            if at(frames) && !unfinished {
                return Ok(true);
            }
            if planned != frames && !at(frames) {
                trainer.set_end(frames)?;
            }
            trainer.set_control(control);
            if wants_events {
                trainer.tell(&events);
            }
            let mut summary = trainer.run_watched(&observer);
            if summary.is_ok() && observer.is_content() {
                // A callback has seen enough: the run ends here, with everything that a run leaves.
                let reached = trainer.progress().iter().map(|agent| agent.frames).max().unwrap_or(0);
                trainer.set_end(reached.max(1))?;
                trainer.set_control(Control::default());
                summary = trainer.run_watched(&());
                if summary.is_ok() {
                    return Ok(false);
                }
            }
            if let Err(error @ (TrainError::Task(_) | TrainError::Device(_) | TrainError::Busy(_))) = summary
            {
                // What is in memory is between two checkpoints; whoever goes on goes on from the last one.
                inner.trainer = None;
                return Err(Failure::Train(error));
            }
            Ok(summary?.status == Status::Finished)
        });
        // What a callback raised comes first: it is why the run was cancelled.
        if let Some(error) = observer.take_error() {
            return Err(error);
        }
        trained.map_err(|failure| self.raise(failure))
    }

    /// Ends a run that is being trained, with a checkpoint, after the current step.
    fn cancel(&self) {
        self.control.lock().unwrap_or_else(|e| e.into_inner()).cancel();
    }

    /// One agent as it is now, to act and to be asked.
    fn policy(&self, py: Python<'_>, agent: usize) -> PyResult<policy::Policy> {
        let made = py.detach(|| {
            let mut guard = self.try_inner()?;
            guard.asked(|inner| match &mut inner.trainer {
                Some(trainer) => {
                    let (model, frames) = trainer.model(agent)?;
                    Policy::from_model(trainer.resolved(), agent, frames, &model)
                }
                None => inner.untrained(agent),
            })
        });
        made.map(policy::Policy::wrap).map_err(|failure| self.raise(failure))
    }

    /// The agents: name, seed, id, frames, mean score of the last episodes, why it was stopped, and how many rewards were
    /// beyond what it can represent.
    #[allow(clippy::type_complexity)]
    fn agents(
        &self,
        py: Python<'_>,
    ) -> PyResult<Vec<(String, u64, String, u64, Option<f64>, Option<String>, u64)>> {
        let asked = py.detach(|| {
            let mut guard = self.try_inner()?;
            guard.asked(|inner| {
                let progress = inner.trainer.as_mut().map(Trainer::progress).unwrap_or_default();
                let row = |(number, agent): (usize, &spectral_train::plan::AgentPlan)| {
                    let now = progress.get(number);
                    (
                        agent.agent.clone(),
                        agent.seed,
                        agent.id.clone(),
                        now.map_or(0, |now| now.frames),
                        now.and_then(|now| now.score),
                        now.and_then(|now| now.stopped.clone()),
                        now.map_or(0, |now| now.saturated),
                    )
                };
                Ok(inner.run.plan.agents.iter().enumerate().map(row).collect())
            })
        });
        asked.map_err(|failure| self.raise(failure))
    }

    /// What was decided for the user: the device, what checkpoints leave out.
    fn notes(&self) -> PyResult<Vec<String>> {
        let inner = self.try_inner().map_err(|failure| self.raise(failure))?;
        Ok(inner.trainer.as_ref().map_or(&inner.run.notes, |trainer| &trainer.resolved().notes).clone())
    }

    /// The settings of one agent by their names, as text.
    fn settings(&self, agent: usize) -> PyResult<Vec<(String, String)>> {
        use spectral_agent::settings::Settings;
        let inner = self.try_inner().map_err(|failure| self.raise(failure))?;
        let plan = &inner.run.plan.agents[agent];
        let all = [plan.settings.values(), plan.codec_settings.clone()];
        let pairs = all.iter().flat_map(|values| values.iter());
        Ok(pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    /// Opens the run that is in its folder already, so that its agents can be asked. False if there is none.
    fn open(&self, py: Python<'_>) -> PyResult<bool> {
        let opened = py.detach(|| {
            let mut guard = self.try_inner()?;
            if !guard.path.join("run.toml").exists() {
                return Ok(false);
            }
            guard.open(0, false)?;
            Ok(true)
        });
        opened.map_err(|failure| self.raise(failure))
    }

    /// The settings of the task by their names, as text.
    fn task_settings(&self) -> PyResult<Vec<(String, String)>> {
        let inner = self.try_inner().map_err(|failure| self.raise(failure))?;
        let pairs = inner.run.plan.task_settings.iter();
        Ok(pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    /// Lets go of the run's folder and of its environments. A later `learn` goes on from the last checkpoint.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if let Ok(mut inner) = self.inner.try_lock() {
                inner.trainer = None;
                inner.closed = true;
            }
        });
    }
}

fn registry(source: Option<&Arc<Source>>) -> Result<Registry, TrainError> {
    match source {
        Some(source) => Registry::default().with_task(source.entry()),
        None => Ok(Registry::default()),
    }
}

/// Why something could not be done.
enum Failure {
    Train(TrainError),
    /// Another thread trains it.
    Busy,
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        Failure::Train(error)
    }
}

impl Training {
    fn try_inner(&self) -> Result<MutexGuard<'_, Inner>, Failure> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => Err(Failure::Busy),
        }
    }

    fn raise(&self, failure: Failure) -> PyErr {
        match failure {
            Failure::Train(error) => raise_for(error, self.source.as_deref()),
            Failure::Busy => PyRuntimeError::new_err(
                "this agent is being trained: ask it again when learn() has returned (inside callbacks it cannot be asked)",
            ),
        }
    }
}

impl Inner {
    /// Asks the run, which is opened for that if it is there: after a failure, or after it was closed.
    fn asked<T>(&mut self, question: impl FnOnce(&mut Self) -> Result<T, TrainError>) -> Result<T, Failure> {
        if self.trainer.is_none() && self.has_checkpoint() {
            self.open(0, false)?;
        }
        let answer = question(self);
        if self.closed {
            self.trainer = None;
        }
        Ok(answer?)
    }

    fn has_checkpoint(&self) -> bool {
        let entries = std::fs::read_dir(self.path.join("checkpoints"));
        entries.is_ok_and(|mut entries| entries.next().is_some())
    }

    /// The run at work: begun in its folder, or found there and gone on with.
    fn open(&mut self, frames: u64, step_together: bool) -> Result<&mut Trainer, TrainError> {
        // Every step is to be watched, and so far it is not.
        if self.trainer.as_ref().is_some_and(|trainer| step_together && !trainer.resolved().step_together) {
            self.trainer = None;
        }
        if self.trainer.is_none() {
            if self.disposable && self.path.exists() && !self.has_checkpoint() {
                // It failed before its first checkpoint. A folder that cannot be removed is refused below.
                let _ = std::fs::remove_dir_all(&self.path);
            }
            let trainer = match &self.config {
                None => self.resume(frames, step_together)?,
                Some(_) if self.path.join("run.toml").exists() => self.resume(frames, step_together)?,
                Some(config) => {
                    let mut config = config.clone();
                    config.add("frames", frames.max(1).to_string());
                    let mut run = self.registry.resolve(&config)?;
                    run.step_together |= step_together;
                    Trainer::create(&self.path, run, &self.registry, "python")?
                }
            };
            self.run = trainer.resolved().clone();
            self.trainer = Some(trainer);
        }
        Ok(self.trainer.as_mut().expect("opened just now"))
    }

    fn resume(&self, frames: u64, step_together: bool) -> Result<Trainer, TrainError> {
        let (_, file) = RunDir::open(&self.path, &self.registry)?;
        let planned = file.plan.run.frames;
        let mut plan: Plan = file.plan;
        if let Some(config) = &self.config {
            let mut config = config.clone();
            config.add("frames", planned.to_string());
            let wanted = self.registry.plan(&config)?;
            if let Some(difference) = plan.difference(&wanted) {
                return Err(TrainError::Usage(format!(
                    "{} holds another run, and is left as it is ({difference}): give another run_dir, or remove it",
                    self.path.display()
                )));
            }
            plan = wanted;
        }
        let how = Resumption {
            frames: (frames > planned).then_some(frames),
            threads: plan.run.threads,
            device: Some(plan.run.device),
            step_together,
            ..Resumption::default()
        };
        Trainer::resume(&self.path, &self.registry, how)
    }

    /// An agent before its first step.
    fn untrained(&self, agent: usize) -> Result<Policy, TrainError> {
        let plan = &self.run.plan.agents[agent];
        let mut settings = plan.settings.clone();
        settings.replay = settings.batch + settings.n_step + 8 + self.run.task.observation.stack();
        let learner = Learner::new(settings, self.run.codecs[agent].clone(), &self.run.task, plan.seed)?;
        let mut model = StateWriter::default();
        learner.save_model(&mut model);
        Policy::from_model(&self.run, agent, 0, &model.into_bytes())
    }
}
