//! A frozen model that plays a task, one step after another, for people to look at.

use crate::picture::Indexed;
use crate::scene::{Chooser, Scene, Values};
use spectral_env::{Env, Picture};
use spectral_train::checkpoint::Checkpoints;
use spectral_train::error::TrainError;
use spectral_train::eval::{Player, Turn};
use spectral_train::model_file;
use spectral_train::population::ModelKind;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::RunDir;

/// One agent's model on its task.
pub struct Performance {
    run: ResolvedRun,
    dir: RunDir,
    env: Box<dyn Env>,
    player: Player,
    agent: usize,
    epsilon: f64,
    seed: u64,
    /// The frames that the model was trained for; `None` without a model, when chance plays.
    weights_frame: Option<u64>,
    /// Why chance plays in its place.
    trouble: Option<String>,
    turn: Option<Turn>,
    frame: u64,
    episode: u64,
    score: f64,
    reward: f64,
    over: bool,
    image: Picture,
    /// The state as a picture.
    pub picture: Indexed,
}

impl Performance {
    /// The model of this agent, or chance as long as there is none. The run must have been resolved for the CPU.
    pub fn new(
        dir: &RunDir,
        run: &ResolvedRun,
        agent: usize,
        epsilon: f64,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let mut performance = Performance {
            env: run.make_task()?,
            run: run.clone(),
            dir: dir.clone(),
            player: Player::random(seed),
            agent,
            epsilon,
            seed,
            weights_frame: None,
            trouble: None,
            turn: None,
            frame: 0,
            episode: 0,
            score: 0.0,
            reward: 0.0,
            over: false,
            image: Picture::default(),
            picture: Indexed::default(),
        };
        performance.load()?;
        performance.restart();
        Ok(performance)
    }

    /// The agent that plays.
    pub fn agent(&self) -> usize {
        self.agent
    }

    /// Lets another agent play, in a new episode.
    pub fn set_agent(&mut self, agent: usize) -> Result<(), TrainError> {
        (self.agent, self.weights_frame) = (agent, None);
        self.player = Player::random(self.seed);
        let loaded = self.load();
        self.restart();
        loaded
    }

    /// Acts at random with this probability.
    pub fn set_epsilon(&mut self, epsilon: f64) {
        self.epsilon = epsilon;
        if self.weights_frame.is_some() {
            self.player.set_epsilon(epsilon);
        }
    }

    /// Takes over the newest model, and knows why if there is none.
    fn load(&mut self) -> Result<(), TrainError> {
        let loaded = self.try_load();
        self.trouble = match (&loaded, self.weights_frame) {
            (_, Some(_)) => None,
            (Err(error), None) => Some(format!("{error}; actions are drawn at random")),
            (Ok(()), None) => Some("there is no checkpoint yet: actions are drawn at random".into()),
        };
        loaded
    }

    /// Takes over the newest model, if it is newer than the one that plays: the final one, or that of the last checkpoint.
    fn try_load(&mut self) -> Result<(), TrainError> {
        let id = &self.run.plan.agents[self.agent].id;
        let path = self.dir.model(id);
        let (model, frames) = if self.dir.finished() && path.is_file() {
            (model_file::read_own(&path, &self.run, self.agent, None)?, self.dir.frames(id))
        } else {
            match Checkpoints::model(&self.dir, &self.run, self.agent, ModelKind::Last)? {
                Some(found) => found,
                None if path.is_file() => {
                    (model_file::read_own(&path, &self.run, self.agent, None)?, self.dir.frames(id))
                }
                None => return Ok(()),
            }
        };
        if self.weights_frame.is_none_or(|mine| mine < frames) {
            let player = Player::with_model(&self.run, self.agent, &model, self.epsilon, self.seed);
            self.player = player.map_err(|e| TrainError::Data(format!("the model of {id}: {e}")))?;
            self.weights_frame = Some(frames);
        }
        Ok(())
    }

    /// Begins an episode, with a newer model if there is one.
    pub fn restart(&mut self) {
        // A run that is at work writes new checkpoints; one that cannot be read now may be readable later.
        if !self.dir.finished() {
            let _ = self.load();
        }
        self.player.begin(self.env.as_mut());
        (self.score, self.reward, self.over) = (0.0, 0.0, false);
        self.turn = self.player.choose(self.env.as_ref());
    }

    /// Whether the episode has ended.
    pub fn is_over(&self) -> bool {
        self.over || self.turn.is_none()
    }

    /// What there is to see now: the picture is drawn, and values are computed.
    pub fn look(&mut self) -> Scene {
        if !self.env.picture(&mut self.image) {
            self.image = Picture::default();
        }
        self.picture.set(&self.image);
        let codec = &self.run.codecs[self.agent];
        let values = self.player.outputs().filter(|_| !self.over).map(|(outputs, state)| {
            let rows = outputs.chunks_exact(codec.outputs());
            Values::new(codec.as_ref(), outputs, rows.map(|row| codec.decode(row, state)).collect())
        });
        let explored = self.turn.as_ref().is_some_and(|turn| turn.explored);
        Scene {
            agent: self.agent,
            frame: self.frame,
            weights_frame: self.weights_frame,
            episode: self.episode,
            score: self.score,
            reward: self.reward,
            over: self.is_over(),
            jump: false,
            action: self.turn.as_ref().map(|turn| turn.action),
            chooser: if explored { Chooser::Chance } else { Chooser::Agent },
            trouble: self.trouble.clone(),
            legal: self.turn.as_ref().filter(|_| self.run.task.masks_actions).map(|turn| turn.legal),
            values,
        }
    }

    /// Whether an action may be played now.
    pub fn allows(&self, action: usize) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.legal.allows(action))
    }

    /// Plays one step: the action that was chosen, or this one if it is legal. Ended episodes stay as they are.
    pub fn step(&mut self, action: Option<usize>) {
        if self.over {
            return;
        }
        let Some(mut turn) = self.turn.take() else { return };
        if let Some(action) = action.filter(|&action| turn.legal.allows(action)) {
            turn.action = action;
        }
        let step = self.player.take(self.env.as_mut(), turn);
        self.frame += self.run.task.frames_per_step;
        self.score += step.score;
        self.reward = step.reward;
        self.over = step.terminated || step.truncated;
        if self.over {
            self.episode += 1;
        } else {
            self.turn = self.player.choose(self.env.as_ref());
        }
    }
}
