//! From files and flags to a [`Plan`]: defaults, then the protocol, then the agent, then the user's file, then `--set`.

use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use crate::presets::{self, PROTOCOLS};
use crate::registry::{Registry, unknown};
use spectral_agent::codecs::CodecEntry;
use spectral_agent::settings::{AgentSettings, SettingError, Settings, Values};
use spectral_core::settings;
use spectral_env::TaskEntry;
use std::collections::HashSet;
use std::path::Path;

mod run_settings;
mod seeds;
mod text;

pub use run_settings::RunSettings;
use seeds::MAX_SEEDS;
pub use seeds::parse_seeds;
use text::flatten;
pub(crate) use text::{parse, plain, read_text};

settings! {
    /// What is trained.
    Selection {
        /// The task; `spectral tasks` lists them.
        task: String = String::new(),
        /// Agents by name, or as paths of TOML files, separated by commas.
        agents: String = "spectral".into(),
        /// Seeds: a count (5 means 1 to 5), an inclusive range (1000..1009) or a list (3,7,9).
        seeds: String = "1".into(),
    }
}

/// The longest name of an agent. Files are called by it, its seed and what they hold, and no file system of today takes names of more
/// than 255 bytes.
pub(crate) const LONGEST_NAME: usize = 120;

/// One setting as somebody wrote it.
#[derive(Clone, Debug)]
struct Pair {
    key: String,
    value: String,
    /// The file that it comes from.
    origin: Option<String>,
}

impl Pair {
    /// An error about this setting, with the file that it comes from.
    fn wrong(&self, error: impl std::fmt::Display) -> TrainError {
        TrainError::Usage(match &self.origin {
            Some(origin) => format!("{origin}: {error}"),
            None => error.to_string(),
        })
    }
}

/// Collects settings from files and flags, the later ones over the earlier ones. A [`Registry`] makes a [`Plan`] of them.
///
/// ```
/// use spectral_train::config::Configuration;
/// use spectral_train::registry::Registry;
/// let mut config = Configuration::default();
/// config.set("task=pong-mini")?;
/// config.set("agents=spectral,popart")?;
/// config.set("seeds=2")?;
/// config.set("agent.popart.learning_rate=1e-4")?;
/// let plan = Registry::default().plan(&config)?;
/// assert_eq!(plan.agents.len(), 4);
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    pairs: Vec<Pair>,
}

