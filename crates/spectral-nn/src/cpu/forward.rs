//! Outputs of a layer.

use super::affine::{Checked, Walk, check, find_sparse_inputs, flops, patch};
use super::kernels::{End, Kernels, ROWS, Sparse, Start, Sum, Tile};
use super::{Floats, Reading, Shared, run_tasks};
use crate::backend::Pass;
use crate::layout::Affine;

/// Rows of one task: enough to reuse its weights, few enough to share.
const TASK_ROWS: usize = 128;
/// Longest sum between two visits to the same outputs, so that the weights it needs stay in the cache.
const SUM_BLOCK: usize = 256;
/// Columns of weights beyond which a strip of them is copied together before use: their rows lie too far apart for
/// the caches.
const WIDE: usize = 256;

pub(crate) fn forward(
    kernels: &Kernels,
    sparse: &mut [bool],
    pass: Pass,
    layer: &Affine,
    parameters: &Floats,
    input: &Floats,
    output: &mut Floats,
) {
    check(pass, layer, Checked { parameters, input, output, sparse });
    find_sparse_inputs(kernels, pass, layer, sparse, input);
    let rows = pass.batch * layer.positions();
    let (strips, blocks) = (layer.filters.div_ceil(kernels.row_width), rows.div_ceil(TASK_ROWS));
    let (input, weights) = (Reading(input.at(layer.input_at)), Reading(parameters.at(layer.weights_at)));
    let output = Shared(output.at_mut(layer.output_at));
    run_tasks(pass.agents * strips * blocks, flops(pass, layer), |task| {
        let (agent, block, strip) = (task / strips / blocks, task / strips % blocks, task % strips);
        let first_column = strip * kernels.row_width;
        let part = Part {
            kernels,
            layer,
            input: input.at(agent * pass.batch * layer.input_pitch),
            weights: weights.at(agent * pass.stride),
            output: output.at(agent * pass.batch * layer.output_pitch),
            rows: block * TASK_ROWS..rows.min((block + 1) * TASK_ROWS),
            columns: first_column..layer.filters.min(first_column + kernels.row_width),
        };
        // SAFETY: `check` has made sure that all of the layer's inputs, outputs and parameters lie within the buffers; loads
        // beyond them end within the slack. Every task has its own rows and columns of its agent's outputs.
        unsafe {
            if sparse[agent] {
                part.skip_zeros();
            } else if rows == 1 {
                part.row();
            } else {
                part.tiles();
            }
        }
    });
}

/// A block of one agent's outputs: rows are patches, columns are filters.
struct Part<'a> {
    kernels: &'a Kernels,
    layer: &'a Affine,
    input: *const f32,
    weights: *const f32,
    output: *mut f32,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
}

impl Part<'_> {
    fn bias(&self, column: usize) -> *const f32 {
        self.weights.wrapping_add(self.layer.bias_at() - self.layer.weights_at + column)
    }

    /// Where a row's patch and its outputs start.
    fn place(&self, row: usize) -> (*const f32, *mut f32) {
        let (input, output) = Walk::new(self.layer, row).next();
        (self.input.wrapping_add(input), self.output.wrapping_add(output + self.columns.start))
    }

    fn end(&self, last: bool) -> End {
        if last && self.layer.relu { End::Relu } else { End::Store }
    }

    /// # Safety
    /// The part's addresses must be valid, and its outputs this caller's alone.
    unsafe fn tiles(&self) {
        let (layer, width) = (self.layer, self.kernels.width);
        let whole = patch(layer);
        // A convolution's sums are short; only a fully connected layer's are cut.
        let step = if layer.is_linear() { SUM_BLOCK } else { whole.inner };
        let packs = layer.is_linear() && layer.filters > WIDE && self.rows.len() > ROWS;
        let mut packed = [const { std::mem::MaybeUninit::<f32>::uninit() }; SUM_BLOCK * 32];
        // Packed columns are taken strip by strip; others all at once, row by row.
        let width = if packs { width } else { self.columns.len() };
        for column in self.columns.clone().step_by(width) {
            for skipped in (0..whole.inner).step_by(step) {
                let inner = step.min(whole.inner - skipped);
                let mut b = (self.weights.wrapping_add(skipped * layer.filters + column), layer.filters);
                if packs {
                    for i in 0..inner {
                        let to = packed.as_mut_ptr().cast::<f32>().wrapping_add(i * width);
                        // SAFETY: row `i` of at most `SUM_BLOCK`; a strip is at most 32 wide, and what is read beyond
                        // its last column lies within the slack.
                        unsafe { std::ptr::copy_nonoverlapping(b.0.add(i * b.1), to, width) };
                    }
                    b = (packed.as_ptr().cast(), width);
                }
                let mut walk = Walk::new(layer, self.rows.start);
                for row in self.rows.clone().step_by(ROWS) {
                    let count = ROWS.min(self.rows.end - row);
                    let places = walk.next_rows(count);
                    let tile = Tile {
                        rows: places.map(|(at, _)| self.input.wrapping_add(at + skipped)),
                        outs: places.map(|(_, at)| self.output.wrapping_add(at + column)),
                        count,
                        sum: Sum { inner, ..whole },
                        b: b.0,
                        b_step: b.1,
                        columns: width.min(self.columns.end - column),
                        start: if skipped == 0 { Start::Bias(self.bias(column)) } else { Start::Outputs },
                        end: self.end(skipped + inner == whole.inner),
                    };
                    // SAFETY: rows and outputs are those of this part, and `b` is the strip of weights or its copy, of
                    // which every row that is read was written.
                    unsafe { (self.kernels.tile)(&tile) }
                }
            }
        }
    }

    /// A single row of a fully connected layer, as when acting.
    ///
    /// # Safety
    /// As for `tiles`; and the part is of no more columns than the kernel takes.
    unsafe fn row(&self) {
        let column = self.columns.start;
        let (input, output) = self.place(0);
        let tile = Tile {
            rows: [input; ROWS],
            outs: [output; ROWS],
            count: 1,
            sum: patch(self.layer),
            b: self.weights.wrapping_add(column),
            b_step: self.layer.filters,
            columns: self.columns.len(),
            start: Start::Bias(self.bias(column)),
            end: self.end(true),
        };
        // SAFETY: the caller vouches for the part, which the tile describes.
        unsafe { (self.kernels.row)(&tile) }
    }

    /// A fully connected layer without the inputs that are 0.
    ///
    /// # Safety
    /// As for `tiles`.
    unsafe fn skip_zeros(&self) {
        let column = self.columns.start;
        let (input, output) = self.place(self.rows.start);
        let product = Sparse {
            rows: self.rows.len(),
            factors: input,
            factors_pitch: self.layer.input_pitch,
            len: self.layer.fan_in(),
            b: self.weights.wrapping_add(column),
            b_step: self.layer.filters,
            b_turned: false,
            gates: None,
            out: output,
            out_pitch: self.layer.output_pitch,
            columns: self.columns.len(),
            start: Start::Bias(self.bias(column)),
            end: self.end(true),
        };
        // SAFETY: the caller vouches for the part, which the product describes.
        unsafe { (self.kernels.sparse)(&product) }
    }
}
