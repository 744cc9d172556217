//! The plan of a run: everything that decides its result, as it is written to `run.toml` and read back.

use crate::atari::{self, GameNumber};
use crate::checkpoint::CheckpointKind;
use crate::config::plain;
use crate::devices::{DeviceChoice, Precision};
use crate::error::TrainError;
use crate::machine::Hardware;
use spectral_agent::settings::{AgentSettings, Setting};
use spectral_env::TaskOptions;
use std::fmt::Write as _;
use std::path::Path;

/// The format of `run.toml` that this version writes and reads.
const FORMAT: i64 = 1;

/// The longest run that can be planned: far beyond what anybody trains, and far from what a counter holds.
pub const MOST_FRAMES: u64 = 1_000_000_000_000_000;
/// The longest time between checkpoints, in seconds.
pub const MOST_SECONDS: f64 = 1e9;

/// One agent of the population.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPlan {
    /// Its folder's name: agent and seed.
    pub id: String,
    /// The name under which curves are grouped.
    pub agent: String,
    /// The codec's name; a name that is not built in comes from the [`Workshop`](crate::workshop::Workshop).
    pub codec: String,
    /// The seed.
    pub seed: u64,
    /// Every setting.
    pub settings: AgentSettings,
}

impl AgentPlan {
    /// An agent with this name, codec, seed and settings.
    pub fn new(agent: &str, codec: &str, seed: u64, settings: AgentSettings) -> Self {
        AgentPlan { id: format!("{agent}-s{seed}"), agent: agent.into(), codec: codec.into(), seed, settings }
    }
}

/// Everything that decides a run's result, and a few things that do not (threads, checkpoints) or hardly do (device,
/// precision, groups).
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The task's name.
    pub task: String,
    /// The task's options.
    pub options: TaskOptions,
    /// The mode of an Atari game.
    pub mode: GameNumber,
    /// The difficulty of an Atari game.
    pub difficulty: GameNumber,
    /// Frames per agent.
    pub frames: u64,
    /// Frames from one row of metrics to the next.
    pub log_frames: u64,
    /// The protocol's name.
    pub protocol: String,
    /// What a reader of the run's figures should know; may be empty.
    pub note: String,
    /// Seconds from one checkpoint to the next.
    pub checkpoint_seconds: f64,
    /// What a checkpoint holds.
    pub checkpoint: CheckpointKind,
    /// Where to train.
    pub device: DeviceChoice,
    /// Arithmetic of matrix products on a GPU.
    pub precision: Precision,
    /// Groups in which a device trains the population; 0 leaves it to the pipeline.
    pub groups: usize,
    /// Threads; 0 uses every core.
    pub threads: usize,
    /// The population.
    pub agents: Vec<AgentPlan>,
}

impl Plan {
    /// The text of `run.toml`.
    pub fn to_toml(&self, created: &str, command: &str, hardware: &Hardware) -> String {
        let mut text = String::new();
        let mut line =
            |key: &str, value: String| writeln!(text, "{key} = {value}").expect("writing to a string");
        line("format", FORMAT.to_string());
        line("task", quote(&self.task));
        line("observation", quote(self.options.observation.name()));
        line("reward_scale", format!("{:?}", self.options.reward_scale));
        line("frame_skip", self.options.frame_skip.to_string());
        line("mode", self.mode.to_toml());
        line("difficulty", self.difficulty.to_toml());
        line("frames", self.frames.to_string());
        line("log_frames", self.log_frames.to_string());
        line("checkpoint_seconds", format!("{:?}", self.checkpoint_seconds));
        line("checkpoint", quote(&self.checkpoint.show()));
        line("device", quote(&self.device.show()));
        line("precision", quote(&self.precision.show()));
        line("groups", self.groups.to_string());
        line("created", quote(created));
        line("version", quote(env!("CARGO_PKG_VERSION")));
        line("protocol", quote(&self.protocol));
        line("note", quote(&self.note));
        line("command", quote(command));
        text.push_str("\n[hardware]\n");
        let Hardware { cpu, cores, device } = hardware;
        writeln!(text, "cpu = {}\ncores = {cores}\ndevice = {}", quote(cpu), quote(device))
            .expect("writing to a string");
        for agent in &self.agents {
            let (id, name, codec) = (quote(&agent.id), quote(&agent.agent), quote(&agent.codec));
            write!(text, "\n[[agents]]\nid = {id}\nagent = {name}\ncodec = {codec}\nseed = {}\n", agent.seed)
                .expect("writing to a string");
            write!(text, "[agents.settings]\n{}", agent.settings.to_toml()).expect("writing to a string");
        }
        text
    }

