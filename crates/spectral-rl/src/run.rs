//! A run from its description to its trained agents.

use crate::error::Result;
use spectral_agent::codecs::CodecEntry;
use spectral_agent::settings::AgentSettings;
use spectral_env::{Env, TaskEntry, TaskSpec};
#[cfg(feature = "report")]
use spectral_report::{ReferenceScores, ReportOptions, read_runs, write_report};
use spectral_train::config::Configuration;
use spectral_train::control::Control;
use spectral_train::error::TrainError;
use spectral_train::eval::{Evaluation, evaluate};
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::{RunDir, Status};
use spectral_train::trainer::{AgentProgress, Observer, Resumption, Trainer};
use std::fmt;
use std::path::{Path, PathBuf};

/// What a run consists of. [`train`](Run::train) does the work.
///
/// ```
/// use spectral_rl::prelude::*;
/// # fn main() -> Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("run");
/// let run = Run::task("pong-mini").agents(["spectral"]).frames(200).dir(&folder).train()?;
/// assert!(run.is_finished());
/// # Ok(())
/// # }
/// ```
#[must_use = "a run does nothing until `train` is called"]
pub struct Run {
    task: String,
    /// Or the first mistake.
    registry: Result<Registry, TrainError>,
    config: Configuration,
    changes: Vec<Change>,
    dir: Option<PathBuf>,
    observer: Progress,
    control: Control,
}

type Change = Box<dyn Fn(&mut AgentSettings)>;
type Tell = Box<dyn Fn(&[AgentProgress]) + Send + Sync>;

struct Progress(Option<Tell>);

impl Observer for Progress {
    fn tick(&self, progress: &[AgentProgress]) {
        if let Some(tell) = &self.0 {
            tell(progress);
        }
    }
}

impl Run {
    /// A run on a task of your own; `make` makes a fresh instance of it.
    pub fn new<E: Env + 'static>(name: &str, make: impl Fn() -> E + Send + Sync + 'static) -> Self {
        Self::with(Registry::default().with_task(TaskEntry::new(name, "", make)), name)
    }

    /// A run on a built-in task.
    pub fn task(name: &str) -> Self {
        Self::with(Ok(Registry::default()), name)
    }

    /// A run on a task of your own that has settings.
    pub fn with_task(task: TaskEntry) -> Self {
        let name = task.name().to_string();
        Self::with(Registry::default().with_task(task), &name)
    }

    /// A run on a task of a registry of your own.
    pub fn with_registry(registry: Registry, task: &str) -> Self {
        Self::with(Ok(registry), task)
    }

    fn with(registry: Result<Registry, TrainError>, task: &str) -> Self {
        let mut config = Configuration::default();
        config.add("task", task);
        Run {
            task: task.into(),
            registry,
            config,
            changes: Vec::new(),
            dir: None,
            observer: Progress(None),
            control: Control::default(),
        }
    }

    /// Adds a codec of your own, whose agents [`agents`](Run::agents) can then name.
    pub fn codec(mut self, codec: CodecEntry) -> Self {
        self.registry = self.registry.and_then(|registry| registry.with_codec(codec));
        self
    }

    /// The agents, by name; `spectral agents` lists the built-in ones. Without this call it is Spectral DQN.
    pub fn agents<I: IntoIterator<Item: AsRef<str>>>(self, names: I) -> Self {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_string()).collect();
        self.option("agents", names.join(","))
    }

    /// The seeds; every agent is trained once with each. Without this call it is seed 1.
    pub fn seeds(self, seeds: impl IntoIterator<Item = u64>) -> Self {
        // With a comma behind each, a single seed is a list too, and not a count.
        let list = seeds.into_iter().map(|seed| format!("{seed},")).collect::<String>();
        self.option("seeds", list)
    }

    /// Frames per agent. A task of your own plays one frame a step unless it says otherwise.
    pub fn frames(self, frames: u64) -> Self {
        self.option("frames", frames.to_string())
    }

    /// Any setting by its name, as files and flags have it: of the run, the task, all agents or, as `agent.NAME.key`, one.
    pub fn option(mut self, key: &str, value: impl ToString) -> Self {
        self.config.add(key, value.to_string());
        self
    }

    /// Changes the settings that every agent has.
    pub fn set(mut self, change: impl Fn(&mut AgentSettings) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// The run's folder; without this call, `runs/` and the task's name.
    pub fn dir(mut self, path: impl AsRef<Path>) -> Self {
        self.dir = Some(path.as_ref().into());
        self
    }

    /// Calls a function about ten times a second while the run trains, with one entry per agent.
    pub fn on_progress(mut self, tell: impl Fn(&[AgentProgress]) + Send + Sync + 'static) -> Self {
        self.observer = Progress(Some(Box::new(tell)));
        self
    }

    /// A handle that pauses or cancels the run from another thread.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Trains to the end, from the start or from where the run in this folder was stopped.
    ///
    /// A folder that holds a run with other settings is an error, and is left as it is. A run that is at its end already is
    /// not trained again; with more [`frames`](Run::frames) than before it goes on.
    pub fn train(self) -> Result<TrainedRun> {
        let registry = self.registry?;
        let mut plan = registry.plan(&self.config)?;
        for agent in &mut plan.agents {
            self.changes.iter().for_each(|change| change(&mut agent.settings));
        }
        let path = self.dir.unwrap_or_else(|| PathBuf::from("runs").join(&self.task));
        let mut trainer = match found(&path, &plan, &registry)? {
            Found::Nothing => Trainer::create(&path, registry.resolve_plan(plan)?, &registry, &command())?,
            Found::Finished(dir, recorded) => {
                let run = registry.resolve_plan(plan)?;
                run.check_task(recorded.as_ref(), dir.path())?;
                return Ok(TrainedRun { dir, run, finished: true });
            }
            Found::Begun { frames } => {
                let (threads, device) = (plan.run.threads, Some(plan.run.device));
                Trainer::resume(
                    &path,
                    &registry,
                    Resumption { frames, threads, device, ..Resumption::default() },
                )?
            }
        };
        trainer.set_control(self.control);
        let summary = trainer.run_watched(&self.observer)?;
        let (dir, run) = (trainer.dir().clone(), trainer.resolved().clone());
        Ok(TrainedRun { dir, run, finished: summary.status == Status::Finished })
    }
}

