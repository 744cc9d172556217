//! What can be trained, on what: the tasks and codecs that a program knows.
//!
//! Tasks and codecs describe themselves ([`TaskEntry`], [`CodecEntry`]). The built-in ones are in every registry; a program
//! adds its own, which are then named in files and flags, recorded, resumed, evaluated and reported like any other.

use crate::config::{Configuration, RunSettings, Selection};
use crate::devices::Place;
use crate::error::TrainError;
use crate::plan::Plan;
use crate::resolve::ResolvedRun;
use spectral_agent::codecs::{self, AgentPreset, CodecEntry};
use spectral_agent::settings::{AgentSettings, Settings};
use spectral_env::{TaskEntry, nearest};

/// Keys that settings of tasks and codecs cannot have because something else has them.
const RESERVED: &[&str] = &["agent", "codec", "format", "threads"];

/// Tasks and codecs by name.
///
/// ```
/// use spectral_train::config::Configuration;
/// use spectral_train::registry::Registry;
///
/// let registry = Registry::default();
/// let mut config = Configuration::default();
/// config.set("task=pong-mini")?;
/// config.set("agents=spectral,popart")?;
/// config.set("agent.popart.learning_rate=1e-4")?;
/// let run = registry.resolve(&config)?;
/// assert_eq!((run.plan.agents.len(), run.task.actions.len()), (2, 3));
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    tasks: Vec<TaskEntry>,
    codecs: Vec<CodecEntry>,
}

impl Default for Registry {
    /// The built-in tasks and codecs.
    fn default() -> Self {
        #[cfg_attr(not(feature = "atari"), allow(unused_mut))]
        let mut tasks = spectral_env::entries();
        #[cfg(feature = "atari")]
        tasks.extend(spectral_atari::task::entries());
        Registry { tasks, codecs: codecs::builtin() }
    }
}

impl Registry {
    /// Adds a task of the program's own.
    pub fn with_task(mut self, task: TaskEntry) -> Result<Self, TrainError> {
        check_name("task", task.name(), self.tasks.iter().map(TaskEntry::name))?;
        let of_codecs = self.codecs.iter().flat_map(|codec| codec.schema().keys());
        check_keys(task.name(), task.schema().keys(), of_codecs)?;
        self.tasks.push(task);
        Ok(self)
    }

    /// Adds a codec of the program's own. Its agents can be named like the built-in ones.
    pub fn with_codec(mut self, codec: CodecEntry) -> Result<Self, TrainError> {
        check_name("codec", codec.name(), self.codecs.iter().map(CodecEntry::name))?;
        let presets = codec.presets();
        for (number, preset) in presets.iter().enumerate() {
            let agents = self.agents();
            let known = agents.iter().map(|(_, known)| known.name.as_str());
            let before = presets[..number].iter().map(|other| other.name.as_str());
            check_name("agent", &preset.name, known.chain(before))?;
        }
        let of_tasks = self.tasks.iter().flat_map(|task| task.schema().keys());
        check_keys(codec.name(), codec.schema().keys(), of_tasks)?;
        // Codecs may share a setting, which is then set for all of them; but it must be of one kind.
        for info in codec.schema().table() {
            let of_others = self.codecs.iter().flat_map(|other| other.schema().table());
            if let Some(other) = of_others.into_iter().find(|o| o.key == info.key && o.kind != info.kind) {
                return Err(TrainError::Usage(format!(
                    "{} has a setting '{}' that is {}, which another codec has as {}: choose another name",
                    codec.name(),
                    info.key,
                    info.kind,
                    other.kind
                )));
            }
        }
        self.codecs.push(codec);
        Ok(self)
    }

    /// Every task.
    pub fn tasks(&self) -> &[TaskEntry] {
        &self.tasks
    }

    /// Every codec.
    pub fn codecs(&self) -> &[CodecEntry] {
        &self.codecs
    }

    /// Every agent, with its codec.
    pub fn agents(&self) -> Vec<(&CodecEntry, AgentPreset)> {
        let of = |codec| CodecEntry::presets(codec).into_iter().map(move |preset| (codec, preset));
        self.codecs.iter().flat_map(of).collect()
    }

    /// The task of this name.
    pub fn task(&self, name: &str) -> Result<&TaskEntry, TrainError> {
        let known = self.tasks.iter().find(|task| task.name() == name);
        known.ok_or_else(|| self.unknown_task(name))
    }

    /// There are too many tasks to list them all to somebody who mistyped one.
    fn unknown_task(&self, name: &str) -> TrainError {
        const LISTED: usize = 8;
        let names = || self.tasks.iter().map(TaskEntry::name);
        if is_gymnasium_id(name) {
            return TrainError::Usage(format!(
                "there is no task '{name}' here; if it is one of Gymnasium's, the Python package trains it: \
                 spectral_rl.SpectralDQN(\"{name}\") (`spectral tasks` lists those of this command)"
            ));
        }
        let count = names().count();
        if nearest(name, names()).is_some() || count <= LISTED {
            return unknown("task", name, names());
        }
        let some: Vec<&str> = names().take(LISTED).collect();
        TrainError::Usage(format!(
            "there is no task '{name}'; there are {} and {} more (`spectral tasks` lists them)",
            some.join(", "),
            count - LISTED
        ))
    }

    /// The codec of this name.
    pub fn codec(&self, name: &str) -> Result<&CodecEntry, TrainError> {
        let known = self.codecs.iter().find(|codec| codec.name() == name);
        known.ok_or_else(|| unknown("codec", name, self.codecs.iter().map(CodecEntry::name)))
    }

