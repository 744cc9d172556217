//! The statistics against hand-computed cases and against what must hold of any data.

mod synthetic;

use proptest::prelude::*;
use spectral_report::Episode;
use spectral_report::stats::{
    Generator, Interval, LEVEL, binomial_interval, curve_over_seeds, difference_interval, final_score,
    final_window, first_score, frame_grid, improvement_interval, interpolate, mean_interval, median_place,
    memory, percentile, probability_of_improvement, resample, seed_curve, smooth,
};
use synthetic::Noise;

#[test]
fn the_moving_average_equals_a_hand_computed_case() {
    // Momentum 0.98, values 1, 2, 4. Raw averages: 0.02; 0.0596; 0.138408. Corrections: 0.02; 0.0396; 0.058808.
    let smoothed = smooth(&[1.0, 2.0, 4.0], 0.98);
    for (value, expected) in smoothed.iter().zip([1.0, 0.0596 / 0.0396, 0.138408 / 0.058808]) {
        assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
    }
    assert!(smooth(&[], 0.98).is_empty());
}

/// With momentum 0.98 throughout, the curve of 65 rising episodes ended at the mean of almost all of them.
#[test]
fn the_curve_of_a_short_run_ends_near_its_final_score() {
    for count in [20, 65, 300, 1_000] {
        let episodes: Vec<Episode> =
            (1..=count).map(|k| Episode { frame: 100 * k, score: k as f64 / count as f64 }).collect();
        let frames = 100 * count;
        let end = seed_curve(&episodes, &[frames], frames)[0].unwrap();
        let score = final_score(&episodes, frames).unwrap();
        assert!((end - score).abs() < 0.03, "{count} episodes: {end} beside {score}");
    }
    assert_eq!(1.0 - 1.0 / memory(1_000), 0.98, "long runs are drawn as the authors draw theirs");
}

#[test]
fn percentiles_interpolate_between_neighbours() {
    let sorted = [1.0, 2.0, 3.0, 4.0, 10.0];
    assert_eq!(percentile(&sorted, 0.0), 1.0);
    assert_eq!(percentile(&sorted, 0.5), 3.0);
    assert_eq!(percentile(&sorted, 1.0), 10.0);
    assert!((percentile(&sorted, 0.9) - 7.6).abs() < 1e-12, "numpy's linear rule gives 7.6");
    assert_eq!(percentile(&[5.0], 0.3), 5.0);
}

#[test]
fn resampling_holds_the_latest_value_and_invents_none() {
    let (frames, values) = ([100, 250, 250, 400], [1.0, 2.0, 3.0, 4.0]);
    let grid = [50, 100, 200, 250, 399, 400, 500, 600];
    let read = resample(&frames, &values, &grid, 500);
    let expected = [None, Some(1.0), Some(1.0), Some(3.0), Some(3.0), Some(4.0), Some(4.0), None];
    assert_eq!(read, expected, "nothing before the first episode, nothing past the frame that was reached");
    assert_eq!(resample(&[], &[], &grid, 500), [None; 8]);
    let between = interpolate(&[100, 300], &[1.0, 3.0], &[50, 100, 150, 300, 400, 501], 500);
    assert_eq!(between, [None, Some(1.0), Some(1.5), Some(3.0), Some(3.0), None]);
}

#[test]
fn the_grid_ends_at_the_last_frame() {
    assert_eq!(frame_grid(1000, 4), [250, 500, 750, 1000]);
    assert_eq!(frame_grid(3, 240), [1, 2, 3]);
    assert_eq!(frame_grid(u64::MAX, 2), [u64::MAX / 2, u64::MAX]);
    assert_eq!(frame_grid(0, 240).len(), 1);
}

/// Episodes of equal length whose scores count up, and the frames that they take.
fn counted(count: u64, length: u64) -> (Vec<Episode>, u64) {
    let episodes = (0..count).map(|k| Episode { frame: (k + 1) * length, score: k as f64 }).collect();
    (episodes, count * length)
}

#[test]
fn a_first_score_is_the_first_twentieth_or_the_first_twenty() {
    let first = |count: u64| {
        let (episodes, frames) = counted(count, 7);
        first_score(&episodes, frames)
    };
    assert_eq!(first(1_000), Some(24.5));
    assert_eq!(first(40), Some(9.5));
    assert_eq!(first(24), Some(9.5));
    assert_eq!(first(22), None, "it would overlap with the final score");
}

