//! From files and flags to a [`Plan`]: defaults, then the protocol, then the agent, then the user's file, then `--set`.

use crate::atari::{self, GameNumber, is_atari};
use crate::checkpoint::CheckpointKind;
use crate::devices::{DeviceChoice, Precision};
use crate::error::TrainError;
use crate::plan::{AgentPlan, MOST_FRAMES, MOST_SECONDS, Plan};
use crate::presets::{self, AGENTS, PROTOCOLS};
use spectral_agent::settings;
use spectral_agent::settings::{AgentSettings, Setting, SettingError};
use spectral_env::{TaskOptions, nearest};
use std::path::Path;

settings! {
    /// What a run consists of, beside the agents' own settings.
    RunSettings {
        /// The task; `spectral tasks` lists them.
        task: String = String::new(),
        /// How the task is seen: auto, vector, planes or pixels.
        observation: String = "auto".into(),
        /// A factor on every reward, for tasks that offer it.
        reward_scale: f64 = 1.0,
        /// Frames that a step of a built-in task plays with the same action (Atari tasks always play 4).
        frame_skip: u64 = 1,
        /// The mode of an Atari game, by its number; auto is the game's default.
        mode: GameNumber = GameNumber::Auto,
        /// The difficulty of an Atari game, by its number; auto is the game's default.
        difficulty: GameNumber = GameNumber::Auto,
        /// Agents by name, or as paths of TOML files, separated by commas.
        agents: String = "spectral".into(),
        /// Seeds: a count (5 means 1 to 5), an inclusive range (1000..1009) or a list (3,7,9).
        seeds: String = "1".into(),
        /// Emulator frames per agent.
        frames: u64 = 200_000,
        /// The settings shared by all agents: paper, machado, quick or quick-atari; auto is paper for Atari and quick for
        /// other tasks.
        protocol: String = "auto".into(),
        /// What a reader of the run's figures should know; reports print it beside them.
        note: String = String::new(),
        /// Frames from one row of metrics to the next; 0 makes a hundred rows.
        log_frames: u64 = 0,
        /// Seconds from one checkpoint to the next.
        checkpoint_seconds: f64 = 60.0,
        /// What a checkpoint holds. A light one leaves out replay, which fills anew when the run is resumed: until it
        /// holds learning_starts frames again, the agent acts as it has learned to and is not updated. auto is full
        /// if the disk has room for twice the population's replay.
        checkpoint: CheckpointKind = CheckpointKind::Auto,
        /// Where to train: auto (a GPU if there is one and the population suits it), cpu, cuda or cuda:N.
        device: DeviceChoice = DeviceChoice::Auto,
        /// Arithmetic of matrix products on a GPU; a CPU always uses fp32.
        precision: Precision = Precision::Auto,
        /// Groups in which a GPU trains the population: while it works for some, the cores play for the others. 0 makes 2.
        /// On a GPU sums may be rounded differently; a CPU has none.
        groups: usize = 0,
        /// Threads; 0 uses every core. Never changes a result.
        threads: usize = 0,
    }
}

/// Collects settings from files and flags, the later ones over the earlier ones, and makes a [`Plan`] of them.
///
/// ```
/// use spectral_train::config::Configuration;
/// let mut config = Configuration::default();
/// config.set("task=pong-mini")?;
/// config.set("agents=spectral,popart")?;
/// config.set("seeds=2")?;
/// config.set("agent.popart.learning_rate=1e-4")?;
/// let plan = config.plan()?;
/// assert_eq!(plan.agents.len(), 4);
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    pairs: Vec<(String, String)>,
}

