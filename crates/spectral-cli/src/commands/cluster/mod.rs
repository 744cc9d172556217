//! Work that is handed to a cluster: planned here, trained there.

mod outline;
mod ray_driver;
mod run;
mod table;

pub use run::run as run_job;
use spectral_core::shell::quote_path;
pub use table::jobs;

use super::experiment::Making;
use super::{reproduce, sweep};
use crate::args::{ClusterArgs, JobAction, JobArgs, Scheduler, TableArgs};
use crate::failure::{Failure, SUCCESS, USAGE};
use crate::output::{note, print};
use crate::table::plural;
use crate::typed::{command_line, program};
use outline::Outline;
use spectral_cluster::slurm::{self, Options};
use spectral_cluster::{Environment, JobPlan, Kind, NewPlan, Resources, ray};
use spectral_train::claim::RunLock;
use spectral_train::devices::{Gpu, Place};
use spectral_train::error::TrainError;
use spectral_train::experiment::{Experiment, Job, Limits, RunIndex};
use spectral_train::machine::human_bytes;
use spectral_train::registry::Registry;
use spectral_train::store::StoreError;
use std::path::{Path, PathBuf};

/// Memory of a process that no plan counts: the program, its threads, a checkpoint that is being written.
const OVERHEAD: u64 = 2 << 30;
/// What a device's driver and its run-time compiler take beside that: generously, because a job that takes more is killed.
const DEVICE_OVERHEAD: u64 = 6 << 30;

/// Plans the jobs of an experiment, writes them down and submits them.
pub fn submit(
    kind: Kind,
    experiment: &Experiment,
    making: &Making<'_>,
    on: Scheduler,
    args: &ClusterArgs,
    registry: &Registry,
) -> Result<u8, Failure> {
    if making.live.live.is_some() {
        return Err(Failure::usage(
            "--live shows what trains here; see the runs of a cluster with `spectral watch`",
        ));
    }
    if on == Scheduler::Ray {
        refuse_what_is_slurms(args)?;
    }
    let options = Options {
        partition: args.partition.clone(),
        time: args.time.clone(),
        notice: args.notice,
        more: args.sbatch.clone(),
        environment: Environment::of_this_process()?,
    };
    options.check()?;
    let gpu = Gpu {
        number: 0,
        name: format!("a GPU of {}", human_bytes(args.gpu_memory)),
        free_bytes: args.gpu_memory,
    };
    let limits = Limits {
        memory: None,
        agents: args.agents_per_job.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        place: Place::Elsewhere { gpu: Some(gpu) },
    };
    let index = RunIndex::scan(&making.runs(), registry)?;
    let jobs = index.jobs(experiment, registry, &limits)?;
    let resources = resources(&jobs, args);
    let command = command_line();
    let new = NewPlan { kind, experiment, jobs: &jobs, out: making.out, command: &command, resources };
    new.check()?;
    let outline = Outline::of(experiment, &jobs, resources, args.gpu_memory, &options);
    if making.dry_run {
        print(&if making.table.json { outline.json() } else { outline.text() })?;
        return Ok(SUCCESS);
    }
    if jobs.is_empty() {
        note!("{}: everything is there; the same command without --on draws the report", experiment.name);
        return Ok(SUCCESS);
    }
    note!("{}", outline.text());
    let alone = alone(making.out)?;
    new.refuse_what_is_under_way(registry)?;
    let plan = new.write(registry)?;
    let words = slurm::program(&started_as());
    let all: Vec<usize> = plan.jobs.iter().map(|job| job.index).collect();
    match on {
        Scheduler::Slurm => {
            slurm::write_scripts(&plan, &words, &options)?;
            if args.no_submit {
                written(&plan, &format!("sbatch --array={} job.sbatch", slurm::ranges(&all)));
                note!(
                    "submit report.sbatch too, after the array: `sbatch --dependency=afterany:ARRAY report.sbatch`\n\
                     `{0} jobs {1}` does not see in the queue what is submitted by hand; `{0} jobs {1} --retry` submits both, and sees it",
                    program(),
                    quote_path(plan.folder())
                );
                return Ok(SUCCESS);
            }
            submit_to_slurm(&plan, &all)
        }
        Scheduler::Ray => {
            let driver = ray::write_driver(&plan, &words, &options.environment)?;
            drop(alone);
            if args.no_submit {
                written(&plan, "python3 ray_driver.py");
                return Ok(SUCCESS);
            }
            ray_driver::drive(&plan, &driver, &words)
        }
    }
}

