//! Scales and ticks.

use crate::format::{short_count, thousands};

/// How values map to a length between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Linear,
    /// sign(v)·log(1 + |v|/c): linear within about ±c, logarithmic beyond, so that small and huge scores of either
    /// sign are seen in one picture.
    Symlog(f64),
    Log,
}

/// One axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub kind: Kind,
    pub min: f64,
    pub max: f64,
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis over exactly `min` to `max`.
    pub(crate) fn linear(min: f64, max: f64, target: usize) -> Self {
        let (min, max) = widened(min, max);
        let ticks = nice_ticks(min, max, target).into_iter().map(|v| (v, short_count(v))).collect();
        Self { kind: Kind::Linear, min, max, ticks }
    }

    /// A symmetric logarithmic axis that is linear within about ±`linear`.
    pub(crate) fn symlog(min: f64, max: f64, linear: f64) -> Self {
        let (min, max) = widened(min, max);
        let mut axis = Self { kind: Kind::Symlog(linear), min, max, ticks: Vec::new() };
        let mut values = vec![0.0];
        let mut size = linear;
        while size <= min.abs().max(max.abs()) {
            values.extend([size, -size]);
            size *= 10.0;
        }
        values.retain(|v| (min..=max).contains(v));
        values.sort_by(f64::total_cmp);
        // Decades crowd near zero: keep zero first, then those that are far enough from the last tick kept.
        let gap = 0.07;
        let mut kept: Vec<f64> = Vec::new();
        values.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        for value in values {
            if kept.iter().all(|other| (axis.place(*other) - axis.place(value)).abs() >= gap) {
                kept.push(value);
            }
        }
        kept.sort_by(f64::total_cmp);
        axis.ticks = kept.into_iter().map(|v| (v, short_count(v))).collect();
        axis
    }

    /// A logarithmic axis over whole decades, in per cent.
    pub(crate) fn percent_decades(lowest: i32, highest: i32) -> Self {
        let ticks = (lowest..=highest).map(|power| {
            let value = 10f64.powi(power);
            let label = if value >= 1000.0 {
                thousands(value as u64)
            } else if power < -3 {
                // All its zeros would not fit next to the axis.
                format!("1e−{}", -power)
            } else {
                value.to_string()
            };
            (value, format!("{label}%"))
        });
        Self { kind: Kind::Log, min: 10f64.powi(lowest), max: 10f64.powi(highest), ticks: ticks.collect() }
    }

    /// A logarithmic axis over whole decades.
    pub(crate) fn decades(lowest: i32, highest: i32) -> Self {
        // Labels at every decade would be too dense if there are many.
        let stride = ((highest - lowest) / 6 + 1) as usize;
        let ticks = (lowest..=highest).step_by(stride).map(|power| {
            let value = 10f64.powi(power);
            (value, if value < 1e-3 { format!("1e{power}").replace('-', "−") } else { short_count(value) })
        });
        Self { kind: Kind::Log, min: 10f64.powi(lowest), max: 10f64.powi(highest), ticks: ticks.collect() }
    }

    /// The whole decades that hold all the positive values, at least one.
    pub(crate) fn decades_of(values: impl Iterator<Item = f64>) -> (i32, i32) {
        let (mut low, mut high) = (f64::INFINITY, 0.0);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            low = f64::min(low, value);
            high = f64::max(high, value);
        }
        if low > high {
            return (0, 1);
        }
        let bottom = (low.log10() + 1e-9).floor() as i32;
        (bottom, ((high.log10() - 1e-9).ceil() as i32).max(bottom + 1))
    }

    /// Whether a value lies between the axis' ends.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// The position of a value between the axis' ends, 0 to 1. Values outside are moved to the ends.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let t = |v: f64| match self.kind {
            Kind::Linear => v,
            Kind::Symlog(c) => v.signum() * (v.abs() / c).ln_1p(),
            Kind::Log => v.max(f64::MIN_POSITIVE).ln(),
        };
        ((t(value) - t(self.min)) / (t(self.max) - t(self.min))).clamp(0.0, 1.0)
    }
}

fn widened(min: f64, max: f64) -> (f64, f64) {
    if max > min { (min, max) } else { (min - 1.0, max + 1.0) }
}

