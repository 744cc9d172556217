//! The acting half of an agent: environment, exploration, counters, schedule and files.
//!
//! Its learner lives elsewhere: next to it on a CPU ([`AgentRun`](crate::agent_run::AgentRun)), or in a group on a device
//! ([`DevicePopulation`](crate::pipeline::DevicePopulation)). Both run the same steps through this file.

use crate::claim::Fence;
use crate::error::TrainError;
use crate::evaluations::{Evaluations, Saved};
use crate::events::{Event, Events};
use crate::frozen_games::{Request, Row};
use crate::glimpse::{GlimpseSlot, GlimpseTaker, Standing};
use crate::metrics_writer::{EPISODES, Episode, MetricsWriter, RecordedFiles};
use crate::plan::{AgentPlan, MAX_FRAMES};
use crate::recent::RecentScores;
use crate::recipe::Anchor;
use crate::resolve::ResolvedRun;
use crate::run_status::last_rows;
use crate::store::{Field, StoreError};
use crate::table_sums::TableSum;
use spectral_agent::codecs::Codec;
use spectral_agent::diagnostics::ScoreError;
use spectral_agent::replay::Outcome;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::reward::check_reward;
use spectral_core::rng::{Purpose, Stream};
use spectral_env::{ActionMask, Env, Observation, Step, TaskSpec};
use std::path::Path;
use std::sync::Arc;

mod counters;

use counters::{Clock, Counters};

/// Columns of `metrics.csv` before the learner's own.
const COLUMNS: [&str; 7] =
    ["frame", "updates", "episodes", "epsilon", "return_mean", "score_mean", "saturated"];

/// One agent's environment with its counters, schedule and files.
pub struct Actor {
    plan: AgentPlan,
    env: Box<dyn Env>,
    codec: Arc<dyn Codec>,
    clock: Clock,
    counters: Counters,
    /// Scores of its last episodes. A restored agent finds them in its table of episodes.
    recent: RecentScores,
    /// The environment's random numbers for the current step.
    chance: Stream,
    /// The legal actions of the current step, if the task says which they are.
    legal: Option<ActionMask>,
    files: Files,
    /// Why it was stopped early, if it was.
    stopped: Option<String>,
    /// Why the task cannot go on, if it cannot.
    failed: Option<String>,
    last_step: Step,
    /// Who is told of episodes and metrics, and the agent's number there.
    events: Option<(usize, Arc<Events>)>,
    /// For those who watch, if somebody does.
    glimpses: Option<GlimpseTaker>,
    /// Frozen games, if the run has any.
    evaluations: Option<Box<Evaluations>>,
}

/// The metric files. A restored agent opens them only after its whole checkpoint has been verified.
enum Files {
    Closed,
    Recorded(RecordedFiles),
    Open(Box<MetricsWriter>),
}

impl Actor {
    /// A new agent's environment before its first step. Its files are not open yet.
    pub fn new(run: &ResolvedRun, agent: usize, env: Box<dyn Env>) -> Self {
        let codec = run.codecs[agent].clone();
        let evaluations = Evaluations::new(run, agent, env.spec().frames_per_step);
        let agent = &run.plan.agents[agent];
        Actor {
            plan: agent.clone(),
            codec,
            clock: Clock::new(&run.plan, agent, env.spec().frames_per_step),
            counters: Counters { fresh: true, ..Counters::default() },
            recent: RecentScores::default(),
            chance: Stream::new(agent.seed, Purpose::Environment, 0),
            legal: None,
            files: Files::Closed,
            stopped: None,
            failed: None,
            last_step: Step::default(),
            events: None,
            glimpses: None,
            evaluations,
            env,
        }
    }

    /// Creates the agent's files in `folder`. `learner` holds the names of the learner's metrics.
    pub fn create_files(&mut self, folder: &Path, learner: &[String]) -> Result<(), StoreError> {
        let by_score = self.env.spec().max_player_score > 0;
        self.evaluations.as_mut().map_or(Ok(()), |evaluations| evaluations.create_files(folder))?;
        self.files = Files::Open(Box::new(MetricsWriter::create(folder, &columns(learner), by_score)?));
        Ok(())
    }

