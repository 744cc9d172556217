//! The statistics of a report. Seeds are the unit of replication throughout.
//!
//! Resampling is deterministic: the same runs give the same intervals to the last digit, on every machine.

use serde::Serialize;

use crate::run::Episode;

mod aggregate;
mod binomial;
mod pairs;
mod student;

pub use aggregate::{
    aggregate_mean, aggregate_median, interquartile_mean, optimality_gap, performance_profile,
    probability_of_improvement, profile_band, stratified_interval,
};
pub use binomial::{binomial_interval, improvement_interval};
pub use pairs::clear_pairs;
pub use student::{cautious_difference, cautious_mean, t_critical, t_interval, welch_interval};

/// The most episodes that the moving average of a curve remembers: momentum 0.98, as the paper's authors draw their curves.
pub const LONGEST_MEMORY: f64 = 50.0;
/// One part in so many of a seed's episodes is what its curve remembers, where that is less.
pub const MEMORY_PART: f64 = 20.0;
/// One part in so many of a seed's frames, at the end of its training, is what "how it ended" is read from: the final score
/// is the mean of the episodes that end there.
pub const FINAL_PART: u64 = 10;
/// The fewest episodes that a first score is taken over, where there are that many.
pub const FIRST_EPISODES: usize = 20;
/// The level of every interval and band that a report shows or rests on.
pub const LEVEL: f64 = 0.95;
/// Below this many seeds a report warns.
pub const FEW_SEEDS: usize = 5;

const TABLE_RESAMPLES: usize = 20_000;
const BAND_RESAMPLES: usize = 1_000;
const RESAMPLING_SEED: u64 = 0x5EED_0F5E_C7A1;

/// A small generator of random numbers for resampling (SplitMix64): fixed, so that reports are reproducible.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random index below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
}

/// Bias-corrected exponential moving average: the t-th output is the weighted mean of the first t values, with
/// weights that fall by `momentum` for each step back.
///
/// ```
/// let smoothed = spectral_report::stats::smooth(&[1.0, 3.0], 0.5);
/// assert_eq!(smoothed[0], 1.0);
/// assert!((smoothed[1] - (0.25 * 1.0 + 0.5 * 3.0) / 0.75).abs() < 1e-12);
/// ```
pub fn smooth(values: &[f64], momentum: f64) -> Vec<f64> {
    let mut average = 0.0;
    let mut weight = 0.0;
    values
        .iter()
        .map(|value| {
            average = momentum * average + (1.0 - momentum) * value;
            weight = momentum * weight + (1.0 - momentum);
            average / weight
        })
        .collect()
}

/// How many episodes the moving average of a curve remembers: its weights fall by 1 − 1 ÷ this for each step back.
///
/// The mean age of what it remembers is then a twentieth of the episodes at most, as that of a final score is if games do not
/// grow longer: a longer memory would draw the end of a short run far from the score in its table.
///
/// ```
/// use spectral_report::stats::memory;
/// assert_eq!([memory(0), memory(60), memory(1_000), memory(9_999)], [1.0, 3.0, 50.0, 50.0]);
/// ```
pub fn memory(episodes: usize) -> f64 {
    (episodes as f64 / MEMORY_PART).clamp(1.0, LONGEST_MEMORY)
}

/// Reads a step function at the frames of `grid`: the value of the latest point at or before each frame, nothing
/// before the first point and nothing beyond `until`, the frame that the agent has reached.
pub fn resample(frames: &[u64], values: &[f64], grid: &[u64], until: u64) -> Vec<Option<f64>> {
    let mut next = 0;
    grid.iter()
        .map(|&frame| {
            while next < frames.len() && frames[next] <= frame {
                next += 1;
            }
            (next > 0 && frame <= until).then(|| values[next - 1])
        })
        .collect()
}