/// Multiples of 1, 2, 2.5 or 5 times a power of ten within the range, about `target` of them.
pub(crate) fn nice_ticks(min: f64, max: f64, target: usize) -> Vec<f64> {
    let rough = (max - min) / target.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (min / step - 1e-9).ceil() as i64;
    let last = (max / step + 1e-9).floor() as i64;
    (first..=last).map(|k| k as f64 * step).collect()
}

/// The axis for scores: its range always shows where zero is unless zero is far away, and it is symmetric
/// logarithmic only if half of the agents or more would otherwise be squeezed flat.
pub(crate) fn score_axis(low: f64, high: f64, peaks: &[f64], target: usize) -> Axis {
    let (mut low, mut high) = (low.min(high), high.max(low));
    if low > 0.0 && low < 0.6 * high {
        low = 0.0;
    }
    if high < 0.0 && high > 0.6 * low {
        high = 0.0;
    }
    let largest = low.abs().max(high.abs());
    let smallest = peaks.iter().copied().filter(|p| *p > 0.0).fold(f64::INFINITY, f64::min);
    let squeezed = peaks.iter().filter(|p| **p < largest / 50.0).count();
    if largest >= 1000.0 && smallest.is_finite() && 2 * squeezed >= peaks.len() && squeezed > 0 {
        let linear = 10f64.powf((smallest.max(1.0)).log10().floor()).max(1.0);
        let reach = |v: f64| v.signum() * (v.abs() * 1.3 + linear * 0.2);
        let low = if low < 0.0 { reach(low) } else { low };
        let high = if high > 0.0 { reach(high) } else { high };
        return Axis::symlog(low, high, linear);
    }
    let pad = 0.04 * (high - low);
    let low = if low == 0.0 { 0.0 } else { low - pad };
    let high = if high == 0.0 { 0.0 } else { high + pad };
    Axis::linear(low, high, target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_labelled_shortly() {
        let labels = |axis: &Axis| axis.ticks.iter().map(|(_, label)| label.clone()).collect::<Vec<_>>();
        assert_eq!(labels(&Axis::linear(0.0, 150_000.0, 3)), ["0", "50k", "100k", "150k"]);
        assert_eq!(labels(&Axis::linear(0.0, 2.0e8, 4)), ["0", "50M", "100M", "150M", "200M"]);
        assert_eq!(labels(&Axis::linear(-21.0, 21.0, 4)), ["−20", "0", "20"]);
        assert_eq!(labels(&Axis::percent_decades(-1, 3)), ["0.1%", "1%", "10%", "100%", "1,000%"]);
        assert_eq!(labels(&Axis::percent_decades(-4, -2)), ["1e−4%", "0.001%", "0.01%"]);
        assert_eq!(labels(&Axis::symlog(-30.0, 20_000.0, 10.0)), ["−10", "0", "10", "100", "1k", "10k"]);
    }

    #[test]
    fn only_data_of_unlike_size_get_the_logarithmic_axis() {
        assert_eq!(score_axis(-21.0, 20.0, &[11.0, 20.0], 5).kind, Kind::Linear);
        assert_eq!(score_axis(0.0, 20_000.0, &[20_000.0, 3_000.0], 5).kind, Kind::Linear);
        assert!(
            matches!(score_axis(-15.0, 20_000.0, &[20_000.0, 12.0], 5).kind, Kind::Symlog(c) if c == 10.0)
        );
        assert_eq!(score_axis(5.0, 20.0, &[20.0], 5).min, 0.0);
    }

    proptest! {
        #[test]
        fn places_rise_with_values(a in -1e6..1e6f64, b in -1e6..1e6f64, which in 0..3usize) {
            let axis = match which {
                0 => Axis::linear(-1e6, 1e6, 5),
                1 => Axis::symlog(-1e6, 1e6, 10.0),
                _ => Axis::percent_decades(-2, 6),
            };
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(axis.place(low) <= axis.place(high));
            prop_assert!((0.0..=1.0).contains(&axis.place(a)));
        }

        #[test]
        fn ticks_lie_inside_and_are_few(min in -1e7..1e7f64, span in 1e-3..1e7f64, target in 2..8usize) {
            let ticks = nice_ticks(min, min + span, target);
            prop_assert!(ticks.len() <= target + 1, "{ticks:?}");
            for tick in ticks {
                prop_assert!(tick >= min - 1e-6 * span && tick <= min + span * (1.0 + 1e-6));
            }
        }
    }
}
