//! Every option of the command, defined once.

mod cluster;

pub use cluster::{ClusterArgs, JobAction, JobArgs, JobsArgs, Scheduler};

use crate::failure::exit_codes;
use clap::{Args, Parser, Subcommand};
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

const EXAMPLES: &str = "\
Examples:
  spectral demo                                    the tour: two tasks, five agents, a report
  spectral train --task 2048 --agents spectral,clipped --seeds 5 --frames 500000
  spectral train --task 2048 --live                the same, and a page to see it learn
  spectral status runs                             what each run is doing, or how it ended
  spectral watch runs/2048                         see a run: its curves, and its agents at play
  spectral report runs/2048                        figures and a table from a run's folder
  spectral reproduce                               the paper's figures, and what each of them needs
  spectral reproduce mini-fig3                     one of them in small: minutes on two cores
  spectral sweep --task pong-mini --vary learning_rate=1e-4,4e-4 --seeds 5
  spectral decompose 6.5                           the paper's figure 2, for any number";

/// Examples with the table of exit codes, which all commands share.
fn with_exit_codes(examples: &str) -> String {
    format!("{examples}\n\n{}", exit_codes())
}

const TRAIN: &str = "\
Examples:
  spectral train --task 2048                     one agent, one seed, as many frames as it takes
  spectral train --task 2048 --agents spectral,clipped --seeds 5 --frames 1M
  spectral train --task pong-mini --set learning_rate=1e-4 --set agent.clipped.batch=64
  spectral train --task pong-mini --config mine.toml --dry-run
  spectral train --task pong-mini --json         its events as lines of JSON

Ctrl-C saves a checkpoint; `spectral resume RUN` goes on to the same bits.";

const STATUS: &str = "\
Examples:
  spectral status runs/2048                      each agent: frames, score, rate, time left
  spectral status runs                           one line for each run inside
  watch -n 10 spectral status runs               again and again

Nothing but the files of a run is read, so it may be at work, on another machine
too, and its task need not be known here.";

const WATCH: &str = "\
Examples:
  spectral watch runs/2048                       a page; the command prints its address
  spectral watch runs/2048 --agent clipped-s2    another agent plays
  spectral watch runs/2048 --terminal            in the terminal, for example over ssh

The run may be finished, interrupted or at work. One that is at work is played by
the model of its last checkpoint; `spectral train --live` shows the agents
themselves. A page on another machine: ssh -L 8123:127.0.0.1:8123 that-machine,
and there `spectral watch RUN --port 8123`. Ctrl-C ends it.";

const REPORT: &str = "\
Examples:
  spectral report runs/2048                      one run directory
  spectral report runs --at-frames 1000000       all, at their millionth frame
  spectral report mine theirs --experiment fig3  is it as the paper says?

One agent trained with two settings is two agents, named by what differs:
spectral-learning_rate-1e-4 and spectral-learning_rate-4e-4.
With --experiment the report says where the runs are not what the experiment
asks for. `spectral reproduce FIGURE --report-only` draws only those that are.";

const REPRODUCE: &str = "\
Examples:
  spectral reproduce                         list the figures and what they need
  spectral reproduce mini-fig3               figure 3 in small: minutes on two cores
  spectral reproduce fig3 --dry-run          what the real one costs here
  spectral reproduce fig3 --frames 40000000  a fifth of it (the report says so)
  spectral reproduce fig3 --tasks ponglantis one of its tasks
  spectral reproduce fig3                    later: on from there to the end
  spectral reproduce fig4                    shares fig3's runs: only draws
  spectral reproduce mine.toml               an experiment of your own
  spectral reproduce fig5 --on slurm --device cuda --agents-per-job 20
                                             on a cluster: docs/CLUSTER.md

Whatever stops it (Ctrl-C, a crash, a power cut), the same command goes on from
the last checkpoint. Runs lie in OUT/runs, one copy for all figures; the report
is OUT/FIGURE/report.html. Run directories of other machines that are put into
OUT/runs count as if they had been made here.";

const JOBS: &str = "\
Examples:
  spectral reproduce fig5 --on slurm --device cuda --agents-per-job 20 --time 8:00:00
  spectral jobs reproduce/jobs/fig5-1a2b3c4d          how far they are
  spectral jobs reproduce/jobs/fig5-1a2b3c4d --retry  submit again what failed

What a job has trained is in its run directory; a job that was killed, preempted
or cut off goes on from the last checkpoint when it is started again. Exit code 7
says that a job was given up.";

const SWEEP: &str = "\
Examples:
  spectral sweep --task pong-mini --vary learning_rate=1e-4,2e-4,4e-4 --seeds 5
  spectral sweep --task 2048 --agents spectral,popart --vary batch=32,64 --vary n_step=1,3
  spectral sweep --task 2048 --agents spectral,popart --vary agent.popart.learning_rate=1e-4,1e-3
  spectral sweep --task pong-mini --vary 'hidden=64,64;128,128'   values with commas
  spectral sweep … --dry-run                    variants, runs, memory, disk and time

Every combination of the values is an agent of its own, such as
spectral-learning_rate-2e-4. Whatever stops it (Ctrl-C, a crash, a power cut),
the same command goes on from the last checkpoint; with more values or seeds it
trains only those that are missing. Runs lie in OUT/runs, the report is
OUT/report/report.html.

The best of many variants, chosen by the seeds it was trained with, looks better
than it is: train it again with other seeds (--seeds 1001..1005) before you
compare it with anything.";

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
    /// Say how far the jobs of a plan are that a cluster works on
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
    /// The folder for the report [default: `report` inside the first of them]
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
    /// Seconds of trial training from which the expected time is reckoned; 0 does without
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
    /// Seconds of trial training from which the expected time is reckoned; 0 does without
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