/// Reads a sampled quantity at the frames of `grid`: on the straight line between neighbouring points, the last value
/// held to `until`, nothing before the first point.
pub fn interpolate(frames: &[u64], values: &[f64], grid: &[u64], until: u64) -> Vec<Option<f64>> {
    let mut next = 0;
    grid.iter()
        .map(|&frame| {
            while next < frames.len() && frames[next] <= frame {
                next += 1;
            }
            if next == 0 || frame > until {
                return None;
            }
            let (at, value) = (frames[next - 1], values[next - 1]);
            if next == frames.len() {
                return Some(value);
            }
            let share = (frame - at) as f64 / (frames[next] - at) as f64;
            Some(value + share * (values[next] - value))
        })
        .collect()
}

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Whether two means are equal but for the rounding of their sums.
///
/// ```
/// use spectral_report::stats::tied;
/// assert!(tied((0.1 + 0.2) / 3.0, 0.3 / 3.0) && !tied(0.1, 0.1001));
/// ```
pub fn tied(first: f64, second: f64) -> bool {
    (first - second).abs() <= 1e-12 * first.abs().max(second.abs())
}

/// Which of these scores is the median, the lower one of two in the middle; `None` if none of them exists.
///
/// ```
/// use spectral_report::stats::median_place;
/// assert_eq!(median_place(&[Some(9.0), None, Some(1.0), Some(5.0)]), Some(3));
/// assert_eq!(median_place(&[Some(9.0), Some(1.0)]), Some(1));
/// assert_eq!(median_place(&[None]), None);
/// ```
pub fn median_place(scores: &[Option<f64>]) -> Option<usize> {
    let mut places: Vec<(f64, usize)> =
        scores.iter().enumerate().filter_map(|(place, score)| Some(((*score)?, place))).collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.get(places.len().saturating_sub(1) / 2).map(|(_, place)| *place)
}

/// The `share` quantile (0 to 1) of values sorted in ascending order, with linear interpolation between neighbours.
///
/// # Panics
/// If `sorted` is empty.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

/// A range of plausible values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the two ranges share a point.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Means of bootstrap resamples of `values`, in the order in which they were drawn.
fn bootstrap_means(values: &[f64], resamples: usize, generator: &mut Generator) -> Vec<f64> {
    let n = values.len();
    (0..resamples).map(|_| (0..n).map(|_| values[generator.below(n)]).sum::<f64>() / n as f64).collect()
}

fn central(mut values: Vec<f64>, level: f64) -> Interval {
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    Interval { low: percentile(&values, tail), high: percentile(&values, 1.0 - tail) }
}

/// Percentile bootstrap interval of the mean over seeds; `None` for fewer than two values, of which no spread can
/// be known.
pub fn mean_interval(values: &[f64], level: f64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut generator = Generator::new(RESAMPLING_SEED);
    Some(central(bootstrap_means(values, TABLE_RESAMPLES, &mut generator), level))
}

/// Percentile bootstrap interval of mean(first) − mean(second), each resampled for itself; `None` if either has
/// fewer than two values.
pub fn difference_interval(first: &[f64], second: &[f64], level: f64) -> Option<Interval> {
    difference_resamples(first, second).map(|differences| central(differences, level))
}

/// The differences of resampled means; `None` if either side has fewer than two values.
fn difference_resamples(first: &[f64], second: &[f64]) -> Option<Vec<f64>> {
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    let mut generator = Generator::new(RESAMPLING_SEED);
    let first = bootstrap_means(first, TABLE_RESAMPLES, &mut generator);
    let second = bootstrap_means(second, TABLE_RESAMPLES, &mut generator);
    Some(first.iter().zip(&second).map(|(a, b)| a - b).collect())
}

/// The interval of the mean at one point of a curve: as [`mean_interval`], from fewer resamples, because a figure has many
/// points.
fn band(values: &[f64]) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    // The same draws at every point of a curve, so that a band is as smooth as the curves it is made of.
    let mut generator = Generator::new(RESAMPLING_SEED);
    Some(central(bootstrap_means(values, BAND_RESAMPLES, &mut generator), LEVEL))
}

