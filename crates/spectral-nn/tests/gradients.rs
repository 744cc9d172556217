//! Gradients against finite differences of a plain double-precision network, and what may and may not change them.

mod common;

use common::{Inputs, population, reference, relative, signed};
use proptest::prelude::*;
use spectral_nn::{
    AdamSettings, Architecture, Backend, Cpu, Head, Input, Instructions, Layer, Pass, Samples, Which, layout,
};

fn conv(filters: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { filters, kernel, stride }
}

fn linear(units: usize) -> Layer {
    Layer::Linear { units }
}

fn shapes() -> Vec<Architecture> {
    let planes = |channels, height, width| Input::Planes { channels, height, width };
    let dueling = |head: Head| Head { dueling: true, ..head };
    vec![
        // Nothing hidden; sizes below, at and above a vector; sums longer than one block; dueling streams.
        Architecture::mlp(Input::Vector { len: 5 }, &[], Head::new(2, 2)),
        Architecture::mlp(Input::Vector { len: 33 }, &[16, 20], Head::new(3, 7)),
        Architecture::mlp(Input::Vector { len: 6 }, &[270, 9], Head::new(2, 1)),
        Architecture::mlp(Input::Vector { len: 6 }, &[8, 12], dueling(Head::new(3, 2))),
        // One channel, four and five; strides that leave a rest; a kernel as large as its input.
        Architecture {
            input: planes(1, 5, 6),
            layers: vec![conv(3, 2, 1), linear(7)],
            head: Head::new(2, 2),
        },
        Architecture {
            input: planes(4, 9, 8),
            layers: vec![conv(17, 3, 2), conv(4, 2, 1)],
            head: Head::new(2, 1),
        },
        Architecture {
            input: planes(5, 7, 7),
            layers: vec![conv(34, 3, 1), conv(9, 2, 2), conv(3, 2, 1), linear(6)],
            head: dueling(Head::new(2, 3)),
        },
    ]
}

/// Gradient of Σ gradient · outputs over the batch, by central differences in double precision.
fn differences(shape: &Architecture, parameters: &[f32], inputs: &[f64], gradient: &[f32]) -> Vec<f64> {
    let mut parameters: Vec<f64> = parameters.iter().map(|&p| f64::from(p)).collect();
    let loss = |parameters: &[f64]| -> f64 {
        let samples = inputs.chunks_exact(shape.input.len()).zip(gradient.chunks_exact(shape.outputs()));
        let sample = |(x, g): (&[f64], &[f32])| -> f64 {
            reference(shape, parameters, x).iter().zip(g).map(|(y, g)| y * f64::from(*g)).sum()
        };
        samples.map(sample).sum()
    };
    let step = 1e-6;
    let mut gradients = Vec::with_capacity(parameters.len());
    for i in 0..parameters.len() {
        let kept = parameters[i];
        parameters[i] = kept + step;
        let above = loss(&parameters);
        parameters[i] = kept - step;
        let below = loss(&parameters);
        parameters[i] = kept;
        gradients.push((above - below) / (2.0 * step));
    }
    gradients
}

#[test]
fn gradients_are_finite_differences() {
    const BATCH: usize = 3;
    for (number, shape) in shapes().iter().enumerate() {
        let inputs = Inputs::new(&shape.input, 12, BATCH);
        let gradient = signed(13, BATCH * shape.outputs(), 1.0);
        let mut net = population(Cpu::new(), shape, &[11], BATCH);
        let outputs = net.forward_train(inputs.samples(), BATCH).to_vec();
        let parameters: Vec<f64> = net.parameters(Which::Online, 0).iter().map(|&p| f64::from(p)).collect();
        let doubles = inputs.doubles();
        let samples = doubles.chunks_exact(shape.input.len());
        let expected: Vec<f64> = samples.flat_map(|x| reference(shape, &parameters, x)).collect();
        assert!(relative(&outputs, &expected) < 1e-6, "shape {number}: outputs");
        net.backward(&gradient, &gradient);
        let expected = differences(shape, net.parameters(Which::Online, 0), &doubles, &gradient);
        for layer in net.layers() {
            for range in [layer.weights_at..layer.bias_at(), layer.bias_at()..layer.end()] {
                let error = relative(&net.gradients(0)[range.clone()], &expected[range]);
                assert!(error < 1e-5, "shape {number}, {layer:?}: {error:.1e}");
            }
        }
    }
}

#[test]
fn acting_and_training_forwards_agree() {
    for shape in shapes() {
        let inputs = Inputs::new(&shape.input, 2, 4);
        let mut net = population(Cpu::new(), &shape, &[1], 4);
        let trained = net.forward_train(inputs.samples(), 4).to_vec();
        assert_eq!(net.train_outputs(), &trained[..]);
        assert_eq!(net.forward(Which::Online, inputs.samples(), 4), &trained[..]);
        for sample in 0..4 {
            // One at a time takes another path through the kernels, with the same sums.
            let one = net.forward(Which::Target, inputs.part(sample, 1, shape.input.len()), 1);
            assert_eq!(one, &trained[sample * shape.outputs()..(sample + 1) * shape.outputs()]);
        }
    }
}

