//! `spectral job run`: one attempt at one job of a plan. It may be made at any time, on any node, any number of times.

use crate::args::LiveArgs;
use crate::commands::train::{How, announce, interrupt, work};
use crate::failure::{DATA, DEVICE, Failure, GAVE_UP, INTERRUPTED, SUCCESS, USAGE};
use crate::output::{indented, note};
use crate::typed::program;
use spectral_cluster::slurm::{self, HandBack};
use spectral_cluster::{JobEntry, JobPlan, JobState, JobStatus, StatusWriter, attempt};
use spectral_core::shell::quote_path;
use spectral_train::claim::{self, Fence};
use spectral_train::control::Control;
use spectral_train::error::TrainError;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use spectral_train::trainer::{Resumption, Trainer};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often a job looks whether the run that it waits for is free.
const LOOK: Duration = Duration::from_secs(5);
/// How often it says that it waits.
const SAY: Duration = Duration::from_secs(60);
/// How often somebody who waits looks whether the job is asked to stop.
const ASKED: Duration = Duration::from_millis(50);
/// How long a job keeps a node on which it cannot train. A node where jobs end at once is free most of the time, so that the scheduler
/// would send it one job of the plan after the other.
const KEEP: Duration = Duration::from_secs(60);

/// Brings a job's run to its end, or as far as this process is let.
pub fn run(folder: &Path, index: usize, registry: &Registry) -> Result<u8, Failure> {
    // From now on a signal is a wish to save and stop: while a run is loaded, too, it must not just end the process.
    let asked = interrupt();
    let plan = JobPlan::open(folder)?;
    let job = plan.job(index)?;
    let mut said: Option<Instant> = None;
    loop {
        let attempt = Attempt::new(&plan, job, registry);
        let opened = attempt.open(asked);
        let why = match (opened, attempt.was_given_up()) {
            (_, Some(given_up)) => return Err(given_up),
            (Ok(None), _) => {
                note!("job {index}: {} is finished", job.run.display());
                return Ok(SUCCESS);
            }
            (Ok(Some(trainer)), _) => match attempt.train(trainer)? {
                Some(code) => return Ok(code),
                None => continue,
            },
            // Somebody else works on it. When that one has ended, well or not, there is something to see.
            (Err(TrainError::Busy(why)), _) => why,
            // What is wrong with a run is for its holder to say, and so is the job's status.
            (Err(error), _) if !attempt.is_begun() && claim::is_at_work(&job.run) == Some(true) => {
                error.to_string()
            }
            (Err(error), _) => return attempt.fail(error),
        };
        if said.is_none_or(|last| last.elapsed() >= SAY) {
            note!("job {index} waits: {why}");
            said = Some(Instant::now());
        }
        if wait(LOOK, asked) {
            return Ok(hand_back());
        }
    }
}

/// Waits; true as soon as the job is asked to stop.
fn wait(time: Duration, asked: &Control) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until && !asked.is_cancelled() {
        std::thread::sleep(ASKED);
    }
    asked.is_cancelled()
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

/// An attempt at a job. It begins when the job's run is this process's, before the run is loaded: who is killed while it loads has
/// been tried, too.
struct Attempt<'a> {
    plan: &'a JobPlan,
    job: &'a JobEntry,
    registry: &'a Registry,
    /// Once it has begun.
    writer: OnceLock<StatusWriter>,
    /// Why it must not begin.
    given_up: OnceLock<Failure>,
}

impl<'a> Attempt<'a> {
    fn new(plan: &'a JobPlan, job: &'a JobEntry, registry: &'a Registry) -> Self {
        Attempt { plan, job, registry, writer: OnceLock::new(), given_up: OnceLock::new() }
    }

    fn is_begun(&self) -> bool {
        self.writer.get().is_some()
    }

    /// Why the job is not tried, if there were enough attempts.
    fn was_given_up(&self) -> Option<Failure> {
        self.given_up
            .get()
            .map(|Failure { text, exit_code }| Failure { text: text.clone(), exit_code: *exit_code })
    }

