//! What `spectral reproduce` and `spectral sweep` share: to plan an experiment, to train what is missing of it, and to read
//! the runs that belong to it.

pub mod outline;

use super::train::{How, announce, interrupt, work};
use crate::args::{LiveArgs, TableArgs};
use crate::failure::{AGENT_STOPPED, Failure, INTERRUPTED, SUCCESS};
use crate::output::{note, print};
use crate::typed::command_line;
use outline::{Outline, sweep_trials};
use spectral_report::{Run, read_runs};
use spectral_train::config::RunSettings;
use spectral_train::experiment::{Experiment, Job, Limits, RunIndex, Work};
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::trainer::{Resumption, Trainer};
use std::path::{Path, PathBuf};

/// The longest trial that makes sense.
const LONGEST_TRIAL: f64 = 3600.0;

/// How an experiment is made.
pub struct Making<'a> {
    /// What people call it: figure, sweep.
    pub what: &'static str,
    /// The folder of its runs and reports.
    pub out: &'a Path,
    /// How large a population may be.
    pub limits: Limits,
    /// Seconds of trial training.
    pub calibrate: f64,
    /// Plan it only.
    pub dry_run: bool,
    pub live: &'a LiveArgs,
    pub table: &'a TableArgs,
    /// What to do where there is no run to report on.
    pub without_runs: &'static str,
}

/// Said where a report was asked for and nothing is trained.
pub const REPORT_ONLY: &str = "the same command without --report-only trains them";

/// How the making of an experiment ended, if nothing failed.
pub enum Made {
    /// Planned only, as was asked for.
    Planned,
    /// By Ctrl-C: the same command goes on.
    Interrupted,
    /// Everything is trained that can be.
    Trained {
        index: RunIndex,
        /// Whether some agent was stopped.
        stopped: bool,
    },
}

impl<'a> Making<'a> {
    /// One that only draws what there is.
    pub fn for_report(what: &'static str, out: &'a Path, table: &'a TableArgs) -> Self {
        const NOT_LIVE: &LiveArgs = &LiveArgs { live: None };
        Making {
            what,
            out,
            limits: Limits::default(),
            calibrate: 0.0,
            dry_run: false,
            live: NOT_LIVE,
            table,
            without_runs: "its jobs have begun none yet; `spectral jobs PLAN` says how far they are",
        }
    }

    /// Where the run directories lie.
    pub fn runs(&self) -> PathBuf {
        self.out.join("runs")
    }

    /// Refuses what no experiment can be made with.
    pub fn check(&self) -> Result<(), Failure> {
        if (0.0..=LONGEST_TRIAL).contains(&self.calibrate) {
            return Ok(());
        }
        Err(Failure::usage(format!("--calibrate must be from 0 to {LONGEST_TRIAL} seconds")))
    }

    /// Plans an experiment, and trains what is missing of it.
    pub fn make(&self, experiment: &Experiment, registry: &Registry) -> Result<Made, Failure> {
        sweep_trials(self.out);
        let folder = self.runs();
        let index = RunIndex::scan(&folder, registry)?;
        let missing = if self.dry_run { experiment.missing(registry) } else { Vec::new() };
        if let Some((_, why)) = missing.first() {
            // What the tasks need cannot be known, but everything else can.
            let tasks = missing.iter().map(|(task, _)| task.clone()).collect();
            let outline = Outline::without_tasks(experiment, &index, tasks);
            print(&if self.table.json { outline.json() } else { outline.text() })?;
            note!("\n{why}");
            return Ok(Made::Planned);
        }
        let jobs = index.jobs(experiment, registry, &self.limits)?;
        if self.dry_run || !jobs.is_empty() {
            let mut outline = Outline::of(experiment, &index, &jobs);
            outline.measure(&jobs, registry, self.out, self.calibrate)?;
            if interrupt().is_cancelled() {
                return Ok(self.interrupted());
            }
            if self.dry_run {
                print(&if self.table.json { outline.json() } else { outline.text() })?;
                return Ok(Made::Planned);
            }
            note!("{}\n", outline.text());
        }
        let mut stopped = false;
        let populations = jobs.len();
        for (number, job) in jobs.into_iter().enumerate() {
            if populations > 1 {
                note!("population {} of {populations}", number + 1);
            }
            match train(job, registry, self.live)? {
                INTERRUPTED => return Ok(self.interrupted()),
                code => stopped |= code == AGENT_STOPPED,
            }
        }
        Ok(Made::Trained { index: RunIndex::scan(&folder, registry)?, stopped })
    }

    fn interrupted(&self) -> Made {
        note!("`{}` once more goes on with the whole {} from here", command_line(), self.what);
        Made::Interrupted
    }

    /// The runs that belong to an experiment, without the agents and notes of other experiments.
    pub fn read(&self, experiment: &Experiment, index: &RunIndex) -> Result<Vec<Run>, Failure> {
        let used = index.used(experiment);
        if used.is_empty() {
            let name = match experiment.name == self.what {
                true => format!("this {}", self.what),
                false => experiment.name.clone(),
            };
            return Err(Failure::usage(format!(
                "{} holds no run of {name}: {}",
                self.runs().display(),
                self.without_runs
            )));
        }
        let paths: Vec<_> = used.keys().cloned().collect();
        let mut runs = read_runs(&paths)?;
        for run in &mut runs {
            // A population may hold agents that only other experiments ask for.
            let wanted = used.get(&run.path).map(Vec::as_slice).unwrap_or_default();
            run.agents.retain(|agent| wanted.contains(&agent.id));
            // Its note is that of the experiment for which it was trained; this one has its own.
            let holds = |plan: &&Plan| {
                plan.agents.iter().any(|agent| index.run_of(plan, agent) == Some(run.path.as_path()))
            };
            run.note =
                experiment.plans.iter().find(holds).map(|plan| plan.run.note.clone()).unwrap_or_default();
        }
        Ok(runs)
    }
}

/// The exit code of an experiment that was made and reported.
pub fn exit_code(stopped: bool) -> u8 {
    if stopped { AGENT_STOPPED } else { SUCCESS }
}

/// Trains one population to its end.
fn train(job: Job, registry: &Registry, live: &LiveArgs) -> Result<u8, Failure> {
    announce(&job.run)?;
    let RunSettings { threads, device, .. } = job.run.plan.run;
    let go_on = |frames| {
        let how = Resumption { frames, threads, device: Some(device), ..Resumption::default() };
        Trainer::resume(&job.path, registry, how)
    };
    let mut trainer = match job.work {
        Work::Begin => Trainer::create(&job.path, job.run, registry, &command_line())?,
        Work::Resume => go_on(None)?,
        Work::Extend(frames) => go_on(Some(frames))?,
    };
    work(&mut trainer, live, How::default())
}

/// Removes what a report that was killed left half-written.
pub fn remove_temporaries(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(".tmp") {
            // In nobody's way: not worth failing for.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