    /// Checks that the files are at least as long as the checkpoint recorded, as [`open_files`](Actor::open_files) needs.
    pub fn check_files(&self, folder: &Path) -> Result<(), StoreError> {
        match &self.files {
            Files::Recorded(recorded) => recorded.check(folder)?,
            _ => return Ok(()),
        }
        self.evaluations.as_ref().map_or(Ok(()), |evaluations| evaluations.check_files(folder))
    }

    /// Lengths and checksums of the agent's tables as they are now; none before they are open.
    pub(crate) fn table_sums(&self) -> Vec<TableSum> {
        let Files::Open(writer) = &self.files else { return Vec::new() };
        let evaluations = self.evaluations.as_ref().and_then(|evaluations| evaluations.sum());
        writer.sums().into_iter().chain(evaluations).collect()
    }

    /// Truncates the agent's files to the lengths in the checkpoint and reopens them. From now on they are changed only if the run is
    /// still this process's.
    pub fn open_files(&mut self, folder: &Path, learner: &[String], fence: &Fence) -> Result<(), StoreError> {
        self.set_fence(fence);
        if let Files::Recorded(recorded) = &self.files {
            let writer = MetricsWriter::resume(folder, &columns(learner), recorded, fence)?;
            self.files = Files::Open(Box::new(writer));
            let episodes = last_rows(&folder.join(EPISODES), ["frame", "score"])?;
            self.recent = episodes.into_iter().map(|[_, score]| score).collect();
            self.evaluations.as_mut().map_or(Ok(()), |evaluations| evaluations.open_files(folder))?;
        }
        Ok(())
    }

    /// From now on the agent's files are replaced only if the run is still this process's.
    pub(crate) fn set_fence(&mut self, fence: &Fence) {
        if let Some(evaluations) = &mut self.evaluations {
            evaluations.set_fence(fence.clone());
        }
    }

    fn writer(&mut self) -> &mut MetricsWriter {
        match &mut self.files {
            Files::Open(writer) => writer,
            _ => unreachable!("files are opened before the first step"),
        }
    }

    /// Begins a step: resets the task if an episode ended, and observes it.
    pub fn begin(&mut self, mut out: Observation<'_>) {
        let c = &mut self.counters;
        self.chance = Stream::new(self.plan.seed, Purpose::Environment, c.steps);
        if c.fresh {
            self.env.reset(&mut self.chance);
            self.failed = self.env.failure();
            c.fresh = false;
            c.player_score = 0;
        }
        self.env.observe(out.reborrow());
        self.legal = self.env.spec().masks_actions.then(|| self.env.legal());
        if let Some(glimpses) = &mut self.glimpses {
            let frame = c.steps * self.clock.frames_per_step;
            let standing = Standing { frame, episode: c.episodes, score: c.episode_score };
            glimpses.observed(self.env.as_ref(), &out, self.legal.as_ref(), standing);
        }
    }

    /// Whether the next step begins an episode.
    pub fn needs_reset(&self) -> bool {
        self.counters.fresh
    }

    /// The random numbers with which [`begin`](Actor::begin) would reset the task now.
    pub fn reset_stream(&self) -> Stream {
        Stream::new(self.plan.seed, Purpose::Environment, self.counters.steps)
    }

    /// What the last step brought.
    pub fn last_step(&self) -> &Step {
        &self.last_step
    }

    /// Tells of episodes and metrics from now on.
    pub fn tell(&mut self, agent: usize, events: Arc<Events>) {
        self.events = Some((agent, events));
    }

    /// Leaves glimpses in this slot from now on, when they are asked for.
    pub fn show(&mut self, slot: Arc<GlimpseSlot>) {
        self.glimpses = Some(GlimpseTaker::new(slot, self.counters.fresh));
    }

    /// Where to write the outputs and the values that the agent acts on, if somebody who watches asked for them.
    pub(crate) fn wanted_values(&mut self) -> Option<(&mut Vec<f32>, &mut Vec<f32>)> {
        self.glimpses.as_mut()?.wanted_values()
    }

