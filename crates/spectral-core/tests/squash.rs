//! The compressions and their inverses.

use proptest::prelude::*;
use spectral_core::squash::Squash;

fn any_squash() -> impl Strategy<Value = Squash> {
    let epsilon = prop_oneof![
        Just(0.0),
        Just(1e-3),
        Just(1e-2),
        Just(1.0),
        (-8.0..0.5_f64).prop_map(|e| 10f64.powf(e))
    ];
    prop_oneof![
        epsilon.clone().prop_map(|epsilon| Squash::Sqrt { epsilon }),
        epsilon.prop_map(|epsilon| Squash::Log { epsilon }),
        Just(Squash::Symlog),
    ]
}

fn magnitudes(from: f64, to: f64) -> impl Strategy<Value = f64> {
    (from..to).prop_map(|exponent| 10.0_f64.powf(exponent))
}

/// By how much the inverse magnifies a relative error of its argument: f(x)/(x f'(x)).
fn condition(squash: &Squash, x: f64) -> f64 {
    let slope = match *squash {
        Squash::Sqrt { epsilon } => 0.5 / (x + 1.0).sqrt() + epsilon,
        Squash::Log { epsilon } => 1.0 / (1.0 + x) + epsilon,
        Squash::Symlog => 1.0 / (1.0 + x),
    };
    squash.forward_f64(x) / (x * slope)
}

/// The bar for the agents: one part in a million from 1e-8 to 1e12, for both values of ε in use.
#[test]
fn sqrt_round_trip_in_single_precision() {
    let mut worst = 0.0_f64;
    for epsilon in [1e-3, 1e-2] {
        let h = Squash::Sqrt { epsilon };
        for step in 0..=200_000 {
            let x = 10.0_f64.powf(-8.0 + 20.0 * f64::from(step) / 200_000.0) as f32;
            let back = h.inverse_f32(h.forward_f32(x));
            worst = worst.max((f64::from(back) / f64::from(x) - 1.0).abs());
        }
    }
    eprintln!("worst relative round-trip error in single precision: {worst:.2e}");
    assert!(worst <= 1e-6, "{worst:e}");
}

/// The textbook inverse, in single precision, has no correct digit at 1e-6: the reason for the form in use.
#[test]
fn the_textbook_inverse_would_fail() {
    let (epsilon, x) = (0.01_f32, 1e-6_f32);
    let y = Squash::Sqrt { epsilon: 0.01 }.forward_f32(x);
    let root = ((1.0 + 4.0 * epsilon * (y + 1.0 + epsilon)).sqrt() - 1.0) / (2.0 * epsilon);
    let textbook = root * root - 1.0;
    assert!((textbook / x - 1.0).abs() > 0.5, "{textbook:e}");
    assert!((Squash::Sqrt { epsilon: 0.01 }.inverse_f32(y) / x - 1.0).abs() < 1e-6);
}

#[test]
fn known_values() {
    assert_eq!(Squash::Sqrt { epsilon: 0.0 }.forward_f64(3.0), 1.0);
    assert_eq!(Squash::Sqrt { epsilon: 0.001 }.forward_f64(-99.0), -9.099);
    assert!((Squash::Symlog.forward_f64(std::f64::consts::E - 1.0) - 1.0).abs() < 1e-15);
    assert!((Squash::Log { epsilon: 0.5 }.forward_f64(-1.0) + 2f64.ln() + 0.5).abs() < 1e-15);
}

