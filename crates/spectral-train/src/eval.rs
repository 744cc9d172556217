//! Playing with a trained model or at random, without learning.

use crate::error::TrainError;
use crate::kept_model::{Arithmetic, KeptModel, ModelChoice};
use crate::model_file::Model;
use crate::resolve::ResolvedRun;
use crate::run_dir::RunDir;
use spectral_agent::learner::Learner;
use spectral_agent::replay::Outcome;
use spectral_core::bytes::{StateError, StateReader};
use spectral_core::rng::{Purpose, Stream};
use spectral_core::shell::quote_path;
use spectral_env::{ActionMask, Env, Step};
use std::ops::ControlFlow;

/// What an agent achieved over some episodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// The agent's id.
    pub id: String,
    /// Plain score of each episode.
    pub scores: Vec<f64>,
    /// Raw return of each episode.
    pub returns: Vec<f64>,
    /// What the task [shows beside the score](Env::highlight) at the end of each episode, and its name; empty without such a thing.
    pub highlights: Vec<f64>,
    /// Its name.
    pub highlight: Option<&'static str>,
}

impl Evaluation {
    /// Mean plain score of an episode.
    pub fn mean(&self) -> f64 {
        self.scores.iter().sum::<f64>() / self.scores.len().max(1) as f64
    }
}

/// How one episode went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Episode {
    /// Plain score.
    pub score: f64,
    /// Raw return.
    pub sum: f64,
    /// Steps played.
    pub steps: u64,
    /// True if the task ended it, false if the one who watched had seen enough.
    pub over: bool,
}

/// Who plays.
pub struct Player {
    /// Nobody's model: every action is drawn.
    model: Option<Mind>,
    /// Probability of a random action.
    epsilon: f64,
    seed: u64,
    /// Resets and steps share one count, so that no two of them draw from the same stream.
    draws: u64,
}

struct Mind {
    learner: Box<Learner>,
    life_loss_terminal: bool,
}

impl Player {
    /// One that draws all its actions.
    pub fn random(seed: u64) -> Self {
        Player { model: None, epsilon: 1.0, seed, draws: 0 }
    }

    /// The last model of one agent of a run, acting at random with probability `epsilon`.
    pub fn trained(
        dir: &RunDir,
        run: &ResolvedRun,
        agent: usize,
        epsilon: f64,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let model = KeptModel::need(dir, run, agent, ModelChoice::Last)?;
        Self::kept(run, agent, &model, epsilon, seed)
    }

    /// A model that a run has kept of one of its agents, acting at random with probability `epsilon`.
    pub fn kept(
        run: &ResolvedRun,
        agent: usize,
        model: &KeptModel,
        epsilon: f64,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let unfit = |e: StateError| {
            TrainError::Data(format!("the model of {} cannot play: {e}", run.plan.agents[agent].id))
        };
        if !Model::of(run, agent, model.frames, &model.bytes).map_err(unfit)?.is_finite() {
            return Err(unfit(StateError("it holds numbers that are not finite".into())));
        }
        Self::with_model(run, agent, &model.bytes, epsilon, seed).map_err(unfit)
    }

    /// The model of one agent from the bytes of [`Population::save_model`](crate::population::Population::save_model).
    pub fn with_model(
        run: &ResolvedRun,
        agent: usize,
        model: &[u8],
        epsilon: f64,
        seed: u64,
    ) -> Result<Self, StateError> {
        let (codec, task, agent) = (run.codecs[agent].clone(), &run.task, &run.plan.agents[agent]);
        // The replay only has to hold the stack that is acted on.
        let mut settings = agent.settings.clone();
        settings.replay = settings.batch + settings.n_step + 8 + task.observation.stack();
        settings.prioritised = false;
        settings.average = 0;
        let mut learner =
            Learner::new(settings, codec, task, agent.seed).map_err(|e| StateError(e.to_string()))?;
        learner.restore_model(&mut StateReader::new(model))?;
        let life_loss_terminal = agent.settings.life_loss_terminal;
        let model = Some(Mind { learner: Box::new(learner), life_loss_terminal });
        Ok(Player { model, epsilon, seed, draws: 0 })
    }

    /// Acts with the arithmetic of a GPU that trains in bf16, but for the order of sums.
    pub fn round_to_bf16(&mut self) {
        self.model.iter_mut().for_each(|model| model.learner.round_to_bf16());
    }

    fn stream(&mut self) -> Stream {
        self.draws += 1;
        Stream::new(self.seed, Purpose::Evaluation, self.draws)
    }

    /// Plays one episode, legal actions only. `see` is called with the task after its reset (no step yet) and after every step; it may
    /// break off the episode or fail.
    ///
    /// ```
    /// use spectral_train::eval::Player;
    /// use std::{convert::Infallible, ops::ControlFlow};
    /// let mut env = spectral_env::make("catch-scale", &Default::default())?;
    /// let mut looks = 0;
    /// let Ok(episode) = Player::random(1).play(env.as_mut(), |_, _| {
    ///     looks += 1;
    ///     Ok::<_, Infallible>(ControlFlow::Continue(()))
    /// });
    /// assert_eq!((episode.steps, looks, episode.over), (9, 10, true));
    /// # Ok::<(), spectral_env::TaskError>(())
    /// ```
    pub fn play<E>(
        &mut self,
        env: &mut dyn Env,
        mut see: impl FnMut(&dyn Env, Option<&Step>) -> Result<ControlFlow<()>, E>,
    ) -> Result<Episode, E> {
        let mut episode = Episode::default();
        self.begin(env);
        let mut seen = see(env, None)?;
        while !episode.over && seen.is_continue() {
            let Some(turn) = self.choose(env) else {
                // The task is at fault; nothing can be played.
                episode.over = true;
                break;
            };
            let step = self.take(env, turn);
            episode.steps += 1;
            episode.score += step.score;
            episode.sum += step.reward;
            episode.over = step.terminated || step.truncated;
            seen = see(env, Some(&step))?;
        }
        Ok(episode)
    }

