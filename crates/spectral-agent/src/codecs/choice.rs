//! The greedy choice: which action a row of outputs stands for.

use super::Codec;
use spectral_env::ActionMask;

/// Actions that a task may have at most.
pub const MAX_ACTIONS: usize = 256;

/// The best legal action of one row of outputs, `[action][K]`, and its value.
///
/// The codec's [preferences](Codec::preferences) decide; of equal ones, and for a codec without any, the larger
/// [value](Codec::decode); of equal values, or of none that is a number, the first action.
///
/// ```
/// use spectral_agent::codecs::{Clipped, greedy};
/// use spectral_env::ActionMask;
/// let outputs = [0.5, 2.0, 1.0];
/// assert_eq!(greedy(&Clipped, &outputs, &[], None), (1, 2.0));
/// let mut legal = ActionMask::all(3);
/// legal.forbid(1);
/// assert_eq!(greedy(&Clipped, &outputs, &[], Some(&legal)), (2, 1.0));
/// ```
///
/// # Panics
/// If there are more than [`MAX_ACTIONS`] actions.
pub fn greedy(codec: &dyn Codec, outputs: &[f32], state: &[f64], legal: Option<&ActionMask>) -> (usize, f32) {
    let mut held = [0.0; MAX_ACTIONS];
    let preferences = &mut held[..outputs.len() / codec.outputs()];
    if codec.prefers() {
        codec.preferences(outputs, state, legal, preferences);
    }
    let first = legal.and_then(ActionMask::first).unwrap_or(0);
    let mut best = (first, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (action, values) in outputs.chunks_exact(codec.outputs()).enumerate() {
        if legal.is_some_and(|legal| !legal.allows(action)) {
            continue;
        }
        let (preference, value) = (preferences[action], codec.decode(values, state));
        let better = preference > best.1 || (preference == best.1 && value > best.2);
        if better && !value.is_nan() {
            best = (action, preference, value);
        }
    }
    (best.0, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::Rows;

    /// One output per action; prefers by its sign alone.
    #[derive(Debug)]
    struct BySign;

    impl Codec for BySign {
        fn outputs(&self) -> usize {
            1
        }
        fn encode_reward(&self, _: f32, _: f32, _: &mut [f32]) {}
        fn decode(&self, outputs: &[f32], _: &[f64]) -> f32 {
            outputs[0].abs()
        }
        fn prefers(&self) -> bool {
            true
        }
        fn preferences(&self, outputs: &[f32], _: &[f64], _: Option<&ActionMask>, preferences: &mut [f32]) {
            preferences.iter_mut().zip(outputs).for_each(|(p, y)| *p = y.signum());
        }
        fn target(&self, _: &[f32], _: f32, _: &[f32], _: &[f64], _: &mut [f32]) {}
        fn gradient(&self, _: &Rows<'_>, _: &mut [f64], _: &mut [f32], _: &mut [f32]) {}
    }

    #[test]
    fn preferences_come_first_and_values_decide_between_equal_ones() {
        let choose = |outputs: &[f32], legal: Option<&ActionMask>| greedy(&BySign, outputs, &[], legal);
        assert_eq!(choose(&[-9.0, 1.0, 2.0], None), (2, 2.0));
        assert_eq!(choose(&[-9.0, -8.0], None), (0, 9.0));
        assert_eq!(choose(&[3.0, 3.0], None), (0, 3.0), "of equal ones the first");
        let mut legal = ActionMask::all(3);
        legal.forbid(2);
        assert_eq!(choose(&[-9.0, 1.0, 2.0], Some(&legal)), (1, 1.0));
        legal.forbid(0);
        assert_eq!(choose(&[f32::NAN, f32::NAN, 1.0], Some(&legal)).0, 1, "the first legal one");
    }
}
