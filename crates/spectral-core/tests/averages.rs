//! Running moments and schedules.

use proptest::prelude::*;
use spectral_core::moments::{RunningMoments, bias_correction};
use spectral_core::schedule::Linear;

#[test]
fn no_batch_yet() {
    let moments = RunningMoments::new(3e-4);
    assert_eq!((moments.mean(), moments.variance(), moments.std(), moments.count()), (0.0, 0.0, 0.0, 0));
}

#[test]
fn not_a_number_stays_visible() {
    let mut moments = RunningMoments::new(0.1);
    moments.push_batch(f64::NAN, f64::NAN);
    assert!(moments.mean().is_nan() && moments.variance().is_nan());
}

#[test]
#[should_panic(expected = "in (0, 1]")]
fn a_rate_of_zero_is_a_mistake() {
    RunningMoments::new(0.0);
}

#[test]
fn correction_at_its_ends() {
    assert_eq!(bias_correction(1.0, 1), 1.0);
    assert_eq!(bias_correction(1.0, 0), 0.0);
    assert_eq!(bias_correction(3e-4, u64::MAX), 1.0);
    // 1 − (1 − 1e-17) is 0 in floating point, and would be divided by.
    assert!((bias_correction(1e-17, 1) / 1e-17 - 1.0).abs() < 1e-15);
}

#[test]
fn a_schedule_without_duration_jumps() {
    let jump = Linear { from: 1.0, to: 0.1, start: 10, duration: 0 };
    assert_eq!((jump.at(9), jump.at(10), jump.at(11)), (1.0, 0.1, 0.1));
    assert_eq!((Linear::constant(0.3).at(0), Linear::constant(0.3).at(u64::MAX)), (0.3, 0.3));
}

#[test]
fn the_papers_exploration() {
    let exploration = Linear { from: 1.0, to: 0.01, start: 200_000, duration: 4_000_000 };
    assert_eq!(exploration.at(200_000), 1.0);
    assert!((exploration.at(2_200_000) - 0.505).abs() < 1e-15);
    assert_eq!(exploration.at(4_200_000), 0.01);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    /// The recursion w ← w + rate (1 − w) of the total weight, and for a small rate the binomial series.
    #[test]
    fn correction_is_the_total_weight(exponent in -6.0..0.0_f64, count in 0..500_u64) {
        let rate = 10f64.powf(exponent);
        let weight = (0..count).fold(0.0, |weight: f64, _| weight + rate * (1.0 - weight));
        prop_assert!((bias_correction(rate, count) - weight).abs() <= 1e-13 * weight);
        let tiny = rate * 1e-12;
        let n = count as f64;
        let series = n * tiny - n * (n - 1.0) / 2.0 * tiny * tiny;
        prop_assert!((bias_correction(tiny, count) - series).abs() <= 1e-14 * series.abs());
    }

    /// The corrected moments are those of the batches under weights that fall by 1 − rate into the past and
    /// add up to 1.
    #[test]
    fn moments_are_weighted_averages(
        rate in 1e-4..=1.0_f64,
        batches in prop::collection::vec((-100.0..100.0_f64, 0.0..50.0_f64), 1..60),
    ) {
        let mut moments = RunningMoments::new(rate);
        for (mean, variance) in &batches {
            moments.push_batch(*mean, mean * mean + variance);
        }
        let weights: Vec<f64> = (0..batches.len() as i32).rev().map(|age| (1.0 - rate).powi(age)).collect();
        let total: f64 = weights.iter().sum();
        let average = |value: &dyn Fn(&(f64, f64)) -> f64| {
            weights.iter().zip(&batches).map(|(weight, batch)| weight * value(batch)).sum::<f64>() / total
        };
        let mean = average(&|batch| batch.0);
        let variance = average(&|batch| batch.1 + (batch.0 - mean).powi(2));
        prop_assert!((moments.mean() - mean).abs() <= 1e-10);
        prop_assert!((moments.variance() - variance).abs() <= 1e-8);
        prop_assert!((moments.std() - moments.variance().sqrt()).abs() == 0.0);
        let (raw_mean, raw_square, count) = moments.parts();
        prop_assert_eq!(RunningMoments::from_parts(rate, raw_mean, raw_square, count), moments);
    }

    /// A constant has no variance, however large: what rounding leaves is never negative and never notable.
    #[test]
    fn a_constant_has_no_variance(rate in 1e-5..=1.0_f64, value in -1e8..1e8_f64, count in 1..200_u64) {
        let mut moments = RunningMoments::new(rate);
        for _ in 0..count {
            moments.push_batch(value, value * value);
        }
        prop_assert!((moments.mean() - value).abs() <= 1e-12 * value.abs());
        prop_assert!(moments.variance() >= 0.0 && moments.std() <= 1e-6 * value.abs());
    }

    #[test]
    fn schedules_run_between_their_ends(
        from in -10.0..10.0_f64, to in -10.0..10.0_f64,
        start in 0..1_000_u64, duration in 0..1_000_u64,
        frame in 0..3_000_u64,
    ) {
        let schedule = Linear { from, to, start, duration };
        let value = schedule.at(frame);
        let slack = 1e-14;
        prop_assert!(value >= from.min(to) - slack && value <= from.max(to) + slack);
        if frame < start {
            prop_assert_eq!(value, from);
        } else if frame >= start + duration {
            prop_assert_eq!(value, to);
        } else {
            let slope = (to - from) / duration as f64;
            prop_assert!((value - (from + slope * (frame - start) as f64)).abs() <= slack);
            prop_assert!((schedule.at(frame + 1) - value - slope).abs() <= slack);
        }
    }
}