    /// Whether somebody who watches asked for a copy of the model.
    pub(crate) fn wants_model(&self) -> bool {
        self.glimpses.as_ref().is_some_and(GlimpseTaker::wants_model)
    }

    /// Hands the model to whoever asked for it.
    pub(crate) fn give_model(&self, model: Vec<u8>) {
        if let Some(glimpses) = &self.glimpses {
            glimpses.give_model(self.frames(), model);
        }
    }

    /// The legal actions of the current step, which the learner has to know before it acts; `None` if the task does not say
    /// which actions are legal.
    pub fn legal(&self) -> Option<&ActionMask> {
        self.legal.as_ref()
    }

    /// The random action of the current step, if exploration chooses one: each legal action is as likely as the others.
    pub fn explore(&self) -> Option<usize> {
        let (mut explore, explores) = self.exploration();
        explores.then(|| match &self.legal {
            None => explore.below(self.env.spec().actions.len()),
            // Where none is legal, nothing will be played.
            Some(legal) => legal.nth(explore.below(legal.count().max(1))).unwrap_or(0),
        })
    }

    /// Whether exploration chooses the action of the current step, and the stream from which it then does.
    fn exploration(&self) -> (Stream, bool) {
        let steps = self.counters.steps;
        let mut explore = Stream::new(self.plan.seed, Purpose::Exploration, steps);
        let epsilon = self.clock.exploration.at(steps * self.clock.frames_per_step);
        let explores = explore.chance(epsilon);
        (explore, explores)
    }

    /// Ends a step: plays the action and returns the outcome for the learner. Returns `None` if the task's reward is not a
    /// number or no action is legal, which stops the agent. Only problems with its files are errors.
    ///
    /// # Panics
    /// If the action is not a legal one.
    pub fn play(&mut self, action: usize) -> Result<Option<Outcome>, TrainError> {
        // A failed reset is told here, before the step that it makes impossible.
        if let Some(reason) = self.failed.take() {
            return Err(TrainError::Task(reason));
        }
        if let Some(legal) = self.legal.take() {
            if legal.is_empty() {
                // The step counts, as one whose reward is not a number does: its row of metrics needs a frame of its own.
                self.counters.steps += 1;
                let (name, steps) = (&self.env.spec().name, self.counters.steps);
                self.stopped =
                    Some(format!("the task {name} has no legal action at step {steps} and has not ended"));
                return Ok(None);
            }
            assert!(legal.allows(action), "action {action} is not legal: {legal:?}");
        }
        if self.glimpses.as_ref().is_some_and(GlimpseTaker::awaits_action) {
            let (_, explored) = self.exploration();
            self.glimpses.iter_mut().for_each(|glimpses| glimpses.acted(action, explored));
        }
        let step = self.env.step(action, &mut self.chance);
        if let Some(reason) = self.env.failure() {
            return Err(TrainError::Task(reason));
        }
        self.last_step = step;
        let c = &mut self.counters;
        c.steps += 1;
        if let Err(error) = check_reward(step.reward, &self.env.spec().name, c.steps) {
            self.stopped = Some(error.to_string());
            return Ok(None);
        }
        if !step.score.is_finite() {
            let (name, score) = (&self.env.spec().name, step.score);
            self.stopped = Some(format!("the task {name} gave the score {score} at step {}", c.steps));
            return Ok(None);
        }
        c.saturated += u64::from(self.codec.saturates(step.reward));
        let life_loss_terminal = self.plan.settings.life_loss_terminal;
        let outcome = Outcome::of(&step, action as u8, c.player_score, life_loss_terminal);
        if let Some(glimpses) = &mut self.glimpses {
            glimpses.stepped(step.reward, outcome.terminal || outcome.truncated);
        }
        c.player_score = step.player_score;
        c.episode_steps += 1;
        c.episode_return += step.reward;
        c.episode_score += step.score;
        if step.terminated || step.truncated {
            self.end_episode()?;
        }
        Ok(Some(outcome))
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
        c.smoothed_score += rate * (episode.score - c.smoothed_score);
        self.recent.push(episode.score);
        (c.episode_steps, c.episode_return, c.episode_score) = (0, 0.0, 0.0);
        if let Some((agent, events)) = &self.events {
            events.push(Event::Episode { agent: *agent, episode });
        }
        Ok(self.writer().episode(episode)?)
    }

