//! From files and flags to a [`Plan`]: defaults, then the protocol, then the agent, then the user's file, then `--set`.

use crate::checkpoint::CheckpointKind;
use crate::devices::{DeviceChoice, Precision};
use crate::error::TrainError;
use crate::plan::{AgentPlan, MAX_FRAMES, MAX_SECONDS, Plan};
use crate::presets::{self, PROTOCOLS};
use crate::registry::{Registry, unknown};
use spectral_agent::codecs::CodecEntry;
use spectral_agent::settings::{AgentSettings, Setting, SettingError, Settings, Values};
use spectral_core::settings;
use spectral_env::TaskEntry;
use std::collections::HashSet;
use std::path::Path;

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

settings! {
    /// How it is trained, beside the settings of tasks and agents.
    RunSettings {
        /// Emulator frames per agent. Left out, they are the protocol's: 200,000 with quick, 10 million with quick-atari, 40 million
        /// with paper and machado.
        frames: u64 = 200_000,
        /// The settings shared by all agents: paper, machado, quick or quick-atari; auto is paper for Atari and quick for
        /// other tasks.
        protocol: String = "auto".into(),
        /// What a reader of the run's figures should know; reports print it beside them.
        note: String = String::new(),
        /// Frames from one row of metrics to the next; 0 makes a hundred rows.
        log_frames: u64 = 0,
        /// Frames from one evaluation to the next: whole games with a copy of the model that does not learn, written to
        /// eval.csv; the last one is at the run's end. 0 makes ten, and none in runs of fewer than 50,000 frames or of tasks
        /// that are stepped together, as those of Gymnasium are.
        eval_every: u64 = 0,
        /// Games of one evaluation; 0 plays none.
        eval_games: u64 = 10,
        /// Probability of a random action in these games.
        eval_epsilon: f64 = 0.001,
        /// Seconds from one checkpoint to the next.
        checkpoint_seconds: f64 = 60.0,
        /// What a checkpoint holds. A compact one has of replay only the actions, and where the task stood now and then; a
        /// resumed run plays them again, to the same bits. A light one leaves out replay, which fills anew when the run is
        /// resumed: until it holds learning_starts frames again, the agent acts as it has learned to and is not updated. auto
        /// is full if the disk has room for twice the population's replay, else compact where the task is known to repeat
        /// itself, as the built-in ones are, or light.
        checkpoint: CheckpointKind = CheckpointKind::Auto,
        /// Where to train: auto (a GPU if there is one and the population suits it), cpu, cuda or cuda:N.
        device: DeviceChoice = DeviceChoice::Auto,
        /// Arithmetic of matrix products on a GPU; a CPU always uses fp32.
        precision: Precision = Precision::Auto,
        /// Groups in which a GPU trains the population: while it works for some, the cores play for the others. 0 makes 2,
        /// and 4 from 48 agents on.
        /// On a GPU sums may be rounded differently; a CPU has none.
        groups: usize = 0,
        /// Threads; 0 uses every core. Never changes a result.
        threads: usize = 0,
    }
}

impl RunSettings {
    /// Settings that leave the result as it is, or that may change from one start of a run to the next. All others decide
    /// whether two runs are the same.
    pub(crate) const INCIDENTAL: &[&str] = &[
        "frames",
        "note",
        "eval_every",
        "eval_games",
        "eval_epsilon",
        "checkpoint_seconds",
        "checkpoint",
        "device",
        "precision",
        "groups",
        "threads",
    ];

