//! Keeps the numbers of a feed up to date: curves from the run's files, and progress.

use crate::feed::Feed;
use crate::health::{Pace, Progress, Standing};
use crate::tables::{AgentTables, Follower};
use spectral_train::checkpoint::{Checkpoints, Cost};
use spectral_train::plan::AgentPlan;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::{RunDir, Status};
use spectral_train::trainer::{AgentProgress, Observer};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often files are looked at, and progress told.
const LOOK_TIME: Duration = Duration::from_millis(500);
/// How often it is asked whether a process is still at work on a run.
const WORK_TIME: Duration = Duration::from_secs(3);

/// What the training process itself knows of its progress.
#[derive(Debug, Default)]
pub(crate) struct OwnProgress {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    agents: Vec<AgentProgress>,
    checkpoint: Option<Instant>,
    ended: Option<Status>,
}

impl OwnProgress {
    /// The run has ended like this.
    pub(crate) fn end(&self, status: Status) {
        self.lock().ended = Some(status);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for OwnProgress {
    fn tick(&self, progress: &[AgentProgress]) {
        progress.clone_into(&mut self.lock().agents);
    }

    fn checkpoint(&self, _cost: Cost) {
        self.lock().checkpoint = Some(Instant::now());
    }
}

/// Reads a run's numbers into a feed, again and again.
pub(crate) struct Reporter {
    run: ResolvedRun,
    dir: RunDir,
    followers: Vec<Follower>,
    tables: Vec<AgentTables>,
    pace: Pace,
    begun: Instant,
    seconds_before: f64,
    /// In the process that trains.
    own: Option<Arc<OwnProgress>>,
    /// In another process: whether one works on the run, and when that was asked.
    at_work: (Option<bool>, Option<Instant>),
}

impl Reporter {
    pub(crate) fn new(run: ResolvedRun, dir: RunDir, own: Option<Arc<OwnProgress>>) -> Self {
        let followers = run.plan.agents.iter().map(|agent| Follower::new(&dir.agent(&agent.id))).collect();
        let tables = vec![AgentTables::default(); run.plan.agents.len()];
        let (pace, begun, seconds_before) = (Pace::default(), Instant::now(), dir.seconds());
        Reporter { run, dir, followers, tables, pace, begun, seconds_before, own, at_work: (None, None) }
    }

    /// Reports until the feed ends.
    pub(crate) fn work(mut self, feed: &Feed) {
        while !feed.is_closing() {
            self.look(feed);
            feed.wait_for_close(LOOK_TIME);
        }
        // How it ended.
        self.look(feed);
    }

    /// Looks once.
    pub(crate) fn look(&mut self, feed: &Feed) {
        for (agent, follower) in self.followers.iter_mut().enumerate() {
            // Read outside of the lock, so that no page waits for a disk.
            if follower.look(&mut self.tables[agent]) {
                let tables = Arc::new(self.tables[agent].clone());
                feed.change(|state| state.tables[agent] = tables);
            }
        }
        let progress: Arc<str> = self.progress().into();
        feed.change(|state| state.progress = Some(progress));
    }

    fn progress(&mut self) -> String {
        let now = Instant::now();
        let (mut agents, checkpoint_age, standing, seconds) = match &self.own {
            Some(own) => {
                let known = own.lock();
                let age =
                    known.checkpoint.map(|at| now.duration_since(at)).or_else(|| self.newest_checkpoint());
                let seconds = self.seconds_before + self.begun.elapsed().as_secs_f64();
                let standing = match known.ended {
                    None | Some(Status::Running) => Standing::Running,
                    Some(Status::Finished) => Standing::Finished,
                    Some(Status::Interrupted) => Standing::Interrupted,
                };
                (known.agents.clone(), age, standing, seconds)
            }
            None => (Vec::new(), self.newest_checkpoint(), self.standing(now), self.dir.seconds()),
        };
        // A checkpoint is late if the run has been at work for long without one.
        let at_work = match &self.own {
            Some(_) => now.duration_since(self.begun),
            None => age_of(&self.dir.path().join("state.toml")).unwrap_or_default(),
        };
        let epsilons: Vec<Option<f64>> = self.tables.iter().map(|tables| tables.epsilon).collect();
        if agents.is_empty() {
            agents = self.read_agents();
        }
        self.pace.add(now, agents.iter().map(|agent| agent.frames).sum());
        let plan = &self.run.plan;
        let progress = Progress {
            standing,
            seconds,
            frames: plan.run.frames,
            learning_starts: plan.agents.iter().map(|a| a.settings.learning_starts).max().unwrap_or(0),
            checkpoint_age,
            at_work,
            checkpoint_seconds: plan.run.checkpoint_seconds,
            agents: &agents,
            epsilons: &epsilons,
            pace: &self.pace,
            now,
        };
        progress.event().to_string()
    }

    /// What files alone say of each agent.
    fn read_agents(&self) -> Vec<AgentProgress> {
        let mut states = self.dir.agent_states();
        let agent = |(agent, tables): (&AgentPlan, &AgentTables)| {
            let state = states.remove(&agent.id);
            let scores = tables.curve.rows.iter().rev().filter_map(|point| point.score).take(20);
            let (sum, count) = scores.fold((0.0, 0.0), |(sum, count), score| (sum + score, count + 1.0));
            AgentProgress {
                id: agent.id.clone(),
                frames: state.as_ref().map_or(0, |state| state.frames).max(tables.frame as u64),
                score: (count > 0.0).then(|| sum / count),
                stopped: state.and_then(|state| state.stopped),
                saturated: tables.saturated as u64,
            }
        };
        self.run.plan.agents.iter().zip(&self.tables).map(agent).collect()
    }

    fn standing(&mut self, now: Instant) -> Standing {
        let (at_work, asked) = &mut self.at_work;
        if asked.is_none_or(|asked| now.duration_since(asked) >= WORK_TIME) {
            (*at_work, *asked) = (self.dir.is_at_work(), Some(now));
        }
        match (self.dir.status(), *at_work) {
            // A process that begins writes that it is running, so what was written last holds.
            (Status::Finished, _) => Standing::Finished,
            (Status::Interrupted, _) => Standing::Interrupted,
            (Status::Running, _) if !self.dir.path().join("run.toml").is_file() => Standing::Gone,
            (Status::Running, Some(false)) => Standing::Silent,
            (Status::Running, _) => Standing::Running,
        }
    }

    fn newest_checkpoint(&self) -> Option<Duration> {
        age_of(&Checkpoints::list(&self.dir).ok()?.pop()?)
    }
}

/// How long ago a file was written.
fn age_of(path: &Path) -> Option<Duration> {
    SystemTime::now().duration_since(path.metadata().ok()?.modified().ok()?).ok()
}