#[test]
fn a_final_score_is_that_of_the_last_tenth_of_the_frames() {
    let (episodes, frames) = counted(300, 10);
    assert_eq!(final_score(&episodes, frames), Some(284.5), "the mean of 270 to 299");
    // Games that grow longer: of 100 short ones and 9 long ones, the last tenth of the frames holds one.
    let (mut growing, frames) = counted(100, 10);
    growing.extend((1..=9).map(|k| Episode { frame: frames + k * 1_000, score: 1_000.0 * k as f64 }));
    assert_eq!(final_window(&growing, 10_000), 1);
    assert_eq!(final_score(&growing, 10_000), Some(9_000.0), "the last tenth of the episodes would be 4,500");
    // An episode belongs to the tenth in which it ends, the last frame before it not included.
    let at = |frame: u64| Episode { frame, score: frame as f64 };
    assert_eq!(final_score(&[at(90), at(91), at(100)], 100), Some(95.5));
    // No episode ended there: the last one speaks.
    assert_eq!(final_score(&[at(30), at(50)], 100), Some(50.0));
    assert_eq!((final_score(&[], 100), final_window(&[], 100)), (None, 0));
    assert_eq!(final_score(&[at(u64::MAX)], u64::MAX), Some(u64::MAX as f64));
}

#[test]
fn a_single_seed_has_a_curve_but_no_spread() {
    let episodes = [Episode { frame: 30, score: 2.0 }, Episode { frame: 60, score: 2.0 }];
    let grid = frame_grid(100, 10);
    let curve = curve_over_seeds(&grid, &[seed_curve(&episodes, &grid, 80)]);
    assert_eq!(curve.iter().map(|point| point.frame).collect::<Vec<_>>(), [30, 40, 50, 60, 70, 80]);
    assert!(curve.iter().all(|point| point.seeds == 1 && point.low == point.high));
    assert!(curve.iter().all(|point| (point.mean - 2.0).abs() < 1e-12));
    assert_eq!(mean_interval(&[3.0], 0.9), None);
    assert_eq!(difference_interval(&[3.0], &[1.0, 2.0], 0.9), None);
}

