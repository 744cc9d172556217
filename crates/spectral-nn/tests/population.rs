//! Initialisation, targets, Adam's bookkeeping and output rescaling.

mod common;

use common::{Inputs, population, signed, uniform};
use proptest::prelude::*;
use spectral_nn::{AdamSettings, Architecture, Cpu, Head, Input, Network, Samples, Which};

fn mlp(dueling: bool, zero_init: bool) -> Architecture {
    let head = Head { dueling, zero_init, ..Head::new(3, 4) };
    Architecture::mlp(Input::Vector { len: 6 }, &[40, 20], head)
}

#[test]
fn init_fills_the_range_and_nothing_else() {
    for zero_init in [false, true] {
        let shape = mlp(false, zero_init);
        let mut net = Network::new(Cpu::new(), shape.clone(), 3, 2).unwrap();
        let mut numbers = uniform(9, shape.parameters()).into_iter();
        net.init(1, || numbers.next().unwrap());
        let own = net.parameters(Which::Online, 1);
        for layer in net.layers() {
            let weights = &own[layer.weights_at..layer.bias_at()];
            let bound = 1.0 / (layer.fan_in() as f32).sqrt();
            let largest = weights.iter().fold(0.0f32, |largest, w| largest.max(w.abs()));
            if zero_init && layer.weights_at == net.last_layer_at() {
                assert_eq!(largest, 0.0);
            } else {
                assert!(largest <= bound && largest > 0.9 * bound, "{largest} of {bound}");
                let mean = weights.iter().sum::<f32>() / weights.len() as f32;
                assert!(mean.abs() < 0.2 * bound);
            }
            assert!(own[layer.bias_at()..layer.end()].iter().all(|b| *b == 0.0));
        }
        assert_eq!(net.parameters(Which::Target, 1), own);
        assert!(net.parameters(Which::Online, 0).iter().all(|w| *w == 0.0), "other agents are not touched");
        assert_eq!(net.adam_state(1).2, 0);
    }
}

#[test]
fn inactive_agents_and_targets_stay() {
    let shape = mlp(false, false);
    let mut net = population(Cpu::new(), &shape, &[1, 2], 3);
    let inputs = Inputs::new(&shape.input, 3, 6);
    let gradient = signed(4, 6 * shape.outputs(), 1.0);
    let before = net.parameters(Which::Online, 1).to_vec();
    net.forward_train(inputs.samples(), 3);
    net.backward(&gradient, &gradient);
    net.adam(&[AdamSettings::default(); 2], &[true, false]);
    assert_eq!(net.parameters(Which::Online, 1), &before[..]);
    assert_eq!((net.adam_state(0).2, net.adam_state(1).2), (1, 0));
    assert!(net.adam_state(1).0.iter().all(|m| *m == 0.0));
    assert_ne!(net.parameters(Which::Online, 0), net.parameters(Which::Target, 0));
    net.refresh_target(0);
    assert_eq!(net.parameters(Which::Online, 0), net.parameters(Which::Target, 0));
}

#[test]
fn restored_state_continues_to_the_same_bits() {
    let shape = mlp(true, false);
    let inputs = Inputs::new(&shape.input, 3, 4);
    let gradient = signed(4, 4 * shape.outputs(), 1.0);
    let settings = [AdamSettings { learning_rate: 1e-2, ..Default::default() }];
    let step = |net: &mut Network| {
        net.forward_train(inputs.samples(), 4);
        net.backward(&gradient, &gradient);
        net.adam(&settings, &[true]);
    };
    let mut net = population(Cpu::new(), &shape, &[1], 4);
    (0..3).for_each(|_| step(&mut net));
    let mut copy = Network::new(Cpu::new(), shape, 1, 4).unwrap();
    copy.parameters_mut(Which::Online, 0).copy_from_slice(net.parameters(Which::Online, 0));
    let (first, second, steps) = net.adam_state(0);
    copy.set_adam_state(0, first, second, steps);
    step(&mut net);
    step(&mut copy);
    assert_eq!(copy.parameters(Which::Online, 0), net.parameters(Which::Online, 0));
}

/// Adam from its definition, in double precision.
#[test]
fn adam_follows_its_definition() {
    let shape = Architecture::mlp(Input::Vector { len: 3 }, &[5], Head::new(2, 1));
    let n = shape.parameters();
    let mut net = population(Cpu::new(), &shape, &[1], 1);
    let s = AdamSettings { learning_rate: 3e-3, beta1: 0.8, beta2: 0.95, epsilon: 1e-5 };
    let mut expected: Vec<f64> = net.parameters(Which::Online, 0).iter().map(|&p| f64::from(p)).collect();
    let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
    let [rate, b1, b2, epsilon] = [s.learning_rate, s.beta1, s.beta2, s.epsilon].map(f64::from);
    for t in 1..=50 {
        let gradient = signed(t, n, 0.1);
        net.gradients_mut(0).copy_from_slice(&gradient);
        net.adam(&[s], &[true]);
        for i in 0..n {
            let g = f64::from(gradient[i]);
            m[i] = b1 * m[i] + (1.0 - b1) * g;
            v[i] = b2 * v[i] + (1.0 - b2) * g * g;
            let corrected: f64 = v[i] / (1.0 - b2.powi(t as i32));
            expected[i] -= rate * m[i] / (1.0 - b1.powi(t as i32)) / (corrected.sqrt() + epsilon);
        }
    }
    assert!(common::relative(net.parameters(Which::Online, 0), &expected) < 1e-6);
}

