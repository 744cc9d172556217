//! One agent at work: the loop that every other file of this crate exists to feed, watch and save. Read this first.

use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use crate::sinks::{Episode, Recorded, Sinks};
use crate::store::{Field, Records, StoreError};
use crate::workshop::Workshop;
use spectral_agent::learner::Learner;
use spectral_agent::replay::{Outcome, Replay};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::reward::check_reward;
use spectral_core::rng::{Purpose, Stream};
use spectral_core::schedule::Linear;
use spectral_env::Env;
use std::path::Path;

/// Columns of `metrics.csv` before the learner's own.
const COLUMNS: [&str; 7] =
    ["frame", "updates", "episodes", "epsilon", "return_mean", "score_mean", "saturated"];

/// One agent with its task, its learner and its files.
pub struct AgentRun {
    plan: AgentPlan,
    env: Box<dyn Env>,
    learner: Learner,
    sinks: Sinks,
    clock: Clock,
    counters: Counters,
    /// Why it was stopped before its end.
    stopped: Option<String>,
}

/// The protocol's periods in agent steps.
struct Clock {
    frames_per_step: u64,
    learning_starts: u64,
    update_period: u64,
    target_period: u64,
    log_period: u64,
    exploration: Linear,
}

/// What moves with every step and is saved with every checkpoint.
#[derive(Clone, Debug, PartialEq)]
struct Counters {
    steps: u64,
    episodes: u64,
    saturated: u64,
    /// The next step begins with a reset.
    fresh: bool,
    player_score: u8,
    episode_steps: u64,
    episode_return: f64,
    episode_score: f64,
    /// Over the logging interval: episodes, sum of returns, sum of scores.
    interval: [f64; 3],
    /// A moving average of scores for people to watch; it is not logged.
    recent_score: f64,
}

impl Clock {
    fn new(plan: &Plan, agent: &AgentPlan, frames_per_step: u64) -> Self {
        let s = &agent.settings;
        let steps = |frames: u64| frames.div_ceil(frames_per_step).max(1);
        Clock {
            frames_per_step,
            learning_starts: steps(s.learning_starts),
            update_period: steps(s.update_period),
            target_period: steps(s.target_period),
            log_period: steps(plan.log_frames),
            exploration: Linear {
                from: s.epsilon_start,
                to: s.epsilon_final,
                start: s.learning_starts,
                duration: s.epsilon_frames,
            },
        }
    }
}

impl AgentRun {
    /// A fresh agent whose files lie in `folder`.
    pub fn create(
        plan: &Plan,
        agent: &AgentPlan,
        workshop: &Workshop,
        folder: &Path,
    ) -> Result<Self, TrainError> {
        let (env, learner) = parts(plan, agent, workshop)?;
        let sinks = Sinks::create(folder, &columns(&learner), env.spec().max_player_score > 0)?;
        let counters = Counters {
            steps: 0,
            episodes: 0,
            saturated: 0,
            fresh: true,
            player_score: 0,
            episode_steps: 0,
            episode_return: 0.0,
            episode_score: 0.0,
            interval: [0.0; 3],
            recent_score: 0.0,
        };
        let clock = Clock::new(plan, agent, env.spec().frames_per_step);
        Ok(AgentRun { plan: agent.clone(), env, learner, sinks, clock, counters, stopped: None })
    }

    /// An agent as [`save`](AgentRun::save) left it, but for replay's records and its files.
    pub fn restore(
        plan: &Plan,
        agent: &AgentPlan,
        workshop: &Workshop,
        state: &[u8],
        checkpoint: &Path,
    ) -> Result<Restored, TrainError> {
        let (mut env, mut learner) = parts(plan, agent, workshop)?;
        let mut from = StateReader::new(state);
        let bad = |e: StateError| TrainError::Store(StoreError::state(checkpoint, &e));
        let counters = Counters::restore(&mut from).map_err(bad)?;
        let stopped = from.blob().map_err(bad)?;
        let stopped = (!stopped.is_empty()).then(|| String::from_utf8_lossy(stopped).into_owned());
        env.restore(&mut from).map_err(bad)?;
        learner.restore(&mut from).map_err(bad)?;
        let recorded = Recorded::read(&mut from).map_err(bad)?;
        from.finish().map_err(bad)?;
        let clock = Clock::new(plan, agent, env.spec().frames_per_step);
        Ok(Restored { plan: agent.clone(), env, learner, recorded, clock, counters, stopped })
    }

