//! Against PyTorch, through the golden files that `golden/make.py` made.

mod common;

use common::{Inputs, population, relative, signed};
use spectral_nn::{AdamSettings, Architecture, Cpu, Head, Input, Instructions, Layer, Which};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

const BATCH: usize = 5;
const TOLERANCE: f64 = 1e-5;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn read(name: &str) -> HashMap<String, Vec<f64>> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.txt"))).unwrap();
    let tensor = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_string();
        (name, words.map(|word| word.parse().unwrap()).collect())
    };
    text.lines().map(tensor).collect()
}

fn check(name: &str, shape: Architecture) {
    let golden = read(name);
    let inputs = Inputs::new(&shape.input, 2, BATCH);
    let last = signed(3, BATCH * shape.outputs(), 0.5);
    let trunk = signed(4, BATCH * shape.outputs(), 0.5);
    let settings = AdamSettings { learning_rate: 1e-2, beta1: 0.9, beta2: 0.99, epsilon: 1e-3 };
    for instructions in [Instructions::Scalar, Instructions::Avx2, Instructions::Avx512] {
        if !instructions.available() {
            let _ = writeln!(std::io::stderr(), "not compared here: this machine has no {instructions:?}");
            continue;
        }
        let mut net = population(Cpu::with_instructions(instructions), &shape, &[1], BATCH);
        let compare = |what: &str, values: &[f32]| {
            let error = relative(values, &golden[what]);
            assert!(error <= TOLERANCE, "{name}, {instructions:?}: {what} differs by {error:.1e}");
        };
        for step in 0..5 {
            let outputs = net.forward_train(inputs.samples(), BATCH);
            if step == 0 {
                compare("outputs", outputs);
            }
            net.backward(&last, &trunk);
            if step == 0 {
                compare("gradients", net.gradients(0));
                // Tensor by tensor too: a small one must not hide behind a large one.
                for layer in net.layers() {
                    for range in [layer.weights_at..layer.bias_at(), layer.bias_at()..layer.end()] {
                        let error = relative(&net.gradients(0)[range.clone()], &golden["gradients"][range]);
                        assert!(
                            error <= TOLERANCE,
                            "{name}, {instructions:?}: {layer:?} differs by {error:.1e}"
                        );
                    }
                }
            }
            net.adam(&[settings], &[true]);
        }
        compare("parameters", net.parameters(Which::Online, 0));
        let (first, second, steps) = net.adam_state(0);
        compare("first", first);
        compare("second", second);
        assert_eq!(steps, 5);
    }
}

#[test]
fn mlp() {
    check("mlp", Architecture::mlp(Input::Vector { len: 7 }, &[18, 13], Head::new(3, 4)));
}

#[test]
fn dueling() {
    let head = Head { dueling: true, ..Head::new(3, 5) };
    check("dueling", Architecture::mlp(Input::Vector { len: 9 }, &[12, 10], head));
}

#[test]
fn small_cnn() {
    let layers = vec![Layer::Conv { filters: 5, kernel: 3, stride: 1 }, Layer::Linear { units: 11 }];
    let input = Input::Planes { channels: 3, height: 6, width: 7 };
    check("small_cnn", Architecture { input, layers, head: Head::new(2, 3) });
}

#[test]
fn mini_nature() {
    let layers = vec![
        Layer::Conv { filters: 6, kernel: 4, stride: 2 },
        Layer::Conv { filters: 7, kernel: 3, stride: 2 },
        Layer::Conv { filters: 5, kernel: 2, stride: 1 },
        Layer::Linear { units: 14 },
    ];
    let input = Input::Planes { channels: 4, height: 21, width: 22 };
    check("mini_nature", Architecture { input, layers, head: Head::new(3, 2) });
}

#[test]
fn golden_files_are_what_pytorch_computes() {
    if std::env::var_os("SPECTRAL_ORACLES").is_none_or(|value| value != "1") {
        // Not eprintln!, whose words libtest swallows when a test passes.
        let skipped = "SKIPPED: set SPECTRAL_ORACLES=1 to recompute the golden files with PyTorch";
        let _ = writeln!(std::io::stderr(), "{skipped}");
        return;
    }
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = std::process::Command::new(&python).arg(folder().join("make.py")).arg("--check").output();
    let output = output.unwrap_or_else(|error| panic!("{python} cannot be run: {error}"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the golden files are not what PyTorch computes now:\n{said}");
}