    /// Whether the learner is to be updated in the current step, after its action is chosen.
    pub fn update_due(&self) -> bool {
        let Counters { steps, emptied, .. } = self.counters;
        steps - emptied >= self.clock.learning_starts && steps.is_multiple_of(self.clock.update_period)
    }

    /// Whether the target network is to be refreshed in the current step, after the update.
    pub fn refresh_due(&self) -> bool {
        self.counters.steps.is_multiple_of(self.clock.target_period)
    }

    /// Whether a row of metrics is to be written after the last step.
    pub fn log_due(&self) -> bool {
        self.counters.steps.is_multiple_of(self.clock.log_period) || self.stopped.is_some()
    }

    /// Writes a row of metrics: the actor's own, then the learner's.
    pub fn log(
        &mut self,
        updates: u64,
        learner: Vec<Option<f64>>,
        td: impl Iterator<Item = ScoreError>,
    ) -> Result<(), TrainError> {
        let c = &mut self.counters;
        let [episodes, returns, scores] = std::mem::take(&mut c.interval);
        let mean = |sum: f64| (episodes > 0.0).then(|| sum / episodes);
        let frame = c.steps * self.clock.frames_per_step;
        let mut row: Vec<Field> = vec![
            frame.into(),
            updates.into(),
            c.episodes.into(),
            self.clock.exploration.at(frame).into(),
            mean(returns).into(),
            mean(scores).into(),
            c.saturated.into(),
        ];
        row.extend(learner.into_iter().map(Field::from));
        let values = self.writer().metrics(&row, td)?;
        if let Some((agent, events)) = &self.events {
            events.push(Event::Metrics { agent: *agent, values });
        }
        Ok(())
    }

    /// Stops the agent for good.
    pub fn stop(&mut self, reason: String) {
        self.stopped = Some(reason);
    }

    /// Whether it has seen fewer than `frames` frames and has not been stopped.
    pub fn is_active(&self, frames: u64) -> bool {
        self.stopped.is_none() && self.counters.steps < self.steps_of(frames)
    }

    /// Whether there is something left to do before it has seen `frames` frames: steps to take, or frozen games to play.
    pub fn has_work(&self, frames: u64) -> bool {
        self.is_active(frames) || self.evaluations_waiting() > 0
    }

    /// Whether frozen games are due after the last step of a run of `frames` frames.
    pub(crate) fn evaluation_due(&self, frames: u64) -> bool {
        let steps = self.counters.steps;
        self.evaluations.as_ref().is_some_and(|evaluations| evaluations.due(steps, self.steps_of(frames)))
    }

    /// The next step after which frozen games are due, the run's end aside; none if the run has no such games.
    pub(crate) fn next_evaluation(&self) -> Option<u64> {
        self.evaluations.as_ref().map(|evaluations| evaluations.next(self.counters.steps))
    }