    /// Reads `run.toml` back.
    pub fn from_toml(text: &str, path: &Path) -> Result<Plan, TrainError> {
        let wrong =
            |what: String| TrainError::Data(format!("{} is not a run's description: {what}", path.display()));
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| wrong(e.to_string()))?;
        let get = Lookup { table: &table, wrong: &wrong };
        if get.integer("format")? != FORMAT as u64 {
            return Err(wrong("it was written by another version of spectral".into()));
        }
        let mut options = TaskOptions::default();
        options.set("observation", &get.text("observation")?).map_err(|e| wrong(e.to_string()))?;
        options
            .set("reward_scale", &get.number("reward_scale")?.to_string())
            .map_err(|e| wrong(e.to_string()))?;
        // Runs of before there was a choice have none of these.
        if table.contains_key("frame_skip") {
            let skip = get.integer("frame_skip")?.to_string();
            options.set("frame_skip", &skip).map_err(|e| wrong(e.to_string()))?;
        }
        let list = table.get("agents").and_then(|a| a.as_array()).ok_or_else(|| wrong("no agents".into()))?;
        let mut agents = Vec::new();
        for entry in list {
            let entry = entry.as_table().ok_or_else(|| wrong("an agent is no table".into()))?;
            let get = Lookup { table: entry, wrong: &wrong };
            let mut settings = AgentSettings::default();
            let pairs = entry.get("settings").and_then(|s| s.as_table());
            for (key, value) in pairs.ok_or_else(|| wrong("an agent has no settings".into()))? {
                let value = plain(value).ok_or_else(|| wrong(format!("'{key}' is no plain value")))?;
                settings.set(key, &value).map_err(|e| wrong(e.to_string()))?;
            }
            settings.validate().map_err(|e| wrong(e.to_string()))?;
            let plan =
                AgentPlan::new(&get.text("agent")?, &get.text("codec")?, get.integer("seed")?, settings);
            if plan.id != get.text("id")? {
                return Err(wrong(format!("agent {} has another id", plan.id)));
            }
            agents.push(plan);
        }
        let frames = get.integer("frames")?;
        if !(1..=MOST_FRAMES).contains(&frames) {
            return Err(wrong(format!("{frames} frames are not a length that a run can have")));
        }
        let checkpoint_seconds = get.number("checkpoint_seconds")?;
        if !(checkpoint_seconds > 0.0 && checkpoint_seconds <= MOST_SECONDS) {
            return Err(wrong(format!("checkpoints every {checkpoint_seconds} seconds are impossible")));
        }
        if agents.is_empty() {
            return Err(wrong("no agents".into()));
        }
        Ok(Plan {
            task: get.text("task")?,
            options,
            mode: get.choice("mode", GameNumber::Auto)?,
            difficulty: get.choice("difficulty", GameNumber::Auto)?,
            frames,
            log_frames: get.integer("log_frames")?.max(1),
            protocol: get.text("protocol")?,
            note: get.text("note")?,
            checkpoint_seconds,
            checkpoint: get.choice("checkpoint", CheckpointKind::Auto)?,
            device: get.choice("device", DeviceChoice::Auto)?,
            precision: get.choice("precision", Precision::Auto)?,
            groups: get.choice("groups", 0)?,
            threads: 0,
            agents,
        })
    }

    /// A number that differs for plans whose results differ; checkpoints carry it.
    pub fn fingerprint(&self) -> u32 {
        // Neither a later end, nor other hardware, nor a newer version makes a checkpoint foreign.
        let defaults = atari::plays_defaults(self);
        let core = Plan {
            mode: if defaults { GameNumber::Auto } else { self.mode },
            difficulty: if defaults { GameNumber::Auto } else { self.difficulty },
            frames: 0,
            checkpoint_seconds: 0.0,
            checkpoint: CheckpointKind::Auto,
            device: DeviceChoice::Auto,
            precision: Precision::Auto,
            groups: 0,
            note: String::new(),
            ..self.clone()
        };
        let text = core.to_toml("", "", &Hardware { cpu: String::new(), cores: 0, device: "cpu".into() });
        // What later versions added counts only where it differs from what earlier versions did.
        let added = [
            "frame_skip = 1",
            "mode = \"auto\"",
            "difficulty = \"auto\"",
            "checkpoint = \"auto\"",
            "device = \"auto\"",
            "precision = \"auto\"",
            "groups = 0",
        ];
        let lines = text.lines().filter(|line| !line.starts_with("version = ") && !added.contains(line));
        crc32fast::hash(lines.collect::<Vec<_>>().join("\n").as_bytes())
    }
}

