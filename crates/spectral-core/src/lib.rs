//! The mathematics of spectral reinforcement learning: pure functions, no dependencies.
//!
//! The idea of the method in one example. The number line is cut into buckets of width 1, b, b², …; a number
//! is described by how full each bucket is. With base 2, the number 6.5 fills buckets 0 and 1 and seven
//! eighths of bucket 2:
//!
//! ```
//! use spectral_core::decompose::{Encoding, Spectrum};
//!
//! let spectrum = Spectrum::new(2.0, 4, Encoding::Thermometer)?;
//! let mut elements = vec![0.0; spectrum.frequencies()];
//! spectrum.decompose_f64(6.5, &mut elements);
//! assert_eq!(elements, [1.0, 1.0, 0.875, 0.0, 0.0]);
//! assert_eq!(spectrum.recompose_f64(&elements), 6.5); // 1·1 + 2·1 + 4·0.875
//! # Ok::<(), spectral_core::decompose::SpectrumError>(())
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`decompose`] | a number as bounded elements, one per frequency, and back |
//! | [`returns`] | discounted returns, scalar and spectral |
//! | [`reward`] | refusing rewards that no agent can learn from |
//! | [`squash`] | compressions of large values, and their exact inverses |
//! | [`moments`] | running mean and variance with bias correction |
//! | [`schedule`] | quantities that move linearly in time |
//! | [`tabular`] | small decision processes, Q-learning and Spectral Q-learning |
//! | [`rng`] | counter-based random numbers |
//! | [`bytes`] | state as plain bytes |
//! | [`mod@settings`] | settings declared once: keys, types, defaults, documentation |
//! | [`nearest`] | the valid word nearest to a mistyped one |
//! | [`shell`] | words of commands as a shell reads them back |

pub mod bytes;
pub mod decompose;
pub mod moments;
pub mod nearest;
pub mod returns;
pub mod reward;
pub mod rng;
pub mod schedule;
pub mod settings;
pub mod shell;
pub mod squash;
pub mod tabular;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
