//! Exponentials and sums over a row of logits, many at a time.
//!
//! An update of a categorical agent takes as many exponentials as the minibatch has outputs, which would cost more than a small
//! network. The loops here are written for vector instructions: one polynomial for all lanes instead of the library's
//! exponential, and sums in eight strands. `categorical.cu` does the same in the same order, so that both agree to the bit.

/// Sums run in so many strands, element i in strand i % 8: no addition waits for the one before it.
const STRANDS: usize = 8;

/// 1.5 · 2²³: a float of this size has no fraction, so adding it rounds, and the sum's last bits are the whole number.
const ROUNDER: f32 = 12_582_912.0;

/// Below this the exponential counts as 0; it would be smaller than any normal float.
const LEAST: f32 = -87.0;

/// e^x for x ≤ 0, to 1.2·10⁻⁷ of itself; 0 below −87.
///
/// e^x = 2ⁿ e^r with |r| ≤ ln 2 / 2, and Cephes' polynomial for e^r.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    // ln 2 in two parts, the first of few bits: n times it is exact.
    let r = (x - n * (355.0 / 512.0)) - n * -2.121_944_4e-4;
    let mut p = 1.987_569_2e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + c;
    }
    let power = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23;
    let value = (p * (r * r) + r + 1.0) * f32::from_bits(power);
    if x < LEAST { 0.0 } else { value }
}

/// The largest number, or −∞ if there is none.
pub(super) fn largest(numbers: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut tops = [f32::NEG_INFINITY; STRANDS];
    let mut chunks = numbers.chunks_exact(STRANDS);
    for chunk in &mut chunks {
        for (top, &x) in tops.iter_mut().zip(chunk) {
            *top = larger(*top, x);
        }
    }
    chunks.remainder().iter().chain(&tops).fold(f32::NEG_INFINITY, |a, &b| larger(a, b))
}

/// Σ weight and Σ weight · point.
pub(super) fn weigh(weights: &[f32], points: &[f32]) -> (f32, f32) {
    weigh_by(|w| w, weights, points)
}

/// The same with the weights e^(logit − top).
pub(super) fn weigh_logits(logits: &[f32], top: f32, points: &[f32]) -> (f32, f32) {
    weigh_by(|y| exp(y - top), logits, points)
}

#[inline(always)]
fn weigh_by(weight: impl Fn(f32) -> f32, numbers: &[f32], points: &[f32]) -> (f32, f32) {
    let (mut totals, mut sums) = ([0.0; STRANDS], [0.0; STRANDS]);
    let mut add = |chunk: &[f32], points: &[f32]| {
        for (((total, sum), &y), x) in totals.iter_mut().zip(&mut sums).zip(chunk).zip(points) {
            let w = weight(y);
            *total += w;
            *sum += w * x;
        }
    };
    let (chunks, places) = (numbers.chunks_exact(STRANDS), points.chunks_exact(STRANDS));
    let rest = (chunks.remainder(), places.remainder());
    chunks.zip(places).for_each(|(chunk, points)| add(chunk, points));
    add(rest.0, rest.1);
    (join(totals), join(sums))
}

/// Writes e^(logit − top) and returns their sum.
pub(super) fn exponentials(logits: &[f32], top: f32, out: &mut [f32]) -> f32 {
    for (e, y) in out.iter_mut().zip(logits) {
        *e = exp(y - top);
    }
    let mut totals = [0.0; STRANDS];
    let chunks = out.chunks_exact(STRANDS);
    let rest = chunks.remainder();
    for chunk in chunks.chain([rest]) {
        totals.iter_mut().zip(chunk).for_each(|(total, e)| *total += e);
    }
    join(totals)
}

/// Halves are added to halves, as the lanes of a team on a GPU do.
fn join(mut strands: [f32; STRANDS]) -> f32 {
    let mut half = STRANDS / 2;
    while half > 0 {
        for i in 0..half {
            strands[i] += strands[i + half];
        }
        half /= 2;
    }
    strands[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_exponential_is_exact_to_a_rounding_or_two() {
        let mut worst = 0.0f64;
        for i in 0..870_000 {
            let x = -1e-4 * i as f32;
            let want = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / want - 1.0).abs());
        }
        assert!(worst < 1.3e-7, "{worst}");
        assert_eq!((exp(0.0), exp(-87.1), exp(f32::NEG_INFINITY)), (1.0, 0.0, 0.0));
        assert!(exp(f32::NAN).is_nan());
    }

    proptest! {
        #[test]
        fn sums_are_sums(numbers in prop::collection::vec(-20.0f32..0.0, 1..70)) {
            let points: Vec<f32> = (0..numbers.len()).map(|i| i as f32 - 30.0).collect();
            let top = largest(&numbers);
            prop_assert_eq!(top, numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let weights: Vec<f64> = numbers.iter().map(|y| f64::from(y - top).exp()).collect();
            let total: f64 = weights.iter().sum();
            let sum: f64 = weights.iter().zip(&points).map(|(w, &x)| w * f64::from(x)).sum();
            let mut written = vec![0.0; numbers.len()];
            let got = weigh_logits(&numbers, top, &points);
            prop_assert!((f64::from(got.0) - total).abs() < 1e-5 * total);
            prop_assert!((f64::from(got.1) - sum).abs() < 1e-4 * total);
            prop_assert_eq!(exponentials(&numbers, top, &mut written), got.0);
            prop_assert_eq!(weigh(&written, &points), got);
        }
    }
}