    /// Asks for frozen games with these copies of the agent's models.
    pub(crate) fn request_evaluation(&mut self, models: Vec<(&'static str, Vec<u8>)>) {
        let (steps, frame) = (self.steps(), self.frames());
        if let Some(evaluations) = &mut self.evaluations {
            evaluations.request(steps, frame, models);
        }
    }

    /// How many evaluations are still to be played.
    pub(crate) fn evaluations_waiting(&self) -> usize {
        self.evaluations.as_ref().map_or(0, |evaluations| evaluations.waiting())
    }

    /// The evaluation to be played first, and the run with this agent alone.
    pub(crate) fn first_evaluation(&self) -> Option<(Arc<ResolvedRun>, Arc<Request>)> {
        self.evaluations.as_ref()?.first()
    }

    /// Writes down how the evaluation to be played first went.
    pub(crate) fn evaluated(&mut self, rows: &[Row]) -> Result<(), TrainError> {
        self.evaluations.as_mut().map_or(Ok(()), |evaluations| evaluations.played(rows))
    }

    /// The number of steps that it takes to see this many frames.
    pub fn steps_of(&self, frames: u64) -> u64 {
        frames.div_ceil(self.clock.frames_per_step)
    }

    /// The number of steps completed.
    pub fn steps(&self) -> u64 {
        self.counters.steps
    }

    /// The number of frames seen.
    pub fn frames(&self) -> u64 {
        self.counters.steps * self.clock.frames_per_step
    }

    /// The agent's plan.
    pub fn plan(&self) -> &AgentPlan {
        &self.plan
    }

    /// The task's specification.
    pub fn task(&self) -> &TaskSpec {
        self.env.spec()
    }

    /// The agent's codec.
    pub fn codec(&self) -> &Arc<dyn Codec> {
        &self.codec
    }

    /// Why it was stopped early, if it was.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// The mean score of the last twenty episodes, once there is one.
    pub fn recent_score(&self) -> Option<f64> {
        self.recent.mean()
    }

    /// The number of rewards beyond the codec's capacity.
    pub fn saturated(&self) -> u64 {
        self.counters.saturated
    }

    /// The step before which replay holds nothing: 0, or the step at which a light checkpoint was resumed.
    pub fn emptied(&self) -> u64 {
        self.counters.emptied
    }

    /// Records that replay is empty now. Learning starts again when replay holds as much as at the agent's first update.
    pub fn empty_replay(&mut self) {
        self.counters.emptied = self.counters.steps;
    }

    /// Writes the agent's state, including the learner's state, which `learner` writes. The rows of the metric files are synced
    /// to disk before the state refers to them.
    pub fn save<E: From<StoreError>>(
        &mut self,
        learner: impl FnOnce(&mut StateWriter) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let mut out = StateWriter::default();
        self.counters.save(&mut out);
        out.blob(self.stopped.as_deref().unwrap_or("").as_bytes());
        self.env.save(&mut out);
        learner(&mut out)?;
        self.writer().save(&mut out)?;
        // Last, so that the state of an agent without evaluations is what it was before there were any.
        self.evaluations.as_mut().map_or(Ok(()), |evaluations| evaluations.save(&mut out))?;
        Ok(out.into_bytes())
    }

    /// Restores what [`save`](Actor::save) wrote. The files are not opened.
    pub fn restore(
        &mut self,
        state: &[u8],
        learner: impl FnOnce(&mut StateReader<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut from = StateReader::new(state);
        self.restore_own(&mut from)?;
        learner(&mut from)?;
        self.files = Files::Recorded(RecordedFiles::read(&mut from)?);
        let saved = if from.is_empty() { None } else { Some(Saved::read(&mut from)?) };
        from.finish()?;
        if let Some(evaluations) = &mut self.evaluations {
            evaluations.restore(self.counters.steps, saved);
        }
        if !self.counters.fresh && !self.saves_task() {
            self.counters.abandon_episode(self.plan.settings.replay as u64);
        }
        Ok(())
    }

    /// Restores what comes before the learner's state, which is then the next to be read.
    pub(crate) fn restore_own(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.counters = Counters::restore(from, MAX_FRAMES.div_ceil(self.clock.frames_per_step))?;
        let stopped = from.blob()?;
        self.stopped = (!stopped.is_empty()).then(|| String::from_utf8_lossy(stopped).into_owned());
        self.env.restore(from)
    }

    /// Whether the task writes its state. One that does not is resumed at an episode's start.
    pub fn saves_task(&self) -> bool {
        self.env.saves_state()
    }

    /// Where the task stands between two steps, so that what follows can be played again; `None` if the task does not say.
    pub(crate) fn anchor(&self) -> Option<Anchor> {
        let mut task = StateWriter::default();
        self.saves_task().then(|| self.env.save(&mut task))?;
        let Counters { steps, fresh, player_score, .. } = self.counters;
        Some(Anchor { step: steps, fresh, player_score, task: task.into_bytes() })
    }

    /// Steps at which an episode was cut off because the run was resumed there. Replay's records before them say nothing
    /// of that.
    pub fn seams(&self) -> &[u64] {
        &self.counters.seams
    }
}

fn columns(learner: &[String]) -> Vec<String> {
    COLUMNS.iter().map(|c| c.to_string()).chain(learner.iter().cloned()).collect()
}
