//! Intervals of probabilities, which hold with few seeds too: the bootstrap's have no width where all seeds agree, however
//! few there are.

use super::student::incomplete_beta;
use super::{Interval, probability_of_improvement};

/// The `share` quantile of the beta distribution with these parameters.
fn beta_quantile(a: f64, b: f64, share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if incomplete_beta(a, b, middle) < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Clopper and Pearson's interval of a probability that came true in `share` of so many `trials`; `None` of no trials.
///
/// Where the successes are a whole number, it holds the truth in at least `level` of all cases, whatever the number of trials.
/// The share need not make a whole number, because ties count half and all pairs of seeds are averaged: the same formula then
/// lies between the intervals of the neighbouring numbers, and nothing is proven. The tests of `tests/coverage.rs` find that it
/// holds there too.
///
/// ```
/// let all_of_three = spectral_report::stats::binomial_interval(1.0, 3, 0.95).unwrap();
/// assert!((all_of_three.low - 0.025f64.cbrt()).abs() < 1e-9 && all_of_three.high == 1.0);
/// ```
pub fn binomial_interval(share: f64, trials: usize, level: f64) -> Option<Interval> {
    if trials == 0 || !(0.0..=1.0).contains(&share) {
        return None;
    }
    let trials = trials as f64;
    let successes = share * trials;
    let tail = (1.0 - level) / 2.0;
    let low = if successes > 0.0 { beta_quantile(successes, trials - successes + 1.0, tail) } else { 0.0 };
    let high = if share < 1.0 { beta_quantile(successes + 1.0, trials - successes, 1.0 - tail) } else { 1.0 };
    Some(Interval { low, high })
}

/// The interval of the probability that a seed of `first` scores above a seed of `second`; `None` if either has no seed.
///
/// It is the [binomial](binomial_interval) interval of as many trials as the smaller group has seeds, since so many pairs have
/// no seed in common; the mean over all pairs varies no more than the mean over these. This is as wide as it must be where one
/// group's scores lie close together and the other's are far apart, and wider than it must be where the two spread alike.
pub fn improvement_interval(first: &[f64], second: &[f64], level: f64) -> Option<Interval> {
    let share = probability_of_improvement(&[first.to_vec()], &[second.to_vec()])?;
    binomial_interval(share, first.len().min(second.len()), level)
}
