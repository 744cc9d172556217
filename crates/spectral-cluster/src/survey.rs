//! All that is known of a plan's jobs: from their run directories, from what they said last, and from the scheduler's queue.

use crate::earlier::is_at_end;
use crate::plan::{JobEntry, JobPlan};
use crate::slurm::{self, Queued};
use crate::status::{JobState, JobStatus};
use spectral_train::claim::{self, Holder};
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use std::collections::HashMap;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its run is at the end that the plan has for it, or past it.
    Finished,
    /// Somebody works on its run, be it this plan's job or another process.
    Running,
    /// The scheduler has it and will start it, or it was started and another process has its run.
    Waiting,
    /// The scheduler ends or moves it.
    Changing,
    /// It was asked to stop, and nobody has taken it up since.
    Stopped,
    /// The last attempt failed or died, and nobody has taken it up since.
    Failed,
    /// It is not tried again by itself.
    GaveUp,
    /// Nobody has begun it, and no queue has it.
    NotBegun,
}

impl Standing {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Finished => "finished",
            Standing::Running => "running",
            Standing::Waiting => "waiting",
            Standing::Changing => "changing",
            Standing::Stopped => "stopped",
            Standing::Failed => "failed",
            Standing::GaveUp => "gave up",
            Standing::NotBegun => "not begun",
        }
    }

    /// Whether nothing will come of it unless it is submitted again.
    pub fn needs_retry(self) -> bool {
        matches!(self, Standing::Stopped | Standing::Failed | Standing::GaveUp | Standing::NotBegun)
    }
}

/// One job, for people.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was planned.
    pub entry: JobEntry,
    /// Where it stands.
    pub standing: Standing,
    /// Frames of all agents together, as far as the plan has them go.
    pub frames: u64,
    /// Frames of all agents together that are left to the plan's end; an agent that was stopped has none.
    pub left: u64,
    /// Frames a second, all agents together, of a job at work.
    pub rate: Option<f64>,
    /// Attempts so far.
    pub attempts: u64,
    /// Where it is or was at work, and as what.
    pub place: String,
    /// Why it waits, stopped, failed or was given up, who else has its run, or which agents were stopped.
    pub why: String,
}

impl Row {
    /// Seconds that a job at work has left.
    pub fn seconds_left(&self) -> Option<f64> {
        self.rate.map(|rate| self.left as f64 / rate)
    }

    /// The share of the work that is done.
    pub fn share(&self) -> f64 {
        let all = self.frames.saturating_add(self.left);
        if all == 0 { 0.0 } else { self.frames as f64 / all as f64 }
    }
}

/// One row per job, in order, and what could not be found out.
pub fn survey(plan: &JobPlan, registry: &Registry) -> (Vec<Row>, Option<String>) {
    // Files tell most of it; a queue that does not answer is no reason to say nothing.
    let (queued, note) = match slurm::queue(plan) {
        Ok(queued) => (queued, None),
        Err(error) => (HashMap::new(), Some(format!("the queue was not asked: {error}"))),
    };
    let rows = plan.jobs.iter().map(|entry| row(plan, entry, queued.get(&entry.index), registry));
    (rows.collect(), note)
}

/// What a job's run directory says.
#[derive(Default)]
struct OnDisk {
    frames: u64,
    left: u64,
    finished: bool,
    /// Who works on it.
    holder: Option<Holder>,
    /// Agents that were stopped, and why; or why no job can go on with the directory.
    why: String,
    unusable: bool,
}

impl OnDisk {
    fn read(entry: &JobEntry, registry: &Registry) -> Self {
        let all = entry.frames.saturating_mul(entry.agents.len() as u64);
        if !entry.run.join("run.toml").exists() {
            return OnDisk { left: all, ..OnDisk::default() };
        }
        // One directory that cannot be read is no reason to say nothing of the others.
        let unusable = |why: String| OnDisk { left: all, why, unusable: true, ..OnDisk::default() };
        let (dir, file) = match RunDir::open(&entry.run, registry) {
            Ok(opened) => opened,
            Err(error) => return unusable(error.to_string()),
        };
        if file.plan.fingerprint() != entry.fingerprint {
            return unusable(entry.holds_another());
        }
        let wanted = file.plan.with(|run| run.frames = entry.frames);
        let (left, states) = (dir.frames_left(&wanted), dir.agent_states());
        let known = || wanted.agents.iter().filter_map(|agent| states.get(&agent.id));
        let stopped = known().filter_map(|agent| {
            agent.stopped.as_ref().map(|reason| format!("{} was stopped: {reason}", agent.id))
        });
        let finished = is_at_end(&dir, &file.plan, entry);
        let further = (finished && file.plan.run.frames > entry.frames)
            .then(|| format!("its run has another end by now: {} frames an agent", file.plan.run.frames));
        OnDisk {
            frames: known().map(|agent| agent.frames.min(entry.frames)).fold(0, u64::saturating_add),
            left,
            finished,
            holder: claim::holder(&entry.run),
            why: stopped.chain(further).collect::<Vec<_>>().join("; "),
            unusable: false,
        }
    }
}

