//! Reads run directories and rejects those that are incomplete or inconsistent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::evaluations::read_evaluations;
use super::legacy::{LEGACY_TASK_SETTINGS, legacy_frames_per_step, legacy_sees_true_rewards};
use super::{AgentRun, AgentStatus, Episode, Hardware, Metrics, Run, RunStatus, TdError};
use crate::csv::{Ending, Growth, Recorded, Source, Table};
use crate::error::ReportError;

/// The versions of the run directory that this crate understands.
const FORMATS: std::ops::RangeInclusive<i64> = 1..=2;
/// How many folders deep run directories are searched for below a given path. `spectral reproduce` searches equally deep
/// (`spectral-train/src/experiment/run_index.rs`); the two crates share no code, so the number stands in both.
const SEARCH_DEPTH: usize = 4;
/// Keys of run.toml that identify or describe a run and do not affect its result.
const BOOKKEEPING: [&str; 18] = [
    "format",
    "task",
    "frames",
    "log_frames",
    "eval_every",
    "eval_games",
    "eval_epsilon",
    "checkpoint",
    "checkpoint_seconds",
    "created",
    "version",
    "commit",
    "protocol",
    "note",
    "command",
    "hardware",
    "task_spec",
    "agents",
];
#[derive(Deserialize)]
struct RunFile {
    format: i64,
    task: String,
    frames: u64,
    #[serde(default)]
    created: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    commit: String,
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    hardware: Hardware,
    /// Absent in files from before there were frozen games.
    eval_epsilon: Option<f64>,
    /// Absent in files of version 0.1.
    task_spec: Option<TaskSpec>,
    agents: Vec<AgentEntry>,
}

#[derive(Deserialize)]
struct TaskSpec {
    frames_per_step: Option<u64>,
}

#[derive(Deserialize)]
struct AgentEntry {
    id: String,
    agent: String,
    #[serde(default)]
    codec: String,
    /// Absent in files of version 0.1.
    sees_true_rewards: Option<bool>,
    seed: u64,
    #[serde(default)]
    settings: toml::Table,
}

#[derive(Deserialize)]
struct StateFile {
    status: RunStatus,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    agents: Vec<AgentState>,
}

#[derive(Deserialize)]
struct AgentState {
    id: String,
    frames: u64,
    status: AgentStatus,
    #[serde(default)]
    reason: String,
    /// By the names of the files; absent in files from before they were recorded.
    #[serde(default)]
    tables: BTreeMap<String, Recorded>,
}

/// Reads run directories. A path may be a run directory, or a folder that contains run directories.
///
/// ```no_run
/// let runs = spectral_report::read_runs(&["runs/pong".into(), "runs/more".into()])?;
/// println!("{} runs of {}", runs.len(), runs[0].task);
/// # Ok::<(), spectral_report::ReportError>(())
/// ```
pub fn read_runs(paths: &[PathBuf]) -> Result<Vec<Run>, ReportError> {
    let mut directories: Vec<PathBuf> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in paths {
        let mut found = Vec::new();
        find_runs(path, SEARCH_DEPTH, &mut found).map_err(|error| match error {
            ReportError::Io { path: at, source, .. } if at == *path && leads_nowhere(&source) => {
                ReportError::NotThere { path: at, source }
            }
            other => other,
        })?;
        if found.is_empty() {
            return Err(ReportError::NoRuns { path: path.clone() });
        }
        for directory in found {
            // The same directory named twice is one run, not a duplicate seed.
            let real =
                fs::canonicalize(&directory).map_err(|error| ReportError::io(&directory, "open", error))?;
            if !seen.contains(&real) {
                seen.push(real);
                directories.push(directory);
            }
        }
    }
    directories.iter().map(|directory| read_run(directory)).collect()
}

fn leads_nowhere(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn find_runs(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), ReportError> {
    // Whatever has this name: what is no plain file is an error, not another folder to look into.
    if path.join("run.toml").symlink_metadata().is_ok() {
        found.push(path.to_owned());
        return Ok(());
    }
    let unreadable = |error| ReportError::io(path, "open as a run directory", error);
    let mut folders = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.path();
        if entry.is_dir() {
            folders.push(entry);
        }
    }
    folders.sort();
    if depth > 0 {
        for folder in folders {
            find_runs(&folder, depth - 1, found)?;
        }
    }
    Ok(())
}

