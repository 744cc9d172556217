//! The rules of the tasks: how the frames of a game become rewards, ends and switches between games.

use super::ale_game::{AleGame, FrameResult};
use crate::games::{Game, peek};
use spectral_env::Step;

/// Own points that end the Pong phase of Ponglantis.
const PONG_POINTS: u8 = 10;
/// Where Pong keeps the player's points.
const OWN_POINTS: u8 = 0x8e;
/// What is added to a negative reward where the score counter overflows.
const OVERFLOW: f64 = 1_000_000.0;

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rules {
    /// One game as it is.
    Plain,
    /// Pong with every reward × 2^(own points before it).
    ExponentialPong,
    /// Two games, one after the other: Pong to 10 own points, then Atlantis for one life; or Atlantis first.
    Ponglantis {
        /// The rewards of Atlantis are divided by this for the player.
        divisor: f64,
        /// Whether Atlantis comes first.
        reverse: bool,
    },
}

/// What happens after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    /// The second game begins.
    Switch,
    End,
}

impl Rules {
    /// The largest player's score.
    pub(super) fn max_player_score(self) -> u8 {
        match self {
            Rules::Plain => 0,
            Rules::ExponentialPong | Rules::Ponglantis { reverse: true, .. } => 21,
            Rules::Ponglantis { .. } => PONG_POINTS,
        }
    }

    /// The player's points, if the task has them. In the Atlantis phase these are the points with which Pong ended.
    pub(super) fn player_score(self, games: &[AleGame], current: usize) -> u8 {
        let pong = match self {
            Rules::Plain => return 0,
            Rules::ExponentialPong => &games[0],
            Rules::Ponglantis { reverse: true, .. } if current == 0 => return 0,
            Rules::Ponglantis { reverse, .. } => &games[usize::from(reverse)],
        };
        own_points(pong).min(self.max_player_score())
    }

    /// Adds a frame's result to the step. `before` holds the player's points before the frame.
    pub(super) fn apply(
        self,
        game: &AleGame,
        current: usize,
        before: u8,
        result: FrameResult,
        step: &mut Step,
    ) -> Next {
        match self {
            Rules::Plain => {
                let paid = f64::from(result.reward);
                let reward = if paid < 0.0 && overflows(game.definition()) { paid + OVERFLOW } else { paid };
                step.reward += reward;
                step.score += reward;
                if result.over || (game.tally().lives == 0 && dies_at_zero(game.definition())) {
                    return Next::End;
                }
                step.life_lost |= result.life_lost;
                Next::Go
            }
            Rules::ExponentialPong => {
                step.reward += f64::from(result.reward) * 2.0_f64.powi(before.into());
                step.score += f64::from(result.reward);
                if result.over { Next::End } else { Next::Go }
            }
            Rules::Ponglantis { divisor, reverse } => {
                let in_atlantis = (current == 0) == reverse;
                let paid = f64::from(result.reward);
                step.reward += if in_atlantis { paid / divisor } else { paid };
                step.score += paid;
                let done = match in_atlantis {
                    true => result.over || result.life_lost,
                    false => result.over,
                };
                match (in_atlantis, reverse) {
                    (true, true) if done => Next::Switch,
                    (false, false) if own_points(game) >= PONG_POINTS => Next::Switch,
                    _ if done => Next::End,
                    _ => Next::Go,
                }
            }
        }
    }
}

/// The player's points in Pong.
pub(super) fn own_points(pong: &AleGame) -> u8 {
    peek(pong.console().ram(), OWN_POINTS)
}

fn overflows(game: &Game) -> bool {
    matches!(game.name, "video_pinball" | "asterix")
}

/// Games whose end can come frames after the last life is lost, or never.
fn dies_at_zero(game: &Game) -> bool {
    matches!(game.name, "breakout" | "chopper_command")
}
