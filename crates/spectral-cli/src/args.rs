//! Every option of the command, defined once.

mod cluster;
mod examples;

pub use cluster::{ClusterArgs, JobAction, JobArgs, JobsArgs, Scheduler};

use clap::{Args, Parser, Subcommand};
use examples::{EXAMPLES, JOBS, REPORT, REPRODUCE, STATUS, SWEEP, TRAIN, WATCH, with_exit_codes};
use spectral_core::settings::{Setting, parse_count};
use spectral_train::kept_model::{Arithmetic, ModelChoice};
use std::path::PathBuf;

/// Reinforcement learning where rewards grow: Spectral DQN and its rivals on equal terms.
#[derive(Debug, Parser)]
#[command(name = "spectral", version, arg_required_else_help = true, after_help = with_exit_codes(EXAMPLES))]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// A number of frames as people write it.
fn frames(text: &str) -> Result<u64, String> {
    parse_count(text).ok_or_else(|| "expected a whole number, such as 500000, 1e6, 1M or 200k".into())
}

/// One of several words.
fn choice<T: Setting>(text: &str) -> Result<T, String> {
    T::parse(text).map_err(|expected| format!("expected {expected}"))
}

/// The same as [`frames`], and not none.
fn at_least_one(text: &str) -> Result<u64, String> {
    match frames(text)? {
        0 => Err("expected at least 1".into()),
        frames => Ok(frames),
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train five agents on two tasks whose rewards explode, and report (two to four minutes on two cores)
    Demo(DemoArgs),
    /// Train agents on a task
    #[command(after_help = TRAIN)]
    Train(TrainArgs),
    /// Go on with a run that was interrupted or killed, or past its planned end
    Resume(ResumeArgs),
    /// Say what a run is doing or how it ended; of several runs, a line each
    #[command(after_help = STATUS)]
    Status(StatusArgs),
    /// Play with the models of a run, without learning
    Eval(EvalArgs),
    /// Watch a task being played, at random or by a trained agent: in the terminal, as a GIF or as PNG files
    Play(PlayArgs),
    /// See a run on a page of this machine: its curves, and an agent of it that plays, with what it expects of each action
    #[command(after_help = WATCH)]
    Watch(WatchArgs),
    /// Write figures, tables and an HTML report from run directories
    #[command(after_help = REPORT)]
    Report(ReportArgs),
    /// Make a figure of the paper with our data: plan, train what is missing, report
    #[command(after_help = REPRODUCE)]
    Reproduce(ReproduceArgs),
    /// Train every combination of some settings of agents, and say which does best
    #[command(after_help = SWEEP)]
    Sweep(SweepArgs),
    /// Show the progress of a plan's jobs on a cluster
    #[command(after_help = JOBS)]
    Jobs(JobsArgs),
    /// Do one job of a plan, or write its report: what the scripts for a cluster call
    Job(JobArgs),
    /// List the tasks
    Tasks(TableArgs),
    /// List the agents, or every setting
    Agents(AgentsArgs),
    #[cfg(feature = "atari")]
    /// Install or list the ROMs that Atari tasks need
    Roms(RomsArgs),
    /// Decompose numbers into frequencies, as in the paper's figure 2
    Decompose(DecomposeArgs),
    /// Say what this machine offers and what would be used
    Doctor(TableArgs),
    /// Print a completion script for your shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub struct TableArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Seeds: a count (3), an inclusive range (1000..1009) or a list (3,7,9)
    #[arg(long, default_value = "3")]
    pub seeds: String,
    /// The folder for runs and report
    #[arg(long, default_value = "demo")]
    pub out: PathBuf,
    /// Frames per agent, instead of the demo's own
    #[arg(long, value_parser = frames)]
    pub frames: Option<u64>,
    /// Set any setting of both halves: key=value, or agent.NAME.key=value
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub table: TableArgs,
}

/// What is chosen about an Atari game.
#[derive(Debug, Args)]
pub struct GameArgs {
    /// The mode of an Atari game, by its number [default: the game's own]
    #[arg(long, value_name = "NUMBER")]
    pub mode: Option<String>,
    /// The difficulty of an Atari game, by its number [default: the game's own]
    #[arg(long, value_name = "NUMBER")]
    pub difficulty: Option<String>,
}

impl GameArgs {
    /// Each as a setting.
    pub fn settings(&self) -> [(&'static str, &Option<String>); 2] {
        [("mode", &self.mode), ("difficulty", &self.difficulty)]
    }
}

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The task (`spectral tasks` lists them)
    #[arg(long)]
    pub task: Option<String>,
    #[command(flatten)]
    pub game: GameArgs,
    /// Agents, separated by commas (`spectral agents` lists them; a path of a TOML file is an agent too)
    #[arg(long)]
    pub agents: Option<String>,
    /// Seeds: a count (5), an inclusive range (1000..1009) or a list (3,7,9)
    #[arg(long)]
    pub seeds: Option<String>,
    /// Emulator frames per agent, such as 500000 or 1M [default: as many as the task's protocol takes to learn]
    #[arg(long, value_parser = frames)]
    pub frames: Option<u64>,
    /// Where to train: auto, cpu, cuda or cuda:N (`spectral doctor` says what there is)
    #[arg(long)]
    pub device: Option<String>,
    /// Set any setting: key=value, or agent.NAME.key=value for one agent; of several for one key the last counts (`spectral agents
    /// --settings` lists them)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A TOML file of settings; flags and --set win over it (but what is set for one agent, wherever, wins over what is set for all)
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// The folder for the run [default: runs/TASK]; with --on, the folder for all runs of the plan [default: cluster]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print the plan and the memory it needs, and stop
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub table: EventsArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Whether a program reads what happens.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Print what happens as lines of JSON: episodes, metrics, progress, checkpoints, the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Run directories, or folders that hold them
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    #[command(flatten)]
    pub table: TableArgs,
}

/// Whether a run has a live page.
#[derive(Debug, Args)]
pub struct LiveArgs {
    /// Serve a page on this machine where you see the agents play and learn; on this port [default: one that is free]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub live: Option<u16>,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The run's folder
    pub run: PathBuf,
    /// The agent that plays first, such as spectral-s1 [default: the run's first]
    #[arg(long)]
    pub agent: Option<String>,
    /// Show it in the terminal, without a page
    #[arg(long)]
    pub terminal: bool,
    /// The page's port [default: one that is free]
    #[arg(long, default_value_t = 0, hide_default_value = true, conflicts_with = "terminal")]
    pub port: u16,
    /// Open the page in this machine's browser
    #[arg(long, conflicts_with = "terminal")]
    pub open: bool,
    /// Steps a second, 1 to 240 (15 is the speed of a real Atari)
    #[arg(long, default_value_t = 15.0)]
    pub speed: f64,
    /// Probability of a random action
    #[arg(long, default_value_t = 0.001)]
    pub epsilon: f64,
    /// The seed of task and random actions
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Steps after which a terminal ends [default: none]
    #[arg(long, requires = "terminal")]
    pub steps: Option<u64>,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The run's folder
    pub run: PathBuf,
    /// Go on to this many frames per agent instead of the planned end
    #[arg(long, value_parser = frames)]
    pub frames: Option<u64>,
    /// Resume from this checkpoint instead of the newest
    #[arg(long)]
    pub checkpoint: Option<PathBuf>,
    /// Leave out the checkpoint's replay, which then fills anew before learning goes on: for a task that does not repeat itself
    #[arg(long)]
    pub without_replay: bool,
    /// Threads; 0 uses every core
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Go on elsewhere: auto, cpu, cuda or cuda:N [default: as the run was started]
    #[arg(long)]
    pub device: Option<String>,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub table: EventsArgs,
}

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The run's folder
    pub run: PathBuf,
    /// Episodes per agent
    #[arg(long, default_value_t = 20)]
    pub episodes: u64,
    /// Probability of a random action
    #[arg(long, default_value_t = 0.001)]
    pub epsilon: f64,
    /// Which model plays: last (of the newest checkpoint, if the run has not ended), best (in the run's evaluations) or average (the
    /// mean of the weights, if the run keeps one)
    #[arg(long, default_value = "last", value_parser = choice::<ModelChoice>)]
    pub model: ModelChoice,
    /// fp32, or training: with factors rounded to bf16 if a GPU trained the run so
    #[arg(long, default_value = "fp32", value_parser = choice::<Arithmetic>)]
    pub arithmetic: Arithmetic,
    #[command(flatten)]
    pub table: TableArgs,
}

