//! How far one job has come, as the process that works on it says.

use crate::plan::JobPlan;
use spectral_core::settings::quote;
use spectral_train::claim::Fence;
use spectral_train::error::TrainError;
use spectral_train::machine::host_name;
use spectral_train::store::{StoreError, read_text, write_atomically};
use spectral_train::trainer::{AgentProgress, Observer};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a job at work writes its status.
const EVERY: Duration = Duration::from_secs(15);

spectral_core::choices! {
    /// What became of the last attempt at a job.
    JobState {
        /// At work, or killed while it was.
        Running = "running",
        /// Asked to stop, and saved.
        Stopped = "stopped",
        /// Failed; it may be tried again.
        Failed = "failed",
        /// It is not tried again unless somebody says so.
        GaveUp = "gave up",
        /// At its end.
        Finished = "finished",
    }
}

/// What the last attempt at a job said of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    /// What became of it.
    pub state: JobState,
    /// Attempts so far, this one included.
    pub attempts: u64,
    /// Attempts in a row, before this one, that failed or were killed and brought the run no further.
    pub fruitless: u64,
    /// Attempts in a row, before this one, that brought the run no further because they were asked to stop or their nodes lacked
    /// what it needs.
    pub turned_away: u64,
    /// Frames of all agents together when the attempt began.
    pub frames_at_start: u64,
    /// Frames of all agents together when this was written.
    pub frames: u64,
    /// Seconds since the attempt began.
    pub seconds: f64,
    /// The machine's name.
    pub host: String,
    /// What the scheduler calls the attempt; empty without one.
    pub scheduler: String,
    /// The mark of the claim by which it has its run; empty in statuses of earlier versions, and if it never had the run.
    pub claim: String,
    /// Why it ended, unless it finished.
    pub reason: String,
}

impl JobStatus {
    /// The status of a job that begins: nothing was tried yet.
    pub(crate) fn new() -> Self {
        JobStatus {
            state: JobState::Running,
            attempts: 0,
            fruitless: 0,
            turned_away: 0,
            frames_at_start: 0,
            frames: 0,
            seconds: 0.0,
            host: host(),
            scheduler: scheduler(),
            claim: String::new(),
            reason: String::new(),
        }
    }

    /// Reads what the last attempt said. `None` if there was none, or if its file is damaged: it decides no result, and the run
    /// directory knows how far the run has come.
    pub fn read(plan: &JobPlan, index: usize) -> Option<Self> {
        let table: toml::Table = read_text(&file(plan, index)).ok()?.parse().ok()?;
        let text = |key: &str| table.get(key).and_then(toml::Value::as_str).map(String::from);
        let count = |key: &str| table.get(key)?.as_integer().and_then(|n| u64::try_from(n).ok());
        Some(JobStatus {
            state: spectral_core::settings::Setting::parse(&text("state")?).ok()?,
            attempts: count("attempts")?,
            fruitless: count("fruitless")?,
            // Earlier versions did not count them.
            turned_away: count("turned_away").unwrap_or(0),
            frames_at_start: count("frames_at_start")?,
            frames: count("frames")?,
            seconds: table.get("seconds")?.as_float().filter(|seconds| seconds.is_finite())?,
            host: text("host")?,
            scheduler: text("scheduler")?,
            claim: text("claim").unwrap_or_default(),
            reason: text("reason")?,
        })
    }

    /// Writes the status of a job; only who holds the job's run may.
    pub fn write(&self, plan: &JobPlan, index: usize) -> Result<(), TrainError> {
        self.write_to(&file(plan, index))
    }

    fn write_to(&self, path: &Path) -> Result<(), TrainError> {
        let text = format!(
            "state = {}\nattempts = {}\nfruitless = {}\nturned_away = {}\nframes_at_start = {}\nframes = {}\nseconds = {:.1}\nhost = {}\n\
             scheduler = {}\nclaim = {}\nreason = {}\n",
            quote(&spectral_core::settings::Setting::show(&self.state)),
            self.attempts,
            self.fruitless,
            self.turned_away,
            self.frames_at_start,
            self.frames,
            self.seconds,
            quote(&self.host),
            quote(&self.scheduler),
            quote(&self.claim),
            quote(&self.reason)
        );
        Ok(write_atomically(path, |out| out.write_all(text.as_bytes()))?)
    }

    /// Forgets earlier attempts, so that a job that was given up is tried again, and one that was killed is tried as often as a new one.
    pub fn forget(plan: &JobPlan, index: usize) -> Result<(), TrainError> {
        match Self::read(plan, index) {
            // Attempts that were killed have left the word of the last one that it runs.
            Some(status) if status.state != JobState::Finished => {
                let (state, reason) = (JobState::Stopped, String::new());
                JobStatus { state, fruitless: 0, turned_away: 0, reason, ..status }.write(plan, index)
            }
            _ => Ok(()),
        }
    }

