//! The run directory: made once, never clobbered, and enough to go on from.

use crate::claim::{self, Fence, RunLock};
use crate::error::TrainError;
use crate::machine::{Hardware, timestamp};
use crate::model_file;
use crate::plan::{AgentPlan, Plan};
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use crate::run_file::RunFile;
use crate::run_status::find_runs;
use crate::store::{
    StoreError, check_seal, create_folder, disk, is_temporary, open_plain, read_own_text, read_text,
    refuse_link, seal, seal_like, sweep_temporaries,
};
use crate::table_sums::{TableSum, to_toml, without};
use spectral_core::settings::quote;
use spectral_core::shell::quote_path;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// At work, or killed while it was.
    Running,
    /// Stopped by the user; it can be resumed.
    Interrupted,
    /// At its planned end.
    Finished,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Interrupted => "interrupted",
            Status::Finished => "finished",
        }
    }
}

/// Where one agent stands, for `state.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentState {
    /// The agent's id.
    pub id: String,
    /// Frames seen.
    pub frames: u64,
    /// At its planned end.
    pub finished: bool,
    /// Why it was stopped before.
    pub stopped: Option<String>,
    /// Lengths and checksums of its tables at the last checkpoint.
    pub tables: Vec<TableSum>,
}

/// A file that leads to the run's live page while there is one.
pub const LIVE_FILE: &str = "live.html";

/// Runs inside of a folder that is none, as an error names them.
const NAMED: usize = 8;

