//! Gradients of a layer's input.

use super::affine::{Checked, WIDEST_SPARSE, Walk, check, find_sparse, flops, panels, scratch_len};
use super::kernels::{End, Kernels, ROWS, Sparse, Start, Sum, Tile};
use super::{Floats, Reading, Shared, run_tasks};
use crate::backend::Pass;
use crate::layout::Affine;

/// What the operation may use as it likes.
pub(crate) struct Room<'a> {
    pub scratch: &'a mut Floats,
    pub sparse: &'a mut [bool],
}

/// What the operation reads and writes.
pub(crate) struct Buffers<'a> {
    pub parameters: &'a Floats,
    pub delta: &'a Floats,
    pub input: &'a Floats,
    pub input_delta: &'a mut Floats,
}

/// As [`check`], for all that an input gradient uses.
fn check_buffers(kernels: &Kernels, room: &Room<'_>, pass: Pass, layer: &Affine, buffers: &Buffers<'_>) {
    let Buffers { parameters, delta, input, ref input_delta } = *buffers;
    let checked = Checked { parameters, input, output: delta, sparse: room.sparse };
    check(pass, layer, checked);
    assert!(input_delta.len() >= pass.agents * pass.batch * layer.input_pitch, "too few input gradients");
    let scratch = pass.agents * scratch_len(kernels, layer, pass.batch);
    assert!(room.scratch.len() >= scratch, "the backend was prepared for less than this layer");
}

/// A fully connected layer.
pub(crate) fn linear(kernels: &Kernels, room: Room<'_>, pass: Pass, layer: &Affine, buffers: Buffers<'_>) {
    check_buffers(kernels, &room, pass, layer, &buffers);
    let (Room { scratch, sparse }, Buffers { parameters, delta, input, input_delta }) = (room, buffers);
    if layer.relu && layer.filters <= WIDEST_SPARSE {
        find_sparse(kernels, pass, sparse, delta, (layer.output_at, layer.output_pitch, layer.filters));
    } else {
        sparse.fill(false);
    }
    let pitch = pass.batch.next_multiple_of(kernels.width);
    let turned_len = layer.filters * pitch;
    for agent in (0..pass.agents).filter(|agent| !sparse[*agent]) {
        let from = delta.at(agent * pass.batch * layer.output_pitch + layer.output_at);
        let to = scratch.at_mut(agent * turned_len);
        // SAFETY: both blocks lie within their buffers, as was checked, and nothing else uses the scratch memory now.
        unsafe { (kernels.turn)((pass.batch, layer.filters), (from, layer.output_pitch), (to, pitch), None) };
    }
    let (turned, weights) = (Reading(scratch.at(0)), Reading(parameters.at(layer.weights_at)));
    let (delta, input) = (Reading(delta.at(layer.output_at)), Reading(input.at(layer.input_at)));
    let out = Shared(input_delta.at_mut(layer.input_at));
    let inputs = layer.fan_in();
    let groups = inputs.div_ceil(kernels.row_width);
    run_tasks(pass.agents * groups, flops(pass, layer), |task| {
        let (agent, first) = (task / groups, task % groups * kernels.row_width);
        let samples = agent * pass.batch;
        let part = Part {
            kernels,
            layer,
            batch: pass.batch,
            inputs: first..inputs.min(first + kernels.row_width),
            weights: weights.at(agent * pass.stride),
            gates: input.at(samples * layer.input_pitch),
            out: out.at(samples * layer.input_pitch),
        };
        // SAFETY: all addresses lie within the buffers, as was checked, and loads within their slack; tasks write the gradients
        // of disjoint inputs.
        unsafe {
            if sparse[agent] {
                part.skip_zeros(delta.at(samples * layer.output_pitch));
            } else {
                part.tiles(turned.at(agent * turned_len), pitch);
            }
        }
    });
}

/// Gradients of some inputs of one agent's fully connected layer.
struct Part<'a> {
    kernels: &'a Kernels,
    layer: &'a Affine,
    batch: usize,
    inputs: std::ops::Range<usize>,
    weights: *const f32,
    gates: *const f32,
    out: *mut f32,
}