    /// Refuses what no run can have.
    pub(crate) fn validate(&self) -> Result<(), SettingError> {
        if !(1..=MAX_FRAMES).contains(&self.frames) {
            return Err(SettingError::bad("frames", self.frames.show(), format!("1 to {MAX_FRAMES}")));
        }
        if !(self.checkpoint_seconds > 0.0 && self.checkpoint_seconds <= MAX_SECONDS) {
            let expected = format!("a number above 0, {MAX_SECONDS:e} at most");
            return Err(SettingError::bad("checkpoint_seconds", self.checkpoint_seconds.show(), expected));
        }
        if self.eval_every > MAX_FRAMES {
            return Err(SettingError::bad(
                "eval_every",
                self.eval_every.show(),
                format!("0 to {MAX_FRAMES}"),
            ));
        }
        if self.eval_games > MAX_EVAL_GAMES {
            return Err(SettingError::bad(
                "eval_games",
                self.eval_games.show(),
                format!("0 to {MAX_EVAL_GAMES}"),
            ));
        }
        if !(0.0..=1.0).contains(&self.eval_epsilon) {
            return Err(SettingError::bad("eval_epsilon", self.eval_epsilon.show(), "a number from 0 to 1"));
        }
        Ok(())
    }

    /// Whether frozen games are played beside training; once the run is planned. Runs from before there were any do not.
    pub fn evaluates(&self) -> bool {
        self.eval_every > 0 && self.eval_games > 0
    }

    /// Decides when frozen games are played if the user left that open; afterwards `eval_every = 0` means never.
    fn resolve_evaluation(&mut self, task: &TaskEntry) {
        if self.eval_games == 0 {
            self.eval_every = 0;
        } else if self.eval_every == 0 && self.frames >= EVALUATED_FRAMES && !task.is_stepped_together() {
            self.eval_every = self.frames.div_ceil(EVALUATIONS);
        }
    }
}

/// The longest name of an agent. Files are called by it, its seed and what they hold, and no file system of today takes names of more
/// than 255 bytes.
pub(crate) const LONGEST_NAME: usize = 120;
/// Evaluations of a run, where nothing else is asked for.
const EVALUATIONS: u64 = 10;
/// Frames from which runs are evaluated, where nothing else is asked for. What shorter ones learn is not worth the time.
const EVALUATED_FRAMES: u64 = 50_000;
/// The most games of one evaluation.
const MAX_EVAL_GAMES: u64 = 10_000;

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

/// The most seeds of one run, and the most agents, each with its seed.
const MAX_SEEDS: u64 = 100_000;

/// The seeds that a text means: a count, an inclusive range or a list.
///
/// ```
/// use spectral_train::config::parse_seeds;
/// assert_eq!(parse_seeds("3").unwrap(), [1, 2, 3]);
/// assert_eq!(parse_seeds("1000..1002").unwrap(), [1000, 1001, 1002]);
/// assert_eq!(parse_seeds("7,9").unwrap(), [7, 9]);
/// ```
pub fn parse_seeds(text: &str) -> Result<Vec<u64>, TrainError> {
    const FORMS: &str = "a count (5), a range (1000..1009) or a list (3,7,9)";
    let wrong = || SettingError::bad("seeds", text, FORMS);
    let too_many = || SettingError::bad("seeds", text, format!("{MAX_SEEDS} seeds at most: {FORMS}"));
    let number = |word: &str| word.trim().replace('_', "").parse::<u64>().map_err(|_| wrong());
    let seeds: Vec<u64> = if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
        if last < first {
            let expected = format!("a range that begins with its lower end, as in {last}..{first}: {FORMS}");
            return Err(SettingError::bad("seeds", text, expected).into());
        }
        if last - first >= MAX_SEEDS {
            return Err(too_many().into());
        }
        (first..=last).collect()
    } else if text.contains(',') {
        let words = text.split(',').filter(|w| !w.trim().is_empty());
        words.map(number).collect::<Result<_, _>>()?
    } else {
        let count = number(text)?;
        if count > MAX_SEEDS {
            return Err(too_many().into());
        }
        (1..=count).collect()
    };
    if seeds.is_empty() { Err(wrong().into()) } else { Ok(seeds) }
}

pub(crate) fn read_text(path: &Path) -> Result<String, TrainError> {
    crate::store::read_text(path)
        .map_err(|e| TrainError::Usage(format!("cannot read {}: {e}", path.display())))
}

