//! What work will cost, before it starts: memory, disk, and time by a short trial.

use crate::control::Control;
use crate::error::TrainError;
use crate::experiment::Job;
use crate::memory::Memory;
use crate::plan::MAX_FRAMES;
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use crate::trainer::{AgentProgress, Observer, Trainer};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Agent steps after which a trial learns.
const TRIAL_START: u64 = 64;
/// The replay of a trial: enough for any minibatch, small enough for any machine.
const TRIAL_REPLAY: usize = 4096;

/// What some jobs need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Populations.
    pub jobs: usize,
    /// Runs of one agent with one seed.
    pub runs: usize,
    /// Frames left to train, of all runs together.
    pub frames: u64,
    /// What the largest population needs of memory; nothing if there is none.
    pub memory: Option<Memory>,
    /// Bytes of disk that all of them may come to need at most: checkpoints and replay, before compression.
    pub disk: u64,
}

impl Forecast {
    /// What these jobs need.
    pub fn of(jobs: &[Job]) -> Self {
        let mut forecast = Forecast { jobs: jobs.len(), ..Forecast::default() };
        for job in jobs {
            forecast.runs += job.run.plan.agents.len();
            forecast.frames += job.frames_left;
            let memory = &job.run.memory;
            let all = |m: &Memory| m.needed + m.device.as_ref().map_or(0, |device| device.needed);
            if forecast.memory.as_ref().is_none_or(|largest| all(largest) < all(memory)) {
                forecast.memory = Some(memory.clone());
            }
            forecast.disk += job.run.disk;
        }
        forecast
    }
}

/// Frames a second, all agents together, of a plan's population at work on this machine: acting by its networks and
/// learning from the start, with a small replay. `None` if the trial was too short to tell.
///
/// The trial runs in `folder`, which is made for it and removed.
pub fn calibrate(
    run: &ResolvedRun,
    registry: &Registry,
    folder: &Path,
    seconds: f64,
    interrupt: &Control,
) -> Result<Option<f64>, TrainError> {
    let mut trial = run.plan.with(|run| {
        (run.frames, run.log_frames) = (MAX_FRAMES, MAX_FRAMES);
        run.checkpoint_seconds = 1e9;
    });
    let frames_per_step = run.task.frames_per_step;
    for agent in &mut trial.agents {
        let s = &mut agent.settings;
        s.replay = s.replay.min(TRIAL_REPLAY.max(4 * s.batch));
        s.learning_starts = s.learning_starts.min(TRIAL_START.max(s.batch as u64) * frames_per_step);
        s.epsilon_start = s.epsilon_final;
    }
    let start = trial.agents.iter().map(|a| a.settings.learning_starts).max().unwrap_or(0);
    let _gone = Gone(folder);
    let mut trainer = Trainer::create(folder, registry.resolve_plan(trial)?, registry, "calibration")?;
    let watch = Watch {
        learning_from: start,
        until: Instant::now() + Duration::from_secs_f64(seconds),
        outer: interrupt,
        enough: trainer.control(),
        seen: Mutex::new((None, None)),
    };
    trainer.run_watched(&watch)?;
    let seen = watch.seen.lock().unwrap_or_else(|e| e.into_inner());
    let (Some(first), Some(last)) = *seen else { return Ok(None) };
    let elapsed = last.0.duration_since(first.0).as_secs_f64();
    let gained = last.1.saturating_sub(first.1);
    Ok((gained > 0 && elapsed > 0.0).then(|| gained as f64 / elapsed))
}

/// When something was seen, and frames of all agents together by then.
type Sight = (Instant, u64);

/// Looks on until the time is over, and remembers the first and the last sight of a population that learns.
struct Watch<'a> {
    learning_from: u64,
    until: Instant,
    outer: &'a Control,
    enough: Control,
    seen: Mutex<(Option<Sight>, Option<Sight>)>,
}

impl Observer for Watch<'_> {
    fn tick(&self, progress: &[AgentProgress]) {
        let now = Instant::now();
        let at_work = |a: &AgentProgress| a.stopped.is_some() || a.frames >= self.learning_from;
        if progress.iter().all(at_work) && !self.enough.is_cancelled() {
            let sight = (now, progress.iter().map(|a| a.frames).sum());
            let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
            seen.0.get_or_insert(sight);
            seen.1 = Some(sight);
        }
        if now >= self.until || self.outer.is_cancelled() {
            self.enough.cancel();
        }
    }
}

/// A folder that goes with the trial, however that ends.
struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        // What is left of a trial is in nobody's way; there is no one to be told.
        let _ = std::fs::remove_dir_all(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Limits, Overrides, RunIndex};
    use spectral_agent::replay::Replay;

    const MINE: &str = "agents = [\"spectral\", \"clipped\"]\nframes = 5000\nreplay = 2000\n[[task]]\nname = \"pong-mini\"\n";

    fn jobs(frames: u64) -> Vec<Job> {
        let wish = Overrides { frames: Some(frames), ..Overrides::default() };
        let registry = Registry::default();
        let experiment = Experiment::read("mine", MINE, &wish, &registry).unwrap();
        RunIndex::scan(Path::new("/no/such/folder"), &registry)
            .unwrap()
            .jobs(&experiment, &registry, &Limits::default())
            .unwrap()
    }

    #[test]
    fn disk_counts_what_replay_will_hold_and_two_checkpoints() {
        let of = |frames| Forecast::of(&jobs(frames));
        assert_eq!((of(5000).runs, of(5000).frames, of(5000).jobs), (2, 10_000, 1));
        let record = Replay::bytes_per_record(&jobs(1)[0].run.task);
        // From 500 to 1,000 steps replay grows; beyond its 2,000 records it does not.
        assert_eq!(of(1000).disk - of(500).disk, 2 * 500 * record as u64);
        assert_eq!(of(9000).disk, of(2000).disk);
        assert!(of(500).disk > 0 && of(500).memory.is_some_and(|m| m.needed > 0));
    }

    #[test]
    fn a_trial_measures_and_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("spectral-trial-{}", std::process::id()));
        let (run, registry) = (jobs(5000).remove(0).run, Registry::default());
        let rate = calibrate(&run, &registry, &folder, 2.0, &Control::default()).unwrap();
        assert!(rate.is_some_and(|rate| rate > 0.0), "{rate:?}");
        assert!(!folder.exists());
        // Interrupted, it ends.
        let start = Instant::now();
        let cancelled = Control::default();
        cancelled.cancel();
        calibrate(&run, &registry, &folder, 1e6, &cancelled).unwrap();
        assert!(!folder.exists() && start.elapsed() < Duration::from_secs(60));
    }
}
