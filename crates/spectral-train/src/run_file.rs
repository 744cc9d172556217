//! `run.toml`: a resolved run as it is written once and read back by whoever goes on with it.

use crate::config::{RunSettings, is_plain, plain};
use crate::error::TrainError;
use crate::legacy;
use crate::machine::Hardware;
use crate::plan::{AgentPlan, Plan};
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use spectral_agent::settings::{AgentSettings, Settings, Values};
use spectral_core::settings::quote;
use spectral_env::{ObservationSpec, TaskEntry, TaskSpec};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

/// The format of `run.toml` that this version writes.
const FORMAT: u64 = 2;
/// Settings that belong to a process, not to a run.
const UNRECORDED: &[&str] = &["threads"];

/// The commit that the program was built from, if it has said so.
static COMMIT: OnceLock<String> = OnceLock::new();

/// Says which commit the program was built from; `run.toml` of the runs that it makes records it. Only the first call counts.
pub fn built_from(commit: &str) {
    COMMIT.get_or_init(|| commit.to_owned());
}

/// What `run.toml` says.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFile {
    /// The plan.
    pub plan: Plan,
    /// What the task said of itself when the run was made; runs of version 0.1 do not record it.
    pub task: Option<TaskSpec>,
}

impl ResolvedRun {
    /// The text of `run.toml`.
    pub fn to_toml(&self, created: &str, command: &str, hardware: &Hardware) -> String {
        let plan = &self.plan;
        let mut text = format!("format = {FORMAT}\ntask = {}\n", quote(&plan.task));
        for line in plan.run.values().to_toml().lines() {
            if !UNRECORDED.contains(&line.split(' ').next().unwrap_or_default()) {
                let _ = writeln!(text, "{line}");
            }
        }
        let commit = COMMIT.get().map_or_else(String::new, |commit| format!("commit = {}\n", quote(commit)));
        let _ = writeln!(
            text,
            "created = {}\nversion = {}\n{commit}command = {}",
            quote(created),
            quote(env!("CARGO_PKG_VERSION")),
            quote(command)
        );
        let Hardware { cpu, cores, device } = hardware;
        let _ =
            writeln!(text, "\n[hardware]\ncpu = {}\ncores = {cores}\ndevice = {}", quote(cpu), quote(device));
        let _ = write!(text, "\n[task_settings]\n{}", plan.task_settings.to_toml());
        let _ = write!(text, "\n[task_spec]\n{}", spec_toml(&self.task));
        for (agent, codec) in plan.agents.iter().zip(&self.codecs) {
            let _ = write!(
                text,
                "\n[[agents]]\nid = {}\nagent = {}\ncodec = {}\nseed = {}\nsees_true_rewards = {}\n\
                 [agents.settings]\n{}",
                quote(&agent.id),
                quote(&agent.agent),
                quote(&agent.codec),
                agent.seed,
                codec.sees_true_rewards(),
                agent.settings_toml()
            );
        }
        text
    }
}

fn spec_toml(spec: &TaskSpec) -> String {
    let actions: Vec<String> = spec.actions.iter().map(|action| quote(action)).collect();
    let observation = match spec.observation {
        ObservationSpec::Planes { channels, height, width, stack } => {
            format!("{{ channels = {channels}, height = {height}, width = {width}, stack = {stack} }}")
        }
        ObservationSpec::Vector { len } => format!("{{ len = {len} }}"),
    };
    // Tasks of earlier versions could not mask actions; theirs and all that do not are written alike.
    let masks_actions = if spec.masks_actions { "masks_actions = true\n" } else { "" };
    format!(
        "name = {}\nactions = [{}]\nobservation = {observation}\nframes_per_step = {}\nmax_player_score = {}\n{masks_actions}",
        quote(&spec.name),
        actions.join(", "),
        spec.frames_per_step,
        spec.max_player_score
    )
}