/// Lets one command at a time plan and submit what trains in this folder, so that nothing is submitted twice and no number of what
/// was submitted is lost.
fn alone(out: &Path) -> Result<RunLock, Failure> {
    let folder = out.join(".submission");
    std::fs::create_dir_all(&folder).map_err(|e| TrainError::from(StoreError::io(&folder, "create", e)))?;
    Ok(RunLock::take(&folder).map_err(|error| match error {
        TrainError::Busy(why) => TrainError::Busy(format!("something is being submitted already: {why}")),
        other => other,
    })?)
}

/// What each job gets: as much as the largest needs, so that all can be one array.
fn resources(jobs: &[Job], args: &ClusterArgs) -> Resources {
    let on_gpu = |job: &Job| job.run.memory.device.is_some();
    let gpus = usize::from(jobs.iter().any(on_gpu));
    let agents = jobs.iter().map(|job| job.run.plan.agents.len()).max().unwrap_or(1);
    let usual = if gpus > 0 { 16 } else { agents.min(16) };
    let needed = jobs.iter().map(|job| job.run.memory.needed).max().unwrap_or(0);
    Resources {
        cpus: args.cpus_per_job.map_or(usual, |n| usize::try_from(n).unwrap_or(usize::MAX)),
        gpus,
        // A fifth beside it, for what allocators and file caches take.
        memory: needed + needed / 5 + OVERHEAD + if gpus > 0 { DEVICE_OVERHEAD } else { 0 },
    }
}

/// Says where a plan lies that is not submitted.
fn written(plan: &JobPlan, command: &str) {
    let folder = plan.folder().display();
    note!("written to {folder}, and not submitted: there, `{command}` does it");
}

/// Refuses options that mean nothing to Ray, which would be ignored.
fn refuse_what_is_slurms(args: &ClusterArgs) -> Result<(), Failure> {
    let given = [
        ("--time", args.time.is_some()),
        ("--notice", args.notice.is_some()),
        ("--partition", args.partition.is_some()),
        ("--sbatch", !args.sbatch.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            Err(Failure::usage(format!("{name} is for Slurm (--on slurm): Ray has nothing of the kind")))
        }
        None => Ok(()),
    }
}

fn submit_to_slurm(plan: &JobPlan, jobs: &[usize]) -> Result<u8, Failure> {
    let submission = slurm::submit(plan, jobs).map_err(|error| {
        let Failure { text, exit_code } = Failure::from(error);
        // An answer that nobody understands may have been a yes.
        let none = exit_code == USAGE && slurm::submissions(plan).is_ok_and(|all| all.is_empty());
        let hint = "\nnothing is submitted; the plan is kept, and the same command with other options writes its scripts anew";
        Failure { text: if none { text + hint } else { text }, exit_code }
    })?;
    note!(
        "submitted: array {} ({}), and job {} for the report when they have ended",
        submission.array,
        plural(jobs.len(), "job"),
        submission.report
    );
    note!("`{} jobs {}` says how far they are", program(), quote_path(plan.folder()));
    Ok(SUCCESS)
}

/// What this process was started as.
fn started_as() -> PathBuf {
    std::env::args_os().next().map(PathBuf::from).unwrap_or_default()
}

/// `spectral job`: what scripts of a plan call.
pub fn job(args: &JobArgs, registry: &Registry) -> Result<u8, Failure> {
    match &args.action {
        JobAction::Run { plan, index } => run_job(plan, *index, registry),
        JobAction::Report { plan, table } => report(&JobPlan::open(plan)?, table, registry),
    }
}

/// Writes the report of a plan.
fn report(plan: &JobPlan, table: &TableArgs, registry: &Registry) -> Result<u8, Failure> {
    let experiment = plan.experiment(registry)?;
    let making = Making::for_report(plan.kind.name(), &plan.out, table);
    match plan.kind {
        Kind::Train | Kind::Reproduce => reproduce::report(&making, &experiment, registry),
        Kind::Sweep => sweep::report_frozen(&making, experiment, registry),
    }
}
