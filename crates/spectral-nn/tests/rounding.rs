//! A network that rounds to bf16 computes what is written here a second time, number by number.

use spectral_nn::{Architecture, Cpu, Head, Input, Layer, Network, Samples, Which, round_to_bf16};

fn network(architecture: Architecture) -> Network {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let mut network = Network::new(Cpu::new(), architecture, 1, 3).unwrap();
    network.init(0, &mut next);
    // Biases and the last layer too.
    network.parameters_mut(Which::Online, 0).iter_mut().for_each(|x| *x += 0.3 * (next() - 0.5));
    network
}

/// One layer on `[row][column][channel]`, with factors rounded where `round` says so, and sums in f64.
fn layer(network: &Network, index: usize, input: &[f32], round: impl Fn(f32) -> f32) -> Vec<f32> {
    let plan = network.layers().nth(index).unwrap();
    let parameters = network.parameters(Which::Online, 0);
    let (weights, bias) =
        (&parameters[plan.weights_at..plan.bias_at()], &parameters[plan.bias_at()..plan.end()]);
    let mut outputs = Vec::new();
    for (row, column) in (0..plan.out_height()).flat_map(|y| (0..plan.out_width()).map(move |x| (y, x))) {
        for filter in 0..plan.filters {
            let mut sum = f64::from(bias[filter]);
            let mut at = 0;
            for y in 0..plan.kernel {
                for x in 0..plan.kernel {
                    for channel in 0..plan.channels {
                        let place = (row * plan.stride + y) * plan.width + column * plan.stride + x;
                        let weight = round_to_bf16(weights[at * plan.filters + filter]);
                        sum += f64::from(round(input[place * plan.channels + channel])) * f64::from(weight);
                        at += 1;
                    }
                }
            }
            let sum = sum as f32;
            outputs.push(if plan.relu { sum.max(0.0) } else { sum });
        }
    }
    outputs
}

#[test]
fn vectors_weights_and_hidden_units_are_rounded() {
    let shape = Architecture::mlp(Input::Vector { len: 11 }, &[40, 24], Head::new(3, 5));
    let mut exact = network(shape.clone());
    let mut rounded = network(shape);
    rounded.round_to_bf16();
    let samples: Vec<f32> = (0..33).map(|i| (i as f32 * 0.77).sin()).collect();
    let found = rounded.forward(Which::Online, Samples::Floats(&samples), 3).to_vec();
    let plain = exact.forward(Which::Online, Samples::Floats(&samples), 3).to_vec();
    let mut furthest = 0.0f32;
    for (row, sample) in samples.chunks_exact(11).enumerate() {
        let mut values = sample.to_vec();
        for index in 0..3 {
            values = layer(&exact, index, &values, round_to_bf16);
        }
        for (expected, at) in values.iter().zip(row * 15..) {
            // A sum in another order may round a hidden unit to the next bf16.
            assert!(
                (found[at] - expected).abs() <= 2e-3 * expected.abs().max(0.1),
                "{} {expected}",
                found[at]
            );
            furthest = furthest.max((plain[at] - expected).abs());
        }
    }
    assert!(furthest > 1e-3, "rounding makes no difference here: {furthest}");
}

#[test]
fn bytes_are_exact_and_the_rest_is_rounded() {
    let input = Input::Planes { channels: 2, height: 6, width: 5 };
    let shape = Architecture {
        layers: vec![Layer::Conv { filters: 6, kernel: 3, stride: 1 }, Layer::Linear { units: 16 }],
        ..Architecture::mlp(input, &[], Head::new(2, 3))
    };
    let exact = network(shape.clone());
    let mut rounded = network(shape);
    rounded.round_to_bf16();
    let bytes: Vec<u8> = (0..60).map(|i| (i * 37 % 256) as u8).collect();
    let found = rounded.forward(Which::Online, Samples::Bytes(&bytes), 1).to_vec();
    // Channels innermost, scaled but not rounded.
    let pixels: Vec<f32> = (0..60).map(|i| f32::from(bytes[i % 2 * 30 + i / 2]) * (1.0 / 255.0)).collect();
    let first = layer(&exact, 0, &pixels, |x| x);
    let second = layer(&exact, 1, &first, round_to_bf16);
    for (found, expected) in found.iter().zip(layer(&exact, 2, &second, round_to_bf16)) {
        assert!((found - expected).abs() <= 2e-3 * expected.abs().max(0.1), "{found} {expected}");
    }
    // Nothing trains on rounded weights.
    let trained = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        rounded.forward_train(Samples::Bytes(&bytes), 1).len()
    }));
    assert!(trained.is_err());
}
