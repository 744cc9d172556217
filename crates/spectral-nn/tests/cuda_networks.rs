//! The networks on a GPU against those on the CPU: outputs, gradients and steps of Adam from the same numbers.

use spectral_nn::cuda::{Device, Member, Memory, Networks, Pass, Precision, Stream, Trunk, Weights};
use spectral_nn::{AdamSettings, Architecture, Cpu, Head, Input, Network, Samples, Which};
use std::io::Write as _;

fn device() -> Option<Device> {
    match Device::open(0) {
        Ok(device) => Some(device),
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "NO GPU, not tested: {why}");
            None
        }
    }
}

struct Random(u64);

impl Random {
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }
    fn signed(&mut self) -> f32 {
        2.0 * self.unit() - 1.0
    }
}

/// The largest difference relative to the largest number.
fn difference(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(0.0f64, |m, x| m.max(f64::from(x.abs())));
    let worst = a.iter().zip(b).fold(0.0f64, |m, (x, y)| {
        let d = f64::from((x - y).abs());
        if d.is_nan() { f64::INFINITY } else { m.max(d) }
    });
    worst / largest.max(1e-30)
}

/// The norm of the difference relative to the norm.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let difference: f64 = a.iter().zip(b).map(|(x, y)| square(f64::from(*x) - f64::from(*y))).sum();
    let norm: f64 = b.iter().map(|y| square(f64::from(*y))).sum();
    if difference.is_nan() { f64::INFINITY } else { (difference / norm.max(1e-60)).sqrt() }
}

struct Case {
    name: &'static str,
    input: Input,
    layers: fn(Input, Head) -> Architecture,
    heads: Vec<(usize, usize)>,
    batch: usize,
}

/// Bytes channel by channel, as observations are, and channel-last, as the device wants them.
fn channel_last(planes: &[u8], channels: usize) -> Vec<u8> {
    let size = planes.len() / channels;
    (0..planes.len()).map(|i| planes[i % channels * size + i / channels]).collect()
}

