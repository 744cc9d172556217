//! Compounding capital: each step the player chooses a position by two visible signals, and the reward is the
//! profit in currency.
//!
//! All chance is an argument of [`Market::advance`], so that expectations are enumerated from the very function
//! that the task plays.

use crate::env::Step;
use crate::game::{Game, PlaneShape, check_tag, checked};
use crate::picture::Picture;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

/// What the actions are called.
pub(crate) const ACTIONS: [&str; 5] = ["cash", "steady", "borrow", "longshot-half", "longshot"];
/// Capital at the start.
pub(crate) const CAPITAL: f64 = 100.0;
/// Below this the player is ruined and the episode ends.
pub(crate) const RUIN: f64 = 10.0;
/// More than an episode of luck can bring (100 × 1.6¹⁰⁰ is below it).
const MAX_CAPITAL: f64 = 1e24;
/// Steps of an episode.
pub(crate) const HORIZON: u16 = 100;

/// The steady asset gains or loses this share.
const STEADY_MOVE: f64 = 0.06;
/// Probability that it gains, by its signal.
const STEADY_WINS: [f64; 2] = [0.58, 0.66];
/// Borrowing holds this multiple of the capital in the steady asset.
const LEVERAGE: f64 = 5.0;
/// What the longshot gains when it wins, by its signal, …
const LONGSHOT_GAIN: [f64; 2] = [0.2, 0.6];
/// … how often it wins, …
const LONGSHOT_WINS: f64 = 0.3;
/// … and the share that it loses otherwise.
const LONGSHOT_LOSS: f64 = 0.15;

const TAG: u8 = 5;
/// Hat functions over log₁₀(capital / start): centres from −1 in steps of a half.
const HATS: usize = 12;

/// The signals of one step; each is good half of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signals {
    pub(crate) steady: bool,
    pub(crate) longshot: bool,
}

/// Which assets win in one step, and the signals of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance {
    pub(crate) steady_wins: bool,
    pub(crate) longshot_wins: bool,
    pub(crate) next: Signals,
}

impl Signals {
    /// The `n`-th of the four equally likely pairs.
    pub(crate) fn nth(n: usize) -> Self {
        Signals { steady: n & 1 == 1, longshot: n & 2 == 2 }
    }

    /// Probability that the steady asset wins, and that the longshot does.
    pub(crate) fn odds(self) -> (f64, f64) {
        (STEADY_WINS[usize::from(self.steady)], LONGSHOT_WINS)
    }

    /// What a unit of capital becomes.
    pub(crate) fn growth(self, action: usize, steady_wins: bool, longshot_wins: bool) -> f64 {
        let steady = if steady_wins { STEADY_MOVE } else { -STEADY_MOVE };
        let longshot = if longshot_wins { LONGSHOT_GAIN[usize::from(self.longshot)] } else { -LONGSHOT_LOSS };
        1.0 + match action {
            1 => steady,
            2 => LEVERAGE * steady,
            3 => 0.5 * longshot,
            4 => longshot,
            _ => 0.0,
        }
    }
}

/// Capital, signals and time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Market {
    capital: f64,
    signals: Signals,
    steps: u16,
}

impl Market {
    pub(crate) fn new(signals: Signals) -> Self {
        Market { capital: CAPITAL, signals, steps: 0 }
    }

    /// One step with these outcomes.
    fn advance(&mut self, action: usize, chance: Chance) -> Step {
        let before = self.capital;
        self.capital *= self.signals.growth(action, chance.steady_wins, chance.longshot_wins);
        self.signals = chance.next;
        self.steps += 1;
        Step {
            reward: self.capital - before,
            score: (self.capital / before).log10(),
            terminated: self.capital < RUIN || self.steps >= HORIZON,
            ..Step::default()
        }
    }
}

impl Game for Market {
    const VECTOR: usize = 4 + HATS;
    const PLANES: Option<PlaneShape> = None;

    fn reset(&mut self, rng: &mut Stream) {
        *self = Market::new(Signals::nth(rng.below(4)));
    }

    fn step(&mut self, action: usize, rng: &mut Stream) -> Step {
        let (steady, longshot) = self.signals.odds();
        let steady_wins = rng.chance(steady);
        let longshot_wins = rng.chance(longshot);
        self.advance(action, Chance { steady_wins, longshot_wins, next: Signals::nth(rng.below(4)) })
    }

