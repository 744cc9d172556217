//! The decomposition: the paper's worked examples, and the properties of its derivation for any base.

use proptest::prelude::*;
use spectral_core::decompose::{Encoding, MAX_FREQUENCY_LIMIT, Spectrum, SpectrumError};
use spectral_core::returns::{scalar_return, spectral_return};

fn thermometer(base: f64, max_frequency: usize) -> Spectrum {
    Spectrum::new(base, max_frequency, Encoding::Thermometer).unwrap()
}

fn elements(spectrum: &Spectrum, r: f64) -> Vec<f64> {
    // Whatever was in the buffer must not matter.
    let mut out = vec![7.0; spectrum.frequencies()];
    spectrum.decompose_f64(r, &mut out);
    out
}

fn elements_f32(spectrum: &Spectrum, r: f32) -> Vec<f32> {
    let mut out = vec![7.0; spectrum.frequencies()];
    spectrum.decompose_f32(r, &mut out);
    out
}

/// Any base in (1, 10], close to 1 and whole ones included, with any number of frequencies that it allows.
fn any_thermometer() -> impl Strategy<Value = Spectrum> {
    let base = prop_oneof![
        4 => 1.01..=10.0_f64,
        1 => (-12.0..-2.0_f64).prop_map(|exponent| 1.0 + 10.0_f64.powf(exponent)),
        2 => (2..=10_u32).prop_map(f64::from),
    ];
    (base, 0..=MAX_FREQUENCY_LIMIT).prop_map(|(base, max_frequency)| {
        Spectrum::new(base, max_frequency, Encoding::Thermometer).unwrap_or_else(|error| match error {
            SpectrumError::Capacity { largest: Some(n), .. } => thermometer(base, n),
            other => panic!("{other}"),
        })
    })
}

fn any_spectrum() -> impl Strategy<Value = Spectrum> {
    let binary = (0..=MAX_FREQUENCY_LIMIT).prop_map(|n| Spectrum::new(2.0, n, Encoding::Binary).unwrap());
    prop_oneof![3 => any_thermometer(), 1 => binary]
}

/// A spectrum and a number of any order of magnitude from 1e-6 to its capacity, half of them negative.
fn with_number(spectra: impl Strategy<Value = Spectrum>) -> impl Strategy<Value = (Spectrum, f64)> {
    (spectra, 0.0..=1.0_f64, any::<bool>()).prop_map(|(spectrum, share, negative)| {
        let magnitude = 1e-6 * (spectrum.capacity() / 1e-6).powf(share);
        let magnitude = magnitude.min(spectrum.capacity());
        (spectrum, if negative { -magnitude } else { magnitude })
    })
}

