//! Discounted returns of a sequence of rewards: Σ γᵏ rₖ, and the same for every frequency by itself.

use crate::decompose::Spectrum;

/// The discounted return Σ γᵏ `rewards[k]`.
///
/// ```
/// use spectral_core::returns::scalar_return;
/// assert_eq!(scalar_return(&[1.0, 4.0, -8.0], 0.5), 1.0 + 2.0 - 2.0);
/// ```
pub fn scalar_return(rewards: &[f64], gamma: f64) -> f64 {
    rewards.iter().rev().fold(0.0, |later, reward| reward + gamma * later)
}

/// The discounted return of every frequency: each reward is decomposed by itself, never their sum.
///
/// Weighted with bⁱ the returns add up to the scalar return of the rewards, as far as these are inside the
/// capacity.
///
/// ```
/// use spectral_core::decompose::{Encoding, Spectrum};
/// use spectral_core::returns::{scalar_return, spectral_return};
/// let spectrum = Spectrum::new(2.0, 3, Encoding::Thermometer)?;
/// let rewards = [1.0, 4.0, -8.0];
/// let returns = spectral_return(&spectrum, &rewards, 0.5);
/// assert_eq!(returns, [1.0 + 0.5 - 0.25, 0.5 - 0.25, 0.125 - 0.25, -0.125 * 0.25]);
/// assert_eq!(spectrum.recompose_f64(&returns), scalar_return(&rewards, 0.5));
/// # Ok::<(), spectral_core::decompose::SpectrumError>(())
/// ```
pub fn spectral_return(spectrum: &Spectrum, rewards: &[f64], gamma: f64) -> Vec<f64> {
    let mut returns = vec![0.0; spectrum.frequencies()];
    for &reward in rewards.iter().rev() {
        for value in &mut returns {
            *value *= gamma;
        }
        spectrum.add_decomposed_f64(reward, 1.0, &mut returns);
    }
    returns
}
