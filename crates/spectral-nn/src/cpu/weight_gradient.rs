//! Gradients of a layer's weights and biases.

use super::affine::{Checked, check, find_sparse_inputs, flops};
use super::kernels::{End, Kernels, ROWS, Sparse, Start, Sum, Tile};
use super::{Floats, Reading, Shared, run_tasks};
use crate::backend::Pass;
use crate::layout::Affine;

/// Rows of weights per task.
const TASK_WEIGHTS: usize = 32;
/// Positions that are summed at a time: they and their inputs stay in the cache for all weights.
const POSITIONS: usize = 256;
/// Largest batch whose zeros are skipped.
const SPARSE_BATCH: usize = 128;

pub(crate) fn weight_gradient(
    kernels: &Kernels,
    sparse: &mut [bool],
    pass: Pass,
    layer: &Affine,
    input: &Floats,
    delta: &Floats,
    gradients: &mut Floats,
) {
    check(pass, layer, Checked { parameters: gradients, input, output: delta, sparse });
    if pass.batch <= SPARSE_BATCH {
        find_sparse_inputs(kernels, pass, layer, sparse, input);
    } else {
        sparse.fill(false);
    }
    let weights = layer.fan_in();
    let groups = weights.div_ceil(TASK_WEIGHTS);
    let (input, delta) = (Reading(input.at(layer.input_at)), Reading(delta.at(layer.output_at)));
    let out = Shared(gradients.at_mut(layer.weights_at));
    let delta_step = if layer.is_linear() { layer.output_pitch } else { layer.filters };
    // One task more per agent: the biases.
    run_tasks(pass.agents * (groups + 1), flops(pass, layer), |task| {
        let (agent, group) = (task / (groups + 1), task % (groups + 1));
        let part = Part {
            kernels,
            layer,
            batch: pass.batch,
            input: input.at(agent * pass.batch * layer.input_pitch),
            delta: delta.at(agent * pass.batch * layer.output_pitch),
            delta_step,
            out: out.at(agent * pass.stride),
            weights: group * TASK_WEIGHTS..weights.min((group + 1) * TASK_WEIGHTS),
        };
        // SAFETY: all addresses lie within the buffers, as was checked, and loads within their slack; tasks write disjoint rows
        // of weights, or the biases behind them.
        unsafe {
            if group == groups {
                let rows = pass.batch * layer.positions();
                let biases = part.out.add(weights * layer.filters);
                (kernels.column_sums)(part.delta, rows, delta_step, layer.filters, biases);
            } else if sparse[agent] {
                part.skip_zeros();
            } else {
                part.tiles();
            }
        }
    });
}

/// Some rows of one agent's weights.
struct Part<'a> {
    kernels: &'a Kernels,
    layer: &'a Affine,
    batch: usize,
    input: *const f32,
    delta: *const f32,
    delta_step: usize,
    out: *mut f32,
    weights: std::ops::Range<usize>,
}

impl Part<'_> {
    /// # Safety
    /// The part's addresses must be valid, and its rows of weights this caller's alone.
    unsafe fn tiles(&self) {
        let layer = self.layer;
        let linear = layer.is_linear();
        let (line, row_len) = (layer.kernel * layer.channels, layer.width * layer.channels);
        let step = if linear { self.batch } else { POSITIONS.div_ceil(layer.positions()).min(self.batch) };
        for sample in (0..self.batch).step_by(step) {
            let samples = step.min(self.batch - sample);
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
            let input = self.input.wrapping_add(sample * layer.input_pitch);
            let delta = self.delta.wrapping_add(sample * layer.output_pitch);
            for first in self.weights.clone().step_by(ROWS) {
                let weight = |r: usize| (first + r).min(self.weights.end - 1);
                let rows = std::array::from_fn(|r| {
                    let k = weight(r);
                    input.wrapping_add(if linear { k } else { k / line * row_len + k % line })
                });
                let tile = Tile {
                    rows,
                    outs: std::array::from_fn(|r| self.out.wrapping_add(weight(r) * layer.filters)),
                    count: ROWS.min(self.weights.end - first),
                    sum,
                    b: delta,
                    b_step: self.delta_step,
                    columns: layer.filters,
                    start: if sample == 0 { Start::Zero } else { Start::Outputs },
                    end: End::Store,
                };
                // SAFETY: rows of inputs, outputs and the output gradients are those of this part's samples.
                unsafe { (self.kernels.tile)(&tile) }
            }
        }
    }

    /// For a fully connected layer: each row of weights over the samples in which its input is not 0.
    ///
    /// # Safety
    /// As for `tiles`; and the batch is no larger than `SPARSE_BATCH`.
    unsafe fn skip_zeros(&self) {
        let mut turned = [const { std::mem::MaybeUninit::<f32>::uninit() }; TASK_WEIGHTS * SPARSE_BATCH];
        let turned = turned.as_mut_ptr().cast::<f32>();
        let from = (self.input.wrapping_add(self.weights.start), self.layer.input_pitch);
        // SAFETY: at most `SPARSE_BATCH` samples of at most `TASK_WEIGHTS` inputs, which fill as many rows and columns of `turned`.
        unsafe { (self.kernels.turn)((self.batch, self.weights.len()), from, (turned, SPARSE_BATCH), None) };
        let product = Sparse {
            rows: self.weights.len(),
            factors: turned,
            factors_pitch: SPARSE_BATCH,
            len: self.batch,
            b: self.delta,
            b_step: self.delta_step,
            b_turned: false,
            gates: None,
            out: self.out.wrapping_add(self.weights.start * self.layer.filters),
            out_pitch: self.layer.filters,
            columns: self.layer.filters,
            start: Start::Zero,
            end: End::Store,
        };
        // SAFETY: factors are the rows that were just written, as far as `len` goes; the rest is this part's.
        unsafe { (self.kernels.sparse)(&product) }
    }
}