impl Configuration {
    /// Adds one `key=value`, where the key may be `agent.<name>.<key>` for one agent alone.
    pub fn set(&mut self, pair: &str) -> Result<(), TrainError> {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(TrainError::Usage(format!("'{pair}' is not of the form key=value")));
        };
        self.add(key.trim(), value.trim().to_string())
    }

    /// Adds one setting.
    pub fn add(&mut self, key: &str, value: String) -> Result<(), TrainError> {
        check_key(key)?;
        self.pairs.push((key.into(), value));
        Ok(())
    }

    /// Adds every setting of a TOML text; `origin` names it in errors.
    pub fn toml(&mut self, text: &str, origin: &str) -> Result<(), TrainError> {
        self.table(&parse(text, origin)?, origin)
    }

    /// Adds every setting of a TOML table that was read already; `origin` names it in errors.
    pub fn table(&mut self, table: &toml::Table, origin: &str) -> Result<(), TrainError> {
        for (key, value) in flatten(table, origin)? {
            self.add(&key, value).map_err(|e| TrainError::Usage(format!("{origin}: {e}")))?;
        }
        Ok(())
    }

    /// Adds every setting of a TOML file.
    pub fn file(&mut self, path: &Path) -> Result<(), TrainError> {
        self.toml(&read_text(path)?, &path.display().to_string())
    }

    /// Settings of the run itself.
    pub fn run_settings(&self) -> Result<RunSettings, TrainError> {
        let mut run = RunSettings::default();
        for (key, value) in &self.pairs {
            if RunSettings::KEYS.contains(&key.as_str()) {
                run.set(key, value)?;
            }
        }
        Ok(run)
    }

    /// Resolves everything into a plan that can be run.
    pub fn plan(&self) -> Result<Plan, TrainError> {
        let run = self.run_settings()?;
        if run.task.is_empty() {
            return Err(TrainError::Usage("no task: give --task NAME (`spectral tasks` lists them)".into()));
        }
        if !(1..=MOST_FRAMES).contains(&run.frames) {
            return Err(SettingError::bad("frames", run.frames.show(), format!("1 to {MOST_FRAMES}")).into());
        }
        if !(run.checkpoint_seconds > 0.0 && run.checkpoint_seconds <= MOST_SECONDS) {
            let expected = format!("a number above 0, {MOST_SECONDS:e} at most");
            return Err(
                SettingError::bad("checkpoint_seconds", run.checkpoint_seconds.show(), expected).into()
            );
        }
        let mut options = TaskOptions::default();
        options.set("observation", &run.observation)?;
        options.set("reward_scale", &run.reward_scale.show())?;
        options.set("frame_skip", &run.frame_skip.show())?;
        let [mode, difficulty] = atari::resolve(&run.task, run.mode, run.difficulty)?;
        let protocol = match run.protocol.as_str() {
            "auto" if is_atari(&run.task) => "paper".to_string(),
            "auto" => "quick".to_string(),
            chosen => chosen.to_string(),
        };
        let Some(preset) = presets::find(PROTOCOLS, &protocol) else {
            return Err(unknown("protocol", &protocol, PROTOCOLS.iter().map(|p| p.name)));
        };
        let seeds = parse_seeds(&run.seeds)?;
        let mut agents: Vec<AgentPlan> = Vec::new();
        for word in run.agents.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (name, text, origin) = agent_text(word)?;
            let mut settings = AgentSettings::default();
            apply(&mut settings, &flatten(&parse(preset.text, preset.name)?, preset.name)?, preset.name)?;
            apply(&mut settings, &flatten(&parse(&text, &origin)?, &origin)?, &origin)?;
            let codec = settings.codec;
            let own = format!("agent.{name}.");
            for (key, value) in &self.pairs {
                if AgentSettings::KEYS.contains(&key.as_str()) {
                    settings.set(key, value)?;
                }
            }
            for (key, value) in &self.pairs {
                if let Some(key) = key.strip_prefix(&own) {
                    settings.set(key, value)?;
                }
            }
            if settings.codec != codec {
                return Err(TrainError::Usage(format!(
                    "agent {name} is what its codec makes it: instead of setting codec={}, name another agent \
                     (`spectral agents` lists them) or write a TOML file of your own",
                    settings.codec.show()
                )));
            }
            settings.validate().map_err(|e| TrainError::Usage(format!("agent {name}: {e}")))?;
            for &seed in &seeds {
                let plan = AgentPlan::new(&name, &settings.codec.show(), seed, settings.clone());
                if agents.iter().any(|a| a.id == plan.id) {
                    return Err(TrainError::Usage(format!(
                        "agent {name} with seed {seed} is asked for twice"
                    )));
                }
                agents.push(plan);
            }
        }
        for name in self.pairs.iter().filter_map(|(key, _)| named_agent(key)) {
            let ours = || agents.iter().map(|a| a.agent.as_str());
            // Settings of a built-in agent that takes no part do no harm: files may speak of more than one run trains.
            if !ours().any(|n| n == name) && presets::find(AGENTS, name).is_none() {
                return Err(unknown("agent", name, ours().chain(AGENTS.iter().map(|p| p.name))));
            }
        }
        if agents.is_empty() {
            return Err(TrainError::Usage(
                "no agents: give --agents NAME,… (`spectral agents` lists them)".into(),
            ));
        }
        let log_frames = if run.log_frames == 0 { (run.frames / 100).max(1) } else { run.log_frames };
        Ok(Plan {
            task: run.task,
            options,
            mode,
            difficulty,
            frames: run.frames,
            log_frames,
            protocol,
            note: run.note,
            checkpoint_seconds: run.checkpoint_seconds,
            checkpoint: run.checkpoint,
            device: run.device,
            precision: run.precision,
            groups: run.groups,
            threads: run.threads,
            agents,
        })
    }
}

/// The seeds that a text means: a count, an inclusive range or a list.
///
/// ```
/// use spectral_train::config::parse_seeds;
/// assert_eq!(parse_seeds("3").unwrap(), [1, 2, 3]);
/// assert_eq!(parse_seeds("1000..1002").unwrap(), [1000, 1001, 1002]);
/// assert_eq!(parse_seeds("7,9").unwrap(), [7, 9]);
/// ```
pub fn parse_seeds(text: &str) -> Result<Vec<u64>, TrainError> {
    let wrong = || SettingError::bad("seeds", text, "a count (5), a range (1000..1009) or a list (3,7,9)");
    let number = |word: &str| word.trim().replace('_', "").parse::<u64>().map_err(|_| wrong());
    let seeds: Vec<u64> = if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
        if last < first || last - first >= 100_000 {
            return Err(wrong().into());
        }
        (first..=last).collect()
    } else if text.contains(',') {
        let words = text.split(',').filter(|w| !w.trim().is_empty());
        words.map(number).collect::<Result<_, _>>()?
    } else {
        let count = number(text)?;
        if count > 100_000 {
            return Err(wrong().into());
        }
        (1..=count).collect()
    };
    if seeds.is_empty() { Err(wrong().into()) } else { Ok(seeds) }
}

