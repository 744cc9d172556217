//! Experiments as data: what a figure needs, what of it lies on disk already, and what the rest will cost.
//!
//! An experiment is a TOML file of `configs/experiments`, or one of the user's own. [`Experiment`] is such a file, resolved
//! into one [`Plan`] a task; [`RunIndex`] knows the run directories that lie in a folder and says which
//! [`Job`]s are left to do; [`forecast`] says what they cost in memory, disk and time.

pub mod forecast;
mod frozen_sweep;
mod populations;
mod run_index;
mod sweep;

pub use populations::Limits;
pub use run_index::{Job, RunIndex, Work};
pub use sweep::{MAX_SWEEP_RUNS, Sweep, Variant, Vary};

use crate::config::{Configuration, is_plain, parse, read_text};
use crate::error::TrainError;
use crate::plan::Plan;
use crate::presets::{self, FIGURES};
use crate::registry::{Registry, unknown};
use spectral_env::TaskError;
use std::path::Path;

/// Keys of an experiment's file that are not settings of its runs.
const OWN_KEYS: &[&str] = &["title", "paper", "task", "computed"];
/// Keys that only the report reads.
const REPORT_KEYS: &[&str] = &["claim"];

/// What the user asks for beside the experiment's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Frames per agent.
    pub frames: Option<u64>,
    /// Seeds, as `--seeds` takes them.
    pub seeds: Option<String>,
    /// Agents, as `--agents` takes them.
    pub agents: Option<String>,
    /// Tasks of the experiment's own, separated by commas; the others are left out.
    pub tasks: Option<String>,
    /// Any settings, as `--set` takes them.
    pub set: Vec<String>,
}

/// A figure or a table as data: its runs, or what is computed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The name it is called by.
    pub name: String,
    /// What it shows, in a line.
    pub title: String,
    /// What it is in the paper; empty if it is not there.
    pub paper: String,
    /// The comment that opens its file.
    pub summary: String,
    /// The file as it stands, claims included, for the report.
    pub text: String,
    /// What is computed instead of trained, as the file says it.
    pub computed: Option<toml::Table>,
    /// One plan a task, all agents and seeds in it.
    pub plans: Vec<Plan>,
}

impl Experiment {
    /// The experiment of this name, or of this TOML file, with the user's changes.
    ///
    /// ```
    /// use spectral_train::experiment::{Experiment, Overrides};
    /// use spectral_train::registry::Registry;
    /// let wish = Overrides { frames: Some(1_000), seeds: Some("2".into()), ..Overrides::default() };
    /// let experiment = Experiment::find("mini-fig3", &wish, &Registry::default())?;
    /// assert_eq!(experiment.plans.len(), 2, "two tasks");
    /// assert!(experiment.plans.iter().all(|plan| plan.run.frames == 1_000));
    /// # Ok::<(), spectral_train::error::TrainError>(())
    /// ```
    pub fn find(name: &str, overrides: &Overrides, registry: &Registry) -> Result<Self, TrainError> {
        if let Some(preset) = presets::find(FIGURES, name) {
            return Self::read(preset.name, preset.text, overrides, registry);
        }
        let path = Path::new(name);
        if name.ends_with(".toml") {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            if !is_plain(&stem) {
                return Err(TrainError::Usage(format!(
                    "'{name}': name the file in letters, digits, '-' and '_'"
                )));
            }
            return Self::read(&stem, &read_text(path)?, overrides, registry);
        }
        Err(unknown("figure", name, FIGURES.iter().map(|p| p.name)))
    }

