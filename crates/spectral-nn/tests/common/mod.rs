//! Shared by the tests: hashed numbers and a plain double-precision network.
#![allow(dead_code)]

use spectral_nn::{Architecture, Cpu, Input, Layer, Network, Samples, Which};

/// Numbers in [0, 1) with 24 bits; `golden/make.py` computes the same.
pub fn uniform(stream: u64, count: usize) -> Vec<f32> {
    let hash = |index: u64| {
        let mut x = (index.wrapping_mul(2_654_435_761).wrapping_add(stream * 97_531)) & 0xFFFF_FFFF;
        x ^= x >> 15;
        x = x.wrapping_mul(2_246_822_519) & 0xFFFF_FFFF;
        x ^= x >> 13;
        (x >> 8) as f32 / (1 << 24) as f32
    };
    (1..=count as u64).map(hash).collect()
}

/// Numbers in ±scale.
pub fn signed(stream: u64, count: usize, scale: f32) -> Vec<f32> {
    uniform(stream, count).into_iter().map(|u| (2.0 * u - 1.0) * scale).collect()
}

/// Random input for `samples` samples.
pub enum Inputs {
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
}

impl Inputs {
    pub fn new(input: &Input, stream: u64, samples: usize) -> Inputs {
        let count = samples * input.len();
        match input {
            Input::Planes { .. } => {
                Inputs::Bytes(uniform(stream, count).iter().map(|u| (u * 256.0).floor() as u8).collect())
            }
            Input::Vector { .. } => Inputs::Floats(signed(stream, count, 1.0)),
        }
    }

    pub fn samples(&self) -> Samples<'_> {
        match self {
            Inputs::Bytes(bytes) => Samples::Bytes(bytes),
            Inputs::Floats(floats) => Samples::Floats(floats),
        }
    }

    /// The samples from `from` on, `count` of them, of `len` numbers each.
    pub fn part(&self, from: usize, count: usize, len: usize) -> Samples<'_> {
        let range = from * len..(from + count) * len;
        match self {
            Inputs::Bytes(bytes) => Samples::Bytes(&bytes[range]),
            Inputs::Floats(floats) => Samples::Floats(&floats[range]),
        }
    }

    pub fn doubles(&self) -> Vec<f64> {
        match self {
            Inputs::Bytes(bytes) => bytes.iter().map(|&b| f64::from(b) / 255.0).collect(),
            Inputs::Floats(floats) => floats.iter().map(|&x| f64::from(x)).collect(),
        }
    }
}

/// A population whose agent k has the hashed parameters of stream `streams[k]`, target and online alike.
pub fn population(backend: Cpu, shape: &Architecture, streams: &[u64], batch: usize) -> Network {
    let mut net = Network::new(backend, shape.clone(), streams.len(), batch).unwrap();
    for (agent, &stream) in streams.iter().enumerate() {
        let values = signed(stream, shape.parameters(), 0.25);
        net.parameters_mut(Which::Online, agent).copy_from_slice(&values);
        net.refresh_target(agent);
    }
    net
}

/// |a − b| / |b| over whole vectors.
pub fn relative(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let difference: f64 = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
    let norm: f64 = b.iter().map(|b| b * b).sum();
    (difference / norm.max(1e-300)).sqrt()
}

/// Outputs of one sample (channels first, as handed over) in double precision, from the definition.
pub fn reference(shape: &Architecture, parameters: &[f64], sample: &[f64]) -> Vec<f64> {
    let (mut channels, mut height, mut width) = match shape.input {
        Input::Planes { channels, height, width } => (channels, height, width),
        Input::Vector { len } => (len, 1, 1),
    };
    let pixels = height * width;
    // x[row][column][channel]
    let mut x: Vec<f64> =
        (0..channels * pixels).map(|i| sample[i % channels * pixels + i / channels]).collect();
    let mut rest = parameters;
    let mut take = |count: usize| {
        let (part, tail) = rest.split_at(count);
        rest = tail;
        part
    };
    for (index, layer) in shape.layers.iter().enumerate() {
        match *layer {
            Layer::Conv { filters, kernel, stride } => {
                let weights = take(kernel * kernel * channels * filters);
                let bias = take(filters);
                let (rows, columns) = ((height - kernel) / stride + 1, (width - kernel) / stride + 1);
                let mut y = Vec::with_capacity(rows * columns * filters);
                for (row, column) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                    for f in 0..filters {
                        let mut sum = bias[f];
                        for (i, j) in (0..kernel).flat_map(|i| (0..kernel).map(move |j| (i, j))) {
                            for c in 0..channels {
                                let at = ((row * stride + i) * width + column * stride + j) * channels + c;
                                sum += weights[((i * kernel + j) * channels + c) * filters + f] * x[at];
                            }
                        }
                        y.push(sum.max(0.0));
                    }
                }
                (x, height, width, channels) = (y, rows, columns, filters);
            }
            Layer::Linear { units } => {
                let doubled = shape.head.dueling && index + 1 == shape.layers.len();
                let units = if doubled { 2 * units } else { units };
                let (weights, bias) = (take(x.len() * units), take(units));
                x = linear(&x, weights, bias).into_iter().map(|y| y.max(0.0)).collect();
            }
        }
    }
    let (actions, per_action) = (shape.head.actions, shape.head.per_action);
    let outputs = actions * per_action;
    if !shape.head.dueling {
        let (weights, bias) = (take(x.len() * outputs), take(outputs));
        return linear(&x, weights, bias);
    }
    let half = x.len() / 2;
    let (weights, bias) = (take(half * per_action), take(per_action));
    let value = linear(&x[..half], weights, bias);
    let (weights, bias) = (take(half * outputs), take(outputs));
    let advantage = linear(&x[half..], weights, bias);
    let mean = |k: usize| advantage[k..].iter().step_by(per_action).sum::<f64>() / actions as f64;
    (0..outputs).map(|i| value[i % per_action] + advantage[i] - mean(i % per_action)).collect()
}

fn linear(x: &[f64], weights: &[f64], bias: &[f64]) -> Vec<f64> {
    let units = bias.len();
    (0..units)
        .map(|j| bias[j] + x.iter().enumerate().map(|(i, x)| x * weights[i * units + j]).sum::<f64>())
        .collect()
}
