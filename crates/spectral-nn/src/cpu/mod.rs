//! The CPU backend.

mod affine;
mod buffer;
mod elementwise;
mod forward;
mod input_gradient;
mod kernels;
mod simd;
mod small;
mod sparse;
mod tile;
mod weight_gradient;

use crate::architecture::Input;
use crate::backend::{AdamBuffers, AdamSettings, Backend, Pass};
use crate::layout::Affine;
pub use buffer::Floats;
pub use kernels::Instructions;
use kernels::Kernels;

/// Input samples in main memory, `[agent][sample][input]`.
#[derive(Clone, Copy, Debug)]
pub enum Samples<'a> {
    /// For [`Input::Planes`].
    Bytes(&'a [u8]),
    /// For [`Input::Vector`]; also accepted for planes, channel after channel, and then taken as they are.
    Floats(&'a [f32]),
}

/// The CPU, with the best vector instructions that the machine has.
///
/// Large operations are shared among the threads of the current rayon pool; small ones, and all of them if the
/// pool has one thread, run in the calling thread without a call to rayon.
pub struct Cpu {
    instructions: Instructions,
    kernels: Kernels,
    /// Transposed output gradients, or weights repacked for input gradients, of all agents.
    scratch: Floats,
    /// Per agent, whether the operation under way skips inputs of 0.
    sparse: Vec<bool>,
}

impl std::fmt::Debug for Cpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cpu").field("instructions", &self.instructions).finish_non_exhaustive()
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu::new()
    }
}

impl Cpu {
    /// This machine's CPU.
    pub fn new() -> Cpu {
        Cpu::with_instructions(Instructions::detect())
    }

    /// The CPU restricted to an instruction set, to compare one with another.
    ///
    /// # Panics
    /// If the machine does not have it; see [`Instructions::available`].
    pub fn with_instructions(instructions: Instructions) -> Cpu {
        Cpu {
            instructions,
            kernels: Kernels::new(instructions),
            scratch: Floats::default(),
            sparse: Vec::new(),
        }
    }

    /// The instruction set in use.
    pub fn instructions(&self) -> Instructions {
        self.instructions
    }
}

/// A pointer that tasks share; each writes its own part.
#[derive(Clone, Copy)]
struct Shared(*mut f32);
// SAFETY: a pointer may be sent anywhere; what is done with it is up to the unsafe code that uses it, and there tasks write
// disjoint parts, which their indices determine.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`; sharing the pointer gives no more than copies of it.
unsafe impl Sync for Shared {}

impl Shared {
    fn at(self, at: usize) -> *mut f32 {
        self.0.wrapping_add(at)
    }
}

/// A pointer that tasks read.
#[derive(Clone, Copy)]
struct Reading(*const f32);
// SAFETY: as for `Shared`; nothing writes to what it points at while tasks run, for `run_tasks` returns only when all are done
// and the buffer is borrowed until then.
unsafe impl Send for Reading {}
// SAFETY: as for `Send`; sharing the pointer gives no more than copies of it.
unsafe impl Sync for Reading {}

impl Reading {
    fn at(self, at: usize) -> *const f32 {
        self.0.wrapping_add(at)
    }
}

/// Runs all tasks, on the current rayon pool's threads if their `cost` (about one per floating-point operation, or
/// eight per float moved) is worth it. The tasks are fixed by the caller; threads never change what one computes.
fn run_tasks(tasks: usize, cost: usize, task: impl Fn(usize) + Sync + Send) {
    use rayon::prelude::*;
    const WORTH_SHARING: usize = 4_000_000;
    if tasks == 1 || cost < WORTH_SHARING || rayon::current_num_threads() == 1 {
        (0..tasks).for_each(task);
    } else {
        (0..tasks).into_par_iter().with_max_len(1).for_each(task);
    }
}

impl Backend for Cpu {
    type Floats = Floats;
    type View = [f32];
    type Samples<'a> = Samples<'a>;

    fn prepare(&mut self, layers: &[Affine], agents: usize, max_batch: usize) {
        let needed = layers.iter().map(|layer| affine::scratch_len(&self.kernels, layer, max_batch)).max();
        self.scratch = Floats::zeros(agents * needed.unwrap_or(0));
        self.sparse = vec![false; agents];
    }

    fn zeros(&mut self, len: usize) -> Floats {
        Floats::zeros(len)
    }

    fn view(buffer: &Floats, len: usize) -> &[f32] {
        &buffer[..len]
    }

    fn fill(&mut self, from: &[f32], to: &mut Floats, len: usize) {
        assert_eq!(from.len(), len, "as many output gradients as outputs are needed");
        to[..len].copy_from_slice(from);
    }

    fn copy(&mut self, from: &Floats, to: &mut Floats, at: usize, len: usize) {
        to[at..at + len].copy_from_slice(&from[at..at + len]);
    }

    fn load(&mut self, pass: Pass, input: &Input, samples: Samples<'_>, to: &mut Floats) {
        small::load(pass, input, samples, to);
    }

    fn round_to_bf16(&mut self, buffer: &mut Floats, len: usize) {
        buffer[..len].iter_mut().for_each(|x| *x = crate::rounding::round_to_bf16(*x));
    }

    fn forward(
        &mut self,
        pass: Pass,
        layer: &Affine,
        parameters: &Floats,
        input: &Floats,
        output: &mut Floats,
    ) {
        forward::forward(&self.kernels, &mut self.sparse, pass, layer, parameters, input, output);
    }

    fn weight_gradient(
        &mut self,
        pass: Pass,
        layer: &Affine,
        input: &Floats,
        delta: &Floats,
        gradients: &mut Floats,
    ) {
        weight_gradient::weight_gradient(
            &self.kernels,
            &mut self.sparse,
            pass,
            layer,
            input,
            delta,
            gradients,
        );
    }

    fn input_gradient(
        &mut self,
        pass: Pass,
        layer: &Affine,
        parameters: &Floats,
        delta: &Floats,
        input: &Floats,
        input_delta: &mut Floats,
    ) {
        let room = input_gradient::Room { scratch: &mut self.scratch, sparse: &mut self.sparse };
        let buffers = input_gradient::Buffers { parameters, delta, input, input_delta };
        if layer.is_linear() {
            input_gradient::linear(&self.kernels, room, pass, layer, buffers);
        } else {
            input_gradient::conv(&self.kernels, room, pass, layer, buffers);
        }
    }

    fn duel(&mut self, pass: Pass, actions: usize, per_action: usize, raw: &Floats, q: &mut Floats) {
        small::duel(pass, actions, per_action, raw, q);
    }

    fn duel_gradient(
        &mut self,
        pass: Pass,
        actions: usize,
        per_action: usize,
        q_delta: &Floats,
        raw_delta: &mut Floats,
    ) {
        small::duel_gradient(pass, actions, per_action, q_delta, raw_delta);
    }

    fn adam(
        &mut self,
        pass: Pass,
        settings: &[AdamSettings],
        active: &[bool],
        steps: &[u64],
        buffers: AdamBuffers<'_, Floats>,
    ) {
        small::adam(&self.kernels, pass, settings, active, steps, buffers);
    }

    fn rescale(
        &mut self,
        pass: Pass,
        agent: usize,
        layer: &Affine,
        parameters: &mut Floats,
        scale: &[f32],
        shift: &[f32],
    ) {
        let own = &mut parameters[agent * pass.stride..(agent + 1) * pass.stride];
        layer.rescale(own, scale, shift);
    }
}
