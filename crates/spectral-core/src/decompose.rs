//! Spectral decomposition: a real number as bounded elements, one per frequency, and back.
//!
//! **Thermometer code**, the method. Bucket i has width bⁱ and begins at (bⁱ − 1)/(b − 1), where the buckets
//! below it end. Element i is the share of its bucket that |r| fills, with the sign of r:
//!
//! rᵢ = sign(r) · clamp((|r| − (bⁱ − 1)/(b − 1)) / bⁱ, 0, 1),  and  r = Σ bⁱ rᵢ.
//!
//! **Binary code**, for comparison (base 2 only). Element i of an integer is bit i of its magnitude, with the
//! sign of r. Between two neighbouring integers the elements move linearly from the bits of the one to those of
//! the other. So every element stays in [−1, 1], the code is continuous, r = Σ 2ⁱ rᵢ holds for fractions too,
//! and the capacity is that of the thermometer code. It shows why the method does not use a binary code: 63
//! activates six frequencies at full strength and 64 only one, although the two are practically the same.
//!
//! Both are odd, and both saturate beyond the capacity (b^(N+1) − 1)/(b − 1), where every element is ±1.

use std::fmt;

/// The largest maximum frequency that a [`Spectrum`] may have.
pub const MAX_FREQUENCY_LIMIT: usize = 60;

/// How the magnitude of a number is spread over the frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Buckets fill one after the other: what the method uses.
    Thermometer,
    /// Binary digits, linear between integers: for the argument against them.
    Binary,
}

/// Why no [`Spectrum`] can be made of these settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpectrumError {
    /// The base is not a finite number above 1.
    Base {
        /// The base asked for.
        base: f64,
    },
    /// More frequencies than are supported.
    TooManyFrequencies {
        /// The maximum frequency asked for.
        max_frequency: usize,
    },
    /// The binary code exists for base 2 only.
    BinaryBase {
        /// The base asked for.
        base: f64,
    },
    /// The capacity is beyond single precision.
    Capacity {
        /// The base asked for.
        base: f64,
        /// The maximum frequency asked for.
        max_frequency: usize,
        /// The largest maximum frequency this base allows, if it allows any.
        largest: Option<usize>,
    },
}

impl fmt::Display for SpectrumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SpectrumError::Base { base } => {
                write!(
                    f,
                    "the base of the decomposition is {base}: it must be a finite number greater than 1"
                )
            }
            SpectrumError::TooManyFrequencies { max_frequency } => write!(
                f,
                "the maximum frequency is {max_frequency}: at most {MAX_FREQUENCY_LIMIT} is supported; \
                 a larger base reaches larger rewards with fewer frequencies"
            ),
            SpectrumError::BinaryBase { base } => {
                write!(
                    f,
                    "the binary encoding needs base 2, not {base}: set the base to 2 or use the thermometer code"
                )
            }
            SpectrumError::Capacity { base, max_frequency, largest } => {
                write!(f, "base {base} with maximum frequency {max_frequency} exceeds single precision: ")?;
                match largest {
                    Some(n) => write!(f, "use a maximum frequency of at most {n}, or a smaller base"),
                    None => write!(f, "use a smaller base"),
                }
            }
        }
    }
}

impl std::error::Error for SpectrumError {}

/// The buckets' widths, edges and reciprocal widths in one precision.
#[derive(Clone, Debug, PartialEq)]
struct Buckets<T> {
    /// bⁱ, N + 1 of them.
    widths: Vec<T>,
    /// 1/bⁱ: the hot path multiplies instead of dividing.
    inverse_widths: Vec<T>,
    /// Where the buckets begin, and at the end the capacity: N + 2 of them.
    edges: Vec<T>,
}

