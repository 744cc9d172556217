//! The parts of run directories that a report uses.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

mod cut;
mod evaluations;
mod legacy;
mod metrics;
mod read;

pub(crate) use cut::cut;
pub use evaluations::Evaluation;
pub use metrics::Metrics;
pub use read::read_runs;

/// Everything in one run directory that a report uses.
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
    /// The commit that it was built from, if the run says so.
    pub commit: String,
    /// Name of the protocol (settings shared by all agents).
    pub protocol: String,
    /// What a reader of its figures should know, from the run's configuration; may be empty.
    pub note: String,
    /// The command line.
    pub command: String,
    /// The task's settings, and all other settings of the whole run that affect its result.
    pub options: BTreeMap<String, String>,
    /// Emulator frames per agent step.
    pub frames_per_step: u64,
    /// The machine.
    pub hardware: Hardware,
    /// Status of the whole run.
    pub status: RunStatus,
    /// Wall-clock seconds of training so far.
    pub seconds: f64,
    /// Probability of a random action in frozen games, if the run says so.
    pub eval_epsilon: Option<f64>,
    /// The population.
    pub agents: Vec<AgentRun>,
}

impl Run {
    /// The version, with the commit if it is known.
    pub(crate) fn code(&self) -> String {
        match (self.version.as_str(), self.commit.as_str()) {
            (version, "") => version.to_owned(),
            (version, commit) => format!("{version} (commit {commit})"),
        }
    }
}

/// The machine that trained a run.
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

/// Status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// In progress, or killed without notice.
    Running,
    /// Stopped by its user with a checkpoint.
    Interrupted,
    /// Every agent has finished or was stopped.
    Finished,
}

/// Status of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// Not done yet.
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
    /// Whether it learns the values of the task's own rewards. If it learns those of clipped rewards, its TD errors cannot be
    /// compared with other agents'.
    pub sees_true_rewards: bool,
    /// Its seed.
    pub seed: u64,
    /// Every setting, nested tables flattened to dotted keys.
    pub settings: BTreeMap<String, String>,
    /// Its status.
    pub status: AgentStatus,
    /// Why it was stopped, if it was.
    pub reason: String,
    /// Emulator frames it has trained for.
    pub frames: u64,
    /// Finished training episodes, in order.
    pub episodes: Vec<Episode>,
    /// Frozen games beside training, in order; empty where none were played.
    pub evaluations: Vec<Evaluation>,
    /// TD error by the player's score; empty where the task has none.
    pub td_errors: Vec<TdError>,
    /// Rewards beyond the codec's capacity, which saturated.
    pub saturated: u64,
    /// The codec's own statistics over time.
    pub metrics: Metrics,
    /// Mean wall-clock seconds of the whole population per frame of this agent; `None` if no time was recorded.
    pub seconds_per_frame: Option<f64>,
    /// A recording of its play, `clips/<id>.gif`, if there is one.
    pub clip: Option<PathBuf>,
}

/// One finished training episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// The agent's frame count when the episode ended.
    pub frame: u64,
    /// Sum of scores.
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
    /// States with this score that were sampled so far; `None` in files that an older version began.
    pub samples: Option<u64>,
}
