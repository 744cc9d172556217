//! What a report uses of run directories.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

mod cut;
mod metrics;
mod read;

pub(crate) use cut::cut;
pub use metrics::Metrics;
pub use read::read_runs;

/// Everything a report uses of one run directory.
#[derive(Clone, Debug)]
pub struct Run {
    /// The directory.
    pub path: PathBuf,
    /// Name of the task.
    pub task: String,
    /// Planned emulator frames per agent.
    pub frames: u64,
    /// When the run was created, as written.
    pub created: String,
    /// Version of spectral that made the run.
    pub version: String,
    /// Name of the protocol (settings shared by all agents).
    pub protocol: String,
    /// What a reader of its figures should know, as the run's configuration says it; may be empty.
    pub note: String,
    /// The command line.
    pub command: String,
    /// The task's options and whatever else `run.toml` says of the run as a whole and decides its result.
    pub options: BTreeMap<String, String>,
    /// Emulator frames that one step of an agent takes: 4 on Atari, 1 on the built-in tasks.
    pub frames_per_step: u64,
    /// The machine.
    pub hardware: Hardware,
    /// Where the run as a whole stands.
    pub status: RunStatus,
    /// Wall-clock seconds of training so far.
    pub seconds: f64,
    /// The population.
    pub agents: Vec<AgentRun>,
}

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// Processor name.
    pub cpu: String,
    /// Processor cores.
    pub cores: u64,
    /// Where the networks were trained: `cpu`, or a GPU's name.
    pub device: String,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// At work, or killed without notice.
    Running,
    /// Stopped by its user with a checkpoint.
    Interrupted,
    /// Every agent has finished or was stopped.
    Finished,
}

/// Where one agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// Has frames left.
    Running,
    /// Trained for all planned frames.
    Finished,
    /// Taken out of the population, for example because its values stopped being finite.
    Stopped,
}

/// One agent of a population: one name, one seed.
#[derive(Clone, Debug)]
pub struct AgentRun {
    /// Name of its folder.
    pub id: String,
    /// The name under which its curves are grouped.
    pub agent: String,
    /// Its value codec.
    pub codec: String,
    /// Its seed.
    pub seed: u64,
    /// Every setting, nested tables flattened to dotted keys.
    pub settings: BTreeMap<String, String>,
    /// Where it stands.
    pub status: AgentStatus,
    /// Why it was stopped, if it was.
    pub reason: String,
    /// Emulator frames it has trained for.
    pub frames: u64,
    /// Finished training episodes, in order.
    pub episodes: Vec<Episode>,
    /// TD error by the player's score; empty where the task has none.
    pub td_errors: Vec<TdError>,
    /// Rewards beyond the codec's capacity, which saturated.
    pub saturated: u64,
    /// The codec's own statistics over time.
    pub metrics: Metrics,
    /// Wall-clock seconds of the whole population for each of its frames, on average; `None` where none is recorded.
    pub seconds_per_frame: Option<f64>,
    /// A film of its play, `clips/<id>.gif`, if somebody made one.
    pub clip: Option<PathBuf>,
}

/// One finished training episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// The agent's frame count when the episode ended.
    pub frame: u64,
    /// Sum of the plain scores.
    pub score: f64,
}

/// Running means of the TD error at one of the player's scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TdError {
    /// Frames so far.
    pub frame: u64,
    /// The player's score in the sampled states.
    pub player_score: i64,
    /// Running mean of |prediction − target|; not finite when an agent diverged.
    pub abs_error: f64,
    /// Running mean of |target|.
    pub abs_target: f64,
}
