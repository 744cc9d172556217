//! Options of work that is handed to a cluster.

use super::TableArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

spectral_core::choices! {
    /// Who runs the jobs of a plan.
    Scheduler {
        /// sbatch, squeue and scontrol.
        Slurm = "slurm",
        /// A Ray cluster, through a driver in Python.
        Ray = "ray",
    }
}

/// Where the work is done, if not here.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "On a cluster")]
pub struct ClusterArgs {
    /// Hand the work to a cluster, one population a job: slurm or ray. The plan is for the device of --device, which need not
    /// be on this machine
    #[arg(long, value_name = "SCHEDULER", value_parser = super::choice::<Scheduler>)]
    pub on: Option<Scheduler>,
    /// Agents of one job at most: agents times seeds [default: as many as there are]
    #[arg(long, value_name = "N", requires = "on", value_parser = super::at_least_one)]
    pub agents_per_job: Option<u64>,
    /// Cores of one job [default: 16 beside a GPU, else one an agent, 16 at most]
    #[arg(long, value_name = "N", requires = "on", value_parser = super::at_least_one)]
    pub cpus_per_job: Option<u64>,
    /// Memory of the GPU that a job gets: what does not fit there is planned for main memory
    #[arg(long, value_name = "SIZE", requires = "on", value_parser = size, default_value = "80G")]
    pub gpu_memory: u64,
    /// Slurm's time limit of one attempt; at its end a job saves and is queued again [default: the partition's]
    #[arg(long, value_name = "TIME", requires = "on")]
    pub time: Option<String>,
    /// Seconds before the time limit at which a job saves and is queued again [default: 120]
    #[arg(long, value_name = "SECONDS", requires = "on")]
    pub notice: Option<u64>,
    /// Slurm's partition
    #[arg(long, value_name = "NAME", requires = "on")]
    pub partition: Option<String>,
    /// A further option of sbatch, such as --sbatch=--account=me; may be given several times, and wins over what the plan asks for
    #[arg(long, value_name = "OPTION", requires = "on", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// Write the plan and its scripts, and submit nothing
    #[arg(long, requires = "on")]
    pub no_submit: bool,
}

/// Bytes as people write them.
fn size(text: &str) -> Result<u64, String> {
    let expected = || "expected a size, such as 80G or 40000M".to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(expected()),
    };
    let number: f64 = digits.parse().map_err(|_| expected())?;
    let bytes = number * f64::from(1u32 << (shift - 20)) * f64::from(1u32 << 20);
    if (1.0..1e15).contains(&bytes) { Ok(bytes as u64) } else { Err(expected()) }
}

#[derive(Debug, Args)]
pub struct JobArgs {
    #[command(subcommand)]
    pub action: JobAction,
}

/// What the scripts of a plan call.
#[derive(Debug, Subcommand)]
pub enum JobAction {
    /// Train one population of a plan, from its last checkpoint if it has one
    Run {
        /// The plan's folder
        plan: PathBuf,
        /// The job's number
        index: usize,
    },
    /// Write the report of a plan from what is there
    Report {
        /// The plan's folder
        plan: PathBuf,
        #[command(flatten)]
        table: TableArgs,
    },
}

#[derive(Debug, Args)]
pub struct JobsArgs {
    /// The plan's folder
    pub plan: PathBuf,
    /// Submit those again that are not finished and that no queue has, also those that were given up
    #[arg(long)]
    pub retry: bool,
    #[command(flatten)]
    pub table: TableArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_have_a_unit() {
        assert_eq!(size("80G"), Ok(80 << 30));
        assert_eq!(size("1.5gib"), Ok(3 << 29));
        assert_eq!(size("40000M"), Ok(40_000 << 20));
        for wrong in ["80", "", "G", "-1G", "1e99G", "8X", "NaNG", "infG", "0.0000001M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