#[test]
fn a_curve_counts_the_seeds_at_each_point() {
    let grid = [10, 20, 30];
    let curves = [vec![None, Some(1.0), Some(1.0)], vec![Some(3.0), Some(3.0), None]];
    let curve = curve_over_seeds(&grid, &curves);
    assert_eq!(curve.iter().map(|point| point.seeds).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!(curve.iter().map(|point| point.mean).collect::<Vec<_>>(), [3.0, 2.0, 1.0]);
    assert!(curve[1].low < 2.0 && curve[1].high > 2.0);
}

#[test]
fn the_band_of_a_curve_is_the_interval_of_the_table() {
    let values = [1.0, 4.0, 2.0, 8.0, 5.0];
    let curves: Vec<_> = values.iter().map(|value| vec![Some(*value)]).collect();
    let point = curve_over_seeds(&[10], &curves)[0];
    let table = mean_interval(&values, LEVEL).unwrap();
    // The table's has twenty times as many resamples.
    let room = 0.06 * (table.high - table.low);
    assert!(
        (point.low - table.low).abs() < room && (point.high - table.high).abs() < room,
        "{point:?} {table:?}"
    );
}

#[test]
fn binomial_intervals_are_those_of_the_tables() {
    // Clopper and Pearson's, from R's binom.test.
    let table = [(8, 10, 0.4439045, 0.9747893), (0, 5, 0.0, 0.5218238), (1, 2, 0.0125791, 0.9874209)];
    for (successes, trials, low, high) in table {
        let range = binomial_interval(successes as f64 / trials as f64, trials, 0.95).unwrap();
        assert!(
            (range.low - low).abs() < 1e-6 && (range.high - high).abs() < 1e-6,
            "{successes}/{trials}: {range:?}"
        );
    }
    assert_eq!(binomial_interval(0.5, 0, 0.95), None);
    assert_eq!(binomial_interval(f64::NAN, 3, 0.95), None);
}

#[test]
fn intervals_cover_the_truth_about_as_often_as_they_say() {
    // 20 seeds: percentile intervals run a little narrow, so a little under 90 of 100 is right and 80 would be wrong.
    let mut noise = Noise::new(12345);
    let trials = 400;
    let (mut covered, mut covered_difference) = (0, 0);
    for _ in 0..trials {
        let sample: Vec<f64> = (0..20).map(|_| 5.0 + 2.0 * noise.normal()).collect();
        let other: Vec<f64> = (0..20).map(|_| 3.0 + noise.normal()).collect();
        let holds = |interval: Option<Interval>, truth: f64| {
            interval.is_some_and(|interval| interval.low <= truth && truth <= interval.high)
        };
        covered += usize::from(holds(mean_interval(&sample, 0.9), 5.0));
        covered_difference += usize::from(holds(difference_interval(&sample, &other, 0.9), 2.0));
    }
    let share = |count: usize| count as f64 / trials as f64;
    assert!((0.83..=0.93).contains(&share(covered)), "{}", share(covered));
    assert!((0.83..=0.93).contains(&share(covered_difference)), "{}", share(covered_difference));
}

#[test]
fn the_generator_is_even_and_fixed() {
    let mut generator = Generator::new(1);
    assert_eq!(generator.next_u64(), 0x910A_2DEC_8902_5CC1, "SplitMix64 with seed 1");
    let mut counts = [0u32; 7];
    for _ in 0..70_000 {
        counts[generator.below(7)] += 1;
    }
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
}

proptest! {
    #[test]
    fn a_smoothed_value_lies_between_the_values_so_far(values in prop::collection::vec(-1e6..1e6f64, 1..60)) {
        let smoothed = smooth(&values, 0.98);
        for (k, value) in smoothed.iter().enumerate() {
            let low = values[..=k].iter().copied().fold(f64::INFINITY, f64::min);
            let high = values[..=k].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(*value >= low - 1e-6 && *value <= high + 1e-6);
        }
        // The definition, written out: weights that fall by 0.98 a step back.
        let last = values.len() - 1;
        let weight = |k: usize| 0.98f64.powi((last - k) as i32);
        let sum: f64 = (0..=last).map(|k| weight(k) * values[k]).sum();
        let expected = sum / (0..=last).map(weight).sum::<f64>();
        prop_assert!((smoothed[last] - expected).abs() <= 1e-9 * (1.0 + expected.abs().max(1e6)));
    }

    #[test]
    fn intervals_nest_and_hold_the_mean(values in prop::collection::vec(-1e3..1e3f64, 2..12)) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let (narrow, wide) = (mean_interval(&values, 0.9).unwrap(), mean_interval(&values, 0.95).unwrap());
        prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
        prop_assert!(narrow.low <= mean + 1e-9 && mean - 1e-9 <= narrow.high);
        prop_assert_eq!(mean_interval(&values, 0.9), Some(narrow), "the same data, the same digits");
        prop_assert!(narrow.overlaps(&wide) && wide.overlaps(&narrow));
    }

    #[test]
    fn shifting_an_agent_shifts_the_difference(
        first in prop::collection::vec(-50.0..50.0f64, 2..8),
        second in prop::collection::vec(-50.0..50.0f64, 2..8),
        shift in -1e3..1e3f64,
    ) {
        let moved: Vec<f64> = first.iter().map(|value| value + shift).collect();
        let before = difference_interval(&first, &second, 0.9).unwrap();
        let after = difference_interval(&moved, &second, 0.9).unwrap();
        prop_assert!((after.low - before.low - shift).abs() < 1e-8);
        prop_assert!((after.high - before.high - shift).abs() < 1e-8);
    }

    #[test]
    fn a_probability_has_an_interval_around_it_that_narrows_with_seeds(
        first in prop::collection::vec(-5..5i32, 1..9),
        second in prop::collection::vec(-5..5i32, 1..9),
    ) {
        let float = |values: &[i32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<f64>>();
        let (first, second) = (float(&first), float(&second));
        let chance = |a: &[f64], b: &[f64]| probability_of_improvement(&[a.to_vec()], &[b.to_vec()]).unwrap();
        let point = chance(&first, &second);
        let range = improvement_interval(&first, &second, LEVEL).unwrap();
        prop_assert!(0.0 <= range.low && range.low <= point && point <= range.high && range.high <= 1.0);
        prop_assert!(range.high - range.low > 0.0, "few seeds are never certain");
        prop_assert!(range.low < 0.99 && range.high > 0.01);
        // The other way round it is the same interval from the other side.
        let back = improvement_interval(&second, &first, LEVEL).unwrap();
        prop_assert!((back.low - (1.0 - range.high)).abs() < 1e-9 && (back.high - (1.0 - range.low)).abs() < 1e-9);
        // Three times the same scores: the same share, with more seeds behind it.
        let more = improvement_interval(&first.repeat(3), &second.repeat(3), LEVEL).unwrap();
        prop_assert!(more.low >= range.low - 1e-9 && more.high <= range.high + 1e-9);
        let narrow = improvement_interval(&first, &second, 0.9).unwrap();
        prop_assert!(range.low <= narrow.low && narrow.high <= range.high);
    }

    #[test]
    fn the_median_seed_has_as_many_above_as_below(scores in prop::collection::vec(-9.0..9.0f64, 1..12)) {
        let middle = median_place(&scores.iter().copied().map(Some).collect::<Vec<_>>()).unwrap();
        let above = scores.iter().filter(|score| **score > scores[middle]).count();
        let below = scores.iter().filter(|score| **score < scores[middle]).count();
        prop_assert!(above.abs_diff(below) <= 1, "{above} above and {below} below");
    }
}