#[derive(Debug, Args)]
pub struct PlayArgs {
    /// The task, played at random (`spectral tasks` lists them)
    #[arg(long, conflicts_with = "run")]
    pub task: Option<String>,
    #[command(flatten)]
    pub game: GameArgs,
    /// A run's folder: its task, played by a model of one of its agents
    #[arg(long)]
    pub run: Option<PathBuf>,
    /// Which model plays: last (of the newest checkpoint, if the run has not ended), best or average [default: last]
    #[arg(long, value_parser = choice::<ModelChoice>)]
    pub model: Option<ModelChoice>,
    /// fp32, or training: with factors rounded to bf16 if a GPU trained the run so
    #[arg(long, default_value = "fp32", value_parser = choice::<Arithmetic>)]
    pub arithmetic: Arithmetic,
    /// The agent's id, such as spectral-s1; a run with a single agent needs none
    #[arg(long)]
    pub agent: Option<String>,
    /// Where to write: a name that ends in .gif, or a new folder for PNG files
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Episodes
    #[arg(long, default_value_t = 1)]
    pub episodes: u64,
    /// Steps, of all episodes together, after which it ends in any case
    #[arg(long, default_value_t = 2000)]
    pub steps: u64,
    /// Probability of a random action of a trained agent [default: 0.001]
    #[arg(long)]
    pub epsilon: Option<f64>,
    /// The seed of task and random actions
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Pictures a second, 1 to 50 (a picture is a step: 15 is the speed of a real Atari)
    #[arg(long, default_value_t = 15)]
    pub fps: u32,
    /// Show it in the terminal with --out too, or where standard output is no terminal
    #[arg(long)]
    pub terminal: bool,
    /// Set a setting of the task: observation=…, reward_scale=…, atari_protocol=…, mode=…, difficulty=…
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "run")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub table: TableArgs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run directories, or folders that hold them
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// The folder for the report [default: `report` inside the first of them; with --at-frames N, `report-at-N`]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// The report's title [default: the experiment's, or "Training report"]
    #[arg(long)]
    pub title: Option<String>,
    /// Judge the claims of an experiment on these runs and take title and notes from it: a figure (fig3, mini-fig3 …) or
    /// an experiment's TOML file
    #[arg(long, value_name = "FIGURE_OR_FILE")]
    pub experiment: Option<String>,
    /// Read every run up to this emulator frame only: curves end there and final scores are taken there, so that runs of
    /// unlike lengths, or still at work, can be compared
    #[arg(long, value_name = "FRAMES", value_parser = at_least_one)]
    pub at_frames: Option<u64>,
    /// The agent that the others are compared with [default: spectral if it is there, else the best]
    #[arg(long)]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub table: TableArgs,
}

