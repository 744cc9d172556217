//! `spectral job run`: one attempt at one job of a plan. It may be made at any time, on any node, any number of times.

use crate::args::LiveArgs;
use crate::commands::train::{How, announce, interrupt, work};
use crate::failure::{Failure, GAVE_UP, INTERRUPTED, SUCCESS, USAGE};
use crate::output::note;
use crate::typed::program;
use spectral_cluster::slurm::{self, HandBack};
use spectral_cluster::{JobEntry, JobPlan, JobState, JobStatus, StatusWriter, attempt};
use spectral_train::error::TrainError;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use spectral_train::trainer::{Resumption, Trainer};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a job looks whether the run that it waits for is free.
const LOOK: Duration = Duration::from_secs(5);
/// How often it says that it waits.
const SAY: Duration = Duration::from_secs(60);

/// Brings a job's run to its end, or as far as this process is let.
pub fn run(folder: &Path, index: usize, registry: &Registry) -> Result<u8, Failure> {
    // From now on a signal is a wish to save and stop: while a run is loaded, too, it must not just end the process.
    let asked = interrupt();
    let plan = JobPlan::open(folder)?;
    let job = plan.job(index)?;
    let mut said: Option<Instant> = None;
    loop {
        match open(&plan, job, registry) {
            Ok(None) => {
                note!("job {index}: {} is finished", job.run.display());
                return Ok(SUCCESS);
            }
            Ok(Some(trainer)) => {
                if let Some(code) = attempt(&plan, job, trainer)? {
                    return Ok(code);
                }
            }
            // Somebody else works on it. When that one has ended, well or not, there is something to see.
            Err(TrainError::Busy(why)) => {
                if said.is_none_or(|last| last.elapsed() >= SAY) {
                    note!("job {index} waits: {why}");
                    said = Some(Instant::now());
                }
                let until = Instant::now() + LOOK;
                while Instant::now() < until {
                    if asked.is_cancelled() {
                        return Ok(hand_back());
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            Err(error) => {
                let frames = frames_on_disk(job, registry);
                let writer = StatusWriter::new(&plan, index, begin(&plan, job, frames)?);
                return failed(&writer, error.into(), frames);
            }
        }
    }
}

/// Threads of a job. Where nobody asked for a number, as many as the scheduler grants: not every cluster keeps a job to its cores,
/// Ray never does, and the others on the node are not to be disturbed. Without a scheduler, 0: every core.
fn threads(asked: usize, planned: usize, variable: impl Fn(&str) -> Option<String>) -> usize {
    if asked > 0 {
        return asked;
    }
    // What Slurm gave, which an option of sbatch may have made more or less than was planned.
    let granted = variable("SLURM_CPUS_PER_TASK").and_then(|cpus| cpus.parse().ok());
    let granted = granted.or(variable("SPECTRAL_RAY_TASK").map(|_| planned)).unwrap_or(0);
    // A test's cluster may grant more than there is.
    let there = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    if granted < there { granted } else { 0 }
}

/// The run at work, which then is this process's alone; `None` if it is at its planned end.
fn open(plan: &JobPlan, job: &JobEntry, registry: &Registry) -> Result<Option<Trainer>, TrainError> {
    let mut wanted = plan.settings(job, registry)?;
    wanted.run.threads = threads(wanted.run.threads, plan.resources.cpus, |name| std::env::var(name).ok());
    if JobPlan::is_finished(job, registry)? {
        return Ok(None);
    }
    if !job.run.join("run.toml").exists() {
        let run = registry.resolve_plan(wanted.clone())?;
        match Trainer::create(&job.run, run, registry, &plan.command) {
            // Another process began it between the two looks.
            Err(TrainError::Usage(_)) if job.run.join("run.toml").exists() => {}
            created => return created.map(Some),
        }
    }
    let (_, file) = RunDir::open(&job.run, registry)?;
    if file.plan.fingerprint() != job.fingerprint {
        return Err(TrainError::Usage(job.holds_another()));
    }
    let how = Resumption {
        frames: Some(job.frames).filter(|&frames| frames > file.plan.run.frames),
        threads: wanted.run.threads,
        device: Some(wanted.run.device),
        ..Resumption::default()
    };
    Trainer::resume(&job.run, registry, how).map(Some)
}

/// Frames of all agents together in the last checkpoint.
fn frames_on_disk(job: &JobEntry, registry: &Registry) -> u64 {
    // A directory that cannot be read is no progress; what is wrong with it is said elsewhere.
    RunDir::open(&job.run, registry).map_or(0, |(dir, _)| {
        dir.agent_states().values().map(|agent| agent.frames).fold(0, u64::saturating_add)
    })
}

/// The attempt that begins, unless there were enough.
fn begin(plan: &JobPlan, job: &JobEntry, frames: u64) -> Result<JobStatus, Failure> {
    let before = JobStatus::read(plan, job.index);
    attempt::begin(before.as_ref(), frames).map_err(|reason| {
        let given_up =
            before.map(|before| JobStatus { state: JobState::GaveUp, reason: reason.clone(), ..before });
        // That nobody can be told by this file is no reason to try once more.
        let _ = given_up.map(|status| status.write(plan, job.index));
        let again = format!("{} jobs {} --retry", program(), plan.folder().display());
        Failure {
            text: format!("job {} is given up: {reason} (`{again}` tries again)", job.index),
            exit_code: GAVE_UP,
        }
    })
}

/// Trains; `None` if another process has taken the run over meanwhile.
fn attempt(plan: &JobPlan, job: &JobEntry, mut trainer: Trainer) -> Result<Option<u8>, Failure> {
    let frames = |trainer: &mut Trainer| trainer.progress().iter().map(|agent| agent.frames).sum::<u64>();
    let before = frames(&mut trainer);
    let status = begin(plan, job, before)?;
    note!("job {}, attempt {}: {}", job.index, status.attempts, job.run.display());
    let writer = StatusWriter::new(plan, job.index, status);
    // An attempt that leaves no trace would not count.
    if let Err(error) = writer.begin() {
        drop(trainer);
        return failed(&writer, error.into(), before).map(Some);
    }
    let outcome = announce(trainer.resolved()).and_then(|()| {
        work(&mut trainer, &LiveArgs { live: None }, How { watched_by: Some(&writer), ..How::default() })
    });
    let frames = frames(&mut trainer);
    match outcome {
        Ok(INTERRUPTED) => {
            said(writer.end(JobState::Stopped, writer.status().fruitless, frames, ""));
            // Before the job is handed back: another node may take it up at once.
            drop(trainer);
            Ok(Some(hand_back()))
        }
        // Agents that were stopped alone are a result, which no further attempt would change.
        Ok(_) => {
            said(writer.end(JobState::Finished, 0, frames, ""));
            Ok(Some(SUCCESS))
        }
        // Its status is the other's to write, too.
        Err(failure) if trainer.is_lost() => {
            note!("{failure}");
            Ok(None)
        }
        Err(failure) => {
            drop(trainer);
            failed(&writer, failure, frames).map(Some)
        }
    }
}

/// A failed attempt: the job is put back into the queue, unless it would fail for ever.
fn failed(writer: &StatusWriter, failure: Failure, frames: u64) -> Result<u8, Failure> {
    let (fruitless, enough) = attempt::fail(&writer.status(), frames);
    if failure.exit_code == USAGE || enough {
        let reason = match enough {
            true => format!(
                "{} attempts in a row brought it no further; the last one: {failure}",
                attempt::MOST_FRUITLESS
            ),
            false => failure.to_string(),
        };
        said(writer.end(JobState::GaveUp, fruitless, frames, &reason));
        return Err(Failure { text: format!("given up: {reason}"), exit_code: GAVE_UP });
    }
    note!("error: {failure}");
    let counted = said(writer.end(JobState::Failed, fruitless, frames, &failure.to_string()));
    // Where attempts cannot be counted, because the disk is full or must not be written to, Slurm's own count bounds them.
    if counted || slurm::restarts() < attempt::MOST_FRUITLESS {
        hand_back();
    } else {
        note!("it is not queued again, because nothing can be written that would count its attempts");
    }
    Ok(failure.exit_code)
}

/// Whether what an attempt says of itself was kept. If not, what it did counts all the same.
fn said(kept: Result<(), TrainError>) -> bool {
    kept.as_ref().err().into_iter().for_each(|error| note!("the job's status was not kept: {error}"));
    kept.is_ok()
}

/// Puts a job that has saved back into the queue, and says what became of it.
fn hand_back() -> u8 {
    match slurm::hand_back() {
        HandBack::NoJob => {}
        HandBack::Requeued => note!("queued again: it goes on when there is a node for it"),
        HandBack::Ending(state) => note!("Slurm ends this job itself ({state})"),
        HandBack::Refused(why) => note!("could not be queued again: {why}"),
    }
    INTERRUPTED
}

#[cfg(test)]
mod tests {
    use super::threads;

    #[test]
    fn a_job_has_the_threads_that_the_scheduler_grants() {
        let there = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let slurm = |cpus: usize| move |name: &str| (name == "SLURM_CPUS_PER_TASK").then(|| cpus.to_string());
        let ray = |name: &str| (name == "SPECTRAL_RAY_TASK").then(|| "0 on n1".to_string());
        assert_eq!(threads(0, 3, |_| None), 0, "started by hand, it has the machine");
        assert_eq!(threads(7, 3, slurm(1)), 7, "the user said so");
        assert_eq!(threads(0, there + 5, slurm(there + 5)), 0, "more than there are: all");
        if there > 1 {
            assert_eq!((threads(0, 3, slurm(1)), threads(0, 1, ray)), (1, 1));
        }
    }
}
