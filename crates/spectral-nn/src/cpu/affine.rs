//! Layers as tiles: which row starts, offsets and columns each tile of a product has.

use super::kernels::{End, Kernels, ROWS, Start, Sum, Tile};
use super::{Floats, Reading, Shared, run_tasks};
use crate::backend::Pass;
use crate::layout::Affine;

/// Rows of one task of a forward pass: enough to reuse a strip of weights, few enough to share.
const TASK_ROWS: usize = 512;
/// Longest sum between two visits to the same outputs, so that a strip of weights stays in the cache.
const SUM_BLOCK: usize = 512;
/// Rows of weights per task of a weight gradient.
const TASK_WEIGHTS: usize = 32;
/// Positions that a weight gradient sums at a time: they and their inputs stay in the cache for all weights.
const POSITIONS: usize = 256;

/// Floats of scratch that one agent needs for the layer's input gradient.
pub(crate) fn scratch_len(kernels: &Kernels, layer: &Affine, max_batch: usize) -> usize {
    if layer.is_linear() {
        layer.filters * max_batch.next_multiple_of(kernels.width)
    } else {
        panels(kernels, layer) * layer.filters * kernels.width
    }
}

/// Strips of kernel columns, cut anew for every kernel row, that an input gradient works on.
fn panels(kernels: &Kernels, layer: &Affine) -> usize {
    layer.kernel * (layer.kernel * layer.channels).div_ceil(kernels.width)
}

fn flops(pass: Pass, layer: &Affine) -> usize {
    2 * pass.agents * pass.batch * layer.positions() * layer.fan_in() * layer.filters
}

/// Offsets, from the start of a patch, of all its values in the order of the weights.
fn patch(layer: &Affine) -> Sum {
    if layer.is_linear() {
        Sum::line(layer.fan_in(), 1)
    } else {
        Sum {
            outer: 1,
            outer_step: 0,
            middle: layer.kernel,
            middle_step: layer.width * layer.channels,
            inner: layer.kernel * layer.channels,
            inner_step: 1,
        }
    }
}

/// Offset of a patch from the start of its sample.
fn patch_at(layer: &Affine, position: usize) -> usize {
    let (row, column) = (position / layer.out_width(), position % layer.out_width());
    (row * layer.width + column) * layer.stride * layer.channels
}

pub(crate) fn forward(
    kernels: &Kernels,
    pass: Pass,
    layer: &Affine,
    parameters: &Floats,
    input: &Floats,
    output: &mut Floats,
) {
    let positions = layer.positions();
    let rows = pass.batch * positions;
    let single = rows == 1;
    let (width, height) = if single { (kernels.row_width, 1) } else { (kernels.width, ROWS) };
    let strips = layer.filters.div_ceil(width);
    let blocks = rows.div_ceil(TASK_ROWS);
    let (input, weights) = (Reading(input.at(layer.input_at)), Reading(parameters.at(layer.weights_at)));
    let output = Shared(output.at_mut(layer.output_at));
    let end = if layer.relu { End::Relu } else { End::Store };
    run_tasks(pass.agents * strips * blocks, flops(pass, layer), |task| {
        let (agent, block, strip) = (task / strips / blocks, task / strips % blocks, task % strips);
        let weights = weights.at(agent * pass.parameters);
        let (first_row, last_row) = (block * TASK_ROWS, rows.min((block + 1) * TASK_ROWS));
        let column = strip * width;
        let bias = weights.wrapping_add(layer.bias_at() - layer.weights_at + column);
        let whole = patch(layer);
        let cuts = if layer.is_linear() { whole.inner.div_ceil(SUM_BLOCK) } else { 1 };
        for cut in 0..cuts {
            let skipped = cut * SUM_BLOCK;
            let inner = if cuts == 1 { whole.inner } else { SUM_BLOCK.min(whole.inner - skipped) };
            for row in (first_row..last_row).step_by(height) {
                let place = |r: usize| {
                    let row = (row + r).min(last_row - 1);
                    (agent * pass.batch + row / positions, row % positions)
                };
                let tile = Tile {
                    rows: std::array::from_fn(|r| {
                        let (sample, position) = place(r);
                        input.at(sample * layer.input_pitch + patch_at(layer, position) + skipped)
                    }),
                    outs: std::array::from_fn(|r| {
                        let (sample, position) = place(r);
                        output.at(sample * layer.output_pitch + position * layer.filters + column)
                    }),
                    count: height.min(last_row - row),
                    sum: Sum { inner, ..whole },
                    b: weights.wrapping_add(skipped * layer.filters + column),
                    b_step: layer.filters,
                    columns: width.min(layer.filters - column),
                    start: if cut == 0 { Start::Bias(bias) } else { Start::Outputs },
                    end: if cut + 1 == cuts { end } else { End::Store },
                };
                // SAFETY: all addresses lie within the buffers (loads within their slack); tasks write disjoint
                // rows and columns.
                unsafe { if single { (kernels.row)(&tile) } else { (kernels.tile)(&tile) } }
            }
        }
    });
}