fn compare(device: &Device, case: &Case, precision: Precision) -> [f64; 3] {
    let mut random = Random(7);
    let architecture = |head| (case.layers)(case.input.clone(), head);
    let outputs: Vec<usize> = case.heads.iter().map(|(a, k)| a * k).collect();
    let trunk = Trunk::new(&architecture(Head::new(outputs[0], 1))).unwrap();
    let (head_at, _) = trunk.head();
    let (agents, batch) = (outputs.len(), case.batch);
    let nets = Networks::new(device, trunk, &outputs, batch, precision).unwrap();
    let nets = nets.with_choosing(device).unwrap();
    // A u32 and two f64 that all networks share.
    let adam = AdamSettings::default();
    let control = device.zeros(24).unwrap();
    control.write(0, &[1u32]).unwrap();
    let rate = f64::from(adam.learning_rate) / (1.0 - f64::from(adam.beta1));
    control.write(8, &[rate, 1.0 / (1.0 - f64::from(adam.beta2)).sqrt()]).unwrap();
    let member = Member {
        learns: control.at(),
        step_size: control.offset(8),
        root_correction: control.offset(16),
        beta1: f64::from(adam.beta1),
        beta2: f64::from(adam.beta2),
        epsilon: f64::from(adam.epsilon),
    };
    nets.connect(&vec![member; agents]).unwrap();
    let sample = case.input.len();
    let pitch = nets.pitch();
    let mut worst = [0.0f64; 3];
    let mut twins = Vec::new();
    let mut gradients = Vec::new();
    let (mut states, mut next) = (Vec::new(), Vec::new());
    for (agent, &width) in outputs.iter().enumerate() {
        let mut twin = Network::new(Cpu::new(), architecture(Head::new(width, 1)), 1, batch).unwrap();
        twin.init(0, || random.unit());
        if precision == Precision::Fp32 {
            // Rectifiers firmly open or firmly closed: one that opens by a hair's breadth on one side only would be a
            // difference of rounding that looks like one of gradients.
            let hidden: Vec<_> = twin.layers().filter(|l| l.relu).map(|l| l.bias_at()..l.end()).collect();
            for at in hidden {
                for bias in &mut twin.parameters_mut(Which::Online, 0)[at] {
                    *bias = if random.unit() < 0.5 { 8.0 } else { -8.0 };
                }
            }
        }
        nets.write(Weights::Online, agent, twin.parameters(Which::Online, 0)).unwrap();
        for x in twin.parameters_mut(Which::Target, 0) {
            *x = 0.9 * *x + 0.001 * random.signed();
        }
        nets.write(Weights::Target, agent, twin.parameters(Which::Target, 0)).unwrap();
        for list in [&mut states, &mut next] {
            list.push((0..batch * sample).map(|_| (random.unit() * 256.0) as u8).collect::<Vec<u8>>());
        }
        let sparse = |random: &mut Random| if random.unit() < 0.4 { random.signed() * 1e-3 } else { 0.0 };
        let last: Vec<f32> = (0..batch * width).map(|_| sparse(&mut random)).collect();
        let flows: Vec<f32> = last.iter().map(|x| x * (1.0 + random.unit())).collect();
        gradients.push((last, flows));
        twins.push(twin);
    }
    let planes = match case.input {
        Input::Planes { channels, .. } => Some(channels),
        Input::Vector { .. } => None,
    };
    let floats = |bytes: &[u8]| bytes.iter().map(|&b| f32::from(b) / 128.0 - 1.0).collect::<Vec<f32>>();
    let put = |memory: &Memory, at: usize, bytes: &[u8]| match planes {
        Some(_) if std::ptr::eq(memory, nets.input()) && nets.planes().is_some() => {
            memory.write(at, bytes).unwrap();
        }
        Some(channels) => {
            let turned: Vec<u8> = bytes.chunks(sample).flat_map(|s| channel_last(s, channels)).collect();
            memory.write(at, &turned).unwrap();
        }
        None => memory.write(4 * at, &floats(bytes)).unwrap(),
    };
    // A plane of zeros, which a table of planes need not name.
    let area = sample / planes.unwrap_or(sample);
    states[0][..area].fill(0);
    for agent in 0..agents {
        put(nets.input(), agent * batch * sample, &states[agent]);
        put(nets.input(), (agents + agent) * batch * sample, &next[agent]);
        put(nets.acting_input(), agent * sample, &states[agent][..sample]);
        for (memory, from) in
            [(nets.gradients().0, &gradients[agent].0), (nets.gradients().1, &gradients[agent].1)]
        {
            for (row, values) in from.chunks(outputs[agent]).enumerate() {
                memory.write(4 * (agent * batch + row) * pitch, values).unwrap();
            }
        }
    }
    if let Some(table) = nets.planes() {
        table.write(0, &[0u64]).unwrap();
        nets.input().write(0, &vec![255u8; area]).unwrap();
    }
    let stream: Stream = device.stream().unwrap();
    // Twice, and the second time as a graph, to see that splits' tickets are left as they were found.
    for turn in 0..2 {
        if turn == 1 {
            for (agent, twin) in twins.iter().enumerate() {
                nets.write(Weights::Online, agent, twin.parameters(Which::Online, 0)).unwrap();
                let zeros = vec![0.0; nets.parameters(agent)];
                nets.write(Weights::AdamM, agent, &zeros).unwrap();
                nets.write(Weights::AdamV, agent, &zeros).unwrap();
            }
        }
        let queue = || {
            nets.queue_acting(&stream)?;
            nets.queue_until_targets(&stream, |_| Ok(()))?;
            nets.queue_head(&stream, Pass::Online)?;
            nets.queue_backward(&stream)
        };
        if turn == 0 {
            queue().unwrap()
        } else {
            stream.capture(queue).unwrap().launch().unwrap()
        }
        stream.synchronise().unwrap();
        device.synchronise().unwrap();
    }
    let all = nets.outputs(Pass::Target) - nets.outputs(Pass::Online);
    assert_eq!(all as usize, 4 * agents * batch * pitch);
    for (agent, twin) in twins.iter_mut().enumerate() {
        let width = outputs[agent];
        let samples = |bytes: &[u8]| floats(bytes);
        let (s, n) = (samples(&states[agent]), samples(&next[agent]));
        let (s, n) = match planes {
            Some(_) => (Samples::Bytes(&states[agent]), Samples::Bytes(&next[agent])),
            None => (Samples::Floats(&s), Samples::Floats(&n)),
        };
        let mut got = vec![0.0f32; batch * width];
        let rows = |pass: Pass, got: &mut [f32]| {
            let memory = nets.output_memory();
            let base = (nets.outputs(pass) - nets.outputs(Pass::Online)) as usize;
            for (row, values) in got.chunks_mut(width).enumerate() {
                memory.read(base + 4 * (agent * batch + row) * pitch, values).unwrap();
            }
        };
        rows(Pass::Target, &mut got);
        let want = twin.forward(Which::Target, n, batch).to_vec();
        worst[0] = worst[0].max(difference(&got, &want));
        let chosen_by = nets.choosing_memory().unwrap();
        for (row, values) in got.chunks_mut(width).enumerate() {
            chosen_by.read(4 * (agent * batch + row) * pitch, values).unwrap();
        }
        let want = twin.forward(Which::Online, n, batch).to_vec();
        worst[0] = worst[0].max(difference(&got, &want));
        rows(Pass::Online, &mut got);
        let want = twin.forward_train(s, batch).to_vec();
        worst[0] = worst[0].max(difference(&got, &want));
        nets.acting_outputs().read(4 * agent * pitch, &mut got[..width]).unwrap();
        worst[0] = worst[0].max(difference(&got[..width], &want[..width]));
        twin.backward(&gradients[agent].0, &gradients[agent].1);
        let wanted = twin.gradients(0).to_vec();
        // From zero, the first moment is (1 − β₁) times the gradient.
        let first = nets.read(Weights::AdamM, agent).unwrap();
        let own: Vec<f32> = first.iter().map(|m| m / (1.0 - adam.beta1)).collect();
        for layer in twin.layers() {
            let at = layer.weights_at..layer.end();
            worst[1] = worst[1].max(distance(&own[at.clone()], &wanted[at]));
        }
        assert!(head_at > 0 || twin.layers().count() == 1);
        twin.adam(&[adam], &[true]);
        let after = nets.read(Weights::Online, agent).unwrap();
        worst[2] = worst[2].max(difference(&after, twin.parameters(Which::Online, 0)));
    }
    // Copies of weights that a step has changed are those of weights that are written anew.
    let acts = || {
        nets.queue_acting(&stream).unwrap();
        stream.synchronise().unwrap();
        let mut all = vec![0.0f32; agents * pitch];
        nets.acting_outputs().read(0, &mut all).unwrap();
        all
    };
    let stepped = acts();
    for agent in 0..agents {
        let parameters = nets.read(Weights::Online, agent).unwrap();
        nets.write(Weights::Online, agent, &parameters).unwrap();
    }
    assert_eq!(stepped, acts(), "{}: copies of weights are out of date", case.name);
    worst
}