/// The frame after which the last tenth of `frames` begins.
pub fn final_frame(frames: u64) -> u64 {
    frames - frames / FINAL_PART
}

/// How many episodes from the end make a final score: those that end in the last tenth of the agent's `frames`, or the last
/// one if none does.
///
/// A share of frames and not of episodes, so that agents are judged on the same part of their training: where good play
/// makes games longer, the last tenth of the episodes is a larger part of it, and begins earlier.
pub fn final_window(episodes: &[Episode], frames: u64) -> usize {
    let before = episodes.partition_point(|episode| episode.frame <= final_frame(frames));
    (episodes.len() - before).max(1).min(episodes.len())
}

/// A seed's final score: the mean of the episodes that end in the last tenth of its `frames`, or the last episode if none
/// does; `None` if no episode has finished.
///
/// ```
/// use spectral_report::{Episode, stats::final_score};
/// let episodes = [(40, 1.0), (91, 2.0), (99, 4.0)].map(|(frame, score)| Episode { frame, score });
/// assert_eq!(final_score(&episodes, 100), Some(3.0));
/// ```
pub fn final_score(episodes: &[Episode], frames: u64) -> Option<f64> {
    let window = &episodes[episodes.len() - final_window(episodes, frames)..];
    (!window.is_empty()).then(|| window.iter().map(|e| e.score).sum::<f64>() / window.len() as f64)
}

/// The score a seed began with: the mean of the first twentieth of its episodes, or of the first 20 if that is more;
/// `None` if these would run into the episodes of its [`final_score`].
pub fn first_score(episodes: &[Episode], frames: u64) -> Option<f64> {
    let window = (episodes.len() / 20).max(FIRST_EPISODES);
    let scores: Vec<f64> = episodes.iter().take(window).map(|episode| episode.score).collect();
    if window + final_window(episodes, frames) > episodes.len() { None } else { mean(&scores) }
}

/// One point of a curve over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Emulator frames.
    pub frame: u64,
    /// Mean over the seeds that have a value here.
    pub mean: f64,
    /// Lower end of the mean's 95% bootstrap interval; the mean itself for a single seed.
    pub low: f64,
    /// Upper end of that interval; the mean itself for a single seed.
    pub high: f64,
    /// How many seeds have a value here.
    pub seeds: usize,
}

/// Equally spaced frames from one step to `last`, both included.
pub fn frame_grid(last: u64, points: u64) -> Vec<u64> {
    let points = points.min(last.max(1));
    (1..=points).map(|k| (u128::from(last) * u128::from(k) / u128::from(points)) as u64).collect()
}

/// The smoothed score curve of one seed on a grid.
pub fn seed_curve(episodes: &[Episode], grid: &[u64], until: u64) -> Vec<Option<f64>> {
    let frames: Vec<u64> = episodes.iter().map(|episode| episode.frame).collect();
    let scores: Vec<f64> = episodes.iter().map(|episode| episode.score).collect();
    resample(&frames, &smooth(&scores, 1.0 - 1.0 / memory(scores.len())), grid, until)
}

/// Mean and band over the curves of several seeds, at every frame where at least one has a value.
pub fn curve_over_seeds(grid: &[u64], curves: &[Vec<Option<f64>>]) -> Vec<CurvePoint> {
    let mut points = Vec::with_capacity(grid.len());
    for (at, &frame) in grid.iter().enumerate() {
        let values: Vec<f64> = curves.iter().filter_map(|curve| curve[at]).collect();
        if let Some(mean) = mean(&values) {
            let band = band(&values).unwrap_or(Interval { low: mean, high: mean });
            points.push(CurvePoint { frame, mean, low: band.low, high: band.high, seeds: values.len() });
        }
    }
    points
}