/// What lies in a folder, as seen by one who wants to train a plan there.
enum Found {
    Nothing,
    /// The same run, stopped before its end, or with an end before the one that is wanted now.
    Begun {
        frames: Option<u64>,
    },
    Finished(RunDir, Option<TaskSpec>),
}

fn found(path: &Path, plan: &Plan, registry: &Registry) -> Result<Found, TrainError> {
    if !path.join("run.toml").exists() {
        return Ok(Found::Nothing);
    }
    let (dir, file) = RunDir::open(path, registry)?;
    let (old, wanted) = (file.plan.run.frames, plan.run.frames);
    // The distance between rows of metrics follows from the length unless it is set; a longer run keeps that of its start.
    let difference = match file.plan.difference(plan) {
        None if wanted < old => Some(format!("its frames are {old}, not {wanted}")),
        other => other,
    };
    if let Some(difference) = difference {
        return Err(TrainError::Usage(format!(
            "{} holds another run, and is left as it is ({difference}): give another folder (Run::dir), or remove it",
            path.display()
        )));
    }
    Ok(match dir.finished() && wanted == old {
        true => Found::Finished(dir, file.task),
        false => Found::Begun { frames: (wanted > old).then_some(wanted) },
    })
}

/// What `run.toml` records as the command: the program.
fn command() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    Path::new(&program).file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A run and what it left.
pub struct TrainedRun {
    dir: RunDir,
    run: ResolvedRun,
    finished: bool,
}

impl TrainedRun {
    /// The run's folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Whether it is at its planned end; false if it was cancelled before. Single agents may have been
    /// [stopped](TrainedAgent::stopped) on the way.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// What was decided on the way and is worth knowing: the device, and what checkpoints leave out.
    pub fn notes(&self) -> &[String] {
        &self.run.notes
    }

    /// Its agents: every name with every seed.
    pub fn agents(&self) -> impl Iterator<Item = TrainedAgent<'_>> {
        (0..self.run.plan.agents.len()).map(|number| TrainedAgent { run: self, number })
    }

    /// Writes figures, tables and one self-contained HTML page into a folder.
    #[cfg(feature = "report")]
    pub fn report(&self, out: impl AsRef<Path>) -> Result<()> {
        let runs = read_runs(&[self.dir.path().to_path_buf()])?;
        let title = format!("Training report: {}", self.run.plan.task);
        let task = self.run.entry();
        let scores = task.reference_scores().map(|scores| {
            let defaults = task.schema().defaults();
            ReferenceScores::new(task.name(), scores.random, scores.best, &scores.best_is, defaults.iter())
        });
        let references = scores.into_iter().collect();
        let out = out.as_ref().into();
        write_report(&runs, &ReportOptions { title, out, references, ..ReportOptions::default() })?;
        Ok(())
    }
}

/// One agent of a run. Displayed, it is its name and seed.
pub struct TrainedAgent<'a> {
    run: &'a TrainedRun,
    number: usize,
}

impl TrainedAgent<'_> {
    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.run.run.plan.agents[self.number].agent
    }

    /// The seed that it was trained with.
    pub fn seed(&self) -> u64 {
        self.run.run.plan.agents[self.number].seed
    }

    /// Why it was stopped before its end, if it was: values that stopped being finite, or a reward that was no number. The other
    /// agents of the run went on.
    pub fn stopped(&self) -> Option<String> {
        self.run.dir.why_stopped(&self.run.run.plan.agents[self.number].id)
    }

    /// Plays episodes greedily with what it learned, without learning.
    pub fn evaluate(&self, episodes: u64) -> Result<Evaluation> {
        self.evaluate_with(episodes, 0.0)
    }

    /// Plays episodes with what it learned, acting at random with probability `epsilon`.
    pub fn evaluate_with(&self, episodes: u64, epsilon: f64) -> Result<Evaluation> {
        if !(0.0..=1.0).contains(&epsilon) {
            return Err(TrainError::Usage(format!("epsilon is {epsilon}, and must be from 0 to 1")).into());
        }
        Ok(evaluate(&self.run.dir, &self.run.run, self.number, episodes, epsilon)?)
    }
}

impl fmt::Display for TrainedAgent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.run.run.plan.agents[self.number].id)
    }
}