/// A TOML value as the text that a setting reads; lists become comma-separated text, tables nothing.
pub(crate) fn plain(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(s) => s.clone(),
        toml::Value::Integer(i) => i.to_string(),
        toml::Value::Float(x) => x.show(),
        toml::Value::Boolean(b) => b.to_string(),
        toml::Value::Array(items) => items.iter().map(plain).collect::<Option<Vec<_>>>()?.join(","),
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

/// A TOML text; `origin` names it in errors.
pub(crate) fn parse(text: &str, origin: &str) -> Result<toml::Table, TrainError> {
    text.parse().map_err(|e: toml::de::Error| {
        // The error repeats the line that it is about, which may be all of a long file.
        let long = e.span().is_some_and(|span| {
            let at = span.start.min(text.len());
            let before = text.as_bytes()[..at].iter().rev().take_while(|byte| **byte != b'\n').count();
            let after = text.as_bytes()[at..].iter().take_while(|byte| **byte != b'\n').count();
            before + after > LONGEST_EXCERPT
        });
        let said = if long { e.message().to_string() } else { e.to_string() };
        let said = match said.char_indices().nth(3 * LONGEST_EXCERPT) {
            Some((end, _)) => format!("{}…", &said[..end]),
            None => said,
        };
        TrainError::Usage(format!("{origin} is no valid TOML: {said}"))
    })
}

/// Bytes of the longest line that an error about a TOML text repeats.
const LONGEST_EXCERPT: usize = 200;

/// A TOML table as dotted keys and plain values; lists become comma-separated text.
fn flatten(table: &toml::Table, origin: &str) -> Result<Vec<Pair>, TrainError> {
    fn walk(prefix: &str, table: &toml::Table, origin: &str, out: &mut Vec<Pair>) -> Result<(), String> {
        for (key, value) in table {
            let key = format!("{prefix}{key}");
            if let toml::Value::Table(inner) = value {
                walk(&format!("{key}."), inner, origin, out)?;
                continue;
            }
            let value = plain(value).ok_or(format!("'{key}' is no plain value"))?;
            out.push(Pair { key, value, origin: Some(origin.into()) });
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk("", table, origin, &mut out).map_err(|e| TrainError::Usage(format!("{origin}: {e}")))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::experiment::{Experiment, Overrides};

    fn plan(pairs: &[&str]) -> Result<Plan, TrainError> {
        let mut config = Configuration::default();
        for pair in pairs {
            config.set(pair)?;
        }
        Registry::default().plan(&config)
    }

    #[test]
    fn every_preset_is_valid_and_described() {
        let registry = Registry::default();
        for (_, agent) in registry.agents() {
            plan(&["task=pong-mini", &format!("agents={}", agent.name)]).unwrap();
            assert!(agent.summary.len() > 20, "{}", agent.name);
        }
        for experiment in presets::EXPERIMENTS {
            let mut config = Configuration::default();
            config.toml(experiment.text, experiment.name).unwrap();
            registry.plan(&config).unwrap();
        }
    }

    #[test]
    fn the_paper_protocol_is_the_default() {
        let plan = plan(&["task=pong-mini", "protocol=paper"]).unwrap();
        assert_eq!(plan.agents[0].settings, AgentSettings::default());
    }

    #[test]
    fn a_run_is_as_long_as_its_protocol_takes_to_learn() {
        let frames = |pairs: &[&str]| plan(pairs).unwrap().run.frames;
        assert_eq!(frames(&["task=pong-mini"]), 200_000);
        assert_eq!(frames(&["task=atari/pong"]), 40_000_000);
        assert_eq!(frames(&["task=atari/pong", "protocol=machado"]), 40_000_000);
        assert_eq!(frames(&["task=atari/pong", "protocol=quick-atari"]), 10_000_000);
        assert_eq!(frames(&["task=atari/pong", "frames=300"]), 300);
        // Rows of metrics and evaluations follow.
        let plan = plan(&["task=atari/pong"]).unwrap();
        assert_eq!((plan.run.log_frames, plan.run.eval_every), (400_000, 4_000_000));
        // By the end of each, exploration is long over.
        for protocol in presets::PROTOCOLS {
            let plan = self::plan(&["task=atari/pong", &format!("protocol={}", protocol.name)]).unwrap();
            let agent = &plan.agents[0].settings;
            assert!(
                plan.run.frames > 2 * (agent.learning_starts + agent.epsilon_frames),
                "{}",
                protocol.name
            );
        }
    }

    #[test]
    fn later_layers_win_and_agents_can_differ() {
        let plan = plan(&[
            "task=pong-mini",
            "agents=spectral,popart",
            "agent.popart.learning_rate=7e-5",
            "learning_rate=1e-3",
        ]);
        let plan = plan.unwrap();
        let rate = |i: usize| plan.agents[i].settings.learning_rate;
        assert_eq!((rate(0), rate(1)), (1e-3, 7e-5));
        assert_eq!(plan.agents[0].settings.discount, 0.99, "from the quick protocol");
    }

    #[test]
    fn mistakes_name_the_nearest() {
        for (pairs, want) in [
            (vec!["task=pong-mini", "agents=spectrl"], "'spectral'"),
            (vec!["task=pong-mini", "protocol=papr"], "'paper'"),
            (vec!["learing_rate=1"], "'learning_rate'"),
            (vec!["agent.spectral.bach=1"], "'batch'"),
            (vec!["task=pong-mini", "agents=spectral,spectral"], "twice"),
            (vec!["task=pong-mini", "seeds=x"], "1000..1009"),
            (vec!["task=pong-mini", "seeds=9..3"], "as in 3..9"),
            (vec!["task=pong-mini", "seeds=1000000000"], "100000 seeds at most"),
            (vec!["task=pong-mini", "seeds=1..1000000000"], "100000 seeds at most"),
            (vec!["task"], "key=value"),
            (vec!["seeds=1"], "--task"),
            (vec!["task=pong-mini", "base=0.5"], "base"),
            (vec!["task=pong-mini", "agents=popart", "agent.popart.base=3"], "codec popart"),
            (
                vec!["task=pong-mini", "agents=popart", "base=3"],
                "no agent of this run has the setting 'base'",
            ),
            (vec!["task=pong-mini", "agent.popart.batch=3"], "'agent.popart.batch'"),
            (vec!["task=pong-mini", "mode=1"], "pong-mini has no setting 'mode'"),
            (vec!["task=pong-mini", "codec=popart"], "name another agent"),
            (vec!["task=atari/pong", "mode=7"], "one of 0, 1"),
        ] {
            let message = plan(&pairs).unwrap_err().to_string();
            assert!(message.contains(want), "{pairs:?}: {message}");
        }
        let mut config = Configuration::default();
        assert!(config.toml("task = [", "x.toml").unwrap_err().to_string().contains("x.toml"));
        assert!(config.toml("[agent.spectral]\nbatch = 16", "x.toml").is_ok());
    }

    /// A pipe keeps its reader waiting and a device never ends: whatever a user names is looked at before it is read.
    #[test]
    #[cfg(unix)]
    fn what_is_no_file_of_settings_is_refused_at_once_and_in_few_words() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, zero) = (folder.path().join("pipe.toml"), folder.path().join("zero.toml"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        let registry = Registry::default();
        for path in [&zero, &pipe] {
            let name = path.display().to_string();
            let said = [
                Configuration::default().file(path).unwrap_err(),
                plan(&["task=catch-scale", &format!("agents={name}")]).unwrap_err(),
                Experiment::find(&name, &Overrides::default(), &registry).unwrap_err(),
            ];
            for error in said {
                assert_eq!(error.exit_code(), 2);
                assert!(error.to_string().contains("not a plain file"), "{error}");
            }
        }
        for text in [format!("a = {}", "[".repeat(200_000)), format!("{} = = 1", "x".repeat(200_000))] {
            let said = Configuration::default().toml(&text, "deep.toml").unwrap_err().to_string();
            assert!(said.starts_with("deep.toml is no valid TOML: ") && said.len() < 700, "{}", said.len());
        }
        // A short line is still shown.
        let said = Configuration::default().toml("task = = 3", "x.toml").unwrap_err().to_string();
        assert!(said.contains("task = = 3"), "{said}");
    }
}
