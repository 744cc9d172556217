//! Growth in the investor task, by enumeration of signals and outcomes.

use crate::investor::{ACTIONS, CAPITAL, HORIZON, Signals};

/// What policies of the investor task can expect over a whole episode, were there no ruin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvestorGrowth {
    /// The largest expected final capital. Ruin cannot raise it: a ruined player stops at a capital from which
    /// going on would have been worth more.
    pub best_capital: f64,
    /// Expected plain score (log₁₀ of final over first capital) of that policy.
    pub best_capital_score: f64,
    /// The largest expected plain score; an upper bound with ruin too, because each step of each policy adds at
    /// most a hundredth of it in expectation.
    pub best_score: f64,
    /// Expected final capital of uniformly random play.
    pub random_capital: f64,
    /// Expected plain score of uniformly random play.
    pub random_score: f64,
    /// By signals (neither good, steady good, longshot good, both good): the action of the policy with the largest
    /// expected capital.
    pub best_capital_actions: [&'static str; 4],
    /// The same of the policy with the largest expected plain score.
    pub best_score_actions: [&'static str; 4],
}

/// Enumerates the investor's market.
///
/// ```
/// let growth = spectral_env::analysis::investor_growth();
/// assert!(growth.best_capital > 100.0 * growth.random_capital);
/// ```
pub fn investor_growth() -> InvestorGrowth {
    // Per signals and action: expected growth factor and expected log₁₀ of it.
    let expected = |signals: Signals, action: usize| {
        let (steady, longshot) = signals.odds();
        let of = |wins: bool, odds: f64| if wins { odds } else { 1.0 - odds };
        let (mut growth, mut log) = (0.0, 0.0);
        for case in 0..4 {
            let (steady_wins, longshot_wins) = (case & 1 == 1, case & 2 == 2);
            let probability = of(steady_wins, steady) * of(longshot_wins, longshot);
            let factor = signals.growth(action, steady_wins, longshot_wins);
            growth += probability * factor;
            log += probability * factor.log10();
        }
        (growth, log)
    };
    let best = |signals: Signals, key: fn((f64, f64)) -> f64| {
        let actions = 0..ACTIONS.len();
        actions
            .max_by(|&a, &b| key(expected(signals, a)).total_cmp(&key(expected(signals, b))))
            .expect("there are actions")
    };
    let mean = |of: &dyn Fn(Signals) -> f64| (0..4).map(|n| of(Signals::nth(n))).sum::<f64>() / 4.0;
    let by_growth = |e: (f64, f64)| e.0;
    let by_log = |e: (f64, f64)| e.1;
    let steps = f64::from(HORIZON);
    let over_actions =
        |of: &dyn Fn(usize) -> f64| (0..ACTIONS.len()).map(of).sum::<f64>() / ACTIONS.len() as f64;
    InvestorGrowth {
        best_capital: CAPITAL * mean(&|s| expected(s, best(s, by_growth)).0).powf(steps),
        best_capital_score: steps * mean(&|s| expected(s, best(s, by_growth)).1),
        best_score: steps * mean(&|s| expected(s, best(s, by_log)).1),
        random_capital: CAPITAL * mean(&|s| over_actions(&|a| expected(s, a).0)).powf(steps),
        random_score: steps * mean(&|s| over_actions(&|a| expected(s, a).1)),
        best_capital_actions: std::array::from_fn(|n| ACTIONS[best(Signals::nth(n), by_growth)]),
        best_score_actions: std::array::from_fn(|n| ACTIONS[best(Signals::nth(n), by_log)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_matter_and_the_best_is_far_above_random() {
        let growth = investor_growth();
        println!("{growth:#?}");
        assert_eq!(growth.best_capital_actions, ["borrow", "borrow", "longshot", "borrow"]);
        assert!(growth.best_score > growth.best_capital_score - 1e-12 && growth.best_score > 1.0);
        assert!(growth.random_score < 0.5 * growth.best_score);
    }
}
