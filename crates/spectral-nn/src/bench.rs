//! How long a training step takes on this machine.

use crate::architecture::{Architecture, ArchitectureError, Head, Input};
use crate::backend::AdamSettings;
use crate::cpu::{Cpu, Instructions, Samples};
use crate::network::{Network, Which};
use std::time::Instant;

/// The time of one training step: target forward, online forward, backward, Adam.
#[derive(Clone, Debug)]
pub struct StepTiming {
    /// Median over repeats, in milliseconds.
    pub median_ms: f64,
    /// Fastest repeat, in milliseconds.
    pub min_ms: f64,
    /// Floating-point operations of one step, in units of 10⁹.
    pub gflop: f64,
    /// Threads that shared the work.
    pub threads: usize,
    /// Instruction set.
    pub instructions: Instructions,
}

impl StepTiming {
    /// 10⁹ floating-point operations per second at the median.
    pub fn gflops(&self) -> f64 {
        self.gflop / (self.median_ms * 1e-3)
    }
}

/// The networks of the benchmark: name, architecture, threads.
pub fn standard() -> Vec<(&'static str, Architecture, usize)> {
    let planes = |side| Input::Planes { channels: 4, height: side, width: side };
    vec![
        ("mlp", Architecture::mlp(Input::Vector { len: 32 }, &[128, 128], Head::new(3, 21)), 1),
        ("small", Architecture::small_cnn(planes(10), Head::new(3, 21)), 1),
        ("nature", Architecture::nature(planes(84), Head::new(6, 21)), 2),
    ]
}

/// Times the training step of one network for about `seconds`, in repeats of which the median is taken.
///
/// ```
/// use spectral_nn::{Architecture, Head, Input, bench};
/// let shape = Architecture::mlp(Input::Vector { len: 8 }, &[16], Head::new(2, 1));
/// let timing = bench::time_step(shape, 32, 1, 0.01).unwrap();
/// assert!(timing.min_ms > 0.0 && timing.min_ms <= timing.median_ms);
/// ```
pub fn time_step(
    architecture: Architecture,
    batch: usize,
    threads: usize,
    seconds: f64,
) -> Result<StepTiming, ArchitectureError> {
    let gflop = architecture.flops_step(batch) as f64 * 1e-9;
    let backend = Cpu::new();
    let instructions = backend.instructions();
    let mut step = Step::new(backend, architecture, batch)?;
    let (median_ms, min_ms) = in_pool(threads, move || measure(seconds, || step.run()));
    Ok(StepTiming { median_ms, min_ms, gflop, threads, instructions })
}

/// 10⁹ floating-point operations per second of a large fully connected layer (a 2000 × 2000 by 2000 × 2000 matrix
/// product): what this machine's arithmetic allows, to hold step times against.
pub fn gemm_gflops(threads: usize) -> Result<f64, ArchitectureError> {
    const SIDE: usize = 2000;
    let shape = Architecture::mlp(Input::Vector { len: SIDE }, &[], Head::new(SIDE, 1));
    let mut network = Network::new(Cpu::new(), shape, 1, SIDE)?;
    let mut random = random();
    network.init(0, &mut random);
    let samples: Vec<f32> = (0..SIDE * SIDE).map(|_| random() - 0.5).collect();
    let (_, min_ms) = in_pool(threads, move || {
        measure(0.6, || {
            network.forward(Which::Online, Samples::Floats(&samples), SIDE);
        })
    });
    Ok(2e-9 * (SIDE as f64).powi(3) / (min_ms * 1e-3))
}

/// One network with a batch of random samples.
struct Step {
    network: Network,
    bytes: Vec<u8>,
    floats: Vec<f32>,
    last: Vec<f32>,
    trunk: Vec<f32>,
    batch: usize,
}

impl Step {
    fn new(backend: Cpu, architecture: Architecture, batch: usize) -> Result<Step, ArchitectureError> {
        let mut random = random();
        let (mut bytes, mut floats) = (Vec::new(), Vec::new());
        let count = 2 * batch * architecture.input.len();
        match architecture.input {
            Input::Planes { .. } => bytes = (0..count).map(|_| (random() * 256.0) as u8).collect(),
            Input::Vector { .. } => floats = (0..count).map(|_| random() - 0.5).collect(),
        }
        let last: Vec<f32> =
            (0..batch * architecture.outputs()).map(|_| (random() - 0.5) / batch as f32).collect();
        let mut network = Network::new(backend, architecture, 1, batch)?;
        network.init(0, random);
        // Two buffers, as a spectral agent has: equal ones would take a short cut that its training never takes.
        let trunk = last.iter().map(|g| 2.0 * g).collect();
        Ok(Step { network, bytes, floats, last, trunk, batch })
    }

    fn run(&mut self) {
        let half = self.batch * self.network.architecture().input.len();
        let samples = |next: bool| match (next, self.bytes.is_empty()) {
            (false, false) => Samples::Bytes(&self.bytes[..half]),
            (true, false) => Samples::Bytes(&self.bytes[half..]),
            (false, true) => Samples::Floats(&self.floats[..half]),
            (true, true) => Samples::Floats(&self.floats[half..]),
        };
        self.network.forward(Which::Target, samples(true), self.batch);
        self.network.forward_train(samples(false), self.batch);
        self.network.backward(&self.last, &self.trunk);
        // A constant gradient would drive the network far from any trained one; the work is the same without motion.
        self.network.adam(&[AdamSettings { learning_rate: 0.0, ..AdamSettings::default() }], &[true]);
    }
}

/// Runs within a rayon pool of so many threads, or in the calling thread if the pool cannot be had.
fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

/// Median and minimum over many short repeats of the mean milliseconds of one call. Short repeats let some fall
/// between the time slices of other programs.
fn measure(seconds: f64, mut call: impl FnMut()) -> (f64, f64) {
    const REPEAT_SECONDS: f64 = 0.003;
    call();
    let start = Instant::now();
    call();
    let one = start.elapsed().as_secs_f64().max(1e-7);
    let count = ((REPEAT_SECONDS / one) as usize).max(1);
    let mut means = Vec::new();
    let start = Instant::now();
    while means.len() < 5 || start.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        (0..count).for_each(|_| call());
        means.push(start.elapsed().as_secs_f64() / count as f64 * 1e3);
    }
    means.sort_by(f64::total_cmp);
    (means[means.len() / 2], means[0])
}

/// A plain generator of numbers in [0, 1): the values hardly matter for timing.
fn random() -> impl FnMut() -> f32 {
    let mut state = 0x1234_5678u32;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    }
}