/// A base, a number of frequencies and an encoding, with everything precomputed.
///
/// ```
/// use spectral_core::decompose::{Encoding, Spectrum};
/// let spectrum = Spectrum::new(2.0, 20, Encoding::Thermometer)?;
/// assert_eq!(spectrum.frequencies(), 21);
/// assert_eq!(spectrum.capacity(), 2_097_151.0);
/// assert!(!spectrum.saturates(2_097_151.0) && spectrum.saturates(-2_097_152.0));
/// # Ok::<(), spectral_core::decompose::SpectrumError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    base: f64,
    encoding: Encoding,
    double: Buckets<f64>,
    single: Buckets<f32>,
}

impl Spectrum {
    /// The spectrum to this base with frequencies 0, …, `max_frequency`.
    pub fn new(base: f64, max_frequency: usize, encoding: Encoding) -> Result<Spectrum, SpectrumError> {
        if !(base.is_finite() && base > 1.0) {
            return Err(SpectrumError::Base { base });
        }
        if max_frequency > MAX_FREQUENCY_LIMIT {
            return Err(SpectrumError::TooManyFrequencies { max_frequency });
        }
        if encoding == Encoding::Binary && base != 2.0 {
            return Err(SpectrumError::BinaryBase { base });
        }
        let (mut width, mut edge) = (1.0_f64, 0.0_f64);
        let (mut widths, mut edges) = (Vec::new(), vec![0.0]);
        for frequency in 0..=max_frequency {
            // The edges are sums of the very widths used in recomposition. The closed form (bⁱ − 1)/(b − 1)
            // would cancel for a base close to 1 and disagree with them.
            edge += width;
            if !(edge as f32).is_finite() {
                return Err(SpectrumError::Capacity {
                    base,
                    max_frequency,
                    largest: frequency.checked_sub(1),
                });
            }
            widths.push(width);
            edges.push(edge);
            width *= base;
        }
        let inverse_widths: Vec<f64> = widths.iter().map(|width| 1.0 / width).collect();
        let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<f32>>();
        let single = Buckets {
            widths: narrow(&widths),
            inverse_widths: narrow(&inverse_widths),
            edges: narrow(&edges),
        };
        Ok(Spectrum { base, encoding, double: Buckets { widths, inverse_widths, edges }, single })
    }

    /// The base b.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// The maximum frequency N.
    pub fn max_frequency(&self) -> usize {
        self.frequencies() - 1
    }

    /// The number of elements of a decomposition: N + 1.
    pub fn frequencies(&self) -> usize {
        self.double.widths.len()
    }

    /// The code in use.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The weights bⁱ of the elements.
    pub fn weights_f64(&self) -> &[f64] {
        &self.double.widths
    }

    /// The weights bⁱ of the elements, rounded to single precision.
    pub fn weights_f32(&self) -> &[f32] {
        &self.single.widths
    }

    /// The largest magnitude that is represented: (b^(N+1) − 1)/(b − 1), which is 2^(N+1) − 1 for base 2.
    pub fn capacity(&self) -> f64 {
        self.double.edges[self.frequencies()]
    }

    /// Whether the decomposition of `r` loses what exceeds the capacity. Callers count these and tell the
    /// user.
    ///
    /// Infinities saturate. NaN does not: [`check_reward`](crate::reward::check_reward) refuses it, and its
    /// decomposition is NaN in every element, never a plausible number.
    pub fn saturates(&self, r: f64) -> bool {
        r.abs() > self.capacity()
    }

    /// Writes the elements of `r` to `out`.
    ///
    /// # Panics
    /// If `out` does not have exactly [`frequencies`](Self::frequencies) elements.
    pub fn decompose_f32(&self, r: f32, out: &mut [f32]) {
        out.fill(0.0);
        self.add_decomposed_f32(r, 1.0, out);
    }

    /// Writes the elements of `r` to `out`.
    ///
    /// # Panics
    /// If `out` does not have exactly [`frequencies`](Self::frequencies) elements.
    pub fn decompose_f64(&self, r: f64, out: &mut [f64]) {
        out.fill(0.0);
        self.add_decomposed_f64(r, 1.0, out);
    }

