//! All that is known of a plan's jobs: from their run directories, from what they said last, and from the scheduler's queue.

use crate::plan::{JobEntry, JobPlan};
use crate::slurm::{self, Queued};
use crate::status::{JobState, JobStatus};
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use std::collections::HashMap;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its run is at its end.
    Finished,
    /// Somebody works on it.
    Running,
    /// The scheduler has it and will start it.
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
    /// Frames of all agents together.
    pub frames: u64,
    /// Frames of all agents together that are left; an agent that was stopped has none.
    pub left: u64,
    /// Frames a second, all agents together, of a job at work.
    pub rate: Option<f64>,
    /// Attempts so far.
    pub attempts: u64,
    /// Where it is or was at work, and as what.
    pub place: String,
    /// Why it waits, failed or was given up, or which agents were stopped.
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
    at_work: bool,
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
        let wanted = file.plan.with(|run| run.frames = run.frames.max(entry.frames));
        let (left, states) = (dir.frames_left(&wanted), dir.agent_states());
        let known = || wanted.agents.iter().filter_map(|agent| states.get(&agent.id));
        let stopped = known().filter_map(|agent| {
            agent.stopped.as_ref().map(|reason| format!("{} was stopped: {reason}", agent.id))
        });
        OnDisk {
            frames: known().map(|agent| agent.frames).fold(0, u64::saturating_add),
            left,
            finished: dir.finished() && left == 0,
            at_work: dir.is_at_work() == Some(true),
            why: stopped.collect::<Vec<_>>().join("; "),
            unusable: false,
        }
    }
}

fn row(plan: &JobPlan, entry: &JobEntry, queued: Option<&Queued>, registry: &Registry) -> Row {
    let said = JobStatus::read(plan, entry.index);
    let disk = OnDisk::read(entry, registry);
    let (mut frames, mut left, mut why) = (disk.frames, disk.left, disk.why);
    let standing = match standing(disk.finished, disk.at_work, said.as_ref(), queued) {
        Standing::NotBegun | Standing::Stopped if disk.unusable => Standing::Failed,
        standing => standing,
    };
    let mut place = String::new();
    if let Some(said) = &said {
        place = [said.host.as_str(), said.scheduler.as_str()].join(" ").trim().to_string();
        if matches!(standing, Standing::Failed | Standing::GaveUp) {
            match said.state {
                _ if disk.unusable => {}
                JobState::Running => why = "it ended without a word: killed, or its node died".into(),
                _ => why = said.reason.clone(),
            };
        }
        // Newer than the last checkpoint.
        if standing == Standing::Running && said.frames > frames {
            left = left.saturating_sub(said.frames - frames);
            frames = said.frames;
        }
    }
    if let (Standing::Waiting | Standing::Changing, Some(queued)) = (standing, queued) {
        (place, why) = (format!("slurm {}", queued.id), queued.detail.clone());
        if let Some(said) =
            said.as_ref().filter(|said| said.state == JobState::Failed && !said.reason.is_empty())
        {
            why += &format!("; the last attempt: {}", said.reason);
        }
        if standing == Standing::Changing {
            why = queued.state.to_lowercase();
        }
    }
    let rate = said.as_ref().filter(|_| standing == Standing::Running).and_then(JobStatus::rate);
    let attempts = said.map_or(0, |said| said.attempts);
    Row { entry: entry.clone(), standing, frames, left, rate, attempts, place, why }
}

fn standing(finished: bool, at_work: bool, said: Option<&JobStatus>, queued: Option<&Queued>) -> Standing {
    if finished {
        return Standing::Finished;
    }
    if at_work {
        return Standing::Running;
    }
    match (queued.map(|queued| queued.state.as_str()), said.map(|said| said.state)) {
        // It is being started, or waits for whoever holds its run.
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