impl RunFile {
    /// Reads the text of `run.toml`; `path` names it in errors.
    pub fn read(text: &str, path: &Path, registry: &Registry) -> Result<Self, TrainError> {
        let wrong =
            |what: String| TrainError::Data(format!("{} is not a run's description: {what}", path.display()));
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| wrong(e.to_string()))?;
        let file = Lookup { table: &table, wrong: &wrong };
        let legacy = match file.integer("format")? {
            FORMAT => false,
            legacy::FORMAT => true,
            _ => return Err(wrong("it was written by another version of spectral".into())),
        };
        let task_name = file.text("task")?;
        let task = registry.task(&task_name).map_err(|_| unregistered(path, "task", &task_name))?;
        let mut run = RunSettings::default();
        for key in RunSettings::KEYS.iter().filter(|key| table.contains_key(**key)) {
            run.set(key, &file.plain(key)?).map_err(|e| wrong(e.to_string()))?;
        }
        run.validate().map_err(|e| wrong(e.to_string()))?;
        run.log_frames = run.log_frames.max(1);
        let mut unrecorded = Vec::new();
        let (task_settings, legacy_fingerprint) = if legacy {
            (legacy::task_settings(&table, task, &run.protocol)?, Some(legacy::fingerprint(text, task)))
        } else {
            let recorded = file.table("task_settings")?;
            let later = |key: &&&str| task.came_later(key) && !recorded.contains_key(**key);
            let keys = task.schema().keys().iter().filter(later);
            unrecorded.extend(keys.map(|key| key.to_string()));
            (read_values(recorded, task, &wrong)?, None)
        };
        let list = table.get("agents").and_then(|a| a.as_array()).ok_or_else(|| wrong("no agents".into()))?;
        let mut agents = Vec::new();
        for entry in list {
            let entry = entry.as_table().ok_or_else(|| wrong("an agent is no table".into()))?;
            let entry = Lookup { table: entry, wrong: &wrong };
            let codec_name = entry.text("codec")?;
            let codec = registry.codec(&codec_name).map_err(|_| unregistered(path, "codec", &codec_name))?;
            let (mut settings, mut own) = (AgentSettings::default(), codec.schema().defaults());
            for (key, value) in entry.table("settings")? {
                let value = plain(value).ok_or_else(|| wrong(format!("'{key}' is no plain value")))?;
                let set = if codec.schema().keys().contains(&key.as_str()) {
                    codec.schema().set(&mut own, key, &value)
                } else if legacy && legacy::belongs_to_another_codec(key) {
                    Ok(())
                } else {
                    settings.set(key, &value)
                };
                set.map_err(|e| wrong(e.to_string()))?;
            }
            settings.validate().map_err(|e| wrong(e.to_string()))?;
            let name = entry.text("agent")?;
            if !is_plain(&name) {
                return Err(wrong(format!("'{name}' is not an agent's name")));
            }
            let plan = AgentPlan::new(&name, &codec_name, entry.integer("seed")?, settings, own);
            if plan.id != entry.text("id")? {
                return Err(wrong(format!("agent {} has another id", plan.id)));
            }
            if agents.iter().any(|other: &AgentPlan| other.id == plan.id) {
                return Err(wrong(format!("agent {} is there twice", plan.id)));
            }
            agents.push(plan);
        }
        if agents.is_empty() {
            return Err(wrong("no agents".into()));
        }
        let task = if legacy { None } else { Some(read_spec(file.table("task_spec")?, &wrong)?) };
        let plan =
            Plan { legacy_fingerprint, unrecorded, ..Plan::new(&task_name, task_settings, run, agents) };
        Ok(RunFile { plan, task })
    }
}

/// The error for a run of a task or codec that this program does not have.
fn unregistered(path: &Path, what: &str, name: &str) -> TrainError {
    TrainError::Unregistered(format!(
        "{} is a run with the {what} '{name}', which is not built in: use the program that registers it",
        path.display()
    ))
}