    /// Recovers Σ bⁱ · `elements[i]`.
    ///
    /// Products and sums are formed in double precision and rounded once at the end. Learned elements have
    /// any sign, so a large positive term may cancel a large negative one, and in single precision that would
    /// leave noise of the large terms' size among the values that decide an action. Four running sums hide
    /// the latency of the additions. Their order is fixed: the result depends on nothing but the elements.
    ///
    /// # Panics
    /// If there are not exactly [`frequencies`](Self::frequencies) elements.
    #[inline]
    pub fn recompose_f32(&self, elements: &[f32]) -> f32 {
        weighted_sum(&self.double.widths, elements) as f32
    }

    /// Recovers Σ bⁱ · `elements[i]`.
    ///
    /// # Panics
    /// If there are not exactly [`frequencies`](Self::frequencies) elements.
    #[inline]
    pub fn recompose_f64(&self, elements: &[f64]) -> f64 {
        weighted_sum(&self.double.widths, elements)
    }
}

/// Σ `weights[i]` · `elements[i]` over four interleaved sums, in double precision.
#[inline]
fn weighted_sum<T: Copy + Into<f64>>(weights: &[f64], elements: &[T]) -> f64 {
    assert_eq!(weights.len(), elements.len(), "one element per frequency");
    let mut sums = [0.0_f64; 4];
    let (weight_chunks, element_chunks) = (weights.chunks_exact(4), elements.chunks_exact(4));
    let rest = weight_chunks.remainder().iter().zip(element_chunks.remainder());
    let tail: f64 = rest.map(|(&weight, &element)| weight * element.into()).sum();
    for (weights, elements) in weight_chunks.zip(element_chunks) {
        for lane in 0..4 {
            sums[lane] += weights[lane] * elements[lane].into();
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + tail
}

macro_rules! add_decomposed {
    ($float:ident, $buckets:ident, $name:ident) => {
        impl Spectrum {
            /// Adds `factor` times the elements of `r` to `out`: the hot path of n-step returns.
            ///
            /// The result has the same bits as a decomposition followed by a multiplication and an addition.
            ///
            /// # Panics
            /// If `out` does not have exactly [`frequencies`](Self::frequencies) elements.
            #[inline]
            pub fn $name(&self, r: $float, factor: $float, out: &mut [$float]) {
                let buckets = &self.$buckets;
                let n = buckets.widths.len();
                assert_eq!(out.len(), n, "one element per frequency");
                if r == 0.0 {
                    return;
                }
                let magnitude = r.abs();
                let signed_factor = if r < 0.0 { -factor } else { factor };
                if self.encoding == Encoding::Binary {
                    let (magnitude, capacity) = (f64::from(magnitude), self.capacity());
                    for (i, out) in out.iter_mut().enumerate() {
                        *out += signed_factor * binary_element(magnitude, capacity, i) as $float;
                    }
                    return;
                }
                let (begins, ends) = (&buckets.edges[..n], &buckets.edges[1..=n]);
                let inverse_widths = &buckets.inverse_widths[..n];
                for i in 0..n {
                    // `clamp` lets NaN through, unlike `min` and `max`. Without the comparison, rounding
                    // could leave a bucket a hair below full while the next one already fills.
                    let share = ((magnitude - begins[i]) * inverse_widths[i]).clamp(0.0, 1.0);
                    out[i] += signed_factor * if magnitude >= ends[i] { 1.0 } else { share };
                }
            }
        }
    };
}

/// Element `frequency` of a positive number in the binary code.
#[inline]
fn binary_element(magnitude: f64, capacity: f64, frequency: usize) -> f64 {
    if magnitude >= capacity {
        return 1.0;
    }
    let fraction = magnitude - magnitude.floor();
    let below = magnitude as u64;
    let bit = |number: u64| (number >> frequency & 1) as f64;
    (1.0 - fraction) * bit(below) + fraction * bit(below + 1)
}

add_decomposed!(f32, single, add_decomposed_f32);
add_decomposed!(f64, double, add_decomposed_f64);