#[test]
fn outputs_gradients_and_steps_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    println!("{:?}", device.info());
    let planes = |channels, side| Input::Planes { channels, height: side, width: side };
    let cases = [
        Case {
            name: "nature, 4 heads",
            input: planes(4, 84),
            layers: Architecture::nature,
            heads: vec![(6, 21), (6, 1), (6, 129), (6, 1)],
            batch: 32,
        },
        Case {
            name: "nature, 9 agents",
            input: planes(4, 84),
            layers: Architecture::nature,
            heads: vec![(6, 21); 9],
            batch: 32,
        },
        Case {
            name: "nature, 20 agents",
            input: planes(4, 84),
            layers: Architecture::nature,
            heads: vec![(6, 21); 20],
            batch: 32,
        },
        Case {
            name: "nature alone",
            input: planes(4, 84),
            layers: Architecture::nature,
            heads: vec![(6, 21)],
            batch: 32,
        },
        Case {
            name: "small cnn",
            input: planes(3, 10),
            layers: Architecture::small_cnn,
            heads: vec![(3, 21), (3, 1)],
            batch: 20,
        },
        Case {
            name: "mlp",
            input: Input::Vector { len: 37 },
            layers: |input, head| Architecture::mlp(input, &[128, 96], head),
            heads: vec![(3, 1); 3],
            batch: 32,
        },
        Case {
            name: "mlp, wide",
            input: Input::Vector { len: 64 },
            layers: |input, head| Architecture::mlp(input, &[128, 128, 512], head),
            heads: vec![(3, 1); 2],
            batch: 20,
        },
        Case {
            name: "mlp, two slabs",
            input: Input::Vector { len: 64 },
            layers: |input, head| Architecture::mlp(input, &[128, 128, 1024], head),
            heads: vec![(3, 1); 2],
            batch: 32,
        },
        Case {
            name: "nature, batch 128",
            input: planes(4, 84),
            layers: Architecture::nature,
            heads: vec![(6, 1); 2],
            batch: 128,
        },
    ];
    let mut failed = Vec::new();
    for case in &cases {
        for (precision, tolerances) in [
            (Precision::Fp32, [1e-5, 1e-5, 1e-5]),
            (Precision::Tf32, [5e-3, 1e-1, 1e-2]),
            (Precision::Bf16, [4e-2, 2.5e-1, 1e-2]),
        ] {
            let worst = compare(&device, case, precision);
            println!(
                "{:<20} {:<5} outputs {:.2e} gradients {:.2e} parameters {:.2e}",
                case.name,
                precision.name(),
                worst[0],
                worst[1],
                worst[2]
            );
            if worst.iter().zip(tolerances).any(|(w, t)| *w > t) {
                failed.push(format!("{} {}: {worst:?} beyond {tolerances:?}", case.name, precision.name()));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
