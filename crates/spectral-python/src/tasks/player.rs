//! One copy of a task: its random numbers, its last observations and where its episode stands.

use super::catalogue::Recipe;
use spectral_core::rng::{Purpose, Stream};
use spectral_env::{ActionMask, Env, Observation, ObservationSpec, Picture, Step, TaskError, TaskSpec};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Where an episode stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing was ever reset.
    Unborn,
    /// The episode is under way.
    Playing,
    /// The episode has ended.
    Over,
}

/// What a step brought, and which actions are legal after it, if the task says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub step: Step,
    pub legal: Option<ActionMask>,
}

/// A task that is being played.
pub struct Player {
    /// Nobody ever waits for this lock: Python wants everything to be shareable, and a task is not.
    env: Mutex<Box<dyn Env>>,
    spec: TaskSpec,
    seed: u64,
    /// Resets and steps since it was seeded: each has a stream of random numbers of its own, as in training.
    draws: u64,
    steps: u64,
    stage: Stage,
    last: Outcome,
    history: Option<History>,
}

impl Player {
    /// A copy of the task. It has a seed from the system until it is given one.
    pub fn new(recipe: &Recipe) -> Result<Self, TaskError> {
        let env = recipe.make()?;
        let spec = env.spec().clone();
        let history = History::of(&spec.observation);
        let seed = RandomState::new().build_hasher().finish();
        let env = Mutex::new(env);
        Ok(Player {
            env,
            spec,
            seed,
            draws: 0,
            steps: 0,
            stage: Stage::Unborn,
            last: Outcome::default(),
            history,
        })
    }

    /// Begins anew with a seed. The task is made again, because some keep something from one episode to the next, as an
    /// Atari console keeps its memory.
    pub fn seed(&mut self, seed: u64, recipe: &Recipe) -> Result<(), TaskError> {
        if self.draws > 0 {
            self.env = Mutex::new(recipe.make()?);
        }
        (self.seed, self.draws, self.stage) = (seed, 0, Stage::Unborn);
        Ok(())
    }

    fn env(&mut self) -> &mut dyn Env {
        &mut **self.env.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn chance(&mut self) -> Stream {
        self.draws += 1;
        Stream::new(self.seed, Purpose::Environment, self.draws - 1)
    }

    /// Begins an episode.
    pub fn reset(&mut self) {
        let mut chance = self.chance();
        self.env().reset(&mut chance);
        (self.steps, self.stage) = (0, Stage::Playing);
        self.tell(Step::default());
        if let Some(history) = &mut self.history {
            history.clear();
        }
        self.remember();
    }

    /// Plays one action; an episode is cut off after `limit` steps.
    pub fn step(&mut self, action: usize, limit: u64) {
        let mut chance = self.chance();
        let mut step = self.env().step(action, &mut chance);
        self.steps += 1;
        step.truncated |= self.steps >= limit;
        if step.terminated || step.truncated {
            self.stage = Stage::Over;
        }
        self.tell(step);
        self.remember();
    }

    fn tell(&mut self, step: Step) {
        let legal = self.spec.masks_actions.then(|| self.env().legal());
        self.last = Outcome { step, legal };
    }

    fn remember(&mut self) {
        if let Some(history) = &mut self.history {
            history.push(&**self.env.get_mut().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Writes what a network sees now.
    pub fn observe(&mut self, out: Observation<'_>) {
        match (&self.history, out) {
            (Some(history), Observation::Planes(out)) => history.write(out),
            (_, out) => self.env().observe(out),
        }
    }

    /// What the last step brought; after a reset, nothing but the legal actions.
    pub fn last(&self) -> &Outcome {
        &self.last
    }

    /// Where the episode stands.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What the task says of itself.
    pub fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    /// Draws the current state; false if the task has no picture.
    pub fn picture(&mut self, out: &mut Picture) -> bool {
        self.env().picture(out)
    }
}

/// The last observations of an episode, oldest first in what is written; zeros before its beginning.
struct History {
    frames: Vec<u8>,
    len: usize,
    /// Where the oldest observation is, which the next one replaces.
    oldest: usize,
}

impl History {
    fn of(spec: &ObservationSpec) -> Option<Self> {
        let (len, stack) = (spec.len(), spec.stack());
        (stack > 1).then(|| History { frames: vec![0; len * stack], len, oldest: 0 })
    }

    fn clear(&mut self) {
        self.frames.fill(0);
        self.oldest = 0;
    }

    fn push(&mut self, env: &dyn Env) {
        env.observe(Observation::Planes(&mut self.frames[self.oldest..self.oldest + self.len]));
        self.oldest = (self.oldest + self.len) % self.frames.len();
    }

    fn write(&self, out: &mut [u8]) {
        let (newer, older) = self.frames.split_at(self.oldest);
        out[..older.len()].copy_from_slice(older);
        out[older.len()..].copy_from_slice(newer);
    }
}