#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// The figure or table (fig3, mini-fig3, table1 …), or an experiment's TOML file; without it, all are listed
    pub figure: Option<String>,
    /// Emulator frames per agent, instead of the figure's own
    #[arg(long, value_parser = frames)]
    pub frames: Option<u64>,
    /// Seeds, instead of five: a count (3), an inclusive range (1000..1009) or a list (3,7,9)
    #[arg(long)]
    pub seeds: Option<String>,
    /// Agents, separated by commas, instead of the figure's own
    #[arg(long)]
    pub agents: Option<String>,
    /// Only these of the figure's tasks, separated by commas
    #[arg(long)]
    pub tasks: Option<String>,
    /// Set any setting of all its runs: key=value, or agent.NAME.key=value for one agent
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where to train: auto, cpu, cuda or cuda:N
    #[arg(long)]
    pub device: Option<String>,
    /// The folder for runs and reports
    #[arg(long, default_value = "reproduce")]
    pub out: PathBuf,
    /// Print the plan and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Train nothing: draw what there is
    #[arg(long, conflicts_with = "dry_run")]
    pub report_only: bool,
    /// At most so many seconds of trial training from which the expected time is estimated; 0 skips the trial
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub calibrate: f64,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub table: TableArgs,
}

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The task (`spectral tasks` lists them)
    #[arg(long)]
    pub task: Option<String>,
    #[command(flatten)]
    pub game: GameArgs,
    /// Agents, separated by commas (`spectral agents` lists them; a path of a TOML file is an agent too)
    #[arg(long)]
    pub agents: Option<String>,
    /// A setting of agents and its values: key=value,value or agent.NAME.key=value,value for one agent; a semicolon
    /// separates values that hold commas. Given more than once, every combination is trained (`spectral agents --settings`
    /// lists the settings)
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    pub vary: Vec<String>,
    /// Seeds of each variant: a count (5), an inclusive range (1000..1009) or a list (3,7,9)
    #[arg(long)]
    pub seeds: Option<String>,
    /// Emulator frames per variant and seed
    #[arg(long, value_parser = frames)]
    pub frames: Option<u64>,
    /// Where to train: auto, cpu, cuda or cuda:N (`spectral doctor` says what there is)
    #[arg(long)]
    pub device: Option<String>,
    /// Set any setting of all variants: key=value, or agent.NAME.key=value for those of one agent
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A TOML file of settings; flags, --set and --vary win over it
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// The folder for runs and report [default: sweeps/TASK]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print the plan and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Train nothing: report what there is
    #[arg(long, conflicts_with = "dry_run")]
    pub report_only: bool,
    /// At most so many seconds of trial training from which the expected time is estimated; 0 skips the trial
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub calibrate: f64,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub table: TableArgs,
}