pub(crate) fn weight_gradient(
    kernels: &Kernels,
    pass: Pass,
    layer: &Affine,
    input: &Floats,
    delta: &Floats,
    gradients: &mut Floats,
) {
    let width = kernels.width;
    let weights = layer.fan_in();
    let groups = weights.div_ceil(TASK_WEIGHTS);
    let (input, delta) = (Reading(input.at(layer.input_at)), Reading(delta.at(layer.output_at)));
    let out = Shared(gradients.at_mut(layer.weights_at));
    let positions = layer.positions();
    let linear = layer.is_linear();
    let samples = if linear { pass.batch } else { POSITIONS.div_ceil(positions).min(pass.batch) };
    let delta_step = if linear { layer.output_pitch } else { layer.filters };
    let (line, row_len) = (layer.kernel * layer.channels, layer.width * layer.channels);
    // One task more per agent: the biases.
    run_tasks(pass.agents * (groups + 1), flops(pass, layer), |task| {
        let (agent, group) = (task / (groups + 1), task % (groups + 1));
        let input = input.at(agent * pass.batch * layer.input_pitch);
        let delta = delta.at(agent * pass.batch * layer.output_pitch);
        let out = out.at(agent * pass.parameters);
        if group == groups {
            // SAFETY: the biases lie behind the weights of the layer, and belong to this task alone.
            let biases = out.wrapping_add(weights * layer.filters);
            unsafe {
                (kernels.column_sums)(delta, pass.batch * positions, delta_step, layer.filters, biases);
            }
            return;
        }
        let last = weights.min((group + 1) * TASK_WEIGHTS);
        for sample in (0..pass.batch).step_by(samples) {
            let samples = samples.min(pass.batch - sample);
            let sum = if linear {
                Sum::line(samples, layer.input_pitch)
            } else {
                Sum {
                    outer: samples,
                    outer_step: layer.input_pitch,
                    middle: layer.out_height(),
                    middle_step: layer.stride * row_len,
                    inner: layer.out_width(),
                    inner_step: layer.stride * layer.channels,
                }
            };
            let input = input.wrapping_add(sample * layer.input_pitch);
            let delta = delta.wrapping_add(sample * layer.output_pitch);
            for first in (group * TASK_WEIGHTS..last).step_by(ROWS) {
                for column in (0..layer.filters).step_by(width) {
                    let weight = |r: usize| (first + r).min(last - 1);
                    let tile = Tile {
                        rows: std::array::from_fn(|r| {
                            let k = weight(r);
                            let offset = if linear { k } else { k / line * row_len + k % line };
                            input.wrapping_add(offset)
                        }),
                        outs: std::array::from_fn(|r| out.wrapping_add(weight(r) * layer.filters + column)),
                        count: ROWS.min(last - first),
                        sum,
                        b: delta.wrapping_add(column),
                        b_step: delta_step,
                        columns: width.min(layer.filters - column),
                        start: if sample == 0 { Start::Zero } else { Start::Outputs },
                        end: End::Store,
                    };
                    // SAFETY: as in `forward`; tasks write disjoint rows of weights.
                    unsafe { (kernels.tile)(&tile) }
                }
            }
        }
    });
}

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
        let from = &delta[agent * pass.batch * layer.output_pitch..][..pass.batch * layer.output_pitch];
        let to = &mut scratch[agent * turned_len..(agent + 1) * turned_len];
        transpose(from, layer, pass.batch, to, pitch);
    }
    let (turned, weights) = (Reading(scratch.at(0)), Reading(parameters.at(layer.weights_at)));
    let input = Reading(input.at(layer.input_at));
    let out = Shared(input_delta.at_mut(layer.input_at));
    let inputs = layer.fan_in();
    let groups = inputs.div_ceil(TASK_INPUTS);
    run_tasks(pass.agents * groups, flops(pass, layer), |task| {
        let (agent, group) = (task / groups, task % groups);
        let weights = weights.at(agent * pass.parameters);
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
                for column in 0..columns {
                    let at = (agent * pass.batch + sample + column) * layer.input_pitch + first;
                    for r in 0..count {
                        // SAFETY: tasks write disjoint inputs.
                        unsafe {
                            let value = *block_start.add(r * width + column);
                            let open = *input.at(at + r) > 0.0;
                            *out.at(at + r) = if open { value } else { 0.0 };
                        }
                    }
                }
            }
        }
    });
}

/// `to[filter][sample] = from[sample][filter]`.
fn transpose(from: &[f32], layer: &Affine, batch: usize, to: &mut [f32], pitch: usize) {
    for sample in 0..batch {
        let row = &from[sample * layer.output_pitch + layer.output_at..][..layer.filters];
        for (filter, value) in row.iter().enumerate() {
            to[filter * pitch + sample] = *value;
        }
    }
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
        let weights =
            &parameters[agent * pass.parameters + layer.weights_at..][..layer.fan_in() * layer.filters];
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
