//! What the tasks make of a game's frames: rewards, ends, and the switch from one game to the other.

use super::cabinet::{Cabinet, Outcome};
use crate::games::{Game, peek};
use spectral_env::Step;

/// Own points that end the Pong phase of Ponglantis.
const PONG_POINTS: u8 = 10;
/// Where Pong keeps the player's points.
const OWN_POINTS: u8 = 0x8e;
/// What is added to a negative reward where the score counter overflows.
const OVERFLOW: f64 = 1_000_000.0;

/// What kind of task it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rules {
    /// One game as it is.
    Plain,
    /// Pong with every reward × 2^(own points before it).
    ExponentialPong,
    /// Two games, one after the other: Pong to 10 own points, then Atlantis for one life; or Atlantis first.
    Ponglantis {
        /// What the player perceives of Atlantis' rewards is divided by this.
        divisor: f64,
        /// Atlantis first.
        reverse: bool,
    },
}

/// What is to happen after a frame.
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

    /// The player's points, where the task has that notion. In Atlantis' phase: those with which Pong ended.
    pub(super) fn player_score(self, cabinets: &[Cabinet], current: usize) -> u8 {
        let pong = match self {
            Rules::Plain => return 0,
            Rules::ExponentialPong => &cabinets[0],
            Rules::Ponglantis { reverse: true, .. } if current == 0 => return 0,
            Rules::Ponglantis { reverse, .. } => &cabinets[usize::from(reverse)],
        };
        own_points(pong).min(self.max_player_score())
    }

    /// Adds what a frame brought to the step: `before` are the player's points before the frame.
    pub(super) fn apply(
        self,
        cabinet: &Cabinet,
        current: usize,
        before: u8,
        outcome: Outcome,
        step: &mut Step,
    ) -> Next {
        match self {
            Rules::Plain => {
                let paid = f64::from(outcome.reward);
                let reward = if paid < 0.0 && overflows(cabinet.game()) { paid + OVERFLOW } else { paid };
                step.reward += reward;
                step.score += reward;
                if outcome.over || (cabinet.tally().lives == 0 && dies_at_zero(cabinet.game())) {
                    return Next::End;
                }
                step.life_lost |= outcome.life_lost;
                Next::Go
            }
            Rules::ExponentialPong => {
                step.reward += f64::from(outcome.reward) * 2.0_f64.powi(before.into());
                step.score += f64::from(outcome.reward);
                if outcome.over { Next::End } else { Next::Go }
            }
            Rules::Ponglantis { divisor, reverse } => {
                let in_atlantis = (current == 0) == reverse;
                let paid = f64::from(outcome.reward);
                step.reward += if in_atlantis { paid / divisor } else { paid };
                step.score += paid;
                let done = match in_atlantis {
                    true => outcome.over || outcome.life_lost,
                    false => outcome.over,
                };
                match (in_atlantis, reverse) {
                    (true, true) if done => Next::Switch,
                    (false, false) if own_points(cabinet) >= PONG_POINTS => Next::Switch,
                    _ if done => Next::End,
                    _ => Next::Go,
                }
            }
        }
    }
}

/// The player's points in Pong.
pub(super) fn own_points(pong: &Cabinet) -> u8 {
    peek(pong.console().ram(), OWN_POINTS)
}

fn overflows(game: &Game) -> bool {
    matches!(game.name, "video_pinball" | "asterix")
}

/// Games whose end can come frames after the last life is lost, or never.
fn dies_at_zero(game: &Game) -> bool {
    matches!(game.name, "breakout" | "chopper_command")
}