/// Name, TOML text and origin of an agent given by name or by path.
fn agent_text(word: &str) -> Result<(String, String, String), TrainError> {
    if let Some(preset) = presets::find(AGENTS, word) {
        return Ok((word.into(), preset.text.into(), format!("agent {word}")));
    }
    let path = Path::new(word);
    if word.ends_with(".toml") {
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(TrainError::Usage(format!(
                "'{word}': name the file in letters, digits, '-' and '_'"
            )));
        }
        return Ok((name, read_text(path)?, word.into()));
    }
    Err(unknown("agent", word, AGENTS.iter().map(|p| p.name)))
}

fn apply(settings: &mut AgentSettings, pairs: &[(String, String)], origin: &str) -> Result<(), TrainError> {
    for (key, value) in pairs {
        settings.set(key, value).map_err(|e| TrainError::Usage(format!("{origin}: {e}")))?;
    }
    Ok(())
}

/// The error for a name that is not among the valid ones.
pub fn unknown<'a>(what: &str, word: &str, valid: impl Iterator<Item = &'a str> + Clone) -> TrainError {
    let hint = match nearest(word, valid.clone()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there are {}", valid.collect::<Vec<_>>().join(", ")),
    };
    TrainError::Usage(format!("there is no {what} '{word}'; {hint}"))
}

/// The agent that a key `agent.<name>.<key>` is about.
fn named_agent(key: &str) -> Option<&str> {
    Some(key.strip_prefix("agent.")?.rsplit_once('.')?.0)
}

fn check_key(key: &str) -> Result<(), TrainError> {
    if let Some((agent, key)) = key.strip_prefix("agent.").and_then(|rest| rest.rsplit_once('.')) {
        if agent.is_empty() || !AgentSettings::KEYS.contains(&key) {
            return Err(SettingError::unknown(key, AgentSettings::KEYS.iter().copied()).into());
        }
        return Ok(());
    }
    let keys = || RunSettings::KEYS.iter().chain(AgentSettings::KEYS).copied();
    if keys().any(|k| k == key) { Ok(()) } else { Err(SettingError::unknown(key, keys()).into()) }
}

pub(crate) fn read_text(path: &Path) -> Result<String, TrainError> {
    std::fs::read_to_string(path)
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
    text.parse().map_err(|e: toml::de::Error| TrainError::Usage(format!("{origin} is no valid TOML: {e}")))
}

/// A TOML table as dotted keys and plain values; lists become comma-separated text.
fn flatten(table: &toml::Table, origin: &str) -> Result<Vec<(String, String)>, TrainError> {
    fn walk(prefix: &str, table: &toml::Table, out: &mut Vec<(String, String)>) -> Result<(), String> {
        for (key, value) in table {
            let path = format!("{prefix}{key}");
            match value {
                toml::Value::Table(inner) => walk(&format!("{path}."), inner, out)?,
                other => out.push((path.clone(), plain(other).ok_or(format!("'{path}' is no plain value"))?)),
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk("", table, &mut out).map_err(|e| TrainError::Usage(format!("{origin}: {e}")))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pairs: &[&str]) -> Result<Plan, TrainError> {
        let mut config = Configuration::default();
        for pair in pairs {
            config.set(pair)?;
        }
        config.plan()
    }

    #[test]
    fn every_preset_is_valid_and_described() {
        for agent in AGENTS {
            plan(&["task=pong-mini", &format!("agents={}", agent.name)]).unwrap();
            assert!(agent.summary().len() > 20, "{}", agent.name);
        }
        for experiment in presets::EXPERIMENTS {
            let mut config = Configuration::default();
            config.toml(experiment.text, experiment.name).unwrap();
            config.plan().unwrap();
        }
    }

    #[test]
    fn the_paper_protocol_is_the_default() {
        let plan = plan(&["task=pong-mini", "protocol=paper"]).unwrap();
        assert_eq!(plan.agents[0].settings, AgentSettings::default());
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
            (vec!["task=pong-mini", "seeds=9..3"], "1000..1009"),
            (vec!["task"], "key=value"),
            (vec!["seeds=1"], "--task"),
            (vec!["task=pong-mini", "base=0.5"], "base"),
        ] {
            let message = match plan(&pairs) {
                Err(e) => e.to_string(),
                // The base is judged when the codec is built.
                Ok(p) => spectral_agent::codecs::build(&p.agents[0].settings).unwrap_err().to_string(),
            };
            assert!(message.contains(want), "{pairs:?}: {message}");
        }
        let mut config = Configuration::default();
        assert!(config.toml("task = [", "x.toml").unwrap_err().to_string().contains("x.toml"));
        assert!(config.toml("[agent.spectral]\nbatch = 16", "x.toml").is_ok());
    }
}
