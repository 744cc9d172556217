//! Every option, defined once.

use clap::{Args, Parser, Subcommand};

/// Measure how fast this machine trains
#[derive(Debug, Parser)]
#[command(name = "spectral-bench", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub what: Option<Benchmark>,
    /// Seconds per measurement
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Benchmark {
    /// Updates, acting and training of populations on a GPU, next to what the hardware allows
    Gpu(GpuArgs),
}

#[derive(Debug, Args)]
pub struct GpuArgs {
    /// Numbers of agents, separated by commas; by default 1,5,20,64, and 20 with --end-to-end
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub populations: Vec<u16>,
    /// An agent to measure instead of spectral: a codec and settings, such as "spectral choice=steady double=true"; may be repeated
    #[arg(long = "agent", conflicts_with = "end_to_end")]
    pub agents: Vec<String>,
    /// Arithmetic of products: bf16, tf32, fp32 or all; by default all, and bf16 with --end-to-end
    #[arg(long, value_enum)]
    pub precision: Option<BenchPrecision>,
    /// Seconds per measurement; by default 1, and 10 with --end-to-end
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Train instead, with environments, on a built-in task and on an Atari game, through the same path as `spectral train`
    #[arg(long, conflicts_with = "spill")]
    pub end_to_end: bool,
    /// The tasks to train on, separated by commas
    #[arg(
        long, value_delimiter = ',', requires = "end_to_end",
        default_values_t = ["exponential-pong-mini".to_string(), "atari/pong".to_string()]
    )]
    pub tasks: Vec<String>,
    /// Groups in which the population trains, as the setting of that name; 0 leaves it to the trainer
    #[arg(long, requires = "end_to_end", default_value_t = 0)]
    pub groups: usize,
    /// Also with the observations of one agent in the host's memory
    #[arg(long)]
    pub spill: bool,
    /// Which GPU
    #[arg(long, default_value_t = 0)]
    pub gpu: usize,
    /// Print one line of JSON per measurement instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Arithmetic of products on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchPrecision {
    /// Factors of 8 bits
    Bf16,
    /// Factors of 11 bits
    Tf32,
    /// No rounding of factors
    Fp32,
    /// All three
    All,
}
