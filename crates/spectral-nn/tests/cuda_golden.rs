//! The networks on a GPU against PyTorch, through the golden files that `golden/make.py` made.

mod common;

use common::{Inputs, relative, signed};
use spectral_nn::cuda::{Device, Member, Networks, Pass, Precision, Trunk, Weights};
use spectral_nn::{Architecture, Head, Input, Layer};
use std::io::Write as _;

const BATCH: usize = 5;
const BETA1: f64 = 0.9;

fn golden(text: &str, name: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().split(' ').map(|word| word.parse().unwrap()).collect()
}

/// The largest relative difference of outputs and of any layer's gradients.
fn compare(device: &Device, text: &str, shape: &Architecture) -> (f64, f64) {
    let outputs = shape.outputs();
    let trunk = Trunk::new(shape).unwrap();
    let nets = Networks::new(device, trunk, &[outputs], BATCH, Precision::Fp32).unwrap();
    let control = device.zeros(24).unwrap();
    control.write(0, &[1u32]).unwrap();
    control.write(8, &[1e-2f64, 1.0]).unwrap();
    let (learns, step_size, root_correction) = (control.at(), control.offset(8), control.offset(16));
    nets.connect(&[Member { learns, step_size, root_correction, beta1: BETA1, beta2: 0.99, epsilon: 1e-3 }])
        .unwrap();
    let parameters = signed(1, shape.parameters(), 0.25);
    nets.write(Weights::Online, 0, &parameters).unwrap();
    match (Inputs::new(&shape.input, 2, BATCH), &shape.input) {
        (Inputs::Bytes(bytes), &Input::Planes { channels, .. }) => {
            let size = shape.input.len() / channels;
            let turned = |sample: &[u8]| -> Vec<u8> {
                (0..sample.len()).map(|i| sample[i % channels * size + i / channels]).collect()
            };
            let all: Vec<u8> = bytes.chunks(shape.input.len()).flat_map(turned).collect();
            nets.input().write(0, &all).unwrap();
        }
        (Inputs::Floats(floats), _) => nets.input().write(0, &floats).unwrap(),
        _ => unreachable!("bytes are for planes"),
    }
    let pitch = nets.pitch();
    let (last, flows) = nets.gradients();
    for (memory, stream) in [(last, 3), (flows, 4)] {
        for (row, values) in signed(stream, BATCH * outputs, 0.5).chunks(outputs).enumerate() {
            memory.write(4 * row * pitch, values).unwrap();
        }
    }
    let stream = device.stream().unwrap();
    nets.queue_hidden(&stream).unwrap();
    nets.queue_head(&stream, Pass::Online).unwrap();
    nets.queue_backward(&stream).unwrap();
    device.synchronise().unwrap();
    let mut got = vec![0.0f32; BATCH * outputs];
    for (row, values) in got.chunks_mut(outputs).enumerate() {
        nets.output_memory().read(4 * row * pitch, values).unwrap();
    }
    let wanted = golden(text, "gradients");
    // From zero, the first moment is (1 − β₁) times the gradient.
    let first = nets.read(Weights::AdamM, 0).unwrap();
    let gradients: Vec<f32> = first.iter().map(|m| m / (1.0 - BETA1 as f32)).collect();
    let twin = spectral_nn::Network::new(spectral_nn::Cpu::new(), shape.clone(), 1, 1).unwrap();
    let of_layer = |layer: &spectral_nn::layout::Affine| {
        let both = [layer.weights_at..layer.bias_at(), layer.bias_at()..layer.end()];
        both.map(|at| relative(&gradients[at.clone()], &wanted[at])).into_iter().fold(0.0, f64::max)
    };
    (relative(&got, &golden(text, "outputs")), twin.layers().map(of_layer).fold(0.0, f64::max))
}

#[test]
fn a_gpu_computes_what_pytorch_computes() {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "NO GPU, not tested: {why}");
            return;
        }
    };
    let conv = |filters, kernel, stride| Layer::Conv { filters, kernel, stride };
    let planes = |channels, height, width| Input::Planes { channels, height, width };
    let mlp = Architecture::mlp(Input::Vector { len: 7 }, &[18, 13], Head::new(3, 4));
    let layers = vec![conv(5, 3, 1), Layer::Linear { units: 11 }];
    let small = Architecture { input: planes(3, 6, 7), layers, head: Head::new(2, 3) };
    let layers = vec![conv(6, 4, 2), conv(7, 3, 2), conv(5, 2, 1), Layer::Linear { units: 14 }];
    let nature = Architecture { input: planes(4, 21, 22), layers, head: Head::new(3, 2) };
    for (name, text, shape) in [
        ("mlp", include_str!("golden/mlp.txt"), mlp),
        ("small_cnn", include_str!("golden/small_cnn.txt"), small),
        ("mini_nature", include_str!("golden/mini_nature.txt"), nature),
    ] {
        let (outputs, gradients) = compare(&device, text, &shape);
        println!("{name:<12} against PyTorch: outputs {outputs:.1e}, gradients {gradients:.1e}");
        assert!(outputs <= 1e-5 && gradients <= 1e-5, "{name}: {outputs:.1e} {gradients:.1e}");
    }
}