    /// The run at work, which then is this process's alone; `None` if it is at its planned end.
    fn open(&self, asked: &Control) -> Result<Option<Trainer>, TrainError> {
        std::thread::scope(|scope| {
            let (open, opened) = channel::<()>();
            let begun = &self.writer;
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = opened.recv_timeout(ASKED) {
                    // Loading goes on, and what a node gives a job to save may end before it does: then the job was not just killed.
                    if asked.is_cancelled()
                        && let Some(writer) = begun.get()
                    {
                        let reason = "asked to stop while its run was loaded".into();
                        said(writer.end(JobStatus { state: JobState::Stopped, reason, ..writer.status() }));
                        return;
                    }
                }
            });
            let trainer = self.load();
            drop(open);
            trainer
        })
    }

    fn load(&self) -> Result<Option<Trainer>, TrainError> {
        let Attempt { plan, job, registry, .. } = *self;
        let mut wanted = plan.settings(job, registry)?;
        wanted.run.threads =
            threads(wanted.run.threads, plan.resources.cpus, |name| std::env::var(name).ok());
        if JobPlan::is_finished(job, registry)? {
            return Ok(None);
        }
        let once_held = |fence| self.begin(fence);
        if !job.run.join("run.toml").exists() {
            let run = registry.resolve_plan(wanted.clone())?;
            match Trainer::create_telling(&job.run, run, registry, &plan.command, &once_held) {
                // Another process began it between the two looks.
                Err(TrainError::Usage(_)) if !self.is_begun() && job.run.join("run.toml").exists() => {}
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
        let mut trainer = Trainer::resume_telling(&job.run, registry, how, &once_held)?;
        // Somebody has planned the run further, who may go on with it when it has come to this plan's end.
        if trainer.plan().run.frames > job.frames {
            let reached = trainer.progress().iter().map(|agent| agent.frames).max().unwrap_or(0);
            trainer.set_end(job.frames.max(reached))?;
        }
        Ok(Some(trainer))
    }

    /// The run is this process's: the attempt counts from now on.
    fn begin(&self, fence: Fence) -> Result<(), TrainError> {
        let status = match begin(self.plan, self.job, frames_on_disk(self.job, self.registry)) {
            Ok(status) => status,
            Err(failure) => {
                let why = failure.text.clone();
                self.given_up.get_or_init(|| failure);
                return Err(TrainError::Busy(why));
            }
        };
        note!("job {}, attempt {}: {}", self.job.index, status.attempts, self.job.run.display());
        // An attempt that leaves no trace would not count.
        self.writer.get_or_init(|| StatusWriter::new(self.plan, self.job.index, status, fence)).begin()
    }

    /// The run could not be loaded.
    fn fail(self, error: TrainError) -> Result<u8, Failure> {
        let frames = frames_on_disk(self.job, self.registry);
        let writer = match self.writer.into_inner() {
            Some(writer) => writer,
            // Nobody holds the run.
            None => StatusWriter::new(
                self.plan,
                self.job.index,
                begin(self.plan, self.job, frames)?,
                Fence::default(),
            ),
        };
        let on_node = matches!(error, TrainError::Machine(_));
        let mut failure = Failure::from(error);
        if on_node {
            failure.exit_code = DEVICE;
        }
        failed(&writer, failure, frames, ())
    }

    /// Trains; `None` if another process has taken the run over meanwhile.
    fn train(self, mut trainer: Trainer) -> Result<Option<u8>, Failure> {
        let Some(writer) = self.writer.into_inner() else {
            return Err(Failure { text: "a run was loaded that nobody has taken".into(), exit_code: DATA });
        };
        let frames = |trainer: &mut Trainer| trainer.progress().iter().map(|agent| agent.frames).sum::<u64>();
        let before = frames(&mut trainer);
        if let Err(error) = writer.loaded(before) {
            return failed(&writer, error.into(), before, trainer).map(Some);
        }
        let outcome = announce(trainer.resolved()).and_then(|()| {
            let how = How { watched_by: Some(&writer), ..How::default() };
            work(&mut trainer, &LiveArgs { live: None }, how)
        });
        let frames = frames(&mut trainer);
        let last = |state| JobStatus { state, frames, reason: String::new(), ..writer.status() };
        match outcome {
            Ok(INTERRUPTED) => {
                let reason = "asked to stop, and saved".into();
                said(writer.end(JobStatus { reason, ..last(JobState::Stopped) }));
                // Before the job is handed back: another node may take it up at once.
                drop(trainer);
                Ok(Some(hand_back()))
            }
            // Agents that were stopped alone are a result, which no further attempt would change.
            Ok(_) => {
                said(writer.end(JobStatus { fruitless: 0, turned_away: 0, ..last(JobState::Finished) }));
                Ok(Some(SUCCESS))
            }
            // Its status is the other's to write, too.
            Err(failure) if trainer.is_lost() => {
                note!("{}", indented(&failure.text));
                Ok(None)
            }
            Err(failure) => failed(&writer, failure, frames, trainer).map(Some),
        }
    }
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
        let again = format!("{} jobs {} --retry", program(), quote_path(plan.folder()));
        Failure {
            text: format!("job {} is given up: {reason} (`{again}` tries again)", job.index),
            exit_code: GAVE_UP,
        }
    })
}

/// A failed attempt: the job is put back into the queue, unless it would fail for ever. What holds its run is let go of in between.
fn failed<T>(writer: &StatusWriter, failure: Failure, frames: u64, held: T) -> Result<u8, Failure> {
    let mut last =
        JobStatus { state: JobState::Failed, frames, reason: failure.to_string(), ..writer.status() };
    // What is wrong with a node is no fault of the job's, and may be gone on the next one.
    let on_node = failure.exit_code == DEVICE;
    let (enough, most) = if on_node {
        let (turned_away, enough) = attempt::turn_away(&last, frames);
        last.turned_away = turned_away;
        (enough, attempt::MOST_TURNED_AWAY)
    } else {
        let (fruitless, enough) = attempt::fail(&last, frames);
        last.fruitless = fruitless;
        (enough, attempt::MOST_FRUITLESS)
    };
    if failure.exit_code == USAGE || enough {
        if enough {
            last.reason = format!("{most} attempts in a row brought it no further; the last one: {failure}");
        }
        let text = format!("given up: {}", last.reason);
        said(writer.end(JobStatus { state: JobState::GaveUp, ..last }));
        return Err(Failure { text, exit_code: GAVE_UP });
    }
    note!("error: {failure}");
    let on_cluster = !last.scheduler.is_empty();
    let counted = said(writer.end(last));
    drop(held);
    if on_node && on_cluster {
        note!(
            "it cannot train on this node, which it keeps for {} s, so that other jobs go elsewhere",
            KEEP.as_secs()
        );
        wait(KEEP, interrupt());
    }
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