#[cfg(feature = "atari")]
#[derive(Debug, Args)]
pub struct RomsArgs {
    #[command(subcommand)]
    pub action: RomsAction,
}

#[cfg(feature = "atari")]
#[derive(Debug, Subcommand)]
pub enum RomsAction {
    /// Get the ROMs: through your own pip from the ale-py package, or from files that you have
    Install {
        /// A wheel, a zip archive, a folder or a single ROM instead of pip
        #[arg(long)]
        from: Option<PathBuf>,
        #[command(flatten)]
        table: TableArgs,
    },
    /// Show which ROMs are there
    List(TableArgs),
}

#[derive(Debug, Args)]
pub struct AgentsArgs {
    /// List every setting with its default instead
    #[arg(long)]
    pub settings: bool,
    #[command(flatten)]
    pub table: TableArgs,
}

#[derive(Debug, Args)]
pub struct DecomposeArgs {
    /// The numbers
    #[arg(required = true, allow_negative_numbers = true)]
    pub numbers: Vec<f64>,
    /// Base of the decomposition
    #[arg(long, default_value_t = 2.0)]
    pub base: f64,
    /// Maximum frequency; by default as many as the number needs and one more
    #[arg(long)]
    pub max_frequency: Option<usize>,
    /// Binary digits instead of filled buckets
    #[arg(long)]
    pub binary: bool,
    #[command(flatten)]
    pub table: TableArgs,
}