struct Lookup<'a> {
    table: &'a toml::Table,
    wrong: &'a dyn Fn(String) -> TrainError,
}

impl Lookup<'_> {
    fn find<T>(&self, key: &str, read: impl Fn(&toml::Value) -> Option<T>) -> Result<T, TrainError> {
        self.table
            .get(key)
            .and_then(read)
            .ok_or_else(|| (self.wrong)(format!("'{key}' is missing or of the wrong kind")))
    }
    fn text(&self, key: &str) -> Result<String, TrainError> {
        self.find(key, |v| v.as_str().map(String::from))
    }
    fn choice<T: Setting>(&self, key: &str, default: T) -> Result<T, TrainError> {
        if !self.table.contains_key(key) {
            return Ok(default);
        }
        T::parse(&self.find(key, plain)?)
            .map_err(|expected| (self.wrong)(format!("'{key}' is not {expected}")))
    }
    fn integer(&self, key: &str) -> Result<u64, TrainError> {
        self.find(key, |v| v.as_integer().and_then(|i| u64::try_from(i).ok()))
    }
    fn number(&self, key: &str) -> Result<f64, TrainError> {
        self.find(key, |v| v.as_float().or_else(|| v.as_integer().map(|i| i as f64)))
    }
}

/// A TOML basic string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04X}", c as u32).expect("writing to a string"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;

    #[test]
    fn a_plan_survives_its_file() {
        let mut config = Configuration::default();
        for pair in [
            "task=catch-scale",
            "reward_scale=30",
            "agents=spectral,categorical",
            "seeds=4..5",
            "batch=8",
            "frame_skip=2",
            "device=cuda:1",
            "precision=tf32",
            "groups=3",
            "checkpoint=light",
        ] {
            config.set(pair).unwrap();
        }
        let plan = config.plan().unwrap();
        let hardware = Hardware { cpu: "a \"quoted\" \\ name\n".into(), cores: 2, device: "cpu".into() };
        let text = plan.to_toml("now", "spectral train", &hardware);
        let copy = Plan::from_toml(&text, Path::new("run.toml")).unwrap();
        assert_eq!(plan, copy);
        assert_eq!(plan.fingerprint(), Plan { frames: 1, ..copy.clone() }.fingerprint());
        assert_ne!(plan.fingerprint(), Plan { task: "2048".into(), ..copy.clone() }.fingerprint());
        // The device may change from one sitting to the next.
        let elsewhere =
            Plan { device: DeviceChoice::Cpu, precision: Precision::Auto, groups: 1, ..copy.clone() };
        assert_eq!(plan.fingerprint(), Plan { checkpoint: CheckpointKind::Full, ..elsewhere }.fingerprint());
        let mut config = Configuration::default();
        for pair in ["task=atari/pong", "mode=1"] {
            config.set(pair).unwrap();
        }
        let game = config.plan().unwrap();
        let text = game.to_toml("now", "spectral train", &hardware);
        assert!(text.contains("mode = 1\ndifficulty = 0\n"), "{text}");
        assert_eq!(game, Plan::from_toml(&text, Path::new("run.toml")).unwrap());
        // Runs of before there was a choice have neither line, and their checkpoints are those of the defaults.
        let usual = Plan { mode: GameNumber::Number(0), ..game.clone() };
        let old = Plan { mode: GameNumber::Auto, difficulty: GameNumber::Auto, ..game.clone() };
        assert_eq!(usual.fingerprint(), old.fingerprint());
        assert_ne!(usual.fingerprint(), game.fingerprint());
        let text = plan.to_toml("now", "spectral train", &hardware);
        for broken in [text.replace("format = 1", "format = 99"), text.replace("seed = 4", ""), "x".into()] {
            let error = Plan::from_toml(&broken, Path::new("dir/run.toml")).unwrap_err();
            assert!(error.to_string().contains("dir/run.toml"), "{error}");
        }
    }
}
