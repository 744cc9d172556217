use super::*;
use crate::codecs::{configure, test_variants};
use proptest::prelude::*;
use spectral_core::rng::{Purpose, Stream};
use spectral_nn::{Cpu, Head, Input, Network, Samples, Which};

/// A small network for a codec, with dueling streams or without.
fn network(codec: &dyn Codec, dueling: bool) -> Architecture {
    Architecture::mlp(Input::Vector { len: 3 }, &[5], Head { dueling, ..Head::new(2, codec.outputs()) })
}

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Stream::new(seed, Purpose::Weights, 0);
    (0..count).map(|_| random.unit_f32() - 0.5).collect()
}

/// An average of an agent, whose codec and settings are in this text.
fn average(text: &str, dueling: bool) -> (Average, Arc<dyn Codec>) {
    let (settings, codec) = configure(text, AgentSettings::default()).unwrap();
    let network = network(codec.as_ref(), dueling);
    (Average::of(&settings, codec.clone(), network).unwrap(), codec)
}

/// The action-values of both actions for an observation.
fn values(codec: &dyn Codec, shape: &Architecture, parameters: &[f32], state: &[f64]) -> Vec<f32> {
    let mut network = Network::new(Cpu::new(), shape.clone(), 1, 1).unwrap();
    network.parameters_mut(Which::Online, 0).copy_from_slice(parameters);
    let outputs = network.forward(Which::Online, Samples::Floats(&[0.3, -0.8, 0.5]), 1);
    outputs.chunks_exact(codec.outputs()).map(|outputs| codec.decode(outputs, state)).collect()
}

/// Pop-Art's state with these statistics in force.
fn popart_state(mu: f64, sigma: f64) -> Vec<f64> {
    vec![0.0, 0.0, 7.0, mu, sigma]
}

#[test]
fn the_mean_is_that_of_the_formula() {
    for (frames, period) in [(1, 1000), (3000, 1000), (40_000, 1000), (1_000_000, 100)] {
        let (mut average, codec) =
            average(&format!("clipped average={frames} target_period={period}"), false);
        let count = average.network.parameters();
        let rate = period as f64 / (frames as f64 + period as f64);
        let weights: Vec<Vec<f32>> = (1..=60).map(|n| numbers(n, count)).collect();
        for n in 1..=weights.len() {
            average.refreshed(n as u64, &weights[n - 1], &codec.init());
            // Every weight (1 − rate)^age · rate, divided by their sum.
            let share = |age: usize| rate * (1.0 - rate).powi(age as i32);
            let total: f64 = (0..n).map(share).sum();
            for (i, &found) in average.parameters.iter().enumerate() {
                let sum: f64 = (0..n).map(|k| share(n - 1 - k) * f64::from(weights[k][i])).sum();
                let (found, expected) = (f64::from(found), sum / total);
                assert!((found - expected).abs() < 2e-6, "{frames}, {n} refreshes: {found}, not {expected}");
            }
        }
    }
}

/// Before as many refreshes as it reaches back over, no weights count much more than others.
#[test]
fn a_young_mean_is_the_plain_mean() {
    let (mut average, codec) = average("clipped average=1000000 target_period=100", false);
    let count = average.network.parameters();
    let weights: Vec<Vec<f32>> = (1..=20).map(|n| numbers(n, count)).collect();
    weights.iter().zip(1..).for_each(|(weights, n)| average.refreshed(n, weights, &codec.init()));
    for (i, &found) in average.parameters.iter().enumerate() {
        let plain = weights.iter().map(|weights| f64::from(weights[i])).sum::<f64>() / 20.0;
        assert!((f64::from(found) - plain).abs() < 1e-3, "{plain}");
    }
}

#[test]
fn averaging_identical_models_gives_that_model() {
    for name in test_variants() {
        for dueling in [false, true] {
            let spaced = format!("{name} average=50000 target_period=1000");
            let (mut average, codec) = average(&spaced, dueling);
            let weights = numbers(1, average.network.parameters());
            // Statistics that are no longer the first ones.
            let mut state = codec.init();
            let mut targets: Vec<f32> = numbers(2, 8 * codec.outputs()).iter().map(|x| 300.0 * x).collect();
            codec.before_forward(&mut targets, &mut state, &mut Affine::identity(codec.outputs()));
            assert!(average.model().is_none(), "{name}");
            for n in 1..50 {
                average.refreshed(n, &weights, &state);
            }
            assert_eq!(average.model(), Some((&weights[..], &state[..])), "{name}, dueling {dueling}");
        }
    }
}