    /// Begins an episode.
    pub fn begin(&mut self, env: &mut dyn Env) {
        env.reset(&mut self.stream());
        if let Some(Mind { learner, .. }) = &mut self.model {
            learner.replay_mut().begin_episode();
        }
    }

    /// Looks at the task and chooses an action; `None` if none is legal.
    pub fn choose(&mut self, env: &dyn Env) -> Option<Turn> {
        let mut rng = self.stream();
        let legal = env.legal();
        if legal.is_empty() {
            return None;
        }
        let random = |rng: &mut Stream| legal.nth(rng.below(legal.count())).unwrap_or(0);
        let (action, explored) = match &mut self.model {
            None => (random(&mut rng), true),
            Some(Mind { learner, .. }) => {
                env.observe(learner.observation());
                learner.allow(&legal);
                match rng.chance(self.epsilon) {
                    true => (random(&mut rng), true),
                    false => (learner.act(), false),
                }
            }
        };
        Some(Turn { action, explored, legal, rng })
    }

    /// The model's outputs for what was last looked at, and the codec's statistics; `None` for nobody's model.
    pub fn outputs(&mut self) -> Option<(&[f32], &[f64])> {
        self.model.as_mut().map(|model| model.learner.outputs())
    }

    /// Plays the action that was chosen, or another legal one that the turn was changed to.
    pub fn take(&mut self, env: &mut dyn Env, turn: Turn) -> Step {
        let Turn { action, mut rng, .. } = turn;
        let step = env.step(action, &mut rng);
        if let Some(Mind { learner, life_loss_terminal }) = &mut self.model {
            // A stack begins where it began in training: at an episode's start and, if the protocol says so, a life's.
            let terminal = step.terminated || step.truncated || (step.life_lost && *life_loss_terminal);
            learner.record(Outcome { terminal, ..Outcome::default() });
        }
        step
    }

    /// Draws from the streams of this seed from now on, from the first one.
    pub(crate) fn restart(&mut self, seed: u64) {
        (self.seed, self.draws) = (seed, 0);
    }

    /// Acts at random with this probability from now on.
    pub fn set_epsilon(&mut self, epsilon: f64) {
        self.epsilon = epsilon;
    }
}

/// One turn of a player: what it chose, and the random numbers with which the task will answer.
#[derive(Debug)]
pub struct Turn {
    /// The action to play.
    pub action: usize,
    /// Whether it was drawn at random.
    pub explored: bool,
    /// The actions that are legal.
    pub legal: ActionMask,
    rng: Stream,
}

/// The error for an agent whose model is not there.
pub(crate) fn no_model(dir: &RunDir, id: &str) -> TrainError {
    TrainError::Usage(match dir.why_stopped(id) {
        Some(reason) => format!("{id} has no model: {reason}"),
        None => {
            format!(
                "{id} has no model yet: its run has neither ended nor written a checkpoint; if no process is at work on it, \
                 finish it with `spectral resume {}`",
                quote_path(dir.path())
            )
        }
    })
}

/// Plays `episodes` episodes with the last model of one agent, acting at random with probability `epsilon`.
pub fn evaluate(
    dir: &RunDir,
    run: &ResolvedRun,
    agent: usize,
    episodes: u64,
    epsilon: f64,
) -> Result<Evaluation, TrainError> {
    let model = KeptModel::need(dir, run, agent, ModelChoice::Last)?;
    evaluate_model(dir, run, agent, &model, episodes, epsilon, Arithmetic::Fp32)
}

/// Plays `episodes` episodes with a model of one agent, acting at random with probability `epsilon`.
pub fn evaluate_model(
    dir: &RunDir,
    run: &ResolvedRun,
    agent: usize,
    model: &KeptModel,
    episodes: u64,
    epsilon: f64,
    arithmetic: Arithmetic,
) -> Result<Evaluation, TrainError> {
    let mut env = run.make_task()?;
    let plan = &run.plan.agents[agent];
    let mut player = Player::kept(run, agent, model, epsilon, plan.seed)?;
    if arithmetic.rounds(dir)? {
        player.round_to_bf16();
    }
    let mut result = Evaluation { id: plan.id.clone(), ..Evaluation::default() };
    for _ in 0..episodes {
        let episode = player.play(env.as_mut(), |_, _| Ok::<_, TrainError>(ControlFlow::Continue(())))?;
        result.scores.push(episode.score);
        result.returns.push(episode.sum);
        if let Some((name, value)) = env.highlight() {
            result.highlight = Some(name);
            result.highlights.push(value);
        }
    }
    Ok(result)
}
