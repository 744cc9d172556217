//! One rally of the Pong family, solved exactly.

use crate::pong::{GAME, HEIGHT, PADDLE_MAX, PONG_FOLLOW, Rally, Serve, WIDTH, Winner};
use crate::ponglantis::PONGLANTIS_FOLLOW;

/// Whose computer paddle the player meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Opponent {
    /// That of `pong-mini` and `exponential-pong-mini`.
    Pong,
    /// The stronger one of the Ponglantis family.
    Ponglantis,
    /// One that follows the ball with this probability at each step.
    Follows(f64),
}

impl Opponent {
    fn follow(self) -> f64 {
        match self {
            Opponent::Pong => PONG_FOLLOW,
            Opponent::Ponglantis => PONGLANTIS_FOLLOW,
            Opponent::Follows(probability) => probability,
        }
    }
}

/// How the player plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    /// Wins each point with the greatest possible probability.
    Best,
    /// Uniformly random actions.
    Random,
}

const PADDLES: usize = PADDLE_MAX as usize + 1;
const STATES: usize = (WIDTH - 2) * HEIGHT * 4 * PADDLES * PADDLES;
/// Marks in the table of successors.
const WON: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;

/// The probability that the player wins a point that is served with both paddles in the middle.
///
/// ```
/// use spectral_env::analysis::{Opponent, Play, point_probability};
/// let never_misses = point_probability(Opponent::Follows(1.0), Play::Random);
/// assert!(never_misses < 0.01);
/// ```
pub fn point_probability(opponent: Opponent, play: Play) -> f64 {
    let follow = opponent.follow();
    let successors = successors();
    let mut values = vec![0.0f64; STATES];
    let value = |values: &[f64], next: u32| match next {
        WON => 1.0,
        LOST => 0.0,
        state => values[state as usize],
    };
    // In-place sweeps from below converge to the least fixed point, which is the probability sought.
    for _ in 0..20_000 {
        let mut change = 0.0f64;
        for state in 0..STATES {
            let mut best = 0.0f64;
            let mut sum = 0.0;
            for action in 0..3 {
                let at = (state * 3 + action) * 2;
                let q = (1.0 - follow) * value(&values, successors[at])
                    + follow * value(&values, successors[at + 1]);
                best = best.max(q);
                sum += q;
            }
            let new = if play == Play::Best { best } else { sum / 3.0 };
            change = change.max((new - values[state]).abs());
            values[state] = new;
        }
        if change < 1e-10 {
            break;
        }
    }
    let serves = 4 * HEIGHT;
    (0..serves).map(|n| values[index(&Rally::new(Serve::nth(n)))]).sum::<f64>() / serves as f64
}

/// The probability that `points` points are won before `limit` are lost, if each is won independently with
/// probability `win`: how often the Pong phase of Ponglantis is survived.
///
/// ```
/// assert_eq!(spectral_env::analysis::reach_probability(0.5, 1, 1), 0.5);
/// ```
pub fn reach_probability(win: f64, points: u32, limit: u32) -> f64 {
    // reach[j]: probability of having won the points so far with j lost.
    let mut reach = vec![0.0; limit as usize];
    if let Some(start) = reach.first_mut() {
        *start = 1.0;
    }
    for _ in 0..points {
        let mut arrived = 0.0;
        for lost in &mut reach {
            arrived = *lost + (1.0 - win) * arrived;
            *lost = win * arrived;
        }
    }
    reach.iter().sum()
}

/// The expected plain score of a game whose points are won independently with this probability.
///
/// ```
/// assert_eq!(spectral_env::analysis::expected_pong_score(1.0), 21.0);
/// ```
pub fn expected_pong_score(win: f64) -> f64 {
    let game = GAME as usize;
    // reach[i][j]: probability that the score was ever i to j.
    let mut reach = vec![vec![0.0; game + 1]; game + 1];
    reach[0][0] = 1.0;
    let mut expected = 0.0;
    for i in 0..=game {
        for j in 0..=game {
            let here = reach[i][j];
            if i == game || j == game {
                expected += here * (i as f64 - j as f64);
            } else {
                reach[i + 1][j] += here * win;
                reach[i][j + 1] += here * (1.0 - win);
            }
        }
    }
    expected
}

/// For each state and action, where it leads if the computer's paddle does not follow and if it does.
fn successors() -> Vec<u32> {
    let mut table = vec![0; STATES * 3 * 2];
    for ball_x in 1..WIDTH as u8 - 1 {
        for ball_y in 0..HEIGHT as u8 {
            for direction in 0..4 {
                for player in 0..=PADDLE_MAX {
                    for computer in 0..=PADDLE_MAX {
                        let (to_player, down) = (direction & 1 == 1, direction & 2 == 2);
                        let rally = Rally { ball_x, ball_y, to_player, down, player, computer };
                        for case in 0..6 {
                            let mut next = rally;
                            table[index(&rally) * 6 + case] = match next.advance(case / 2, case % 2 == 1) {
                                Some(Winner::Player) => WON,
                                Some(Winner::Computer) => LOST,
                                None => index(&next) as u32,
                            };
                        }
                    }
                }
            }
        }
    }
    table
}

fn index(rally: &Rally) -> usize {
    let ball = (rally.ball_x as usize - 1) * HEIGHT + rally.ball_y as usize;
    let direction = usize::from(rally.to_player) + 2 * usize::from(rally.down);
    ((ball * 4 + direction) * PADDLES + rally.player as usize) * PADDLES + rally.computer as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ponglantis::PONG_POINTS;

    #[test]
    fn perfect_play_wins_every_point_and_random_play_few() {
        for opponent in [Opponent::Pong, Opponent::Ponglantis] {
            let best = point_probability(opponent, Play::Best);
            assert!(best > 1.0 - 1e-6, "{best}");
        }
        let random = point_probability(Opponent::Pong, Play::Random);
        assert!((expected_pong_score(random) + 11.28).abs() < 0.01, "{}", expected_pong_score(random));
    }

    #[test]
    fn random_play_rarely_survives_the_pong_phase() {
        let win = point_probability(Opponent::Ponglantis, Play::Random);
        let reach = reach_probability(win, PONG_POINTS.into(), GAME.into());
        println!("point {win:.4}, second phase {reach:.4}");
        assert!(reach < 0.05, "{reach}");
    }

    #[test]
    fn games_of_one_point_and_fair_games() {
        assert!((reach_probability(0.3, 1, 1) - 0.3).abs() < 1e-12);
        assert!((reach_probability(0.5, 21, 21) - 0.5).abs() < 1e-12);
        // Two of three: won in a row, or after one loss at one of two moments.
        assert!((reach_probability(0.6, 2, 2) - (0.36 + 2.0 * 0.36 * 0.4)).abs() < 1e-12);
        assert!(expected_pong_score(0.5).abs() < 1e-12);
        assert_eq!(expected_pong_score(0.0), -21.0);
    }
}