/// The same values at every refresh, though statistics and with them the last layer change: that is their mean.
#[test]
fn weights_are_mixed_only_after_their_outputs_mean_the_same() {
    for dueling in [false, true] {
        let (mut average, codec) = average("popart average=50000 target_period=1000", dueling);
        let shape = average.network.clone();
        let mut weights = numbers(3, shape.parameters());
        let mut state = popart_state(0.0, 1.0);
        let expected = values(codec.as_ref(), &shape, &weights, &state);
        let mut change = Affine::identity(1);
        for (n, (mu, sigma)) in
            (1..).zip([(0.0, 1.0), (5.0, 2.0), (-300.0, 900.0), (-20.0, 0.5), (1.0, 40.0)])
        {
            let next = popart_state(mu, sigma);
            assert!(codec.rebase(&state, &next, &mut change));
            shape.affine_outputs(&mut weights, &change.scale, &change.shift).unwrap();
            state = next;
            average.refreshed(n, &weights, &state);
            let (mean, statistics) = average.model().unwrap();
            assert_eq!(statistics, state, "the current statistics");
            for (found, expected) in values(codec.as_ref(), &shape, mean, statistics).iter().zip(&expected) {
                assert!(
                    (found - expected).abs() < 1e-3,
                    "dueling {dueling}, refresh {n}: {found}, not {expected}"
                );
            }
        }
    }
}

proptest! {
    /// Whatever the statistics, a rebase keeps what outputs stand for.
    #[test]
    fn a_rebase_keeps_decoded_values(
        from in (-1e4f64..1e4, 1e-2f64..1e4), to in (-1e4f64..1e4, 1e-2f64..1e4), seed in 0u64..1000, dueling: bool,
    ) {
        let (_, codec) = configure("popart", AgentSettings::default()).unwrap();
        let shape = network(codec.as_ref(), dueling);
        let mut weights = numbers(seed, shape.parameters());
        let (from, to) = (popart_state(from.0, from.1), popart_state(to.0, to.1));
        let before = values(codec.as_ref(), &shape, &weights, &from);
        let mut change = Affine::identity(1);
        prop_assert!(codec.rebase(&from, &to, &mut change));
        shape.affine_outputs(&mut weights, &change.scale, &change.shift).unwrap();
        let after = values(codec.as_ref(), &shape, &weights, &to);
        // Rounding is relative to the numbers that cancel.
        let size = 1.0 + from[3].abs() + from[4] + to[3].abs() + to[4];
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(f64::from((before - after).abs()) <= 1e-5 * size, "{} {}", before, after);
        }
    }
}

#[test]
fn refreshes_without_an_update_do_not_count() {
    let (mut average, codec) = average("compressed average=5000 target_period=1000", false);
    let (first, second) =
        (numbers(1, average.network.parameters()), numbers(2, average.network.parameters()));
    average.refreshed(0, &first, &codec.init());
    assert!(average.model().is_none(), "nothing was learned yet");
    average.refreshed(1, &second, &codec.init());
    average.refreshed(1, &first, &codec.init());
    assert_eq!(average.model().unwrap().0, second);
}

#[test]
fn a_saved_mean_goes_on_to_the_same_bits() {
    for name in ["spectral", "popart"] {
        let text = format!("{name} average=5000 target_period=1000");
        let ((mut whole, codec), (mut resumed, _)) = (average(&text, false), average(&text, false));
        let count = whole.network.parameters();
        for n in 0..6 {
            let mut out = StateWriter::default();
            whole.save(&mut out);
            let bytes = out.into_bytes();
            let mut from = StateReader::new(&bytes);
            resumed.restore(&mut from).unwrap();
            from.finish().unwrap();
            for average in [&mut whole, &mut resumed] {
                average.refreshed(n, &numbers(n, count), &codec.init());
            }
            assert_eq!(whole.model(), resumed.model(), "{name}, {n}");
        }
        let (unbegun, _) = average(&text, false);
        let mut out = StateWriter::default();
        unbegun.save(&mut out);
        resumed.restore(&mut StateReader::new(&out.into_bytes())).unwrap();
        assert!(resumed.model().is_none(), "one that had not begun");
    }
    let (mut own, _) = average("spectral average=5000", false);
    let mut out = StateWriter::default();
    let (mut foreign, codec) = average("clipped average=5000", false);
    foreign.refreshed(1, &numbers(1, foreign.network.parameters()), &codec.init());
    foreign.save(&mut out);
    let said = own.restore(&mut StateReader::new(&out.into_bytes())).unwrap_err().to_string();
    assert!(said.contains("expected"), "{said}");
}

#[test]
fn a_mean_beyond_what_moves_is_refused() {
    let said =
        configure("spectral average=10010001 target_period=1000", AgentSettings::default()).unwrap_err();
    assert!(said.to_string().contains("target_period"), "{said}");
    assert!(configure("spectral average=10000000 target_period=1000", AgentSettings::default()).is_ok());
}