impl Part<'_> {
    /// Computes the transpose, inputs × samples, because then the weights are read along their rows and only the
    /// small matrices of activations have to be turned.
    ///
    /// # Safety
    /// The part's addresses must be valid, and its outputs this caller's alone; `turned` must be this agent's output
    /// gradients, transposed, in rows `pitch` apart.
    unsafe fn tiles(&self, turned: *const f32, pitch: usize) {
        let (layer, width) = (self.layer, self.kernels.width);
        let mut block = [0.0f32; ROWS * 32];
        let block_start = block.as_mut_ptr();
        for first in self.inputs.clone().step_by(ROWS) {
            let count = ROWS.min(self.inputs.end - first);
            for sample in (0..self.batch).step_by(width) {
                let columns = width.min(self.batch - sample);
                let tile = Tile {
                    rows: std::array::from_fn(|r| {
                        self.weights.wrapping_add((first + r).min(self.inputs.end - 1) * layer.filters)
                    }),
                    outs: std::array::from_fn(|r| block_start.wrapping_add(r * width)),
                    count,
                    sum: Sum::line(layer.filters, 1),
                    b: turned.wrapping_add(sample),
                    b_step: pitch,
                    columns: width,
                    start: Start::Zero,
                    end: End::Store,
                };
                let at = sample * layer.input_pitch + first;
                let (from, to) =
                    ((block_start.cast_const(), width), (self.out.wrapping_add(at), layer.input_pitch));
                // SAFETY: the block holds 8 rows of any kernel's width, at most 32; what the tile reads, and the inputs that the
                // turned block goes to, are this part's.
                unsafe {
                    (self.kernels.tile)(&tile);
                    (self.kernels.turn)((count, columns), from, to, Some(self.gates.wrapping_add(at)));
                }
            }
        }
    }

    /// # Safety
    /// As for `tiles`; `delta` must be this agent's output gradients.
    unsafe fn skip_zeros(&self, delta: *const f32) {
        let product = Sparse {
            rows: self.batch,
            factors: delta,
            factors_pitch: self.layer.output_pitch,
            len: self.layer.filters,
            b: self.weights.wrapping_add(self.inputs.start * self.layer.filters),
            b_step: self.layer.filters,
            b_turned: true,
            out: self.out.wrapping_add(self.inputs.start),
            out_pitch: self.layer.input_pitch,
            gates: Some(self.gates.wrapping_add(self.inputs.start)),
            columns: self.inputs.len(),
            start: Start::Zero,
            end: End::Store,
        };
        // SAFETY: the caller vouches for the part and the gradients, which the product describes.
        unsafe { (self.kernels.sparse)(&product) }
    }
}

/// Samples per task of a convolution: together their positions fill most tiles.
const TASK_SAMPLES: usize = 4;

/// Every output position adds its patch of input gradients, tile by tile, to where the patch lies in the input.
pub(crate) fn conv(kernels: &Kernels, room: Room<'_>, pass: Pass, layer: &Affine, buffers: Buffers<'_>) {
    check_buffers(kernels, &room, pass, layer, &buffers);
    let (scratch, Buffers { parameters, delta, input, input_delta }) = (room.scratch, buffers);
    let (width, line) = (kernels.width, layer.kernel * layer.channels);
    let per_line = line.div_ceil(width);
    let panels = panels(kernels, layer);
    let panel_len = layer.filters * width;
    // The weights transposed, one panel after the other: [kernel row and strip][filter][column].
    for agent in 0..pass.agents {
        for panel in 0..panels {
            let (row, from) = (panel / per_line, panel % per_line * width);
            let weights =
                parameters.at(agent * pass.stride + layer.weights_at + (row * line + from) * layer.filters);
            let to = scratch.at_mut((agent * panels + panel) * panel_len);
            let size = (width.min(line - from), layer.filters);
            // SAFETY: both blocks lie within their buffers, as was checked, and nothing else uses the scratch memory now.
            unsafe { (kernels.turn)(size, (weights, layer.filters), (to, width), None) };
        }
    }
    let (packed, delta) = (Reading(scratch.at(0)), Reading(delta.at(layer.output_at)));
    let input = Reading(input.at(layer.input_at));
    let out = Shared(input_delta.at_mut(layer.input_at));
    let (positions, row_len) = (layer.positions(), layer.width * layer.channels);
    let groups = pass.batch.div_ceil(TASK_SAMPLES);
    run_tasks(pass.agents * groups, flops(pass, layer), |task| {
        let (agent, sample) = (task / groups, task % groups * TASK_SAMPLES);
        let samples = TASK_SAMPLES.min(pass.batch - sample);
        let first_sample = agent * pass.batch + sample;
        let out = out.at(first_sample * layer.input_pitch);
        let delta = delta.at(first_sample * layer.output_pitch);
        let len = samples * layer.input_pitch;
        // SAFETY: the samples of this task alone, which lie within the buffer and without gaps: both were checked.
        unsafe { std::slice::from_raw_parts_mut(out, len).fill(0.0) };
        for panel in 0..panels {
            let (row, from) = (panel / per_line, panel % per_line * width);
            let mut walk = Walk::new(layer, 0);
            for first in (0..samples * positions).step_by(ROWS) {
                let count = ROWS.min(samples * positions - first);
                let places = walk.next_rows(count);
                let tile = Tile {
                    rows: places.map(|(_, at)| delta.wrapping_add(at)),
                    outs: places.map(|(at, _)| out.wrapping_add(at + row * row_len + from)),
                    count,
                    sum: Sum::line(layer.filters, 1),
                    b: packed.at((agent * panels + panel) * panel_len),
                    b_step: width,
                    columns: width.min(line - from),
                    start: Start::Zero,
                    end: End::Add,
                };
                // SAFETY: outputs are patches of this task's samples, where no tile but this one writes now; what is read
                // lies within its buffers or their slack.
                unsafe { (kernels.tile)(&tile) }
            }
        }
        // SAFETY: as many inputs as gradients, within their buffers.
        unsafe { (kernels.gate)(input.at(first_sample * layer.input_pitch), out, len) };
    });
}