impl Configuration {
    /// Adds one `key=value`, where the key may be `agent.<name>.<key>` for one agent alone.
    pub fn set(&mut self, pair: &str) -> Result<(), TrainError> {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(TrainError::Usage(format!("'{pair}' is not of the form key=value")));
        };
        self.add(key.trim(), value.trim());
        Ok(())
    }

    /// Adds one setting.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        self.pairs.push(Pair { key: key.into(), value: value.into(), origin: None });
    }

    /// Adds every setting of a TOML text; `origin` names it in errors.
    pub fn toml(&mut self, text: &str, origin: &str) -> Result<(), TrainError> {
        self.table(&parse(text, origin)?, origin)
    }

    /// Adds every setting of a TOML table that was read already; `origin` names it in errors.
    pub fn table(&mut self, table: &toml::Table, origin: &str) -> Result<(), TrainError> {
        self.pairs.extend(flatten(table, origin)?);
        Ok(())
    }

    /// Adds every setting of a TOML file.
    pub fn file(&mut self, path: &Path) -> Result<(), TrainError> {
        self.toml(&read_text(path)?, &path.display().to_string())
    }

    /// Everything that was set for a struct of settings.
    fn read<S: Settings>(&self) -> Result<S, TrainError> {
        let mut settings = S::default();
        for pair in self.pairs.iter().filter(|pair| S::KEYS.contains(&pair.key.as_str())) {
            settings.set(&pair.key, &pair.value).map_err(|e| pair.wrong(e))?;
        }
        Ok(settings)
    }

    /// The last value of a setting that was set for all agents or, with a name, for this one alone; and the file that says so.
    pub(crate) fn said(&self, agent: Option<&str>, key: &str) -> Option<(&str, Option<&str>)> {
        let pair = self.pairs.iter().rev().find(|pair| split_key(&pair.key) == (agent, key))?;
        Some((&pair.value, pair.origin.as_deref()))
    }

    /// See [`Registry::plan`].
    pub(crate) fn plan(&self, registry: &Registry) -> Result<Plan, TrainError> {
        self.plan_variants(registry, &|agent, _| Ok(vec![Variation::none(agent)]))
    }

    /// The plan in which each agent that was asked for stands for its variations.
    pub(crate) fn plan_variants(
        &self,
        registry: &Registry,
        variations: &Variations<'_>,
    ) -> Result<Plan, TrainError> {
        self.check_keys(registry)?;
        let selection: Selection = self.read()?;
        let mut run: RunSettings = self.read()?;
        if selection.task.is_empty() {
            return Err(TrainError::Usage("no task: give --task NAME (`spectral tasks` lists them)".into()));
        }
        let task = registry.task(&selection.task)?;
        if run.protocol == "auto" {
            run.protocol = task.default_protocol().into();
        }
        let Some(protocol) = presets::find(PROTOCOLS, &run.protocol) else {
            return Err(unknown("protocol", &run.protocol, PROTOCOLS.iter().map(|p| p.name)));
        };
        let mut protocol = flatten(&parse(protocol.text, protocol.name)?, protocol.name)?;
        // How long it takes to learn depends on how the agents learn.
        for pair in protocol.extract_if(.., |pair| pair.key == "frames") {
            if self.said(None, "frames").is_none() {
                run.set(&pair.key, &pair.value).map_err(|e| pair.wrong(e))?;
            }
        }
        run.validate()?;
        if run.log_frames == 0 {
            run.log_frames = (run.frames / 100).max(1);
        }
        run.resolve_evaluation(task);
        let task_settings = self.task_settings(registry, task, &protocol)?;
        let seeds = parse_seeds(&selection.seeds)?;
        let mut agents: Vec<AgentPlan> = Vec::new();
        // The names by which they were asked for.
        let mut asked: Vec<String> = Vec::new();
        let mut ids = HashSet::new();
        for word in selection.agents.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let choice = AgentChoice::find(registry, word)?;
            for variation in variations(&choice.name, choice.codec)? {
                let (settings, codec_settings) =
                    self.agent_settings(registry, &choice, &variation, &protocol)?;
                if (agents.len() + seeds.len()) as u64 > MAX_SEEDS {
                    return Err(TrainError::Usage(format!(
                        "with {} seeds, the agents up to {} are more than {MAX_SEEDS}: give fewer --seeds or --agents",
                        seeds.len(),
                        variation.name
                    )));
                }
                if variation.name.len() > LONGEST_NAME {
                    return Err(TrainError::Usage(format!(
                        "'{}' is too long for an agent's name, which names its files: {LONGEST_NAME} letters are the most",
                        variation.name
                    )));
                }
                for &seed in &seeds {
                    let (settings, own) = (settings.clone(), codec_settings.clone());
                    let plan = AgentPlan::new(&variation.name, choice.codec.name(), seed, settings, own);
                    if !ids.insert(plan.id.clone()) {
                        return Err(TrainError::Usage(format!(
                            "agent {} with seed {seed} is asked for twice",
                            variation.name
                        )));
                    }
                    agents.push(plan);
                    asked.push(choice.name.clone());
                }
            }
        }
        if agents.is_empty() {
            return Err(TrainError::Usage(
                "no agents: give --agents NAME,… (`spectral agents` lists them)".into(),
            ));
        }
        self.check_named_agents(registry, &agents, &asked)?;
        Ok(Plan::new(task.name(), task_settings, run, agents))
    }

    /// Refuses keys that nothing has.
    fn check_keys(&self, registry: &Registry) -> Result<(), TrainError> {
        let agent_keys = || {
            let codecs = registry.codecs().iter().flat_map(|codec| codec.schema().keys());
            AgentSettings::KEYS.iter().chain(codecs).copied()
        };
        let all_keys = || {
            let tasks = registry.tasks().iter().flat_map(|task| task.schema().keys()).copied();
            let run = Selection::KEYS.iter().chain(RunSettings::KEYS).copied();
            run.chain(tasks).chain(agent_keys())
        };
        for pair in &self.pairs {
            let (agent, key) = split_key(&pair.key);
            if key == "codec" {
                return Err(pair.wrong(format!(
                    "an agent is what its codec makes it: instead of setting codec={}, name another agent \
                     (`spectral agents` lists them) or write a TOML file of your own",
                    pair.value
                )));
            }
            let known = match agent {
                Some(agent) => !agent.is_empty() && agent_keys().any(|known| known == key),
                None => all_keys().any(|known| known == key),
            };
            if !known {
                let error = match agent {
                    Some(_) => SettingError::unknown(key, agent_keys()),
                    None => SettingError::unknown(key, all_keys()),
                };
                return Err(pair.wrong(error));
            }
        }
        Ok(())
    }

    /// The task's settings: its defaults, the protocol's, the user's.
    fn task_settings(
        &self,
        registry: &Registry,
        task: &TaskEntry,
        protocol: &[Pair],
    ) -> Result<Values, TrainError> {
        let (schema, mut values) = (task.schema(), task.schema().defaults());
        let has = |pair: &&Pair| schema.keys().contains(&pair.key.as_str());
        for pair in protocol.iter().filter(has).chain(self.pairs.iter().filter(has)) {
            schema.set(&mut values, &pair.key, &pair.value).map_err(|e| pair.wrong(e))?;
        }
        if let Some(pair) = self.pairs.iter().find(|pair| !has(pair) && registry.is_task_key(&pair.key)) {
            let others = registry.tasks().iter().filter(|t| t.schema().keys().contains(&pair.key.as_str()));
            let others: Vec<&str> = others.map(TaskEntry::name).take(3).collect();
            return Err(pair.wrong(format!(
                "the task {} has no setting '{}' (others have it: {} …), so leave {} = {} out",
                task.name(),
                pair.key,
                others.join(", "),
                pair.key,
                pair.value
            )));
        }
        task.resolve(&mut values)?;
        Ok(values)
    }

    /// An agent's settings and its codec's: defaults, the protocol's, the agent's, the user's for all agents, the user's
    /// for this one, those of a variation.
    fn agent_settings(
        &self,
        registry: &Registry,
        choice: &AgentChoice<'_>,
        variation: &Variation,
        protocol: &[Pair],
    ) -> Result<(AgentSettings, Values), TrainError> {
        let schema = choice.codec.schema();
        let (mut settings, mut own) = (AgentSettings::default(), schema.defaults());
        let mut set = |key: &str, pair: &Pair| -> Result<bool, TrainError> {
            if schema.keys().contains(&key) {
                schema.set(&mut own, key, &pair.value).map_err(|e| pair.wrong(e))?;
            } else if AgentSettings::KEYS.contains(&key) {
                settings.set(key, &pair.value).map_err(|e| pair.wrong(e))?;
            } else {
                return Ok(false);
            }
            Ok(true)
        };
        let foreign = |key: &str, pair: &Pair| {
            let keys = schema.keys().iter().chain(AgentSettings::KEYS).copied();
            pair.wrong(format!(
                "agent {} (codec {}): {}",
                choice.name,
                choice.codec.name(),
                SettingError::unknown(key, keys)
            ))
        };
        for pair in protocol {
            if !set(&pair.key, pair)? && !registry.is_task_key(&pair.key) && !registry.is_agent_key(&pair.key)
            {
                return Err(foreign(&pair.key, pair));
            }
        }
        for pair in &choice.pairs {
            if !set(&pair.key, pair)? {
                return Err(foreign(&pair.key, pair));
            }
        }
        // A setting of one codec alone does no harm to agents that have another.
        for pair in self.pairs.iter().filter(|pair| split_key(&pair.key).0.is_none()) {
            set(&pair.key, pair)?;
        }
        for pair in &self.pairs {
            let (agent, key) = split_key(&pair.key);
            if agent == Some(&choice.name) && !set(key, pair)? {
                return Err(foreign(key, pair));
            }
        }
        for pair in &variation.settings {
            if !set(&pair.key, pair)? {
                return Err(foreign(&pair.key, pair));
            }
        }
        let built = choice.codec.build(&own, &settings);
        built.map_err(|e| TrainError::Usage(format!("agent {}: {e}", variation.name)))?;
        Ok((settings, own))
    }

    /// Refuses settings that no agent of the run has: a flag that does nothing is a mistake. Files may speak of more agents than
    /// one run trains, but not of agents that do not exist.
    fn check_named_agents(
        &self,
        registry: &Registry,
        agents: &[AgentPlan],
        asked: &[String],
    ) -> Result<(), TrainError> {
        for pair in self.pairs.iter().filter(|pair| pair.origin.is_none()) {
            let (name, key) = split_key(&pair.key);
            let of_codec = !AgentSettings::KEYS.contains(&key) && registry.is_agent_key(key);
            let has = match name {
                Some(name) => asked.iter().any(|asked| asked == name),
                None => agents.iter().any(|agent| agent.codec_settings.get(key).is_some()),
            };
            if (name.is_some_and(|name| registry.agent(name).is_some()) || of_codec) && !has {
                return Err(TrainError::Usage(format!(
                    "no agent of this run has the setting '{}': leave it out, or add the agent",
                    pair.key
                )));
            }
        }
        for pair in &self.pairs {
            let Some(name) = split_key(&pair.key).0 else { continue };
            let known = registry.agents();
            let names: Vec<&str> = asked
                .iter()
                .map(String::as_str)
                .chain(known.iter().map(|(_, preset)| preset.name.as_str()))
                .collect();
            if !names.contains(&name) {
                return Err(unknown("agent", name, names.iter().copied()));
            }
        }
        Ok(())
    }
}