    fn features(&self, out: &mut [f32]) {
        let sign = |good: bool| if good { 1.0 } else { -1.0 };
        let decades = (self.capital / CAPITAL).log10() as f32;
        out[..4].copy_from_slice(&[
            sign(self.signals.steady),
            sign(self.signals.longshot),
            1.0 - 2.0 * f32::from(self.steps) / f32::from(HORIZON),
            // Beyond a factor of 10¹⁰, which nobody will meet, the feature saturates.
            (0.5 * decades).clamp(-5.0, 5.0),
        ]);
        let position = (2.0 * (decades + 1.0)).clamp(0.0, (HATS - 1) as f32);
        for (centre, hat) in out[4..].iter_mut().enumerate() {
            *hat = (1.0 - (position - centre as f32).abs()).max(0.0);
        }
    }

    fn picture(&self, out: &mut Picture) {
        const WIDTH: usize = 200;
        out.start(WIDTH, 72, [16, 20, 36]);
        // Capital on a scale of decades, from ruin on: 40 pixels each, with a line at every decade.
        let length = (self.capital / RUIN).log10().max(0.0) * 40.0;
        let grown = if self.capital < CAPITAL { [240, 110, 90] } else { [110, 220, 120] };
        out.rectangle(0, 20, length as usize, 24, grown);
        for decade in 0..5 {
            let colour = if decade == 1 { [250, 250, 250] } else { [70, 80, 110] };
            out.rectangle(decade * 40, 16, 1, 32, colour);
        }
        out.number(4, 3, 2, self.capital as u64, [250, 250, 250]);
        // The signals as two lamps, the time as a line at the bottom.
        for (lamp, good) in [self.signals.steady, self.signals.longshot].into_iter().enumerate() {
            let colour = if good { [250, 210, 70] } else { [56, 60, 76] };
            out.rectangle(4 + lamp * 20, 52, 12, 12, colour);
        }
        out.rectangle(0, 68, WIDTH * usize::from(self.steps) / usize::from(HORIZON), 4, [80, 160, 240]);
    }

    fn save(&self, out: &mut StateWriter) {
        out.u8(TAG);
        out.f64(self.capital);
        out.bool(self.signals.steady);
        out.bool(self.signals.longshot);
        out.u16(self.steps);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        check_tag(from, TAG, "investor")?;
        let capital = checked("the capital", from.f64()?, 1.0..=MAX_CAPITAL)?;
        let signals = Signals { steady: from.bool()?, longshot: from.bool()? };
        let steps = checked("the step count", from.u16()?, 0..=HORIZON)?;
        *self = Market { capital, signals, steps };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(steady_wins: bool, longshot_wins: bool) -> Chance {
        Chance { steady_wins, longshot_wins, next: Signals::nth(0) }
    }

    #[test]
    fn profits_by_position() {
        for (action, win, expected) in [
            (0, true, 0.0),
            (1, true, 6.0),
            (1, false, -6.0),
            (2, true, 30.0),
            (2, false, -30.0),
            (3, true, 30.0),
            (3, false, -7.5),
            (4, true, 60.0),
            (4, false, -15.0),
        ] {
            let mut market = Market::new(Signals::nth(3));
            let step = market.advance(action, chance(win, win));
            assert!((step.reward - expected).abs() < 1e-9, "{action} {win}: {}", step.reward);
            assert!((step.score - (1.0 + expected / 100.0).log10()).abs() < 1e-12);
        }
        let mut dull = Market::new(Signals::nth(0));
        assert!((dull.advance(4, chance(true, true)).reward - 20.0).abs() < 1e-9, "a dull longshot pays 20%");
    }

    #[test]
    fn profits_compound_until_ruin_or_the_horizon() {
        let mut market = Market::new(Signals::nth(0));
        let (mut profit, mut steps) = (0.0, 0);
        loop {
            let step = market.advance(2, chance(false, false));
            (profit, steps) = (profit + step.reward, steps + 1);
            if step.terminated {
                break;
            }
        }
        // 0.7 to the 7th is below a tenth for the first time.
        assert_eq!(steps, 7);
        assert!((CAPITAL + profit - market.capital).abs() < 1e-9 && market.capital < RUIN);
        let mut idle = Market::new(Signals::nth(0));
        let ends = (0..HORIZON).filter(|_| idle.advance(0, chance(true, true)).terminated).count();
        assert_eq!((ends, idle.steps, idle.capital), (1, HORIZON, CAPITAL));
    }
}