fn read_run(directory: &Path) -> Result<Run, ReportError> {
    let run_toml = directory.join("run.toml");
    crate::csv::refuse_link(&run_toml).map_err(|error| ReportError::io(&run_toml, "read", error))?;
    let file: RunFile =
        read_toml(&run_toml)?.ok_or_else(|| ReportError::NoRuns { path: directory.to_owned() })?;
    if !FORMATS.contains(&file.format) {
        let problem = format!(
            "format {} is not known: this version of spectral reads formats {} to {}, so a newer one wrote it",
            file.format,
            FORMATS.start(),
            FORMATS.end()
        );
        return Err(ReportError::malformed(&run_toml, None, problem));
    }
    if file.agents.is_empty() {
        return Err(ReportError::malformed(&run_toml, None, "no [[agents]]: a run has at least one"));
    }
    // A run killed before its first checkpoint has no state yet.
    let state_toml = directory.join("state.toml");
    let state: StateFile = read_toml(&state_toml)?.unwrap_or(StateFile {
        status: RunStatus::Running,
        seconds: 0.0,
        agents: Vec::new(),
    });
    if !(state.seconds.is_finite() && state.seconds >= 0.0) {
        let problem = format!("seconds is {}, not a number of seconds", state.seconds);
        return Err(ReportError::malformed(&state_toml, None, problem));
    }
    if let Some(entry) = file.agents.iter().find(|entry| !is_one_name(&entry.id)) {
        let problem = format!("`{}` is no agent's id: it must name a folder", entry.id);
        return Err(ReportError::malformed(&run_toml, None, problem));
    }
    for entry in &state.agents {
        if !file.agents.iter().any(|agent| agent.id == entry.id) {
            let problem = format!("agent `{}` is not one of run.toml's agents", entry.id);
            return Err(ReportError::malformed(&state_toml, None, problem));
        }
    }
    let status = state.status;
    let mut agents = Vec::with_capacity(file.agents.len());
    for entry in file.agents {
        let state = state.agents.iter().find(|state| state.id == entry.id);
        agents.push(read_agent(directory, entry, state, status)?);
    }
    // All agents of a population share one clock, which corresponds to the frames of the furthest agent.
    let furthest = agents.iter().map(|agent| agent.frames).max().unwrap_or(0);
    if furthest > 0 && state.seconds > 0.0 {
        for agent in &mut agents {
            agent.seconds_per_frame = Some(state.seconds / furthest as f64);
        }
    }
    let options = read_options(&run_toml)?;
    let frames_per_step = match file.task_spec.and_then(|spec| spec.frames_per_step) {
        Some(0) => {
            let problem = "task_spec.frames_per_step is 0: a step takes at least one frame";
            return Err(ReportError::malformed(&run_toml, None, problem));
        }
        Some(frames) => frames,
        None => legacy_frames_per_step(&file.task, options.get("frame_skip").map(String::as_str)),
    };
    Ok(Run {
        options,
        frames_per_step,
        path: directory.to_owned(),
        task: file.task,
        frames: file.frames,
        created: file.created,
        version: file.version,
        commit: file.commit,
        protocol: file.protocol,
        note: file.note,
        command: file.command,
        hardware: file.hardware,
        status: state.status,
        seconds: state.seconds,
        eval_epsilon: file.eval_epsilon,
        agents,
    })
}

/// Holds a text against the checksum in its first line, if it has one: those of earlier versions do not.
fn check_seal(text: &str) -> Result<(), &'static str> {
    let sealed = text.strip_prefix("# checksum of all lines below: ");
    match sealed.map(|rest| rest.split_once('\n').unwrap_or((rest, ""))) {
        Some((sum, below)) if sum != format!("{:08x}", crc32fast::hash(below.as_bytes())) => Err(
            "it was changed after it was written, as the checksum in its first line tells: put back what it was (if the \
                 change is wanted, remove that line)",
        ),
        _ => Ok(()),
    }
}

fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, ReportError> {
    let text = match crate::csv::read_toml_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ReportError::io(path, "read", error)),
    };
    check_seal(&text).map_err(|why| ReportError::malformed(path, None, why))?;
    toml::from_str(&text).map(Some).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
        ReportError::malformed(path, line, error.message().to_owned())
    })
}

/// All settings of the whole run that may affect its result. Format 1 has the task's settings at the top level, format 2 in
/// `[task_settings]`. Settings that both can have get the same keys here, so that runs of either format can be merged.
fn read_options(run_toml: &Path) -> Result<BTreeMap<String, String>, ReportError> {
    let mut table: toml::Table = read_toml(run_toml)?.unwrap_or_default();
    let mut options = BTreeMap::new();
    if let Some(toml::Value::Table(mut settings)) = table.remove("task_settings") {
        for key in LEGACY_TASK_SETTINGS {
            if let Some(value) = settings.remove(key) {
                options.insert(key.to_owned(), plain(&value));
            }
        }
        flatten("task_settings", &settings, &mut options);
    }
    table.retain(|key, _| !BOOKKEEPING.contains(&key));
    flatten("", &table, &mut options);
    Ok(options)
}

/// Whether an id names a folder in a folder, and nothing elsewhere.
fn is_one_name(id: &str) -> bool {
    let mut parts = Path::new(id).components();
    matches!(parts.next(), Some(Component::Normal(name)) if name == id) && parts.next().is_none()
}