fn row(plan: &JobPlan, entry: &JobEntry, queued: Option<&Queued>, registry: &Registry) -> Row {
    let said = JobStatus::read(plan, entry.index);
    let disk = OnDisk::read(entry, registry);
    let worker = Worker::of(disk.holder.as_ref(), said.as_ref());
    let (mut frames, mut left, mut why) = (disk.frames, disk.left, disk.why);
    let standing = match standing(disk.finished, worker, said.as_ref(), queued) {
        Standing::NotBegun | Standing::Stopped if disk.unusable => Standing::Failed,
        standing => standing,
    };
    let other = disk.holder.as_ref().filter(|_| worker == Worker::Another && !disk.finished);
    let mut place = String::new();
    // What an attempt says of itself is of that attempt only.
    if let Some(said) = said.as_ref().filter(|_| other.is_none()) {
        place = [said.host.as_str(), said.scheduler.as_str()].join(" ").trim().to_string();
        match standing {
            _ if disk.unusable => {}
            Standing::Failed | Standing::GaveUp if said.state == JobState::Running => {
                why = "it ended without a word: killed, or its node died".into();
            }
            Standing::Failed | Standing::GaveUp => why = said.reason.clone(),
            Standing::Stopped if !said.reason.is_empty() => why = why_stopped(said),
            // It keeps a node on which it cannot train, or is being started anew.
            Standing::Running if worker == Worker::Nobody => why = last_attempt(said).unwrap_or(why),
            _ => {}
        }
        // Newer than the last checkpoint.
        if worker == Worker::Own && said.frames > frames {
            let all = frames.saturating_add(left);
            frames = said.frames.min(all);
            left = all - frames;
        }
    }
    if let (Standing::Waiting | Standing::Changing, Some(queued)) = (standing, queued) {
        (place, why) = (format!("slurm {}", queued.id), queued.detail.clone());
        if standing == Standing::Changing {
            why = queued.state.to_lowercase();
        } else if let (true, Some(holder)) = (is_started(queued), other) {
            place = format!("{} {place}", queued.detail).trim().to_string();
            why = format!("waits for {}, which works on its run", holder.who);
        } else if let Some(last) = said.as_ref().and_then(last_attempt) {
            why += &format!("; {last}");
        }
    } else if let (Standing::Running, Some(holder)) = (standing, other) {
        why = format!("another process works on it: {}", holder.who);
    }
    let rate = said.as_ref().filter(|_| worker == Worker::Own && !disk.finished).and_then(JobStatus::rate);
    let attempts = said.map_or(0, |said| said.attempts);
    Row { entry: entry.clone(), standing, frames, left, rate, attempts, place, why }
}

/// Why the last attempt failed.
fn last_attempt(said: &JobStatus) -> Option<String> {
    let failed = said.state == JobState::Failed && !said.reason.is_empty();
    failed.then(|| format!("the last attempt: {}", said.reason))
}

/// Why a job stopped that no queue has.
fn why_stopped(said: &JobStatus) -> String {
    match said.scheduler.starts_with("slurm ") {
        true => {
            format!("{}; Slurm has not queued it again: it was cancelled, or its log says why", said.reason)
        }
        false => said.reason.clone(),
    }
}

/// Who works on a job's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    Nobody,
    /// This plan's job.
    Own,
    /// A job of another plan, or somebody by hand.
    Another,
}

impl Worker {
    fn of(holder: Option<&Holder>, said: Option<&JobStatus>) -> Self {
        match (holder, said) {
            (None, _) => Worker::Nobody,
            // A process that only has a lock, or a status of an earlier version, says nothing of its claim.
            (Some(holder), Some(said)) if holder.claim.is_empty() || said.claim.is_empty() => {
                if said.state == JobState::Running { Worker::Own } else { Worker::Another }
            }
            (Some(holder), Some(said)) if holder.claim == said.claim => Worker::Own,
            (Some(_), _) => Worker::Another,
        }
    }
}

/// Whether the scheduler has given a job its node.
fn is_started(queued: &Queued) -> bool {
    matches!(queued.state.as_str(), "RUNNING" | "CONFIGURING")
}

fn standing(finished: bool, worker: Worker, said: Option<&JobStatus>, queued: Option<&Queued>) -> Standing {
    if finished {
        return Standing::Finished;
    }
    match (worker, queued) {
        (Worker::Own, _) | (Worker::Another, None) => return Standing::Running,
        // It has a node, and waits for whoever has its run.
        (Worker::Another, Some(queued)) if is_started(queued) => return Standing::Waiting,
        _ => {}
    }
    match (queued.map(|queued| queued.state.as_str()), said.map(|said| said.state)) {
        // It is being started, or keeps its node after a failure.
        (Some("RUNNING" | "CONFIGURING"), _) => Standing::Running,
        (Some("PENDING" | "REQUEUED" | "SUSPENDED"), _) => Standing::Waiting,
        (Some(_), _) => Standing::Changing,
        (None, None) => Standing::NotBegun,
        (None, Some(JobState::GaveUp)) => Standing::GaveUp,
        (None, Some(JobState::Failed | JobState::Running)) => Standing::Failed,
        // A run that was to go further than it is by now.
        (None, Some(JobState::Stopped | JobState::Finished)) => Standing::Stopped,
    }
}
