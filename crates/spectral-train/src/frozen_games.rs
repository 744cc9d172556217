//! Whole games with copies of a model that do not learn, beside the training of the agent.
//!
//! A row depends on the model, the agent's seed, the frame and the settings, and on nothing else: not on when or on which
//! thread the games are played, nor on what is played beside them. Every game has random numbers of its own, and agents of
//! the same seed meet the same ones at the same frame.

use crate::error::TrainError;
use crate::eval::{Episode, Player};
use crate::model_file::Model;
use crate::resolve::ResolvedRun;
use spectral_core::rng::{Purpose, Stream};
use spectral_env::Env;
use std::sync::Arc;

/// Steps after which a game is broken off, with what it has brought so far. A game of Atari lasts no longer by its own rules, at
/// four frames a step; a policy that no longer learns may be stuck for ever where the rules have no end.
pub const GAME_STEPS: u64 = 27_000;

/// Copies of an agent's models at one moment, to be played.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Frames that the agent had seen.
    pub frame: u64,
    /// Which models these are, and the bytes of
    /// [`Population::save_model`](crate::population::Population::save_model).
    pub models: Vec<(&'static str, Vec<u8>)>,
}

/// How one model of a request played: a row of `eval.csv`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Frames that the agent had seen.
    pub frame: u64,
    /// Which of its models played.
    pub model: &'static str,
    /// Games played.
    pub games: u64,
    /// Mean plain score.
    pub score_mean: f64,
    /// The least.
    pub score_least: f64,
    /// The most.
    pub score_most: f64,
    /// Mean raw return.
    pub return_mean: f64,
    /// Mean number of steps.
    pub steps_mean: f64,
    /// Games that were broken off after [`GAME_STEPS`] steps.
    pub cut: u64,
}

/// A request while its games are played.
pub struct FrozenGames {
    run: Arc<ResolvedRun>,
    request: Arc<Request>,
    env: Box<dyn Env>,
    /// The model that plays now.
    model: usize,
    table: Option<Table>,
    rows: Vec<Row>,
}

/// One model at play.
struct Table {
    player: Player,
    /// What keys the random numbers of each game.
    seeds: Stream,
    /// The game under way.
    game: Option<Episode>,
    over: Vec<Episode>,
}

impl FrozenGames {
    /// A request of a run's only agent, before the first game.
    pub fn new(run: Arc<ResolvedRun>, request: Arc<Request>) -> Result<Self, TrainError> {
        let env = run.make_task()?;
        Ok(FrozenGames { run, request, env, model: 0, table: None, rows: Vec::new() })
    }

    /// The request.
    pub fn request(&self) -> &Arc<Request> {
        &self.request
    }

    /// Plays until all games are over, and returns one row per model that can act, or until `pause` returns true between two
    /// steps, and returns nothing.
    pub fn advance(&mut self, pause: &mut dyn FnMut() -> bool) -> Result<Option<&[Row]>, TrainError> {
        while self.model < self.request.models.len() {
            if pause() {
                return Ok(None);
            }
            if self.table.is_none() && !self.sit_down()? {
                self.model += 1;
                continue;
            }
            self.step()?;
        }
        Ok(Some(&self.rows))
    }

    /// [`advance`](FrozenGames::advance), for whoever does not go on after a pause.
    pub fn advance_to_end(mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<Vec<Row>>, TrainError> {
        Ok(self.advance(stop)?.map(<[Row]>::to_vec))
    }

    /// Begins with the next model; false if it holds numbers that are not finite, so that it cannot act.
    fn sit_down(&mut self) -> Result<bool, TrainError> {
        let Request { frame, models } = self.request.as_ref();
        let bytes = &models[self.model].1;
        let unfit = |e: spectral_core::bytes::StateError| TrainError::Data(e.to_string());
        if !Model::of(&self.run, 0, *frame, bytes).map_err(unfit)?.is_finite() {
            return Ok(false);
        }
        let (settings, seed) = (&self.run.plan.run, self.run.plan.agents[0].seed);
        let player = Player::with_model(&self.run, 0, bytes, settings.eval_epsilon, 0).map_err(unfit)?;
        self.table = Some(Table { player, seeds: game_seeds(seed, *frame), game: None, over: Vec::new() });
        Ok(true)
    }

    fn step(&mut self) -> Result<(), TrainError> {
        let env = self.env.as_mut();
        let Some(Table { player, seeds, game, over }) = &mut self.table else { return Ok(()) };
        let Some(episode) = game else {
            player.restart(seeds.next_u64());
            player.begin(env);
            *game = Some(Episode::default());
            return check(env);
        };
        match player.choose(env) {
            Some(turn) => {
                let step = player.take(env, turn);
                check(env)?;
                episode.steps += 1;
                episode.score += step.score;
                episode.sum += step.reward;
                episode.over = step.terminated || step.truncated;
            }
            // The task is at fault; nothing can be played.
            None => episode.over = true,
        }
        if episode.over || episode.steps >= GAME_STEPS {
            over.push(*episode);
            *game = None;
        }
        if over.len() as u64 == self.run.plan.run.eval_games {
            let (frame, model) = (self.request.frame, self.request.models[self.model].0);
            self.rows.push(Row::of(frame, model, over));
            self.table = None;
            self.model += 1;
        }
        Ok(())
    }
}

/// What keys the games of an agent of this seed at this frame. `spectral eval` counts its streams upwards from 1 and never comes
/// here, so that it plays other games.
fn game_seeds(seed: u64, frame: u64) -> Stream {
    Stream::new(seed, Purpose::Evaluation, u64::MAX - frame)
}

fn check(env: &dyn Env) -> Result<(), TrainError> {
    env.failure().map_or(Ok(()), |reason| Err(TrainError::Task(reason)))
}

impl Row {
    fn of(frame: u64, model: &'static str, games: &[Episode]) -> Self {
        let mean =
            |value: fn(&Episode) -> f64| games.iter().map(value).sum::<f64>() / games.len().max(1) as f64;
        let scores = || games.iter().map(|game| game.score);
        Row {
            frame,
            model,
            games: games.len() as u64,
            score_mean: mean(|game| game.score),
            score_least: scores().fold(f64::INFINITY, f64::min),
            score_most: scores().fold(f64::NEG_INFINITY, f64::max),
            return_mean: mean(|game| game.sum),
            steps_mean: mean(|game| game.steps as f64),
            cut: games.iter().filter(|game| !game.over).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests;
