//! Statistics over several tasks and seeds, as Agarwal and others (2021, "Deep reinforcement learning at the edge of
//! the statistical precipice") propose and their package rliable computes them.
//!
//! Scores are given as one list per task, of one score per seed. Resampling is stratified: each task's seeds are drawn
//! from that task alone. Tasks may have unlike numbers of seeds; with equal numbers every value equals rliable's.

use super::{Generator, Interval, RESAMPLING_SEED, TABLE_RESAMPLES, central, mean, percentile};

/// Resamples behind the bands of a performance profile, as many as rliable draws.
const PROFILE_RESAMPLES: usize = 2_000;

fn complete(tasks: &[Vec<f64>]) -> bool {
    !tasks.is_empty() && tasks.iter().all(|seeds| !seeds.is_empty())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Mean over tasks of the mean over seeds; `None` if a task has no seed.
pub fn aggregate_mean(tasks: &[Vec<f64>]) -> Option<f64> {
    let means: Option<Vec<f64>> = tasks.iter().map(|seeds| mean(seeds)).collect();
    mean(&means?)
}

/// Median over tasks of the mean over seeds; `None` if a task has no seed.
pub fn aggregate_median(tasks: &[Vec<f64>]) -> Option<f64> {
    let means: Option<Vec<f64>> = tasks.iter().map(|seeds| mean(seeds)).collect();
    let means = means.filter(|means| !means.is_empty())?;
    Some(percentile(&sorted(means), 0.5))
}

/// Interquartile mean: the mean of the middle half of all scores of all tasks; `None` if a task has no seed.
///
/// The lowest and the highest quarter are left out, each rounded down to whole scores; three scores or fewer lose none.
///
/// ```
/// use spectral_report::stats::interquartile_mean;
/// assert_eq!(interquartile_mean(&[vec![0.0, 10.0, 20.0, 1000.0]]), Some(15.0));
/// ```
pub fn interquartile_mean(tasks: &[Vec<f64>]) -> Option<f64> {
    if !complete(tasks) {
        return None;
    }
    let values = sorted(tasks.concat());
    let cut = values.len() / 4;
    mean(&values[cut..values.len() - cut])
}

/// How far scores fall short of `threshold` on average, scores beyond it counting as no shortfall.
pub fn optimality_gap(tasks: &[Vec<f64>], threshold: f64) -> Option<f64> {
    if !complete(tasks) {
        return None;
    }
    let reached: Vec<Vec<f64>> =
        tasks.iter().map(|seeds| seeds.iter().map(|score| score.min(threshold)).collect()).collect();
    aggregate_mean(&reached).map(|reached| threshold - reached)
}

/// Probability that a seed of `first` scores above a seed of `second`, ties counted half, averaged over tasks: the
/// Mann–Whitney statistic divided by the number of pairs.
///
/// `None` if the two do not have the same tasks or a task has no seed.
///
/// ```
/// use spectral_report::stats::probability_of_improvement;
/// let (first, second) = ([vec![1.0, 5.0]], [vec![1.0, 2.0]]);
/// assert_eq!(probability_of_improvement(&first, &second), Some(0.625));
/// ```
pub fn probability_of_improvement(first: &[Vec<f64>], second: &[Vec<f64>]) -> Option<f64> {
    if first.len() != second.len() || !complete(first) || !complete(second) {
        return None;
    }
    let shares: Vec<f64> = first.iter().zip(second).map(|(a, b)| share_above(a, b)).collect();
    mean(&shares)
}

fn share_above(first: &[f64], second: &[f64]) -> f64 {
    let mut halves = 0usize;
    for a in first {
        for b in second {
            halves += match a.partial_cmp(b) {
                Some(std::cmp::Ordering::Greater) => 2,
                Some(std::cmp::Ordering::Equal) => 1,
                _ => 0,
            };
        }
    }
    halves as f64 / (2 * first.len() * second.len()) as f64
}

/// Share of scores above each threshold, averaged over tasks; empty if a task has no seed.
pub fn performance_profile(tasks: &[Vec<f64>], thresholds: &[f64]) -> Vec<f64> {
    if !complete(tasks) {
        return Vec::new();
    }
    let above = |seeds: &Vec<f64>, threshold: f64| {
        seeds.iter().filter(|score| **score > threshold).count() as f64 / seeds.len() as f64
    };
    let share = |&threshold: &f64| {
        tasks.iter().map(|seeds| above(seeds, threshold)).sum::<f64>() / tasks.len() as f64
    };
    thresholds.iter().map(share).collect()
}

fn enough(tasks: &[Vec<f64>]) -> bool {
    !tasks.is_empty() && tasks.iter().all(|seeds| seeds.len() >= 2)
}

/// Draws each task's seeds anew, with replacement, into `into`.
fn redraw(tasks: &[Vec<f64>], into: &mut [Vec<f64>], generator: &mut Generator) {
    for (seeds, drawn) in tasks.iter().zip(into) {
        for score in drawn.iter_mut() {
            *score = seeds[generator.below(seeds.len())];
        }
    }
}

/// Stratified percentile bootstrap interval of a statistic of one agent's scores; `None` if a task has fewer than two
/// seeds, of which no spread can be known.
///
/// ```
/// use spectral_report::stats::{interquartile_mean, stratified_interval};
/// let scores = [vec![1.0, 2.0, 3.0, 9.0, 2.5]];
/// let interval = stratified_interval(&scores, interquartile_mean, 0.95).unwrap();
/// assert!(interval.low < 2.5 && 2.5 < interval.high);
/// ```
pub fn stratified_interval(
    tasks: &[Vec<f64>],
    statistic: impl Fn(&[Vec<f64>]) -> Option<f64>,
    level: f64,
) -> Option<Interval> {
    if !enough(tasks) {
        return None;
    }
    let mut generator = Generator::new(RESAMPLING_SEED);
    let mut drawn = tasks.to_vec();
    let mut values = Vec::with_capacity(TABLE_RESAMPLES);
    for _ in 0..TABLE_RESAMPLES {
        redraw(tasks, &mut drawn, &mut generator);
        values.push(statistic(&drawn)?);
    }
    Some(central(values, level))
}

/// Pointwise stratified bootstrap band of a performance profile; empty if a task has fewer than two seeds.
pub fn profile_band(tasks: &[Vec<f64>], thresholds: &[f64], level: f64) -> Vec<Interval> {
    if !enough(tasks) {
        return Vec::new();
    }
    let mut generator = Generator::new(RESAMPLING_SEED);
    let mut drawn = tasks.to_vec();
    let mut columns = vec![Vec::with_capacity(PROFILE_RESAMPLES); thresholds.len()];
    for _ in 0..PROFILE_RESAMPLES {
        redraw(tasks, &mut drawn, &mut generator);
        for (column, share) in columns.iter_mut().zip(performance_profile(&drawn, thresholds)) {
            column.push(share);
        }
    }
    columns.into_iter().map(|column| central(column, level)).collect()
}
