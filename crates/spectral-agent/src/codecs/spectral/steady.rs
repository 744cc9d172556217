//! The steady choice: differences between actions count only as far as they stand out of their noise.
//!
//! An action-value Σ bⁱ yᵢ multiplies what the network gets wrong in a high head by up to a million, so noise decides
//! between actions whose low heads know better. Here the differences of each head are *denoised* before they are summed,
//! as wavelet coefficients are (Donoho & Johnstone, 1994):
//!
//! - Dᵢ(a) = yᵢ(a) − mean over legal b of yᵢ(b);
//! - τᵢ² is the noise in Dᵢ: half the mean squared difference between online and target network's Dᵢ, because two networks a
//!   few hundred updates apart agree on what they know and disagree on the rest;
//! - tᵢ = τᵢ √(2 ln n) with n = actions × heads, their universal threshold: of n noises, the largest is about that large;
//! - D̃ = sign(D) max(|D| − tᵢ, 0), and the preference for an action is Σ bⁱ D̃ᵢ(a).
//!
//! Where nothing stands out, all preferences are 0 and values decide.

use super::{Spectral, SpectralSettings};
use crate::codecs::NextStates;
use spectral_core::moments::bias_correction;
use spectral_env::ActionMask;

/// Numbers that the state has for each head: Spectral DQN's three, then these.
pub(super) const WIDTH: usize = 5;
/// The running τᵢ², before bias correction.
const NOISE: usize = 3;
/// tᵢ.
pub(super) const THRESHOLD: usize = 4;

/// How noise becomes a threshold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steadiness {
    /// Factor on √(2 ln n).
    pub(super) factor: f64,
}

impl Steadiness {
    pub(super) fn new(settings: &SpectralSettings) -> Self {
        Steadiness { factor: settings.steadiness }
    }

    /// tᵢ / τᵢ.
    pub(super) fn threshold(&self, actions: usize, heads: usize) -> f64 {
        self.factor * (2.0 * ((actions * heads) as f64).ln()).sqrt()
    }

    /// Moves each head's noise towards that of a minibatch.
    pub(super) fn measure(&self, codec: &Spectral, next: &NextStates<'_>, state: &mut [f64]) {
        let (heads, actions) = (codec.heads(), next.actions);
        let rows = next.target.len() / (actions * heads);
        let times = self.threshold(actions, heads);
        for (i, head) in state.chunks_exact_mut(WIDTH).enumerate() {
            let (mut squares, mut count) = (0.0, 0u32);
            for row in 0..rows {
                let legal = next.legal.get(row);
                let at = row * actions * heads + i;
                let (online, target) = (&next.online[at..], &next.target[at..]);
                let (online_mean, n) = mean(codec, online, actions, legal);
                let (target_mean, _) = mean(codec, target, actions, legal);
                for a in allowed(actions, legal) {
                    let d = (codec.bounded(online[a * heads]) - online_mean)
                        - (codec.bounded(target[a * heads]) - target_mean);
                    squares += 0.5 * (d * d);
                }
                count += n;
            }
            if count > 0 {
                head[NOISE] += codec.rate * (squares / f64::from(count) - head[NOISE]);
            }
            // The head's own count, as for σ: a head that fires late starts at the noise of its first minibatch.
            let correction = bias_correction(codec.rate, (head[2] as u64).max(1));
            head[THRESHOLD] = times * (head[NOISE] / correction).sqrt();
        }
    }
}

/// Σ bⁱ D̃ᵢ(a) for every action of a row of outputs.
pub(super) fn preferences(
    codec: &Spectral,
    outputs: &[f32],
    state: &[f64],
    legal: Option<&ActionMask>,
    preferences: &mut [f32],
) {
    let (heads, actions) = (codec.heads(), preferences.len());
    let weights = codec.spectrum.weights_f64();
    let mut sums = [0.0f64; crate::codecs::MAX_ACTIONS];
    for (i, head) in state.chunks_exact(WIDTH).enumerate() {
        let (mean, _) = mean(codec, &outputs[i..], actions, legal);
        for a in allowed(actions, legal) {
            let difference = codec.bounded(outputs[a * heads + i]) - mean;
            let above = (difference.abs() - head[THRESHOLD]).max(0.0);
            sums[a] += weights[i] * if difference < 0.0 { -above } else { above };
        }
    }
    preferences.iter_mut().zip(&sums).for_each(|(p, sum)| *p = *sum as f32);
}

