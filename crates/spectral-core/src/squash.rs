//! Odd, increasing functions that compress large values, and their inverses.
//!
//! The inverses hold in floating point, not only on paper: the textbook inverse of the square-root
//! compression subtracts nearly equal numbers near zero and has no correct digit left there in single
//! precision. The forms used here never subtract.
//!
//! An inverse never overflows to infinity: where the true result exceeds the largest finite number of its
//! precision, it is that number with the sign of the argument. In single precision (largest number 3.4e38)
//! that happens beyond |y| = ε·3.4e38 for ε ≥ 1e-3, and for ε = 0 beyond |y| = 1.8e19 ([`Squash::Sqrt`]) or
//! 88.7 ([`Squash::Log`], [`Squash::Symlog`]). NaN stays NaN.

/// A compression of values. `epsilon` must not be negative.
///
/// ```
/// use spectral_core::squash::Squash;
/// let h = Squash::Sqrt { epsilon: 0.01 };
/// assert_eq!(h.forward_f64(-8.0), -2.08); // −(√9 − 1) − 0.08
/// assert!((h.inverse_f64(-2.08) + 8.0).abs() < 1e-14);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Squash {
    /// h(x) = sign(x)(√(|x| + 1) − 1) + εx.
    Sqrt {
        /// The slope added so that the inverse is Lipschitz continuous.
        epsilon: f64,
    },
    /// sign(x) ln(1 + |x|) + εx.
    Log {
        /// The slope added so that the inverse is Lipschitz continuous.
        epsilon: f64,
    },
    /// sign(x) ln(1 + |x|).
    Symlog,
}

impl Squash {
    /// The compressed value.
    #[inline]
    pub fn forward_f32(&self, x: f32) -> f32 {
        let a = x.abs();
        let compressed = match *self {
            Squash::Sqrt { epsilon } => sqrt_forward_f32(a, epsilon as f32),
            Squash::Log { epsilon } => a.ln_1p() + epsilon as f32 * a,
            Squash::Symlog => a.ln_1p(),
        };
        compressed.copysign(x)
    }

    /// The value whose compression is `y`.
    #[inline]
    pub fn inverse_f32(&self, y: f32) -> f32 {
        let a = y.abs();
        let value = match *self {
            Squash::Sqrt { epsilon } => sqrt_inverse_f32(a, epsilon as f32),
            // Newton's method in double precision, so that only the final rounding is left.
            Squash::Log { epsilon } if epsilon > 0.0 => {
                log_inverse(f64::from(a), f64::from(epsilon as f32)) as f32
            }
            Squash::Log { .. } | Squash::Symlog => a.exp_m1(),
        };
        // Comparison instead of `min`, which would lose NaN.
        (if value > f32::MAX { f32::MAX } else { value }).copysign(y)
    }

    /// The compressed value.
    #[inline]
    pub fn forward_f64(&self, x: f64) -> f64 {
        let a = x.abs();
        let compressed = match *self {
            Squash::Sqrt { epsilon } => sqrt_forward_f64(a, epsilon),
            Squash::Log { epsilon } => a.ln_1p() + epsilon * a,
            Squash::Symlog => a.ln_1p(),
        };
        compressed.copysign(x)
    }

    /// The value whose compression is `y`.
    #[inline]
    pub fn inverse_f64(&self, y: f64) -> f64 {
        let a = y.abs();
        let value = match *self {
            Squash::Sqrt { epsilon } => sqrt_inverse_f64(a, epsilon),
            Squash::Log { epsilon } if epsilon > 0.0 => log_inverse(a, epsilon),
            Squash::Log { .. } | Squash::Symlog => a.exp_m1(),
        };
        (if value > f64::MAX { f64::MAX } else { value }).copysign(y)
    }
}

macro_rules! sqrt_pair {
    ($float:ident, $forward:ident, $inverse:ident) => {
        /// h of a non-negative number; √(x + 1) − 1 is written x/(√(x + 1) + 1), which is exact near 0 too.
        #[inline]
        fn $forward(x: $float, epsilon: $float) -> $float {
            x / ((x + 1.0).sqrt() + 1.0) + epsilon * x
        }

        /// h⁻¹ of a non-negative number.
        ///
        /// With s = √(x + 1) − 1 we have x = s(s + 2), and h(x) = y becomes εs² + (1 + 2ε)s − y = 0. Its
        /// positive root, written with the radical in the denominator, is a quotient of sums of positive
        /// numbers: nothing cancels.
        #[inline]
        fn $inverse(y: $float, epsilon: $float) -> $float {
            let y = if y > $float::MAX { $float::MAX } else { y };
            let half = 0.5 + epsilon;
            let radicand = half * half + epsilon * y;
            let s = if radicand <= $float::MAX {
                y / (half + radicand.sqrt())
            } else {
                // Only for ε > 1 and results near the end of the range (or NaN, which stays).
                (y / epsilon).sqrt()
            };
            s * (s + 2.0)
        }
    };
}

sqrt_pair!(f32, sqrt_forward_f32, sqrt_inverse_f32);
sqrt_pair!(f64, sqrt_forward_f64, sqrt_inverse_f64);

/// The non-negative x with ln(1 + x) + εx = `y`, for ε > 0.
///
/// In u = ln(1 + x) the equation is g(u) = u + ε(eᵘ − 1) = y, with g convex and increasing: Newton's method
/// from any point right of the root decreases monotonically to it. Both y and ln(1 + y/ε) are such points,
/// and the smaller of them is a few steps away at most.
fn log_inverse(y: f64, epsilon: f64) -> f64 {
    // e to this power is finite; a larger x could not be returned anyway.
    const MAX_U: f64 = 709.78;
    if y.is_nan() || y > 1e300 {
        // No logarithm is visible beside such a number, and sums with it might overflow.
        return y / epsilon;
    }
    let mut u = y.min((y / epsilon).ln_1p()).min(MAX_U);
    for _ in 0..64 {
        let grown = epsilon * u.exp_m1();
        let descent = (u + grown - y) / (1.0 + epsilon + grown);
        u = (u - descent).min(MAX_U);
        // Convergence is quadratic: after so small a step the rest is below rounding.
        if descent <= 1e-7 * u {
            break;
        }
    }
    // eᵘ magnifies the rounding of u by u itself; one step in x repairs that.
    let x = u.exp_m1();
    let polished = x + (y - x.ln_1p() - epsilon * x) / (1.0 / (1.0 + x) + epsilon);
    polished.max(0.0)
}