    /// An experiment from the text of its file.
    pub fn read(
        name: &str,
        text: &str,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, TrainError> {
        let file = parse(text, name)?;
        let own_text = |key: &str| match file.get(key) {
            None => Ok(String::new()),
            Some(toml::Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(TrainError::Usage(format!("{name}: '{key}' must be a text in quotes"))),
        };
        let (title, paper) = (own_text("title")?, own_text("paper")?);
        let computed = match file.get("computed") {
            None => None,
            Some(toml::Value::Table(table)) => Some(table.clone()),
            Some(_) => return Err(TrainError::Usage(format!("{name}: [computed] must be a table"))),
        };
        if computed.is_some() && *overrides != Overrides::default() {
            return Err(TrainError::Usage(format!(
                "{name} is computed, not trained: it has no frames, seeds, agents, tasks or settings to change"
            )));
        }
        let plans = match &computed {
            Some(_) => Vec::new(),
            None => plans(name, &file, overrides, registry)?,
        };
        let summary = presets::opening_comment(text);
        let title = if title.is_empty() { summary.clone() } else { title };
        Ok(Experiment { name: name.into(), title, paper, summary, text: text.into(), computed, plans })
    }

    /// One plan as an experiment of its own, without claims.
    ///
    /// ```
    /// use spectral_train::{config::Configuration, experiment::Experiment, registry::Registry};
    /// let mut config = Configuration::default();
    /// config.set("task=pong-mini")?;
    /// assert_eq!(Experiment::of(Registry::default().plan(&config)?).name, "pong-mini");
    /// # Ok::<(), spectral_train::error::TrainError>(())
    /// ```
    pub fn of(plan: Plan) -> Self {
        Experiment {
            name: plan.task.replace('/', "-"),
            title: format!("Training on {}", plan.task),
            paper: String::new(),
            summary: String::new(),
            text: String::new(),
            computed: None,
            plans: vec![plan],
        }
    }

    /// Whether some task needs ROMs.
    pub fn needs_roms(&self, registry: &Registry) -> bool {
        let needs = |plan: &Plan| registry.task(&plan.task).is_ok_and(|task| !task.games().is_empty());
        self.plans.iter().any(needs)
    }

    /// The tasks that cannot be made here because something of theirs, a ROM, is missing; each with what to do.
    pub fn missing(&self, registry: &Registry) -> Vec<(String, String)> {
        let absent = |plan: &Plan| match registry.task(&plan.task).ok()?.make(&plan.task_settings) {
            Err(TaskError::Missing(why)) => Some((plan.task.clone(), why)),
            _ => None,
        };
        self.plans.iter().filter_map(absent).collect()
    }

    /// Runs of one agent with one seed on one task.
    pub fn runs(&self) -> usize {
        self.plans.iter().map(|plan| plan.agents.len()).sum()
    }

    /// Frames of all runs together.
    pub fn frames(&self) -> u64 {
        self.plans.iter().map(|plan| plan.run.frames.saturating_mul(plan.agents.len() as u64)).sum()
    }
}

/// One plan per `[[task]]`: what the file sets for all, then what it sets for this one, then what the user sets.
fn plans(
    name: &str,
    file: &toml::Table,
    overrides: &Overrides,
    registry: &Registry,
) -> Result<Vec<Plan>, TrainError> {
    let mut common = file.clone();
    for key in OWN_KEYS.iter().chain(REPORT_KEYS) {
        common.remove(*key);
    }
    let tasks = match file.get("task") {
        Some(toml::Value::Array(tasks)) if !tasks.is_empty() => tasks,
        _ => {
            return Err(TrainError::Usage(format!(
                "{name}: say what is trained: a [[task]] with name = \"…\" for each task, or [computed]"
            )));
        }
    };
    let own_name = |task: &toml::Value| Some(task.get("name")?.as_str()?.to_string());
    let only: Option<Vec<&str>> = overrides
        .tasks
        .as_ref()
        .map(|names| names.split(',').map(str::trim).filter(|n| !n.is_empty()).collect());
    if only.as_ref().is_some_and(Vec::is_empty) {
        return Err(TrainError::Usage(format!("{name}: no task is left to train")));
    }
    for wanted in only.iter().flatten() {
        let names: Vec<String> = tasks.iter().filter_map(own_name).collect();
        if !names.iter().any(|name| name == wanted) {
            return Err(unknown("task of this figure", wanted, names.iter().map(String::as_str)));
        }
    }
    let asked_for = |task: &&toml::Value| {
        only.as_ref().is_none_or(|only| own_name(task).is_some_and(|name| only.contains(&name.as_str())))
    };
    let mut plans: Vec<Plan> = Vec::new();
    for task in tasks.iter().filter(asked_for) {
        let mut own = task.as_table().cloned().unwrap_or_default();
        let Some(toml::Value::String(task)) = own.remove("name") else {
            return Err(TrainError::Usage(format!("{name}: every [[task]] needs a name = \"…\"")));
        };
        let mut config = Configuration::default();
        config.table(&common, name)?;
        config.table(&own, &format!("{name}, task {task}"))?;
        config.add("task", task);
        let said = [("seeds", &overrides.seeds), ("agents", &overrides.agents)];
        for (key, value) in said.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            config.add(key, value.clone());
        }
        if let Some(frames) = overrides.frames {
            config.add("frames", frames.to_string());
        }
        for pair in &overrides.set {
            if pair.split_once('=').is_some_and(|(key, _)| key.trim() == "task") {
                return Err(TrainError::Usage(format!("{name} says itself which tasks it has")));
            }
            config.set(pair)?;
        }
        let plan = registry.plan(&config)?;
        if plans.iter().any(|p| (&p.task, &p.task_settings) == (&plan.task, &plan.task_settings)) {
            return Err(TrainError::Usage(format!("{name}: the task {} is there twice", plan.task)));
        }
        plans.push(plan);
    }
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "atari")]
    fn every_figure_resolves_and_names_tasks_and_agents_that_exist() {
        let registry = Registry::default();
        for figure in FIGURES {
            let experiment = Experiment::find(figure.name, &Overrides::default(), &registry).unwrap();
            assert!(experiment.summary.len() > 20 && experiment.summary.len() < 140, "{}", figure.name);
            assert!(!experiment.title.is_empty());
            assert_eq!(experiment.computed.is_some(), experiment.plans.is_empty(), "{}", figure.name);
            if let Some(plan) = experiment.plans.first() {
                assert!(
                    plan.agents.iter().any(|a| a.agent == "clipped"),
                    "{}: clipped DQN is everywhere",
                    figure.name
                );
            }
            for plan in &experiment.plans {
                let names: Vec<&str> = plan.agents.iter().map(|a| a.agent.as_str()).collect();
                assert!(names.iter().all(|n| registry.agent(n).is_some()), "{}", figure.name);
                assert_eq!(plan.agents.iter().filter(|a| a.agent == names[0]).count(), 5, "five seeds");
                // A run is taken further by a later call only if its rows do not move with its length.
                assert!(figure.text.contains("log_frames"), "{}", figure.name);
            }
        }
    }

    #[test]
    fn the_folder_and_the_list_are_the_same() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/experiments");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let listed = presets::FIGURES.iter().chain(presets::EXPERIMENTS);
        let mut names: Vec<String> = listed.map(|p| format!("{}.toml", p.name)).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
    }

    #[test]
    fn tasks_inherit_and_the_user_has_the_last_word() {
        let text = "# A summary.\nagents = [\"spectral\", \"popart\"]\nseeds = 2\nframes = 100\nbatch = 8\n\
                    [[task]]\nname = \"pong-mini\"\nframes = 50\n[task.agent]\npopart.learning_rate = 1e-4\n\
                    [[task]]\nname = \"2048\"\n[[claim]]\nanything = 1\n";
        let registry = Registry::default();
        let read = |overrides: &Overrides| Experiment::read("mine", text, overrides, &registry).unwrap();
        let mine = read(&Overrides::default());
        assert_eq!(mine.plans.iter().map(|p| p.run.frames).collect::<Vec<_>>(), [50, 100]);
        let rates = |i: usize| mine.plans[i].agents[2].settings.learning_rate;
        assert_eq!((rates(0), rates(1)), (1e-4, 5e-4));
        assert_eq!((mine.runs(), mine.frames(), mine.title.as_str()), (8, 600, "A summary."));
        let wish = Overrides {
            frames: Some(7),
            seeds: Some("4,6".into()),
            agents: Some("clipped".into()),
            tasks: None,
            set: vec!["batch=16".into()],
        };
        let mine = read(&wish);
        assert!(mine.plans.iter().all(|p| p.run.frames == 7 && p.agents.len() == 2));
        assert!(mine.plans.iter().flat_map(|p| &p.agents).all(|a| a.settings.batch == 16));
        let wish = Overrides { tasks: Some("2048,".into()), ..Overrides::default() };
        assert_eq!(read(&wish).plans.iter().map(|p| p.task.as_str()).collect::<Vec<_>>(), ["2048"]);
        let wish = Overrides { tasks: Some("2048, pong".into()), ..Overrides::default() };
        let said = Experiment::read("mine", text, &wish, &registry).unwrap_err().to_string();
        assert!(said.contains("pong-mini"), "{said}");
        let wish = Overrides { tasks: Some(" ".into()), ..Overrides::default() };
        assert!(
            Experiment::read("mine", text, &wish, &registry)
                .unwrap_err()
                .to_string()
                .contains("no task is left")
        );
    }

    /// One game in two modes is two tasks.
    #[test]
    #[cfg(feature = "atari")]
    fn a_task_may_be_there_twice_with_other_settings() {
        let text = "[[task]]\nname = \"atari/pong\"\n[[task]]\nname = \"atari/pong\"\nmode = 1\n";
        let mine = Experiment::read("mine", text, &Overrides::default(), &Registry::default()).unwrap();
        assert_eq!(mine.plans.len(), 2);
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        let (none, registry) = (Overrides::default(), Registry::default());
        for (name, want) in [("fig33", "did you mean 'fig3'"), ("no/such.toml", "cannot read")] {
            let said = Experiment::find(name, &none, &registry).unwrap_err().to_string();
            assert!(said.contains(want), "{said}");
        }
        for (text, want) in [
            ("frames = 3", "[[task]]"),
            ("[[task]]\nframes = 3", "name"),
            ("bach = 3\n[[task]]\nname = \"2048\"", "'batch'"),
            ("[[task]]\nname = \"2048\"\n[[task]]\nname = \"2048\"", "twice"),
            ("title = 3\n[[task]]\nname = \"2048\"", "quotes"),
            ("computed = 3", "table"),
            ("[[task]]\nname = \"pogn-mini\"", "'pong-mini'"),
        ] {
            let said = Experiment::read("mine", text, &none, &registry).unwrap_err().to_string();
            assert!(said.contains(want), "{text}: {said}");
        }
        let wish = Overrides { frames: Some(3), ..none };
        assert!(Experiment::find("fig2", &wish, &registry).unwrap_err().to_string().contains("computed"));
    }
}