#[test]
fn figure_2() {
    let spectrum = thermometer(2.0, 6);
    assert_eq!(elements(&spectrum, 6.5), [1.0, 1.0, 0.875, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(elements(&spectrum, -6.5), [-1.0, -1.0, -0.875, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(elements_f32(&spectrum, 6.5), [1.0, 1.0, 0.875, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(spectrum.recompose_f64(&elements(&spectrum, 6.5)), 6.5);
    assert_eq!(spectrum.recompose_f32(&elements_f32(&spectrum, 6.5)), 6.5);
}

/// Table 1, every printed digit. The table's row "× weight" is computed from unrounded returns.
#[test]
fn table_1() {
    let spectrum = thermometer(2.0, 3);
    let rewards = [1.0, 4.0, 11.0, -4.0, -10.0];
    let printed = [
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.25, 0.0],
        [1.0, 1.0, 1.0, 0.5],
        [-1.0, -1.0, -0.25, 0.0],
        [-1.0, -1.0, -1.0, -0.375],
    ];
    for (reward, row) in rewards.into_iter().zip(printed) {
        assert_eq!(elements(&spectrum, reward), row);
    }
    let digits = |values: &[f64]| values.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>();
    let powers: Vec<f64> = (0..5).map(|t| 0.99_f64.powi(t)).collect();
    assert_eq!(digits(&powers), ["1.000", "0.990", "0.980", "0.970", "0.961"]);
    let returns = spectral_return(&spectrum, &rewards, 0.99);
    assert_eq!(digits(&returns), ["1.039", "0.039", "0.024", "0.130"]);
    assert_eq!(spectrum.weights_f64(), [1.0, 2.0, 4.0, 8.0]);
    let weighted: Vec<f64> =
        returns.iter().zip(spectrum.weights_f64()).map(|(value, weight)| value * weight).collect();
    assert_eq!(digits(&weighted), ["1.039", "0.078", "0.098", "1.039"]);
    assert_eq!(digits(&[spectrum.recompose_f64(&returns)]), ["2.254"]);
    assert_eq!(digits(&[scalar_return(&rewards, 0.99)]), ["2.254"]);
}

/// The paper's settings, and its statement that they capture every reward up to a million.
#[test]
fn capacity_of_the_papers_settings() {
    let spectrum = thermometer(2.0, 20);
    assert_eq!(spectrum.capacity(), f64::from((1 << 21) - 1));
    assert!(!spectrum.saturates(-1_000_000.0) && !spectrum.saturates(spectrum.capacity()));
    assert!(spectrum.saturates(-spectrum.capacity() - 1.0) && spectrum.saturates(f64::INFINITY));
    assert!(!spectrum.saturates(f64::NAN));
    for reward in 0..2_000_u32 {
        let r = f64::from(reward * 1_000);
        assert_eq!(spectrum.recompose_f64(&elements(&spectrum, r)), r);
        assert_eq!(spectrum.recompose_f32(&elements_f32(&spectrum, r as f32)), r as f32);
    }
}

/// Why the method uses no binary code: 63 = 0111111 fires six frequencies, 64 = 1000000 one of them, so at
/// the start of training, when all predictions are zero, the smaller reward makes the larger error. Under the
/// thermometer code the two are neighbours.
#[test]
fn sixty_three_and_sixty_four() {
    let binary = Spectrum::new(2.0, 6, Encoding::Binary).unwrap();
    assert_eq!(elements(&binary, 63.0), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(elements(&binary, 64.0), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(elements(&binary, -63.5), [-0.5; 7]);
    let thermometer = thermometer(2.0, 6);
    assert_eq!(elements(&thermometer, 63.0), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(elements(&thermometer, 64.0), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0 / 64.0]);
    let error = |spectrum, r| elements(spectrum, r).iter().map(|element| element * element).sum::<f64>();
    assert!(error(&binary, 63.0) > 5.0 * error(&binary, 64.0));
    let (smaller, larger) = (error(&thermometer, 63.0), error(&thermometer, 64.0));
    assert!(smaller < larger && larger < 1.001 * smaller);
}

/// Exactly at the end of a bucket that bucket is full, to the last bit, and the next one is empty. The
/// formula alone, rounded, leaves some of them a hair below full.
#[test]
fn buckets_are_full_at_their_ends() {
    for step in 1..=900 {
        let spectrum = thermometer(1.0 + f64::from(step) / 100.0, 35);
        let mut end = 0.0;
        for (bucket, width) in spectrum.weights_f64().iter().enumerate() {
            end += width;
            let full = |i: usize| if i <= bucket { 1.0 } else { 0.0 };
            let double = elements(&spectrum, end);
            assert!(double.iter().enumerate().all(|(i, element)| *element == full(i)), "{end}: {double:?}");
            let single = elements_f32(&spectrum, end as f32);
            assert!(
                single.iter().enumerate().all(|(i, element)| f64::from(*element) == full(i)),
                "{end}: {single:?}"
            );
        }
        assert_eq!(end, spectrum.capacity());
    }
}

#[test]
fn bad_settings_are_refused_with_advice() {
    let refused = |base, n, encoding| Spectrum::new(base, n, encoding).unwrap_err().to_string();
    for base in [1.0, 0.5, 0.0, -2.0, f64::NAN, f64::INFINITY] {
        assert!(refused(base, 3, Encoding::Thermometer).contains("greater than 1"));
    }
    assert!(refused(2.0, 61, Encoding::Thermometer).contains("at most 60"));
    assert!(refused(3.0, 4, Encoding::Binary).contains("needs base 2"));
    assert!(refused(10.0, 60, Encoding::Thermometer).contains("at most 38"));
    assert!(Spectrum::new(10.0, 38, Encoding::Thermometer).is_ok());
    assert!(Spectrum::new(10.0, 39, Encoding::Thermometer).is_err());
    assert_eq!(thermometer(1e300, 0).capacity(), 1.0);
    assert!(refused(1e300, 1, Encoding::Thermometer).contains("at most 0"));
    assert!(Spectrum::new(2.0, 60, Encoding::Binary).is_ok());
}

#[test]
fn zero_has_no_sign_and_what_is_no_number_stays_none() {
    for encoding in [Encoding::Thermometer, Encoding::Binary] {
        let spectrum = Spectrum::new(2.0, 5, encoding).unwrap();
        for zero in [0.0, -0.0] {
            assert!(elements(&spectrum, zero).iter().all(|element| element.to_bits() == 0));
        }
        // Not "−0": unfilled buckets of negative numbers are plain zeros.
        assert!(elements(&spectrum, -0.5)[1..].iter().all(|element| element.to_bits() == 0));
        assert!(elements(&spectrum, f64::NAN).iter().all(|element| element.is_nan()));
        assert!(elements_f32(&spectrum, f32::NAN).iter().all(|element| element.is_nan()));
        assert_eq!(elements(&spectrum, f64::NEG_INFINITY), [-1.0; 6]);
        assert_eq!(elements_f32(&spectrum, f32::INFINITY), [1.0; 6]);
    }
}

/// A large positive head that cancels a large negative one must not bury the small heads.
#[test]
fn recomposition_survives_cancellation_in_single_precision() {
    let spectrum = thermometer(2.0, 40);
    let mut learned = vec![0.0_f32; 41];
    (learned[40], learned[39], learned[0]) = (1.0, -2.0, 0.25);
    assert_eq!(spectrum.recompose_f32(&learned), 0.25);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn recovery_in_double_precision((spectrum, r) in with_number(any_spectrum())) {
        let recovered = spectrum.recompose_f64(&elements(&spectrum, r));
        prop_assert!((recovered - r).abs() <= 8.0 * f64::EPSILON * r.abs(), "{r} became {recovered}");
    }

    #[test]
    fn recovery_in_single_precision((spectrum, r) in with_number(any_spectrum())) {
        let r = r as f32;
        let recovered = spectrum.recompose_f32(&elements_f32(&spectrum, r));
        prop_assert!((recovered - r).abs() <= 2.0 * f32::EPSILON * r.abs(), "{r} became {recovered}");
    }

    #[test]
    fn single_precision_follows_double((spectrum, r) in with_number(any_spectrum())) {
        let r = r as f32;
        // A bucket that begins at t is filled to (r − t)/width: t's rounding weighs t/width, which is below N
        // + 1.
        let slack = f64::from(f32::EPSILON) * (2.0 + spectrum.frequencies() as f64);
        let pairs = elements_f32(&spectrum, r).into_iter().zip(elements(&spectrum, f64::from(r)));
        for (single, double) in pairs {
            prop_assert!((f64::from(single) - double).abs() <= slack, "{single} against {double}");
        }
    }

    /// The formula of the paper, for bases where (bⁱ − 1)/(b − 1) does not cancel.
    #[test]
    fn the_formula(base in 1.1..10.0_f64, r in -2e4..2e4_f64) {
        let spectrum = thermometer(base, 12);
        for (i, element) in elements(&spectrum, r).into_iter().enumerate() {
            let width = base.powi(i as i32);
            let begin = (width - 1.0) / (base - 1.0);
            let formula = r.signum() * ((r.abs() - begin) / width).clamp(0.0, 1.0);
            prop_assert!((element - formula).abs() < 1e-12, "{i}: {element} against {formula}");
        }
        let capacity = (base.powi(13) - 1.0) / (base - 1.0);
        prop_assert!((spectrum.capacity() / capacity - 1.0).abs() < 1e-13);
    }

    #[test]
    fn elements_are_odd_and_bounded((spectrum, r) in with_number(any_spectrum()), beyond in 1.0..3.0_f64) {
        for r in [r, r * beyond] {
            let (positive, negative) = (elements(&spectrum, r.abs()), elements(&spectrum, -r.abs()));
            for (plus, minus) in positive.iter().zip(&negative) {
                prop_assert!((0.0..=1.0).contains(plus));
                prop_assert_eq!(*plus, -*minus);
            }
            let r = r as f32;
            let (positive, negative) = (elements_f32(&spectrum, r), elements_f32(&spectrum, -r));
            for (one, other) in positive.iter().zip(&negative) {
                prop_assert!(one.abs() <= 1.0);
                prop_assert_eq!(*one, -*other);
            }
        }
    }

    #[test]
    fn thermometer_elements_never_fall(
        (spectrum, r) in with_number(any_thermometer()),
        step in 0.0..2.0_f64,
    ) {
        let (low, high) = (elements(&spectrum, r), elements(&spectrum, r + step * r.abs()));
        prop_assert!(low.iter().zip(&high).all(|(low, high)| low <= high));
        let (r, higher) = (r as f32, (r + step * r.abs()) as f32);
        let (low, high) = (elements_f32(&spectrum, r), elements_f32(&spectrum, higher));
        prop_assert!(low.iter().zip(&high).all(|(low, high)| low <= high));
    }

    /// A bucket fills only when the one below is full: exactly, not to rounding, and at the edges too.
    #[test]
    fn thermometer_order(
        (spectrum, r) in with_number(any_thermometer()),
        bucket in 1..=61_usize,
        ulps in -2..3_i64,
    ) {
        let in_order = |pair: &[f64]| pair[1] == 0.0 || pair[0].abs() == 1.0;
        let ordered = |elements: &[f64]| elements.windows(2).all(in_order);
        prop_assert!(ordered(&elements(&spectrum, r)));
        let edge: f64 = spectrum.weights_f64().iter().take(bucket).sum();
        let near = f64::from_bits((edge.to_bits() as i64 + ulps).max(0) as u64);
        prop_assert!(ordered(&elements(&spectrum, near)));
        for r in [r as f32, f32::from_bits(((edge as f32).to_bits() as i64 + ulps).max(0) as u32)] {
            let widened: Vec<f64> = elements_f32(&spectrum, r).into_iter().map(f64::from).collect();
            prop_assert!(ordered(&widened));
        }
    }

    #[test]
    fn beyond_the_capacity_all_is_full(spectrum in any_spectrum(), factor in 1.0..1e6_f64) {
        let ones = vec![1.0; spectrum.frequencies()];
        let r = spectrum.capacity() * factor;
        prop_assert_eq!(elements(&spectrum, r), ones);
        prop_assert_eq!(spectrum.saturates(r), r > spectrum.capacity());
        prop_assert_eq!(spectrum.saturates(-r), spectrum.saturates(r));
        prop_assert!(!spectrum.saturates(spectrum.capacity() * (2.0 - factor).max(0.0)));
        prop_assert_eq!(elements_f32(&spectrum, -r as f32), vec![-1.0_f32; spectrum.frequencies()]);
    }

    #[test]
    fn adding_has_the_bits_of_decomposing(
        (spectrum, r) in with_number(any_spectrum()),
        factor in -2.0..2.0_f32,
        before in -5.0..5.0_f32,
    ) {
        let r = r as f32;
        let mut added = vec![before; spectrum.frequencies()];
        spectrum.add_decomposed_f32(r, factor, &mut added);
        for (added, element) in added.into_iter().zip(elements_f32(&spectrum, r)) {
            prop_assert_eq!(added, before + factor * element);
        }
    }

    #[test]
    fn binary_digits_of_integers(max_frequency in 0..=52_usize, bits in any::<u64>()) {
        let spectrum = Spectrum::new(2.0, max_frequency, Encoding::Binary).unwrap();
        let number = bits & ((1 << (max_frequency + 1)) - 1);
        for (i, element) in elements(&spectrum, number as f64).into_iter().enumerate() {
            prop_assert_eq!(element, (number >> i & 1) as f64);
        }
    }

    #[test]
    fn binary_code_is_continuous(r in 0.0..1023.0_f64, step in 0.0..1e-3_f64) {
        let spectrum = Spectrum::new(2.0, 9, Encoding::Binary).unwrap();
        let pairs = elements(&spectrum, r).into_iter().zip(elements(&spectrum, r + step));
        for (here, there) in pairs {
            prop_assert!((here - there).abs() <= step + 1e-12);
        }
    }

    /// Weighted with bⁱ the spectral returns are the return.
    #[test]
    fn returns_add_up(
        base in 1.05..10.0_f64,
        shares in prop::collection::vec(-1.0..=1.0_f64, 0..40),
        gamma in 0.0..=1.0_f64,
    ) {
        let spectrum = thermometer(base, 15);
        let rewards: Vec<f64> = shares.iter().map(|share| share.powi(5) * spectrum.capacity()).collect();
        let returns = spectral_return(&spectrum, &rewards, gamma);
        let direct: f64 = rewards.iter().enumerate().map(|(k, r)| gamma.powi(k as i32) * r).sum();
        let scale: f64 = rewards.iter().map(|r| r.abs()).sum();
        prop_assert!((scalar_return(&rewards, gamma) - direct).abs() <= 1e-13 * scale);
        prop_assert!((spectrum.recompose_f64(&returns) - direct).abs() <= 1e-13 * scale);
        let bound = (0..rewards.len()).map(|k| gamma.powi(k as i32)).sum::<f64>() + 1e-12;
        prop_assert!(returns.iter().all(|value| value.abs() <= bound));
    }
}