/// The variations of an agent, by its name and codec.
pub(crate) type Variations<'a> = dyn Fn(&str, &CodecEntry) -> Result<Vec<Variation>, TrainError> + 'a;

/// An agent with further settings, under a name of its own.
pub(crate) struct Variation {
    pub name: String,
    settings: Vec<Pair>,
}

impl Variation {
    /// The agent as it is.
    pub(crate) fn none(agent: &str) -> Self {
        Variation { name: agent.into(), settings: Vec::new() }
    }

    /// The agent under another name with these settings, which go over all others.
    pub(crate) fn new<'a>(name: &str, settings: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let pair = |(key, value): (&str, &str)| Pair { key: key.into(), value: value.into(), origin: None };
        Variation { name: name.into(), settings: settings.map(pair).collect() }
    }
}

/// An agent that somebody asked for, by name or by path.
struct AgentChoice<'a> {
    name: String,
    codec: &'a CodecEntry,
    pairs: Vec<Pair>,
}

impl<'a> AgentChoice<'a> {
    fn find(registry: &'a Registry, word: &str) -> Result<Self, TrainError> {
        if let Some((codec, preset)) = registry.agent(word) {
            let origin = format!("agent {word}");
            let pairs = flatten(&parse(&preset.settings, &origin)?, &origin)?;
            return Ok(AgentChoice { name: word.into(), codec, pairs });
        }
        if !word.ends_with(".toml") {
            let agents = registry.agents();
            return Err(unknown("agent", word, agents.iter().map(|(_, preset)| preset.name.as_str())));
        }
        let path = Path::new(word);
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        if !is_plain(&name) {
            return Err(TrainError::Usage(format!(
                "'{word}': name the file in letters, digits, '-' and '_'"
            )));
        }
        let mut table = parse(&read_text(path)?, word)?;
        let codec = match table.remove("codec") {
            None => "spectral".to_string(),
            Some(toml::Value::String(codec)) => codec,
            Some(_) => return Err(TrainError::Usage(format!("{word}: 'codec' must be a name in quotes"))),
        };
        let codec = registry.codec(&codec).map_err(|e| TrainError::Usage(format!("{word}: {e}")))?;
        Ok(AgentChoice { name, codec, pairs: flatten(&table, word)? })
    }
}

/// Whether a name is made of letters, digits, '-' and '_'.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// The agent that a key `agent.<name>.<key>` is about, and the key.
pub(crate) fn split_key(key: &str) -> (Option<&str>, &str) {
    match key.strip_prefix("agent.").and_then(|rest| rest.rsplit_once('.')) {
        Some((agent, key)) => (Some(agent), key),
        None => (None, key),
    }
}

#[cfg(test)]
mod tests;
