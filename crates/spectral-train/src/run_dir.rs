//! The run directory: made once, never clobbered, and enough to go on from.

use crate::error::TrainError;
use crate::machine::{Hardware, timestamp};
use crate::plan::{Plan, quote};
use crate::store::{StoreError, write_atomically};
use std::fmt::Write as _;
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
}

/// A run's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes the folder and writes `run.toml`. A folder that exists and is not empty is refused.
    pub fn create(path: &Path, plan: &Plan, command: &str) -> Result<Self, TrainError> {
        let occupied = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            return Err(TrainError::Usage(format!(
                "{0} exists already and is left as it is; give another --out, or continue it with `spectral resume {0}`",
                path.display()
            )));
        }
        let dir = RunDir { path: path.into() };
        for folder in [dir.checkpoints(), path.join("agents")] {
            std::fs::create_dir_all(&folder).map_err(|e| StoreError::io(&folder, "create", e))?;
        }
        dir.write_plan(plan, &timestamp(), command)?;
        Ok(dir)
    }

    /// Opens an existing run and reads its plan.
    pub fn open(path: &Path) -> Result<(Self, Plan), TrainError> {
        let file = path.join("run.toml");
        let text = std::fs::read_to_string(&file).map_err(|e| {
            TrainError::Usage(format!(
                "{} is not a run directory: cannot read {}: {e}",
                path.display(),
                file.display()
            ))
        })?;
        let plan = Plan::from_toml(&text, &file)?;
        Ok((RunDir { path: path.into() }, plan))
    }

    fn write_plan(&self, plan: &Plan, created: &str, command: &str) -> Result<(), TrainError> {
        let text = plan.to_toml(created, command, &Hardware::here());
        Ok(write_atomically(&self.path.join("run.toml"), |out| out.write_all(text.as_bytes()))?)
    }

    /// Moves the planned end; everything else in `run.toml` stays as it was written.
    pub fn extend(&self, plan: &mut Plan, frames: u64) -> Result<(), TrainError> {
        let file = self.path.join("run.toml");
        let text = std::fs::read_to_string(&file).map_err(|e| StoreError::io(&file, "read", e))?;
        let old = format!("\nframes = {}\n", plan.frames);
        if !text.contains(&old) {
            return Err(TrainError::Data(format!("{} does not say how long the run is", file.display())));
        }
        let text = text.replacen(&old, &format!("\nframes = {frames}\n"), 1);
        write_atomically(&file, |out| out.write_all(text.as_bytes()))?;
        plan.frames = frames;
        Ok(())
    }

    /// Rewrites `state.toml`.
    pub fn write_state(&self, status: Status, seconds: f64, agents: &[AgentState]) -> Result<(), TrainError> {
        let mut text = format!("status = \"{}\"\nseconds = {seconds:.1}\n", status.name());
        for agent in agents {
            let state = match (&agent.stopped, agent.finished) {
                (Some(_), _) => "stopped",
                (None, true) => "finished",
                (None, false) => "running",
            };
            let reason = quote(agent.stopped.as_deref().unwrap_or(""));
            let (id, frames) = (quote(&agent.id), agent.frames);
            writeln!(
                text,
                "\n[[agents]]\nid = {id}\nframes = {frames}\nstatus = \"{state}\"\nreason = {reason}"
            )
            .expect("writing to a string");
        }
        Ok(write_atomically(&self.path.join("state.toml"), |out| out.write_all(text.as_bytes()))?)
    }

    /// Wall-clock seconds of earlier sittings.
    pub fn seconds(&self) -> f64 {
        let text = std::fs::read_to_string(self.path.join("state.toml")).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        table.get("seconds").and_then(toml::Value::as_float).unwrap_or(0.0)
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
}