fn read_agent(
    directory: &Path,
    entry: AgentEntry,
    state: Option<&AgentState>,
    run: RunStatus,
) -> Result<AgentRun, ReportError> {
    let status = state.map_or(AgentStatus::Running, |state| state.status);
    let ending = if status == AgentStatus::Running { Ending::MayBeTorn } else { Ending::Complete };
    let folder = directory.join("agents").join(&entry.id);
    let table = |name: &str| {
        let recorded = state.and_then(|state| state.tables.get(name));
        // Frozen games of an agent that has ended are played while others train.
        let over = run == RunStatus::Finished || (status != AgentStatus::Running && name != "eval.csv");
        let growth = if over { Growth::Over } else { Growth::Open };
        Source { path: folder.join(name), ending, growth, recorded }
    };
    let episodes = read_episodes(&table("episodes.csv"))?;
    let reached = episodes.last().map_or(0, |episode| episode.frame);
    let mut settings = BTreeMap::new();
    flatten("", &entry.settings, &mut settings);
    let metrics = Metrics::read(&table("metrics.csv"))?;
    let clip = directory.join("clips").join(format!("{}.gif", entry.id));
    Ok(AgentRun {
        evaluations: read_evaluations(&table("eval.csv"))?,
        td_errors: read_td_errors(&table("td_error.csv"))?,
        saturated: metrics.last("saturated").map_or(0, |count| count as u64),
        metrics,
        seconds_per_frame: None,
        clip: clip.is_file().then_some(clip),
        id: entry.id,
        agent: entry.agent,
        sees_true_rewards: entry.sees_true_rewards.unwrap_or_else(|| legacy_sees_true_rewards(&entry.codec)),
        codec: entry.codec,
        seed: entry.seed,
        settings,
        status,
        reason: state.map_or_else(String::new, |state| state.reason.clone()),
        // The state is as old as the last checkpoint. The episodes may be newer.
        frames: state.map_or(0, |state| state.frames).max(reached),
        episodes,
    })
}

fn read_episodes(source: &Source<'_>) -> Result<Vec<Episode>, ReportError> {
    let Some(table) = Table::read(source)? else {
        if source.ending == Ending::MayBeTorn {
            return Ok(Vec::new());
        }
        return Err(ReportError::malformed(
            &source.path,
            None,
            "the file is missing, though state.toml says that the agent has ended",
        ));
    };
    if table.is_blank() {
        return Ok(Vec::new());
    }
    let (frame, score) = (table.column("frame")?, table.column("score")?);
    let mut episodes: Vec<Episode> = Vec::with_capacity(table.len());
    for row in 0..table.len() {
        let episode = Episode { frame: table.count(row, frame)?, score: table.number(row, score)? };
        if let Some(last) = episodes.last()
            && last.frame > episode.frame
        {
            let problem = format!("is {} after {}: frames must not go back", episode.frame, last.frame);
            return Err(table.wrong(row, frame, problem));
        }
        episodes.push(episode);
    }
    Ok(episodes)
}

fn read_td_errors(source: &Source<'_>) -> Result<Vec<TdError>, ReportError> {
    let Some(table) = Table::read(source)?.filter(|table| !table.is_blank()) else {
        return Ok(Vec::new());
    };
    let (frame, player_score) = (table.column("frame")?, table.column("player_score")?);
    let (abs_error, abs_target) = (table.column("abs_error")?, table.column("abs_target")?);
    let samples = table.optional_column("samples");
    let mut rows: Vec<TdError> = Vec::with_capacity(table.len());
    for row in 0..table.len() {
        let score = table.number(row, player_score)?;
        if score.fract() != 0.0 {
            return Err(table.wrong(row, player_score, format!("is {score}, not a whole number")));
        }
        let at = table.count(row, frame)?;
        if rows.last().is_some_and(|last| last.frame > at) {
            return Err(table.wrong(row, frame, format!("is {at}: frames must not go back")));
        }
        rows.push(TdError {
            frame: at,
            player_score: score as i64,
            // A diverging agent may have written NaN or inf before it was stopped. They are kept, and not drawn.
            abs_error: table.get(row, abs_error).unwrap_or(f64::NAN),
            abs_target: table.get(row, abs_target).unwrap_or(f64::NAN),
            samples: samples.map(|column| table.count(row, column)).transpose()?,
        });
    }
    Ok(rows)
}

fn flatten(prefix: &str, table: &toml::Table, into: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, into),
            toml::Value::String(text) => {
                into.insert(key, text.clone());
            }
            other => {
                into.insert(key, plain(other));
            }
        }
    }
}

fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Datetime(moment) => moment.to_string(),
        toml::Value::Array(items) => {
            format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", "))
        }
        toml::Value::Table(inner) => {
            let pairs: Vec<String> =
                inner.iter().map(|(key, item)| format!("{key} = {}", plain(item))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
    }
}