fn read_values(
    table: &toml::Table,
    task: &TaskEntry,
    wrong: &dyn Fn(String) -> TrainError,
) -> Result<Values, TrainError> {
    let mut values = task.unrecorded();
    for (key, value) in table {
        let value = plain(value).ok_or_else(|| wrong(format!("'{key}' is no plain value")))?;
        task.schema().set(&mut values, key, &value).map_err(|e| wrong(e.to_string()))?;
    }
    Ok(values)
}

fn read_spec(table: &toml::Table, wrong: &dyn Fn(String) -> TrainError) -> Result<TaskSpec, TrainError> {
    let spec = Lookup { table, wrong };
    let observation = Lookup { table: spec.table("observation")?, wrong };
    let size = |key: &str| observation.integer(key).map(|n| n as usize);
    let observation = match observation.table.contains_key("len") {
        true => ObservationSpec::Vector { len: size("len")? },
        false => ObservationSpec::Planes {
            channels: size("channels")?,
            height: size("height")?,
            width: size("width")?,
            stack: size("stack")?,
        },
    };
    let actions = spec.find("actions", |value| {
        value.as_array()?.iter().map(|action| action.as_str().map(String::from)).collect::<Option<Vec<_>>>()
    })?;
    Ok(TaskSpec {
        name: spec.text("name")?,
        observation,
        actions,
        frames_per_step: spec.integer("frames_per_step")?.max(1),
        max_player_score: u8::try_from(spec.integer("max_player_score")?)
            .map_err(|_| wrong("max_player_score is beyond 255".into()))?,
        masks_actions: match table.contains_key("masks_actions") {
            true => spec.find("masks_actions", toml::Value::as_bool)?,
            false => false,
        },
    })
}

struct Lookup<'a> {
    table: &'a toml::Table,
    wrong: &'a dyn Fn(String) -> TrainError,
}