    /// The agent of this name, if one is registered.
    pub fn agent(&self, name: &str) -> Option<(&CodecEntry, AgentPreset)> {
        self.agents().into_iter().find(|(_, preset)| preset.name == name)
    }

    /// Whether some task has a setting of this name.
    pub(crate) fn is_task_key(&self, key: &str) -> bool {
        self.tasks.iter().any(|task| task.schema().keys().contains(&key))
    }

    /// Whether some agent has a setting of this name: one that all have, or one of its codec's.
    pub(crate) fn is_agent_key(&self, key: &str) -> bool {
        AgentSettings::KEYS.contains(&key)
            || self.codecs.iter().any(|codec| codec.schema().keys().contains(&key))
    }

    /// What a configuration asks for, with every default filled in.
    pub fn plan(&self, config: &Configuration) -> Result<Plan, TrainError> {
        config.plan(self)
    }

    /// Resolves a configuration into a run: its plan, its task's shape, its codecs, where it trains and what it needs.
    pub fn resolve(&self, config: &Configuration) -> Result<ResolvedRun, TrainError> {
        self.resolve_plan(self.plan(config)?)
    }

    /// Resolves a plan into a run.
    pub fn resolve_plan(&self, plan: Plan) -> Result<ResolvedRun, TrainError> {
        self.resolve_plan_for(plan, &Place::Here)
    }

    /// Resolves a plan into a run on a machine that need not be this one: planned here, trained there.
    pub fn resolve_plan_for(&self, plan: Plan, place: &Place) -> Result<ResolvedRun, TrainError> {
        ResolvedRun::new(self, plan, place)
    }
}

fn check_name<'a>(
    what: &str,
    name: &str,
    mut known: impl Iterator<Item = &'a str>,
) -> Result<(), TrainError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
    let parts = || name.split('/').all(|part| !part.is_empty());
    if name.starts_with('-')
        || name.len() > 100
        || !name.chars().all(plain)
        || !parts()
        || (what != "task" && name.contains('/'))
    {
        return Err(TrainError::Usage(format!(
            "'{name}' cannot name a {what}: use up to 100 letters, digits, '-' and '_', and no '-' in front"
        )));
    }
    match known.any(|other| other == name) {
        true => Err(TrainError::Usage(format!("the {what} '{name}' exists already: choose another name"))),
        false => Ok(()),
    }
}

/// Settings of run, task, agent and codec share one space of names in files and flags.
fn check_keys<'a>(
    who: &str,
    keys: &[&str],
    others: impl Iterator<Item = &'a &'static str>,
) -> Result<(), TrainError> {
    let mut taken: Vec<&str> = others.copied().collect();
    taken.extend(RunSettings::KEYS.iter().chain(Selection::KEYS).chain(AgentSettings::KEYS).chain(RESERVED));
    match keys.iter().find(|key| taken.contains(key)) {
        Some(key) => Err(TrainError::Usage(format!(
            "{who} has a setting '{key}', a name that is taken already: choose another"
        ))),
        None => Ok(()),
    }
}

/// The error for a name that is not among the valid ones.
pub fn unknown<'a>(what: &str, word: &str, valid: impl Iterator<Item = &'a str> + Clone) -> TrainError {
    let hint = match nearest(word, valid.clone()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there are {}", valid.collect::<Vec<_>>().join(", ")),
    };
    TrainError::Usage(format!("there is no {what} '{word}'; {hint}"))
}

/// Whether a name ends in a version as ids of Gymnasium do: -v and a number.
fn is_gymnasium_id(name: &str) -> bool {
    let version = name.rsplit_once("-v").map(|(_, version)| version);
    version.is_some_and(|version| !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_agent::codecs::Clipped;
    use std::sync::Arc;

    spectral_core::settings! {
        /// A setting whose name an agent has already.
        Taken {
            /// Taken.
            batch: usize = 1,
        }
    }

    #[test]
    fn names_and_keys_that_are_taken_are_refused() {
        let said = |result: Result<Registry, TrainError>| result.unwrap_err().to_string();
        let task = |name: &str| {
            TaskEntry::with_settings(name, "", |options| spectral_env::make("pong-mini", options))
        };
        let codec = |name: &str| CodecEntry::new(name, "", |_: &(), _| Ok(Arc::new(Clipped)));
        let registry = Registry::default();
        assert!(said(registry.clone().with_task(task("2048"))).contains("'2048' exists already"));
        assert!(said(registry.clone().with_codec(codec("popart"))).contains("'popart' exists already"));
        assert!(said(registry.clone().with_codec(codec("spectral-uniform"))).contains("already"), "an agent");
        for bad in ["", "a b", "../x", "a//b", "/a", "--help"] {
            assert!(said(registry.clone().with_task(task(bad))).contains("letters"), "{bad}");
        }
        let greedy = CodecEntry::new("mine", "", |_: &Taken, _| Ok(Arc::new(Clipped)));
        assert!(said(registry.clone().with_codec(greedy)).contains("'batch'"));
        let mine = registry.with_task(task("my/task")).unwrap().with_codec(codec("mine")).unwrap();
        assert!(mine.task("my/task").is_ok() && mine.agent("mine").is_some());
    }

    #[test]
    fn no_two_meanings_of_one_key_among_the_built_in_ones() {
        let registry = Registry::default();
        for codec in registry.codecs() {
            let of_tasks = registry.tasks().iter().flat_map(|task| task.schema().keys());
            check_keys(codec.name(), codec.schema().keys(), of_tasks).unwrap();
        }
        for task in registry.tasks() {
            check_keys(task.name(), task.schema().keys(), [].iter()).unwrap();
        }
    }
}
