//! How often the intervals behind verdicts miss the truth: an interval of 95% must do so in one case of twenty or fewer,
//! also with the two to six seeds that reinforcement learning can afford.

mod synthetic;

use spectral_report::stats::{
    Interval, LEVEL, cautious_difference, cautious_mean, clear_pairs, difference_interval,
    improvement_interval, mean_interval, probability_of_improvement, stratified_interval,
};
use synthetic::Noise;

const TRIALS: usize = 600;
/// 5% and two and a half standard errors of a share that is estimated by so many trials.
const MOST: f64 = 0.072;

fn misses(interval: Option<Interval>, truth: f64) -> bool {
    interval.is_none_or(|interval| truth < interval.low || interval.high < truth)
}

/// The share of trials in which an interval misses.
fn error(seed: u64, mut missed: impl FnMut(&mut Noise) -> bool) -> f64 {
    let mut noise = Noise::new(seed);
    (0..TRIALS).filter(|_| missed(&mut noise)).count() as f64 / TRIALS as f64
}

/// Final scores of so many seeds: about `centre`, normally distributed or with a long tail upwards.
fn scores(noise: &mut Noise, seeds: usize, centre: f64, spread: f64, tailed: bool) -> Vec<f64> {
    let one = |noise: &mut Noise| if tailed { -(1.0 - noise.uniform()).ln() - 1.0 } else { noise.normal() };
    (0..seeds).map(|_| centre + spread * one(noise)).collect()
}

#[test]
fn a_difference_is_missed_in_one_case_of_twenty_at_most() {
    for seeds in 2..=6 {
        for (spread, tailed) in [(1.0, false), (3.0, false), (1.0, true)] {
            let share = error(seeds as u64, |noise| {
                let first = scores(noise, seeds, 7.0, 1.0, tailed);
                let second = scores(noise, seeds, 4.0, spread, tailed);
                misses(cautious_difference(&first, &second, LEVEL), 3.0)
            });
            assert!(share <= MOST, "{seeds} seeds, spread {spread}, tailed {tailed}: {share}");
        }
    }
}

#[test]
fn a_mean_is_missed_in_one_case_of_twenty_at_most() {
    for seeds in 2..=6 {
        let share = error(seeds as u64, |noise| {
            misses(cautious_mean(&scores(noise, seeds, -3.0, 2.0, false), LEVEL), -3.0)
        });
        assert!(share <= MOST, "{seeds} seeds: {share}");
    }
}

#[test]
fn one_of_several_equal_agents_is_called_better_in_one_case_of_twenty_at_most() {
    for (agents, seeds) in [(2, 3), (4, 3), (5, 5)] {
        let mut by_pairs = 0;
        let share = error((agents * 10 + seeds) as u64, |noise| {
            let groups: Vec<Vec<f64>> = (0..agents).map(|_| scores(noise, seeds, 5.0, 1.0, false)).collect();
            let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
            let pairs = (0..agents).flat_map(|one| (0..one).map(move |other| (one, other)));
            let clear = |(one, other): (usize, usize)| {
                cautious_difference(groups[one], groups[other], LEVEL)
                    .is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0)
            };
            // Resampling takes time, and this is to show only that pairs by themselves would not do.
            by_pairs += usize::from(agents == 5 && pairs.clone().any(clear));
            !clear_pairs(&groups, LEVEL).is_empty()
        });
        assert!(share <= MOST, "{agents} agents with {seeds} seeds: {share}");
        assert!(agents < 5 || by_pairs as f64 > 0.12 * TRIALS as f64, "{by_pairs}");
    }
}

#[test]
fn two_agents_are_compared_as_by_the_interval_of_their_difference() {
    let mut noise = Noise::new(77);
    let mut clear = 0;
    for trial in 0..60 {
        let first = scores(&mut noise, 4, 2.2, 1.0, trial % 2 == 0);
        let second = scores(&mut noise, 3, 0.0, 1.0, false);
        let interval = cautious_difference(&first, &second, LEVEL).unwrap();
        let expected: &[(usize, usize)] = if interval.low > 0.0 { &[(0, 1)] } else { &[] };
        assert_eq!(clear_pairs(&[&first, &second], LEVEL), expected, "{interval:?}");
        clear += expected.len();
    }
    assert!((15..=50).contains(&clear), "{clear}: both kinds are tested");
    let [low, high] = [[1.0, 1.0], [2.0, 2.0]];
    assert_eq!(clear_pairs(&[&low, &high], LEVEL), [], "two that are equal have no known spread");
}

/// Pairs of distributions, and the probability that a draw of the first lies above one of the second (ties count half): alike,
/// apart, one wide and one narrow, two humps around a narrow one, and scores with ties.
type Draw = fn(&mut Noise) -> f64;
const HUMPS: Draw = |noise| if noise.uniform() < 0.7 { 1.0 } else { -1.0 } + 0.01 * noise.normal();
const PAIRS: [(&str, Draw, Draw, f64); 5] = [
    ("alike", |noise| noise.normal(), |noise| noise.normal(), 0.5),
    ("apart", |noise| 1.0 + noise.normal(), |noise| noise.normal(), 0.760_249_938_906_52),
    ("wide and narrow", |noise| 0.01 * noise.normal(), |noise| 1.0 - 10.0 * noise.uniform(), 0.9),
    ("humps", HUMPS, |noise| 0.01 * noise.normal(), 0.7),
    ("ties", |noise| (2.0 * noise.uniform()).floor(), |noise| (3.0 * noise.uniform()).floor(), 1.0 / 3.0),
];

#[test]
fn a_probability_of_improvement_is_missed_in_one_case_of_twenty_at_most() {
    for (name, first, second, truth) in PAIRS {
        for (m, n) in [(2, 2), (3, 3), (5, 5), (10, 10), (3, 10), (10, 3)] {
            let share = error((m * 100 + n) as u64, |noise| {
                let own: Vec<f64> = (0..m).map(|_| first(noise)).collect();
                let other: Vec<f64> = (0..n).map(|_| second(noise)).collect();
                misses(improvement_interval(&own, &other, LEVEL), truth)
            });
            assert!(share <= MOST, "{name}, {m} and {n} seeds: {share}");
        }
    }
}

#[test]
fn resampling_alone_is_certain_of_a_probability_after_three_seeds() {
    // The reason for another interval: three seeds above three others stay above them however they are drawn again.
    let (first, second) = ([4.0, 5.0, 6.0], [1.0, 2.0, 3.0]);
    let chance = |own: &[Vec<f64>]| probability_of_improvement(own, &[second.to_vec()]);
    let resampled = stratified_interval(&[first.to_vec()], chance, LEVEL).unwrap();
    assert_eq!((resampled.low, resampled.high), (1.0, 1.0));
    let ours = improvement_interval(&first, &second, LEVEL).unwrap();
    assert!((ours.low - 0.292).abs() < 1e-3 && ours.high == 1.0, "{ours:?}");
}

#[test]
fn the_bootstrap_alone_is_too_bold_with_five_seeds() {
    // The reason for the wider interval: were this not so, it would only cost verdicts.
    let difference = error(5, |noise| {
        let (first, second) = (scores(noise, 5, 7.0, 1.0, false), scores(noise, 5, 4.0, 1.0, false));
        misses(difference_interval(&first, &second, LEVEL), 3.0)
    });
    assert!(difference > 0.09, "{difference}");
    let mean = error(5, |noise| misses(mean_interval(&scores(noise, 5, -3.0, 2.0, false), LEVEL), -3.0));
    assert!(mean > 0.12, "{mean}");
}
