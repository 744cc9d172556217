//! Gradients of a layer's input.

use super::affine::{flops, panels, patch_at};
use super::kernels::{End, Kernels, ROWS, Start, Sum, Tile};
use super::{Floats, Reading, Shared, run_tasks};
use crate::backend::Pass;
use crate::layout::Affine;

/// Computes the transpose, inputs × samples, because then the weights are read along their rows and only the small
/// matrices of activations have to be turned.
#[allow(clippy::too_many_arguments)]
pub(crate) fn linear_input_gradient(
    kernels: &Kernels,
    scratch: &mut Floats,
    pass: Pass,
    layer: &Affine,
    parameters: &Floats,
    delta: &Floats,
    input: &Floats,
    input_delta: &mut Floats,
) {
    /// Inputs per task.
    const TASK_INPUTS: usize = 64;
    let width = kernels.width;
    let pitch = pass.batch.next_multiple_of(width);
    let turned_len = layer.filters * pitch;
    for agent in 0..pass.agents {
        let from = delta.at(agent * pass.batch * layer.output_pitch + layer.output_at);
        let to = scratch.at_mut(agent * turned_len);
        // SAFETY: both blocks lie within their buffers.
        unsafe { (kernels.turn)((pass.batch, layer.filters), (from, layer.output_pitch), (to, pitch), None) };
    }
    let (turned, weights) = (Reading(scratch.at(0)), Reading(parameters.at(layer.weights_at)));
    let input = Reading(input.at(layer.input_at));
    let out = Shared(input_delta.at_mut(layer.input_at));
    let inputs = layer.fan_in();
    let groups = inputs.div_ceil(TASK_INPUTS);
    run_tasks(pass.agents * groups, flops(pass, layer), |task| {
        let (agent, group) = (task / groups, task % groups);
        let weights = weights.at(agent * pass.stride);
        let turned = turned.at(agent * turned_len);
        let last = inputs.min((group + 1) * TASK_INPUTS);
        let mut block = [0.0f32; ROWS * 64];
        let block_start = block.as_mut_ptr();
        for first in (group * TASK_INPUTS..last).step_by(ROWS) {
            let count = ROWS.min(last - first);
            for sample in (0..pass.batch).step_by(width) {
                let columns = width.min(pass.batch - sample);
                let tile = Tile {
                    rows: std::array::from_fn(|r| {
                        weights.wrapping_add((first + r).min(last - 1) * layer.filters)
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
                // SAFETY: as in `forward`; the block holds 8 rows of any kernel's width.
                unsafe { (kernels.tile)(&tile) }
                let at = (agent * pass.batch + sample) * layer.input_pitch + first;
                let (from, to) = ((block_start.cast_const(), width), (out.at(at), layer.input_pitch));
                // SAFETY: tasks write disjoint inputs.
                unsafe { (kernels.turn)((count, columns), from, to, Some(input.at(at))) };
            }
        }
    });
}

/// Every output position adds its patch of input gradients, tile by tile, to where the patch lies in the input.
#[allow(clippy::too_many_arguments)]
pub(crate) fn conv_input_gradient(
    kernels: &Kernels,
    scratch: &mut Floats,
    pass: Pass,
    layer: &Affine,
    parameters: &Floats,
    delta: &Floats,
    input: &Floats,
    input_delta: &mut Floats,
) {
    let (width, line) = (kernels.width, layer.kernel * layer.channels);
    let per_line = line.div_ceil(width);
    let panels = panels(kernels, layer);
    let panel_len = layer.filters * width;
    // The weights transposed, one panel after the other: [kernel row and strip][filter][column].
    for agent in 0..pass.agents {
        let weights = &parameters[agent * pass.stride + layer.weights_at..][..layer.fan_in() * layer.filters];
        for panel in 0..panels {
            let (row, from) = (panel / per_line, panel % per_line * width);
            let to = &mut scratch[(agent * panels + panel) * panel_len..][..panel_len];
            for column in 0..width.min(line - from) {
                let weights = &weights[(row * line + from + column) * layer.filters..][..layer.filters];
                for (filter, weight) in weights.iter().enumerate() {
                    to[filter * width + column] = *weight;
                }
            }
        }
    }
    let (packed, delta) = (Reading(scratch.at(0)), Reading(delta.at(layer.output_at)));
    let input = Reading(input.at(layer.input_at));
    let out = Shared(input_delta.at_mut(layer.input_at));
    let (positions, row_len) = (layer.positions(), layer.width * layer.channels);
    run_tasks(pass.agents * pass.batch, flops(pass, layer), |task| {
        let agent = task / pass.batch;
        let out = out.at(task * layer.input_pitch);
        let delta = delta.at(task * layer.output_pitch);
        let len = layer.input_len();
        // SAFETY: as in `forward`; every task has its own sample.
        unsafe { std::slice::from_raw_parts_mut(out, len).fill(0.0) };
        for panel in 0..panels {
            let (row, from) = (panel / per_line, panel % per_line * width);
            for first in (0..positions).step_by(ROWS) {
                let position = |r: usize| (first + r).min(positions - 1);
                let tile = Tile {
                    rows: std::array::from_fn(|r| delta.wrapping_add(position(r) * layer.filters)),
                    outs: std::array::from_fn(|r| {
                        out.wrapping_add(patch_at(layer, position(r)) + row * row_len + from)
                    }),
                    count: ROWS.min(positions - first),
                    sum: Sum::line(layer.filters, 1),
                    b: packed.at((agent * panels + panel) * panel_len),
                    b_step: width,
                    columns: width.min(line - from),
                    start: Start::Zero,
                    end: End::Add,
                };
                unsafe { (kernels.tile)(&tile) }
            }
        }
        unsafe { (kernels.gate)(input.at(task * layer.input_pitch), out, len) };
    });
}