    /// Frames a second of this attempt, all agents together.
    pub fn rate(&self) -> Option<f64> {
        let gained = self.frames.checked_sub(self.frames_at_start).filter(|&gained| gained > 0)?;
        (self.seconds > 0.0).then(|| gained as f64 / self.seconds)
    }
}

fn file(plan: &JobPlan, index: usize) -> PathBuf {
    plan.folder().join("status").join(format!("{index:03}.toml"))
}

/// This machine's name, as the scheduler knows it.
fn host() -> String {
    let named = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(host_name)
}

/// What a scheduler calls this process.
fn scheduler() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID"), variable("SLURM_JOB_ID")) {
        (Some(array), Some(task), _) => format!("slurm {array}_{task}"),
        (_, _, Some(job)) => format!("slurm {job}"),
        _ => variable("SPECTRAL_RAY_TASK").map(|task| format!("ray {task}")).unwrap_or_default(),
    }
}

/// Keeps a job's status up to date while its population trains.
pub struct StatusWriter {
    file: PathBuf,
    /// Whether the job's run is this process's still. Its status is that of whoever has it.
    fence: Fence,
    begun: Instant,
    now: Mutex<(JobStatus, Instant)>,
}

impl StatusWriter {
    /// For an attempt that begins now with this status, which [`begin`](StatusWriter::begin) writes. Nothing is written once the fence
    /// says that the run is another process's.
    pub fn new(plan: &JobPlan, index: usize, status: JobStatus, fence: Fence) -> Self {
        Self::to(file(plan, index), status, fence)
    }

    fn to(file: PathBuf, status: JobStatus, fence: Fence) -> Self {
        let begun = Instant::now();
        let status = JobStatus { claim: fence.claim(), ..status };
        StatusWriter { file, fence, begun, now: Mutex::new((status, begun)) }
    }

    /// Writes the status with which the attempt begins. Should nothing more be heard of it, it counts as killed.
    pub fn begin(&self) -> Result<(), TrainError> {
        // Whoever copied the plan may have left an empty folder behind.
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder).map_err(|e| StoreError::io(folder, "create", e))?;
        }
        self.write(&self.status())
    }

    /// The run is loaded and has come this far, which its newest checkpoint knows better than its directory.
    pub fn loaded(&self, frames: u64) -> Result<(), TrainError> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if frames == now.0.frames_at_start {
            return Ok(());
        }
        if frames > now.0.frames_at_start {
            (now.0.fruitless, now.0.turned_away) = (0, 0);
        }
        (now.0.frames_at_start, now.0.frames) = (frames, frames);
        self.write(&now.0)
    }

    /// The last word of the attempt.
    pub fn end(&self, last: JobStatus) -> Result<(), TrainError> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.0 = JobStatus { seconds: self.begun.elapsed().as_secs_f64(), ..last };
        self.write(&now.0)
    }

    fn write(&self, status: &JobStatus) -> Result<(), TrainError> {
        self.fence.check()?;
        status.write_to(&self.file)
    }

    /// The status as it is.
    pub fn status(&self) -> JobStatus {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl Observer for StatusWriter {
    fn tick(&self, progress: &[AgentProgress]) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.0.frames = progress.iter().map(|agent| agent.frames).sum();
        now.0.seconds = self.begun.elapsed().as_secs_f64();
        if now.1.elapsed() >= EVERY {
            now.1 = Instant::now();
            // People like to know; training does not depend on it.
            let _ = self.write(&now.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_train::claim::{RunLock, is_part_of};

    /// A process that slept for too long may wake up while another one trains and says so.
    #[test]
    fn who_has_lost_a_run_says_nothing_more_of_its_job() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        std::fs::create_dir(&run).unwrap();
        let lock = RunLock::take(&run).unwrap();
        let file = folder.path().join("000.toml");
        let writer = StatusWriter::to(file.clone(), JobStatus::new(), lock.fence());
        let long_ago = || writer.now.lock().unwrap().1 = Instant::now().checked_sub(EVERY).unwrap();
        writer.begin().unwrap();
        writer.loaded(7).unwrap();
        let own = std::fs::read_to_string(&file).unwrap();
        assert!(own.contains("frames_at_start = 7\n"), "{own}");
        long_ago();
        writer.tick(&[]);
        assert!(
            std::fs::read_to_string(&file).unwrap().contains("frames = 0\n"),
            "it is told while it trains"
        );
        // Whoever takes the run over removes the claim.
        for entry in std::fs::read_dir(&run).unwrap().flatten() {
            if is_part_of(&entry.file_name().to_string_lossy()) {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        std::fs::write(&file, "the other's").unwrap();
        long_ago();
        writer.tick(&[]);
        assert!(writer.loaded(8).is_err() && writer.end(writer.status()).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "the other's");
    }
}