    /// Writes everything but replay's records.
    pub fn save(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut out = StateWriter::default();
        self.counters.save(&mut out);
        out.blob(self.stopped.as_deref().unwrap_or("").as_bytes());
        self.env.save(&mut out);
        self.learner.save(&mut out);
        self.sinks.save(&mut out)?;
        Ok(out.into_bytes())
    }

    /// Trains until the agent has seen `frames` frames, or `pause` says to stop between two steps.
    ///
    /// Problems of the agent itself (values that are not finite, rewards that are not numbers) stop it and are kept as its
    /// reason; only its files can fail the call.
    pub fn advance(&mut self, frames: u64, mut pause: impl FnMut() -> bool) -> Result<(), TrainError> {
        let end = frames.div_ceil(self.clock.frames_per_step);
        while self.counters.steps < end && self.stopped.is_none() && !pause() {
            if let Err(reason) = self.step()? {
                self.stopped = Some(reason);
            }
            if self.counters.steps.is_multiple_of(self.clock.log_period) || self.stopped.is_some() {
                self.log()?;
            }
        }
        Ok(())
    }

    /// One step: observe, act, record, learn. The inner error is the agent's, the outer one its files'.
    fn step(&mut self) -> Result<Result<(), String>, TrainError> {
        let (c, seed) = (&mut self.counters, self.plan.seed);
        let mut chance = Stream::new(seed, Purpose::Environment, c.steps);
        if c.fresh {
            self.env.reset(&mut chance);
            c.fresh = false;
            c.player_score = 0;
        }
        self.env.observe(self.learner.observation());
        let mut explore = Stream::new(seed, Purpose::Exploration, c.steps);
        let action = if explore.chance(self.clock.exploration.at(c.steps * self.clock.frames_per_step)) {
            explore.below(self.env.spec().actions.len())
        } else {
            self.learner.act()
        };
        let step = self.env.step(action, &mut chance);
        c.steps += 1;
        if let Err(error) = check_reward(step.reward, &self.env.spec().name, c.steps) {
            return Ok(Err(error.to_string()));
        }
        c.saturated += u64::from(self.learner.codec().saturates(step.reward));
        let life_lost = step.life_lost && self.learner.settings().life_loss_terminal;
        self.learner.record(Outcome {
            action: action as u8,
            reward: step.reward as f32,
            terminal: step.terminated || (life_lost && !step.truncated),
            truncated: step.truncated && !step.terminated,
            player_score: c.player_score,
        });
        c.player_score = step.player_score;
        c.episode_steps += 1;
        c.episode_return += step.reward;
        c.episode_score += step.score;
        if step.terminated || step.truncated {
            self.end_episode()?;
        }
        let steps = self.counters.steps;
        if steps >= self.clock.learning_starts
            && steps.is_multiple_of(self.clock.update_period)
            && self.learner.can_update()
            && let Err(error) = self.learner.update()
        {
            return Ok(Err(error.to_string()));
        }
        if steps.is_multiple_of(self.clock.target_period) {
            self.learner.refresh_target();
        }
        Ok(Ok(()))
    }

    fn end_episode(&mut self) -> Result<(), TrainError> {
        let (c, fps) = (&mut self.counters, self.clock.frames_per_step);
        c.fresh = true;
        c.episodes += 1;
        let episode = Episode {
            frame: c.steps * fps,
            sum: c.episode_return,
            score: c.episode_score,
            length: c.episode_steps * fps,
        };
        c.interval = [c.interval[0] + 1.0, c.interval[1] + episode.sum, c.interval[2] + episode.score];
        let rate = (1.0 / c.episodes as f64).max(0.05);
        c.recent_score += rate * (episode.score - c.recent_score);
        (c.episode_steps, c.episode_return, c.episode_score) = (0, 0.0, 0.0);
        Ok(self.sinks.episode(episode)?)
    }