/// A run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes the folder, takes it for this process alone as [`lock`](RunDir::lock) does, and writes `run.toml`. A folder that
    /// exists and is not empty is refused.
    pub fn create(
        path: &Path,
        run: &ResolvedRun,
        registry: &Registry,
        command: &str,
    ) -> Result<(Self, RunLock), TrainError> {
        // What a process killed before it had written `run.toml` left behind is nothing worth keeping.
        Self::check_free(path)?;
        let dir = RunDir { path: path.into() };
        let hardware = Hardware { device: run.device_name(), ..Hardware::here() };
        let text = run.to_toml(&timestamp(), command, &hardware);
        // What cannot be read back could never be resumed.
        let unfit = |why: String| TrainError::Usage(format!("this run could not be resumed: {why}"));
        let copy =
            RunFile::read(&text, Path::new("its run.toml"), registry).map_err(|e| unfit(e.to_string()))?;
        if copy.plan != run.plan.with(|run| run.threads = 0) || copy.task.as_ref() != Some(&run.task) {
            return Err(unfit("some setting does not read back as it is written".into()));
        }
        create_folder(path)?;
        // Of two processes that begin a run here at once, one gets the run; the other has written nothing.
        let lock = RunLock::take(path)?;
        Self::check_free(path)?;
        // First, so that a run killed from here on can be resumed.
        let text = seal(&text);
        lock.fence().write_atomically(&path.join("run.toml"), |out| out.write_all(text.as_bytes()))?;
        dir.make_folders()?;
        Ok((dir, lock))
    }

    /// Refuses a folder that holds something already, or a path that is no folder.
    pub fn check_free(path: &Path) -> Result<(), TrainError> {
        let taken = |then: &str| {
            let path = path.display();
            TrainError::Usage(format!("{path} exists already and is left as it is; give another --out{then}"))
        };
        match Self::is_free(path) {
            Ok(true) => Ok(()),
            Ok(false) if path.join("run.toml").exists() => {
                Err(taken(&format!(", or continue it with `spectral resume {}`", quote_path(path))))
            }
            Ok(false) => Err(taken(": it holds other files")),
            Err(e) if e.kind() == ErrorKind::NotADirectory => Err(taken(": it is no folder")),
            Err(e) => Err(StoreError::io(path, "read", e).into()),
        }
    }

    /// Whether a folder holds nothing of its user's, or is not there. Locks, claims and what a killed process left half-written do not
    /// count, nor does what an NFS client keeps under a name of its own because a process, perhaps this one, has a removed file open.
    pub fn is_free(path: &Path) -> std::io::Result<bool> {
        let removed = |name: &str| name.starts_with(".nfs");
        let counts = |name: &str| !claim::is_part_of(name) && !is_temporary(name) && !removed(name);
        let entries = match disk::read_dir(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(true),
            entries => entries?,
        };
        for entry in entries {
            if counts(&entry?.file_name().to_string_lossy()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the run for this process alone, for as long as the lock is kept, and makes its folders. [`TrainError::Busy`] if another
    /// process has it; nothing has changed then.
    ///
    /// Two processes that train the same run would write into each other's files.
    pub fn lock(&self) -> Result<RunLock, TrainError> {
        let lock = RunLock::take(&self.path)?;
        self.make_folders()?;
        if lock.predecessor_may_live() {
            self.replace_growing_files(&lock.fence())?;
        }
        Ok(lock)
    }

    /// Puts a copy in place of each file that grows row by row. A process that has lost the run, and does not know it yet, has the
    /// files open that were there before: its next rows go to those, which have no names any more.
    fn replace_growing_files(&self, fence: &Fence) -> Result<(), TrainError> {
        // A folder that cannot be listed may hold files that are in use: only one that is not there holds none.
        let entries = |folder: &Path| match disk::read_dir(folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.and_then(Iterator::collect).map_err(|e| StoreError::io(folder, "list", e)),
        };
        let kind = |entry: &DirEntry| {
            entry.file_type().map_err(|e| StoreError::io(&entry.path(), "find out the kind of", e))
        };
        for agent in entries(&self.path.join("agents"))? {
            if !kind(&agent)?.is_dir() {
                continue;
            }
            for file in entries(&agent.path())? {
                let name = file.file_name().to_string_lossy().into_owned();
                let grows = name.ends_with(".csv") || name.starts_with("events.out.");
                if grows && kind(&file)?.is_file() {
                    let path = file.path();
                    let mut old = open_plain(&path).map_err(|e| StoreError::io(&path, "read", e))?;
                    fence.write_atomically(&path, |out| std::io::copy(&mut old, out).map(drop))?;
                }
            }
        }
        Ok(())
    }

    fn make_folders(&self) -> Result<(), TrainError> {
        // A process that was killed may have left one, which leads nowhere.
        let _ = disk::remove_file(self.path.join(LIVE_FILE));
        for folder in [self.checkpoints(), self.path.join("agents")] {
            refuse_link(&folder).map_err(|e| StoreError::io(&folder, "use", e))?;
            disk::create_dir_all(&folder).map_err(|e| StoreError::io(&folder, "create", e))?;
        }
        self.refuse_linked_folders()?;
        sweep_temporaries(&self.path)?;
        Ok(())
    }

    /// Refuses a run in which a folder is a link. Files are cut and removed in these folders: behind a link they would be somebody
    /// else's.
    pub(crate) fn refuse_linked_folders(&self) -> Result<(), TrainError> {
        let agents = self.path.join("agents");
        for folder in [&self.checkpoints(), &agents] {
            refuse_link(folder).map_err(|e| StoreError::io(folder, "use", e))?;
        }
        let failed = |e| StoreError::io(&agents, "list", e);
        for agent in disk::read_dir(&agents).map_err(failed)? {
            let agent = agent.map_err(failed)?.path();
            refuse_link(&agent).map_err(|e| StoreError::io(&agent, "use", e))?;
        }
        Ok(())
    }

    /// Opens an existing run and reads its `run.toml`.
    pub fn open(path: &Path, registry: &Registry) -> Result<(Self, RunFile), TrainError> {
        let file = path.join("run.toml");
        let text = read_own_text(&file).map_err(|e| {
            // What is there is no plain file, and says so itself.
            if e.kind() == ErrorKind::InvalidInput && e.raw_os_error().is_none() {
                return StoreError::io(&file, "read", e).into();
            }
            let mut text =
                format!("{} is not a run directory: cannot read {}: {e}", path.display(), file.display());
            // One that cannot be read is a run all the same.
            if e.kind() == ErrorKind::NotFound
                && let Ok(runs) = find_runs(path)
            {
                let some: Vec<String> =
                    runs.iter().take(NAMED).map(|run| run.display().to_string()).collect();
                let more = if runs.len() > some.len() { ", …" } else { "" };
                text = format!(
                    "{} is not a run directory, but holds some: {}{more}",
                    path.display(),
                    some.join(", ")
                );
            }
            match e.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => TrainError::Usage(text),
                _ => TrainError::Data(text),
            }
        })?;
        let read = RunFile::read(&text, &file, registry)?;
        check_seal(&text).map_err(|why| TrainError::Data(format!("{}: {why}", file.display())))?;
        Ok((RunDir { path: path.into() }, read))
    }

    /// Moves the planned end, if the run is still this process's; everything else in `run.toml` stays as it was written.
    pub fn extend(&self, plan: &mut Plan, frames: u64, fence: &Fence) -> Result<(), TrainError> {
        let file = self.path.join("run.toml");
        let text = read_own_text(&file).map_err(|e| StoreError::io(&file, "read", e))?;
        let old = format!("\nframes = {}\n", plan.run.frames);
        if !text.contains(&old) {
            return Err(TrainError::Data(format!("{} does not say how long the run is", file.display())));
        }
        let text = seal_like(&text, &text.replacen(&old, &format!("\nframes = {frames}\n"), 1));
        fence.write_atomically(&file, |out| out.write_all(text.as_bytes()))?;
        plan.run.frames = frames;
        Ok(())
    }

    /// Adds a device to those that `run.toml` names, unless it is the one named last, or the run is another process's by now.
    pub fn record_device(&self, device: &str, fence: &Fence) -> Result<(), TrainError> {
        let file = self.path.join("run.toml");
        let text = read_own_text(&file).map_err(|e| StoreError::io(&file, "read", e))?;
        let table: toml::Table = text.parse().unwrap_or_default();
        let known = table.get("hardware").and_then(|h| h.get("device")?.as_str()).unwrap_or_default();
        if known.rsplit(", then ").next() == Some(device) {
            return Ok(());
        }
        let old = format!("\ndevice = {}\n", quote(known));
        let new = format!("\ndevice = {}\n", quote(&format!("{known}, then {device}")));
        let Some((head, tail)) = text.split_once("\n[hardware]\n").filter(|(_, tail)| tail.contains(&old))
        else {
            return Ok(());
        };
        let text = seal_like(&text, &format!("{head}\n[hardware]\n{}", tail.replacen(&old, &new, 1)));
        fence.write_atomically(&file, |out| out.write_all(text.as_bytes()))
    }

    /// Rewrites `state.toml`, if the run is still this process's.
    pub fn write_state(
        &self,
        status: Status,
        seconds: f64,
        agents: &[AgentState],
        fence: &Fence,
    ) -> Result<(), TrainError> {
        let mut text = format!("status = \"{}\"\nseconds = {seconds:.3}\n", status.name());
        for agent in agents {
            let state = match (&agent.stopped, agent.finished) {
                (Some(_), _) => "stopped",
                (None, true) => "finished",
                (None, false) => "running",
            };
            let reason = quote(agent.stopped.as_deref().unwrap_or(""));
            let (id, frames, tables) = (quote(&agent.id), agent.frames, to_toml(&agent.tables));
            write!(
                text,
                "\n[[agents]]\nid = {id}\nframes = {frames}\nstatus = \"{state}\"\nreason = {reason}\n{tables}"
            )
            .expect("writing to a string");
        }
        let text = seal(&text);
        fence.write_atomically(&self.path.join("state.toml"), |out| out.write_all(text.as_bytes()))
    }

    /// Takes out of `state.toml` what it says of tables, before they are cut back to less than that.
    pub(crate) fn forget_tables(&self, fence: &Fence) -> Result<(), TrainError> {
        let path = self.path.join("state.toml");
        let text = match read_text(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            text => text.map_err(|e| StoreError::io(&path, "read", e))?,
        };
        match without(&text) {
            same if same == text => Ok(()),
            less => fence.write_atomically(&path, |out| out.write_all(seal_like(&text, &less).as_bytes())),
        }
    }

    /// Whether the run was at its planned end when its state was last written.
    pub fn finished(&self) -> bool {
        self.state().get("status").and_then(toml::Value::as_str) == Some(Status::Finished.name())
    }

    /// Where the run stood when its state was last written; before its first checkpoint, running.
    pub fn status(&self) -> Status {
        let state = self.state();
        let written = state.get("status").and_then(toml::Value::as_str);
        let all = [Status::Interrupted, Status::Finished];
        all.into_iter().find(|status| written == Some(status.name())).unwrap_or(Status::Running)
    }

    /// Whether a process trains here now, on this machine or another; `None` where nothing tells.
    pub fn is_at_work(&self) -> Option<bool> {
        claim::is_at_work(&self.path)
    }

    /// Where the run was last trained, as `run.toml` names it: `cpu`, or a GPU with its precision in brackets.
    pub fn device(&self) -> String {
        let text = read_own_text(&self.path.join("run.toml")).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        let all = table.get("hardware").and_then(|h| h.get("device")?.as_str()).unwrap_or_default();
        all.rsplit(", then ").next().unwrap_or_default().into()
    }

    /// The command that began the run.
    pub fn command(&self) -> String {
        let text = read_own_text(&self.path.join("run.toml")).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        table.get("command").and_then(toml::Value::as_str).unwrap_or_default().into()
    }

    /// Wall-clock seconds of earlier sittings.
    pub fn seconds(&self) -> f64 {
        seconds(&self.state())
    }

    /// The seconds of earlier sittings, and whether they [came further than the start](RunDir::has_progress). A state that is there
    /// and cannot be read, or lacks something, is an error: taken for none, it would cost hours, or even let a run begin anew over
    /// its tables.
    pub(crate) fn before(&self, plan: &Plan) -> Result<(f64, bool), TrainError> {
        let Some(state) = self.try_state()? else { return Ok((0.0, false)) };
        let known = |agent: &AgentPlan| {
            let mut all = state.get("agents").and_then(|agents| agents.as_array()).into_iter().flatten();
            all.any(|entry| {
                entry.get("id").and_then(|id| id.as_str()) == Some(&agent.id)
                    && entry.get("frames").is_some_and(|frames| frames.is_integer())
            })
        };
        let lacks = match () {
            () if !state.get("status").is_some_and(|status| status.is_str()) => "the status".to_string(),
            () if !state.get("seconds").is_some_and(|seconds| seconds.is_float()) => {
                "the seconds".to_string()
            }
            // They would be added up, and `inf` or `nan` would be written from then on.
            () if !(seconds(&state).is_finite() && seconds(&state) >= 0.0) => {
                "a number of seconds".to_string()
            }
            () => match plan.agents.iter().find(|agent| !known(agent)) {
                Some(agent) => format!("the frames of {}", agent.id),
                None => return Ok((seconds(&state), has_progress(&state))),
            },
        };
        Err(self.damaged_state(&format!("it lacks {lacks}")))
    }

    fn damaged_state(&self, why: &str) -> TrainError {
        TrainError::Data(format!(
            "{}: the file is damaged ({why}); restore it from a copy, or remove it: then the run goes on from its newest \
             checkpoint, but has lost the count of its hours (nothing was changed)",
            self.path.join("state.toml").display()
        ))
    }

    /// Whether some agent had got further than its start when a checkpoint was last written.
    pub fn has_progress(&self) -> bool {
        has_progress(&self.state())
    }

    /// Frames that its agents together had left when its state was last written; an agent that was stopped has none.
    pub fn frames_left(&self, plan: &Plan) -> u64 {
        let known = self.agent_states();
        let left = |agent: &AgentPlan| match known.get(&agent.id) {
            Some(state) if state.stopped.is_some() => 0,
            state => plan.run.frames.saturating_sub(state.map_or(0, |state| state.frames)),
        };
        plan.agents.iter().map(left).fold(0, u64::saturating_add)
    }

    /// Where each agent stood when the state was last written, by id; without those of which nothing was written. The file is read
    /// once: a population may have thousands of agents.
    pub fn agent_states(&self) -> HashMap<String, AgentState> {
        let state = self.state();
        let agents = state.get("agents").and_then(|a| a.as_array()).map(Vec::as_slice).unwrap_or_default();
        let read = |agent: &toml::Value| {
            let text = |key: &str| agent.get(key).and_then(toml::Value::as_str).map(String::from);
            let id = text("id")?;
            let frames = agent.get("frames").and_then(toml::Value::as_integer);
            let status = text("status").unwrap_or_default();
            let stopped = (status == "stopped").then(|| text("reason").unwrap_or_default());
            let state = AgentState {
                id: id.clone(),
                frames: frames.and_then(|frames| u64::try_from(frames).ok()).unwrap_or(0),
                finished: status == "finished",
                stopped,
                tables: Vec::new(),
            };
            Some((id, state))
        };
        agents.iter().filter_map(read).collect()
    }

    /// Frames that an agent had seen when the state was last written.
    pub fn frames(&self, id: &str) -> u64 {
        self.agent_states().get(id).map_or(0, |agent| agent.frames)
    }

    /// Why training stopped this agent, if it did.
    pub fn why_stopped(&self, id: &str) -> Option<String> {
        self.agent_states().remove(id)?.stopped
    }

    fn state(&self) -> toml::Table {
        self.try_state().ok().flatten().unwrap_or_default()
    }

    /// What `state.toml` says; `None` if there is none.
    fn try_state(&self) -> Result<Option<toml::Table>, TrainError> {
        let path = self.path.join("state.toml");
        match read_text(&path) {
            Ok(text) => match (text.parse(), check_seal(&text)) {
                (Ok(state), Ok(())) => Ok(Some(state)),
                (Ok(_), Err(why)) => Err(self.damaged_state(&why)),
                (Err(e), _) => Err(self.damaged_state(e.message().lines().next().unwrap_or_default())),
            },
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) if e.kind() == ErrorKind::InvalidData => Err(self.damaged_state(&e.to_string())),
            Err(e) => Err(StoreError::io(&path, "read", e).into()),
        }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// The folder of one agent.
    pub fn agent(&self, id: &str) -> PathBuf {
        self.path.join("agents").join(id)
    }

    /// The file of one agent's final model: `model.safetensors`, or the `model.bin` of version 0.1 as long as there is no
    /// other.
    pub fn model(&self, id: &str) -> PathBuf {
        model_file::path_in(&self.agent(id))
    }

    /// The file of the mean of one agent's weights at the end, `model-average.safetensors`, which is there if the agent kept one.
    pub fn average_model(&self, id: &str) -> PathBuf {
        model_file::average_in(&self.agent(id))
    }
}

fn seconds(state: &toml::Table) -> f64 {
    state.get("seconds").and_then(toml::Value::as_float).unwrap_or(0.0)
}

fn has_progress(state: &toml::Table) -> bool {
    let agents = state.get("agents").and_then(|a| a.as_array());
    let frames = |agent: &toml::Value| agent.get("frames").and_then(toml::Value::as_integer);
    agents.is_some_and(|agents| agents.iter().any(|a| frames(a).is_some_and(|n| n > 0)))
}