#[test]
#[should_panic(expected = "a batch of 5 is not within 1..=4")]
fn too_large_a_batch_is_refused() {
    let mut net = population(Cpu::new(), &mlp(false, false), &[1], 4);
    net.forward(Which::Online, Samples::Floats(&[0.0; 30]), 5);
}

#[test]
#[should_panic(expected = "2 samples of 6 numbers are needed")]
fn too_few_numbers_are_refused() {
    let mut net = population(Cpu::new(), &mlp(false, false), &[1], 4);
    net.forward(Which::Online, Samples::Floats(&[0.0; 11]), 2);
}

proptest! {
    #[test]
    fn rescaled_outputs_are_scaled_and_shifted(
        dueling: bool,
        scale in proptest::collection::vec(0.01f32..100.0, 4),
        shift in proptest::collection::vec(-10.0f32..10.0, 4),
    ) {
        let shape = mlp(dueling, false);
        let mut net = population(Cpu::new(), &shape, &[1, 2], 3);
        let inputs = Inputs::new(&shape.input, 3, 6);
        let before = net.forward(Which::Online, inputs.samples(), 3).to_vec();
        net.affine_outputs(0, &scale, &shift);
        let after = net.forward(Which::Online, inputs.samples(), 3).to_vec();
        let half = before.len() / 2;
        for i in 0..half {
            let expected = scale[i % 4] * before[i] + shift[i % 4];
            let size = scale[i % 4] * 4.0 + shift[i % 4].abs();
            prop_assert!((after[i] - expected).abs() <= 1e-5 * size, "{} {expected}", after[i]);
        }
        prop_assert_eq!(&after[half..], &before[half..]);
        let target = net.forward(Which::Target, inputs.samples(), 3).to_vec();
        prop_assert_eq!(target, before);
        // The inverse brings the outputs back.
        let inverse: Vec<f32> = scale.iter().map(|s| 1.0 / s).collect();
        let back: Vec<f32> = scale.iter().zip(&shift).map(|(s, t)| -t / s).collect();
        net.affine_outputs(0, &inverse, &back);
        let restored = net.forward(Which::Online, inputs.samples(), 3).to_vec();
        for (i, (restored, before)) in restored.iter().zip(&target_half(&net, &inputs)).enumerate() {
            let size = 4.0 + (shift[i % 4] / scale[i % 4]).abs();
            prop_assert!((restored - before).abs() <= 1e-5 * size);
        }
    }
}

/// Agent 0's outputs before any rescaling: its target network never changed.
fn target_half(net: &Network, inputs: &Inputs) -> Vec<f32> {
    let mut copy = Network::new(Cpu::new(), net.architecture().clone(), 1, 3).unwrap();
    copy.parameters_mut(Which::Target, 0).copy_from_slice(net.parameters(Which::Target, 0));
    copy.forward(Which::Target, inputs.part(0, 3, 6), 3).to_vec()
}

/// A frozen population computes what one that trains computes, and refuses everything that would need more memory.
#[test]
fn frozen_networks_only_look_forward() {
    for dueling in [false, true] {
        let shape = mlp(dueling, false);
        let mut net = Network::new(Cpu::new(), shape.clone(), 1, 4).unwrap();
        let mut numbers = uniform(3, shape.parameters()).into_iter();
        net.init(0, || numbers.next().unwrap());
        let mut frozen = Network::frozen(Cpu::new(), shape, 1, 4).unwrap();
        frozen.parameters_mut(Which::Online, 0).copy_from_slice(net.parameters(Which::Online, 0));
        let samples = signed(5, 4 * 6, 1.0);
        let found = frozen.forward(Which::Online, Samples::Floats(&samples), 4).to_vec();
        assert_eq!(found, net.forward(Which::Online, Samples::Floats(&samples), 4));
        type Attempt = fn(&mut Network);
        let attempts: [Attempt; 5] = [
            |net| _ = net.forward(Which::Target, Samples::Floats(&[0.0; 6]), 1),
            |net| _ = net.forward_train(Samples::Floats(&[0.0; 6]), 1),
            |net| net.backward(&[0.0; 12], &[0.0; 12]),
            |net| net.adam(&[AdamSettings::default()], &[true]),
            |net| net.refresh_target(0),
        ];
        for (number, attempt) in attempts.into_iter().enumerate() {
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attempt(&mut frozen)));
            assert!(tried.is_err(), "attempt {number}");
        }
        assert_eq!(frozen.forward(Which::Online, Samples::Floats(&samples), 4), found);
    }
}