    fn log(&mut self) -> Result<(), TrainError> {
        let c = &mut self.counters;
        let [episodes, returns, scores] = std::mem::take(&mut c.interval);
        let mean = |sum: f64| (episodes > 0.0).then(|| sum / episodes);
        let frame = c.steps * self.clock.frames_per_step;
        let mut row: Vec<Field> = vec![
            frame.into(),
            self.learner.updates().into(),
            c.episodes.into(),
            self.clock.exploration.at(frame).into(),
            mean(returns).into(),
            mean(scores).into(),
            c.saturated.into(),
        ];
        row.extend(self.learner.drain_metrics().into_iter().map(Field::from));
        Ok(self.sinks.metrics(&row, self.learner.td_by_score())?)
    }

    /// The agent's id.
    pub fn id(&self) -> &str {
        &self.plan.id
    }

    /// Frames seen so far.
    pub fn frames(&self) -> u64 {
        self.counters.steps * self.clock.frames_per_step
    }

    /// Why it was stopped before its end.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// The mean score of about the last twenty episodes, once there is one.
    pub fn recent_score(&self) -> Option<f64> {
        (self.counters.episodes > 0).then_some(self.counters.recent_score)
    }

    /// Rewards so far that were beyond the codec's capacity.
    pub fn saturated(&self) -> u64 {
        self.counters.saturated
    }

    /// The learner, for its model.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// Replay, whose records checkpoints keep in segments.
    pub fn replay(&self) -> &Replay {
        self.learner.replay()
    }
}

/// An agent read back from a checkpoint whose files have not been touched yet.
pub struct Restored {
    plan: AgentPlan,
    env: Box<dyn Env>,
    learner: Learner,
    recorded: Recorded,
    clock: Clock,
    counters: Counters,
    stopped: Option<String>,
}

impl Restored {
    /// Replay, for putting records back.
    pub fn replay_mut(&mut self) -> &mut Replay {
        self.learner.replay_mut()
    }

    /// Whether [`open`](Restored::open) will find the agent's files as long as they have to be.
    pub fn check(&self, folder: &Path) -> Result<(), TrainError> {
        Ok(self.recorded.check(folder)?)
    }

    /// Cuts the agent's files back to where the checkpoint left them, and goes on.
    pub fn open(self, folder: &Path) -> Result<AgentRun, TrainError> {
        let Restored { plan, env, learner, recorded, clock, counters, stopped } = self;
        let sinks = Sinks::resume(folder, &columns(&learner), &recorded)?;
        Ok(AgentRun { plan, env, learner, sinks, clock, counters, stopped })
    }
}

fn parts(plan: &Plan, agent: &AgentPlan, workshop: &Workshop) -> Result<(Box<dyn Env>, Learner), TrainError> {
    let env = workshop.task(plan)?;
    let codec = workshop.codec(agent)?;
    let learner = Learner::new(agent.settings.clone(), codec, env.spec(), agent.seed)?;
    Ok((env, learner))
}

fn columns(learner: &Learner) -> Vec<String> {
    COLUMNS.iter().map(|c| c.to_string()).chain(learner.metric_columns()).collect()
}

impl Counters {
    fn save(&self, out: &mut StateWriter) {
        out.u64s(&[self.steps, self.episodes, self.saturated, self.episode_steps]);
        out.bool(self.fresh);
        out.u8(self.player_score);
        out.f64s(&[self.episode_return, self.episode_score, self.recent_score]);
        out.f64s(&self.interval);
    }

    fn restore(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let foreign = || StateError("counters of another version".into());
        let &[steps, episodes, saturated, episode_steps] = from.u64s()?.as_slice() else {
            return Err(foreign());
        };
        let (fresh, player_score) = (from.bool()?, from.u8()?);
        let &[episode_return, episode_score, recent_score] = from.f64s()?.as_slice() else {
            return Err(foreign());
        };
        let interval = from.f64s()?.try_into().map_err(|_| foreign())?;
        Ok(Counters {
            steps,
            episodes,
            saturated,
            fresh,
            player_score,
            episode_steps,
            episode_return,
            episode_score,
            interval,
            recent_score,
        })
    }
}

impl Records for Replay {
    fn oldest(&self) -> u64 {
        Replay::oldest(self)
    }
    fn newest(&self) -> u64 {
        Replay::newest(self)
    }
    fn write_range(&self, first: u64, count: u64, out: &mut Vec<u8>) {
        Replay::write_range(self, first, count, out);
    }
    fn bytes_per_record(&self) -> usize {
        Replay::bytes_per_record(self.spec())
    }
    fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        Replay::read_range(self, first, count, bytes)
    }
}