#[test]
fn inverses_saturate_instead_of_overflowing() {
    let mut squashes = vec![Squash::Symlog];
    for epsilon in [0.0, 1e-9, 1e-3, 1e-2, 1.0, 3.0] {
        squashes.extend([Squash::Sqrt { epsilon }, Squash::Log { epsilon }]);
    }
    for squash in squashes {
        for y in [1e3, 1e18, 1e30, 3e38, f32::MAX, f32::INFINITY] {
            let x = squash.inverse_f32(y);
            assert!(x.is_finite() && x > 0.0 && squash.inverse_f32(-y) == -x, "{squash:?} at {y}: {x}");
        }
        for y in [1e3, 1e30, 1e150, 1e300, f64::MAX, f64::INFINITY] {
            let x = squash.inverse_f64(y);
            assert!(x.is_finite() && x > 0.0 && squash.inverse_f64(-y) == -x, "{squash:?} at {y}: {x}");
        }
        assert!(squash.inverse_f32(f32::NAN).is_nan() && squash.inverse_f64(f64::NAN).is_nan());
        assert!(squash.forward_f32(f32::NAN).is_nan() && squash.forward_f64(f64::NAN).is_nan());
        assert_eq!((squash.inverse_f32(0.0), squash.forward_f32(0.0)), (0.0, 0.0));
    }
    // The limits that the documentation states.
    assert_eq!(Squash::Symlog.inverse_f32(88.8), f32::MAX);
    assert!(Squash::Symlog.inverse_f32(88.7) < f32::MAX);
    assert_eq!(Squash::Sqrt { epsilon: 0.0 }.inverse_f32(1.9e19), f32::MAX);
    assert!(Squash::Sqrt { epsilon: 0.0 }.inverse_f32(1.8e19) < f32::MAX);
    for squash in [Squash::Sqrt { epsilon: 1e-3 }, Squash::Log { epsilon: 1e-3 }] {
        assert_eq!(squash.inverse_f32(3.5e35), f32::MAX);
        assert!(squash.inverse_f32(3.3e35) < f32::MAX);
    }
    // ε > 1 takes the other branch near the end of the range; the values must still be right.
    let steep = Squash::Sqrt { epsilon: 3.0 };
    assert!((steep.inverse_f32(3e38) / 1e38 - 1.0).abs() < 1e-5);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn inverse_undoes_forward_f64(squash in any_squash(), x in magnitudes(-12.0, 15.0)) {
        let back = squash.inverse_f64(squash.forward_f64(x));
        let tolerance = f64::EPSILON * (4.0 + 4.0 * condition(&squash, x));
        prop_assert!((back / x - 1.0).abs() <= tolerance, "{:?} at {}: {}", squash, x, back);
    }

    #[test]
    fn inverse_undoes_forward_f32(squash in any_squash(), x in magnitudes(-8.0, 12.0)) {
        let x = x as f32;
        let back = squash.inverse_f32(squash.forward_f32(x));
        let tolerance = f64::from(f32::EPSILON) * (2.0 + 2.0 * condition(&squash, f64::from(x)));
        let error = (f64::from(back) / f64::from(x) - 1.0).abs();
        prop_assert!(error <= tolerance, "{:?} at {}: {}", squash, x, back);
    }

    #[test]
    fn forward_undoes_inverse(squash in any_squash(), y in magnitudes(-12.0, 1.8)) {
        let there = squash.forward_f64(squash.inverse_f64(y));
        let tolerance = f64::EPSILON * (8.0 + 2.0 * y);
        prop_assert!((there / y - 1.0).abs() <= tolerance, "{:?} at {}: {}", squash, y, there);
    }

    #[test]
    fn both_are_odd(squash in any_squash(), x in magnitudes(-12.0, 12.0)) {
        prop_assert_eq!(squash.forward_f64(-x), -squash.forward_f64(x));
        prop_assert_eq!(squash.inverse_f64(-x), -squash.inverse_f64(x));
        prop_assert_eq!(squash.forward_f32(-x as f32), -squash.forward_f32(x as f32));
        prop_assert_eq!(squash.inverse_f32(-x as f32), -squash.inverse_f32(x as f32));
    }

    #[test]
    fn both_increase(squash in any_squash(), x in magnitudes(-12.0, 12.0), step in magnitudes(-5.0, 1.0)) {
        let higher = x * (1.0 + step);
        prop_assert!(squash.forward_f64(x) < squash.forward_f64(higher));
        prop_assert!(squash.inverse_f64(x) <= squash.inverse_f64(higher));
        prop_assert!(squash.forward_f32(x as f32) <= squash.forward_f32(higher as f32));
        prop_assert!(squash.inverse_f32(x as f32) <= squash.inverse_f32(higher as f32));
        prop_assert!(squash.forward_f64(-higher) < squash.forward_f64(x));
    }

    /// Both precisions agree, and the image is at most (1 + ε) times the value (ε reaches √10 here).
    #[test]
    fn single_precision_follows_double(squash in any_squash(), x in magnitudes(-12.0, 12.0)) {
        let x = x as f32;
        let (single, double) = (f64::from(squash.forward_f32(x)), squash.forward_f64(f64::from(x)));
        prop_assert!((single / double - 1.0).abs() < 5e-7, "{:?} at {}", squash, x);
        prop_assert!(double > 0.0 && double <= f64::from(x) * 4.2);
    }
}