impl<'a> Lookup<'a> {
    fn find<T>(&self, key: &str, read: impl Fn(&'a toml::Value) -> Option<T>) -> Result<T, TrainError> {
        self.table
            .get(key)
            .and_then(read)
            .ok_or_else(|| (self.wrong)(format!("'{key}' is missing or of the wrong kind")))
    }
    fn text(&self, key: &str) -> Result<String, TrainError> {
        self.find(key, |v| v.as_str().map(String::from))
    }
    fn plain(&self, key: &str) -> Result<String, TrainError> {
        self.find(key, plain)
    }
    fn integer(&self, key: &str) -> Result<u64, TrainError> {
        self.find(key, |v| v.as_integer().and_then(|i| u64::try_from(i).ok()))
    }
    fn table(&self, key: &str) -> Result<&'a toml::Table, TrainError> {
        self.find(key, toml::Value::as_table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::CheckpointKind;
    use crate::config::Configuration;
    use crate::devices::{DeviceChoice, Precision};

    fn resolved(pairs: &[&str]) -> ResolvedRun {
        let mut config = Configuration::default();
        pairs.iter().for_each(|pair| config.set(pair).unwrap());
        Registry::default().resolve(&config).unwrap()
    }

    fn text(run: &ResolvedRun) -> String {
        let hardware = Hardware { cpu: "a \"quoted\" \\ name\n".into(), cores: 2, device: "cpu".into() };
        run.to_toml("now", "spectral train", &hardware)
    }

    fn read(text: &str) -> Result<RunFile, TrainError> {
        RunFile::read(text, Path::new("dir/run.toml"), &Registry::default())
    }

    #[test]
    fn a_run_survives_its_file() {
        let run = resolved(&[
            "task=catch-scale",
            "reward_scale=30",
            "agents=spectral,categorical,clipped",
            "seeds=4..5",
            "batch=8",
            "atoms=65",
            "frame_skip=2",
            "device=cpu",
            "precision=tf32",
            "groups=3",
            "checkpoint=light",
            "note=so \"called\"",
        ]);
        let text = text(&run);
        let file = read(&text).unwrap();
        assert_eq!(file.plan, run.plan);
        assert_eq!(file.task.as_ref(), Some(&run.task));
        for line in ["frames_per_step = 2", "reward_scale = 30.0", "sees_true_rewards = false", "atoms = 65"]
        {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("codec_"), "a codec's settings lie beside the agent's");
        assert_eq!(text.matches("max_frequency").count(), 2, "other codecs' settings are not there");
        for broken in [
            text.replace("format = 2", "format = 99"),
            text.replace("seed = 4", ""),
            text.replace("agent = \"spectral\"", "agent = \"../x\"").replace("spectral-s", "../x-s"),
            text.replace("atoms = 65", "base = 2.0"),
            text.replace("[task_spec]", "[spec]"),
            text.replace("spectral-s5", "spectral-s4").replace("seed = 5", "seed = 4"),
            "x".into(),
        ] {
            let error = read(&broken).unwrap_err();
            assert!(error.to_string().contains("dir/run.toml"), "{error}");
        }
        let foreign = read(&text.replace("codec = \"clipped\"", "codec = \"mine\"")).unwrap_err();
        assert!(matches!(foreign, TrainError::Unregistered(_)), "{foreign}");
    }

    /// 2048 had no `legal_actions` when its first runs were made: they go on as they began, with the checkpoints they have.
    #[test]
    fn a_run_from_before_a_setting_means_what_it_meant() {
        let off = resolved(&["task=2048", "legal_actions=false", "device=cpu"]);
        let new = text(&off);
        assert!(!new.contains("masks_actions"), "{new}");
        let old = new.replace("legal_actions = false\n", "");
        assert_ne!(old, new);
        let (old, new) = (read(&old).unwrap(), read(&new).unwrap());
        assert_eq!(old.plan.task_settings, new.plan.task_settings);
        assert_eq!(old.task, new.task);
        assert!(old.plan.difference(&new.plan).is_none() && old.plan.same_task(&new.plan));
        // The fingerprint is that of the lines which the file has, as it was when there were no others.
        let before = old.plan.fingerprint();
        assert_ne!(before, new.plan.fingerprint());
        let mut lines = Plan { unrecorded: Vec::new(), ..old.plan.clone() };
        lines.task_settings = Registry::default().task("pong-mini").unwrap().schema().defaults();
        assert_eq!(before, lines.fingerprint());
        let on = text(&resolved(&["task=2048", "device=cpu"]));
        assert!(on.contains("legal_actions = true\n") && on.contains("masks_actions = true\n"), "{on}");
        assert_eq!(read(&on).unwrap().task.map(|task| task.masks_actions), Some(true));
        // Tasks that mask nothing are written as ever.
        let other = text(&resolved(&["task=pong-mini", "device=cpu"]));
        assert!(!other.contains("legal_actions") && !other.contains("masks_actions"), "{other}");
    }

    #[test]
    fn a_fingerprint_tells_results_apart_and_nothing_else() {
        let plan = resolved(&["task=catch-scale", "agents=spectral,popart", "device=cpu"]).plan;
        let same = plan.with(|run| {
            run.frames = 1;
            run.device = DeviceChoice::CpuLockstep;
            run.precision = Precision::Tf32;
            run.groups = 3;
            run.threads = 2;
            run.checkpoint = CheckpointKind::Light;
            run.note = "other".into();
        });
        assert_eq!(plan.fingerprint(), same.fingerprint());
        let mut prints = vec![plan.fingerprint()];
        for other in [
            &["task=catch-scale", "agents=spectral,popart", "reward_scale=3"][..],
            &["task=catch-scale", "agents=spectral,popart", "statistics_rate=0.1"],
            &["task=catch-scale", "agents=spectral,popart", "batch=3"],
            &["task=catch-scale", "agents=spectral,clipped"],
            &["task=catch-scale", "agents=spectral,popart", "seeds=2..2"],
            &["task=catch-scale", "agents=spectral,popart", "log_frames=3"],
            &["task=pong-mini", "agents=spectral,popart"],
        ] {
            prints.push(resolved(&[other, &["device=cpu"]].concat()).plan.fingerprint());
        }
        let mut unique = prints.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), prints.len());
    }
}