#[test]
fn trunk_gradients_reach_hidden_layers_only() {
    for shape in shapes().into_iter().filter(|shape| !shape.layers.is_empty()) {
        let inputs = Inputs::new(&shape.input, 2, 4);
        let last = signed(3, 4 * shape.outputs(), 1.0);
        let trunk: Vec<f32> = last.iter().map(|g| 4.0 * g).collect();
        let mut net = population(Cpu::new(), &shape, &[1], 4);
        net.forward_train(inputs.samples(), 4);
        net.backward(&last, &last);
        let plain = net.gradients(0).to_vec();
        net.backward(&last, &trunk);
        let head = net.last_layer_at();
        assert_eq!(net.gradients(0)[head..], plain[head..]);
        // A factor that is a power of two goes through every sum without rounding.
        let scaled: Vec<f32> = plain[..head].iter().map(|g| 4.0 * g).collect();
        assert_eq!(net.gradients(0)[..head], scaled[..]);
        assert!(plain[..head].iter().any(|g| *g != 0.0));
    }
}

/// Everything an agent's numbers could depend on, after three training steps on its own data.
fn train(cpu: impl Fn() -> Cpu, shape: &Architecture, agents: &[u64], batch: usize) -> Vec<Vec<f32>> {
    let mut net = population(cpu(), shape, agents, batch);
    let (mut samples, mut gradient) = (Vec::new(), Vec::new());
    let mut bytes = Vec::new();
    for &agent in agents {
        match Inputs::new(&shape.input, 100 + agent, batch) {
            Inputs::Bytes(own) => bytes.extend(own),
            Inputs::Floats(own) => samples.extend(own),
        }
        gradient.extend(signed(200 + agent, batch * shape.outputs(), 1.0));
    }
    let settings = vec![AdamSettings { learning_rate: 1e-2, ..Default::default() }; agents.len()];
    for _ in 0..3 {
        let input = if bytes.is_empty() { Samples::Floats(&samples) } else { Samples::Bytes(&bytes) };
        net.forward_train(input, batch);
        net.backward(&gradient, &gradient);
        net.adam(&settings, &vec![true; agents.len()]);
    }
    let input = if bytes.is_empty() { Samples::Floats(&samples) } else { Samples::Bytes(&bytes) };
    let outputs = net.forward(Which::Online, input, batch).to_vec();
    let outputs = outputs.chunks_exact(batch * shape.outputs());
    let all = outputs.enumerate().map(|(agent, outputs)| {
        let (first, second, _) = net.adam_state(agent);
        [outputs, net.parameters(Which::Online, agent), net.gradients(agent), first, second].concat()
    });
    all.collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn populations_and_threads_change_no_bit() {
    // Large enough for the work to be shared among threads, in every operation.
    let large = vec![
        Architecture::mlp(Input::Vector { len: 70 }, &[300, 280], Head::new(5, 21)),
        Architecture {
            input: Input::Planes { channels: 4, height: 30, width: 30 },
            layers: vec![conv(32, 5, 2), conv(48, 3, 1), linear(200)],
            head: Head { dueling: true, ..Head::new(3, 9) },
        },
    ];
    for shape in shapes().iter().chain(&large) {
        let batch = 32;
        let together = pool(2).install(|| train(Cpu::new, shape, &[1, 2, 3, 4, 5], batch));
        let on_one = pool(1).install(|| train(Cpu::new, shape, &[1, 2, 3, 4, 5], batch));
        for agent in 1..=5u64 {
            let alone = pool(2).install(|| train(Cpu::new, shape, &[agent], batch));
            let index = agent as usize - 1;
            assert!(alone[0].iter().all(|x| x.is_finite()));
            assert_eq!(bits(&alone[0]), bits(&together[index]), "agent {agent} of {shape:?}");
            assert_eq!(bits(&on_one[index]), bits(&together[index]), "threads, agent {agent} of {shape:?}");
        }
    }
}

#[test]
fn instruction_sets_agree() {
    for shape in shapes() {
        let scalar = train(|| Cpu::with_instructions(Instructions::Scalar), &shape, &[7], 9);
        let expected: Vec<f64> = scalar[0].iter().map(|&x| f64::from(x)).collect();
        for instructions in [Instructions::Avx2, Instructions::Avx512] {
            if !instructions.available() {
                eprintln!("this machine has no {instructions:?}: the others are compared");
                continue;
            }
            let other = train(|| Cpu::with_instructions(instructions), &shape, &[7], 9);
            let error = relative(&other[0], &expected);
            assert!(error < 1e-5, "{instructions:?} differs by {error:.1e} on {shape:?}");
        }
    }
}

#[test]
fn what_is_not_a_number_stays_visible() {
    let shape = Architecture::mlp(Input::Vector { len: 4 }, &[8, 8], Head::new(2, 1));
    let mut net = population(Cpu::new(), &shape, &[1, 2], 1);
    net.parameters_mut(Which::Online, 0)[0] = f32::NAN;
    let outputs = net.forward(Which::Online, Samples::Floats(&[1.0; 8]), 1).to_vec();
    assert!(outputs[0].is_nan() && outputs[2].is_finite(), "{outputs:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Random shapes: gradients of the vector kernels against those of plain Rust.
    #[test]
    fn random_shapes_agree_with_scalar(
        (channels, side) in (1usize..6, 8usize..14),
        (filters, kernel, stride) in (1usize..40, 1usize..5, 1usize..4),
        units in 1usize..150,
        (actions, per_action) in (1usize..4, 1usize..24),
        dueling: bool,
        batch in 1usize..40,
    ) {
        let input = Input::Planes { channels, height: side, width: side + 1 };
        let layers = vec![conv(filters, kernel, stride), conv(filters, 2, 1), linear(units)];
        let shape = Architecture { input, layers, head: Head { dueling, ..Head::new(actions, per_action) } };
        let run = |instructions| {
            let inputs = Inputs::new(&shape.input, 5, batch);
            let gradient = signed(6, batch * shape.outputs(), 1.0);
            let mut net = population(Cpu::with_instructions(instructions), &shape, &[4], batch);
            let outputs = net.forward_train(inputs.samples(), batch).to_vec();
            net.backward(&gradient, &gradient);
            (outputs, net.gradients(0).to_vec())
        };
        prop_assume!(shape.validate().is_ok());
        let (outputs, gradients) = run(Instructions::Scalar);
        let doubles = |values: &[f32]| -> Vec<f64> { values.iter().map(|&x| f64::from(x)).collect() };
        for instructions in [Instructions::Avx2, Instructions::Avx512].into_iter().filter(|i| i.available()) {
            let other = run(instructions);
            prop_assert!(relative(&other.0, &doubles(&outputs)) < 1e-5);
            prop_assert!(relative(&other.1, &doubles(&gradients)) < 1e-4);
        }
    }
}

/// Half of the first samples' inputs are 0, which is skipped where they are alone. With as many samples without a 0
/// beside them they are not. Either way the numbers must be the same.
#[test]
fn skipping_zeros_changes_no_bit() {
    const LAYER: layout::Affine = layout::Affine {
        height: 1,
        width: 1,
        channels: 150,
        kernel: 1,
        stride: 1,
        filters: 131,
        relu: true,
        rectified: true,
        input_at: 0,
        input_pitch: 150,
        output_at: 0,
        output_pitch: 131,
        weights_at: 0,
    };
    const HALF: usize = 12;
    for instructions in [Instructions::Scalar, Instructions::Avx2, Instructions::Avx512] {
        if !instructions.available() {
            eprintln!("this machine has no {instructions:?}: the others are compared");
            continue;
        }
        let run = |batch: usize| {
            let mut cpu = Cpu::with_instructions(instructions);
            cpu.prepare(&[LAYER], 1, batch);
            let stride = LAYER.end().next_multiple_of(16);
            let pass = Pass { agents: 1, batch, stride };
            let mut buffer = |values: Vec<f32>| {
                let mut buffer = cpu.zeros(values.len());
                buffer.copy_from_slice(&values);
                buffer
            };
            let cut = |sparse: usize, values: Vec<f32>, dense: f32| -> Vec<f32> {
                let value = |(i, x): (usize, f32)| if i < sparse { x.max(0.0) } else { dense };
                values.into_iter().enumerate().map(value).collect()
            };
            let parameters = buffer(signed(1, stride, 0.3));
            let input = buffer(cut(HALF * 150, signed(2, batch * 150, 1.0), 1.0));
            let sparse_delta = buffer(cut(HALF * 131, signed(3, batch * 131, 1.0), 1.0));
            // Without an effect on the sums, however many samples there are.
            let ended_delta = buffer(cut(HALF * 131, signed(3, batch * 131, 1.0), 0.0));
            let (mut output, mut input_delta) = (cpu.zeros(batch * 131), cpu.zeros(batch * 150));
            let mut gradients = cpu.zeros(stride);
            cpu.forward(pass, &LAYER, &parameters, &input, &mut output);
            cpu.weight_gradient(pass, &LAYER, &input, &ended_delta, &mut gradients);
            cpu.input_gradient(pass, &LAYER, &parameters, &sparse_delta, &input, &mut input_delta);
            (
                output[..HALF * 131].to_vec(),
                gradients[..LAYER.bias_at()].to_vec(),
                input_delta[..HALF * 150].to_vec(),
            )
        };
        let (skipping, plain) = (run(HALF), run(2 * HALF));
        assert!(
            skipping.0.iter().chain(&skipping.1).chain(&skipping.2).filter(|x| **x != 0.0).count() > 10_000
        );
        assert_eq!(skipping, plain, "{instructions:?}");
    }
}