fn allowed(actions: usize, legal: Option<&ActionMask>) -> impl Iterator<Item = usize> {
    (0..actions).filter(move |&a| legal.is_none_or(|legal| legal.allows(a)))
}

/// One head's mean over legal actions, and how many these are. `outputs` begins at that head of the first action.
fn mean(codec: &Spectral, outputs: &[f32], actions: usize, legal: Option<&ActionMask>) -> (f64, u32) {
    let (mut sum, mut count) = (0.0, 0);
    for a in allowed(actions, legal) {
        sum += codec.bounded(outputs[a * codec.heads()]);
        count += 1;
    }
    (sum / f64::from(count.max(1)), count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::spectral::ChoiceKind;
    use crate::codecs::{Codec, greedy};
    use proptest::prelude::*;
    use spectral_core::rng::{Purpose, Stream};

    fn codec(max_frequency: usize) -> Spectral {
        let settings = SpectralSettings { max_frequency, choice: ChoiceKind::Steady, ..Default::default() };
        Spectral::new(&settings, 0.99).unwrap()
    }

    /// A state with these thresholds.
    fn thresholds(of: &[f64]) -> Vec<f64> {
        of.iter().flat_map(|&t| [0.0, 0.0, 1.0, 0.0, t]).collect()
    }

    fn measured(codec: &Spectral, online: &[f32], target: &[f32], legal: &[ActionMask]) -> Vec<f64> {
        let actions = 2;
        let mut state = codec.init();
        codec.compare(&NextStates { online, target, actions, legal }, &mut state);
        state
    }

    /// Two heads, two actions: the low head knows that the second is better by 1, the high head errs by 0.1 · 2²⁰ = 10⁵.
    #[test]
    fn noise_in_a_high_head_does_not_decide() {
        let codec = codec(20);
        let mut outputs = [0.0; 42];
        (outputs[21], outputs[20]) = (1.0, 0.1);
        let quiet = codec.init();
        assert_eq!(greedy(&codec, &outputs, &quiet, None).0, 0, "without noise, every difference counts");
        let mut noises = [0.0; 21];
        noises[20] = 0.06;
        assert_eq!(greedy(&codec, &outputs, &thresholds(&noises), None).0, 1);
        noises[20] = 0.04;
        assert_eq!(greedy(&codec, &outputs, &thresholds(&noises), None).0, 0, "0.05 above and below the mean");
    }

    #[test]
    fn what_stands_out_is_shrunk_by_its_threshold() {
        let codec = codec(1);
        let outputs = [0.0, 0.5, 1.0, -0.5]; // Differences ∓0.5 in head 0, ±0.5 in head 1.
        let mut preferences = [0.0; 2];
        codec.preferences(&outputs, &thresholds(&[0.25, 0.4]), None, &mut preferences);
        let want = -0.25 + 2.0 * 0.1;
        assert!((f64::from(preferences[0]) - want).abs() < 1e-6, "{preferences:?}");
        assert_eq!(preferences[1], -preferences[0]);
        codec.preferences(&outputs, &thresholds(&[1.0, 1.0]), None, &mut preferences);
        assert_eq!(preferences, [0.0; 2], "nothing stands out, so values decide");
        assert_eq!(greedy(&codec, &outputs, &thresholds(&[1.0, 1.0]), None), (0, 1.0));
    }

    #[test]
    fn noise_is_half_of_what_two_networks_disagree_on() {
        let codec = codec(0);
        // Differences of ±1 and ±0.5: half the mean square of 0.5 is 0.125. A constant added to both actions is no noise.
        let state = measured(&codec, &[2.0, 0.0], &[7.5, 6.5], &[]);
        assert!((state[NOISE] / codec.rate - 0.125).abs() < 1e-12, "{state:?}");
        let want = (2.0 * 2f64.ln()).sqrt() * 0.125f64.sqrt();
        assert!((state[THRESHOLD] - want).abs() < 1e-9, "the first minibatch counts in full: {state:?}");
        assert_eq!(measured(&codec, &[2.0, 0.0], &[2.0, 0.0], &[])[THRESHOLD], 0.0);
    }

    #[test]
    fn an_overflowing_threshold_is_refused() {
        for steadiness in [0.0, -1.0, f64::NAN, 1e308] {
            let settings = SpectralSettings { steadiness, ..Default::default() };
            assert!(Spectral::new(&settings, 0.99).is_err(), "{steadiness}");
        }
    }

    #[test]
    fn illegal_actions_are_no_part_of_it() {
        let codec = codec(0);
        let mut legal = ActionMask::all(2);
        legal.forbid(1);
        assert_eq!(measured(&codec, &[2.0, 99.0], &[2.0, 0.0], &[legal])[NOISE], 0.0);
        let mut preferences = [7.0; 2];
        codec.preferences(&[2.0, 99.0], &thresholds(&[0.0]), Some(&legal), &mut preferences);
        assert_eq!(preferences[0], 0.0, "the only legal action does not differ from the mean");
    }

    /// The point of √(2 ln n): where all n differences are nothing but noise, none stands out in three states of four.
    #[test]
    fn pure_noise_seldom_stands_out() {
        let (codec, actions) = (codec(20), 3);
        let mut rng = Stream::new(1, Purpose::Other, 0);
        // Sums of twelve uniform numbers are as good as normal.
        let mut noise = |count: usize| -> Vec<f32> {
            (0..count).map(|_| (0..12).map(|_| rng.unit_f32()).sum::<f32>() - 6.0).collect()
        };
        let count = 2000 * actions * 21;
        let (online, target) = (noise(count), noise(count));
        let mut state = codec.init();
        codec.compare(&NextStates { online: &online, target: &target, actions, legal: &[] }, &mut state);
        let mut standing_out = 0;
        for row in online.chunks_exact(actions * 21) {
            let mut preferences = [0.0; 3];
            codec.preferences(row, &state, None, &mut preferences);
            standing_out += usize::from(preferences != [0.0; 3]);
        }
        assert!(standing_out < 500, "{standing_out} of 2000");
    }

    proptest! {
        /// Without noise, the steady choice is Spectral DQN's.
        #[test]
        fn without_noise_values_decide(outputs in prop::collection::vec(-1.0f32..1.0, 12)) {
            let codec = codec(3);
            let plain = Spectral::new(&SpectralSettings { max_frequency: 3, ..Default::default() }, 0.99).unwrap();
            let steady = greedy(&codec, &outputs, &codec.init(), None);
            prop_assert_eq!(steady, greedy(&plain, &outputs, &plain.init(), None));
        }

        /// A constant added to a head of all actions changes nothing; nor does the order of actions.
        #[test]
        fn preferences_compare(outputs in prop::collection::vec(-1.0f32..1.0, 12), shift in -1.0f32..1.0) {
            let codec = codec(3);
            let state = thresholds(&[0.1, 0.2, 0.3, 0.4]);
            let (mut here, mut there, mut reversed) = ([0.0; 3], [0.0; 3], [0.0; 3]);
            codec.preferences(&outputs, &state, None, &mut here);
            let shifted: Vec<f32> = outputs.iter().enumerate().map(|(i, y)| y + shift * (i % 4) as f32).collect();
            codec.preferences(&shifted, &state, None, &mut there);
            let turned: Vec<f32> = outputs.chunks_exact(4).rev().flatten().copied().collect();
            codec.preferences(&turned, &state, None, &mut reversed);
            for a in 0..3 {
                prop_assert!((here[a] - there[a]).abs() < 1e-4, "{here:?} {there:?}");
                prop_assert!((here[a] - reversed[2 - a]).abs() < 1e-5, "{here:?} {reversed:?}");
            }
        }
    }
}
