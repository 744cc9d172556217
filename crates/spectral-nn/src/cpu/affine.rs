//! What the three operations on a layer have in common.

use super::Floats;
use super::kernels::{Kernels, ROWS, Sum};
use crate::backend::Pass;
use crate::layout::Affine;

/// Beyond this many units weights come from memory rather than from the caches, and skipping some gains nothing.
pub(crate) const WIDEST_SPARSE: usize = 256;

/// Floats of scratch that one agent needs for the layer's input gradient.
pub(crate) fn scratch_len(kernels: &Kernels, layer: &Affine, max_batch: usize) -> usize {
    if layer.is_linear() {
        layer.filters * max_batch.next_multiple_of(kernels.width)
    } else {
        panels(kernels, layer) * layer.filters * kernels.width
    }
}

/// Strips of kernel columns, cut anew for every kernel row, that an input gradient works on.
pub(crate) fn panels(kernels: &Kernels, layer: &Affine) -> usize {
    layer.kernel * (layer.kernel * layer.channels).div_ceil(kernels.width)
}

/// What an operation on a layer is given.
pub(crate) struct Checked<'a> {
    /// Weights and biases, or their gradients.
    pub parameters: &'a Floats,
    /// What goes into the layer.
    pub input: &'a Floats,
    /// What comes out of it, or the gradient of that.
    pub output: &'a Floats,
    pub sparse: &'a [bool],
}

/// What the unsafe code of the operations relies on: all addresses that a layer and a pass describe lie within the buffers.
/// Anybody may call the operations with anything, because they are a public interface.
///
/// # Panics
/// If they do not.
pub(crate) fn check(pass: Pass, layer: &Affine, given: Checked<'_>) {
    let fits = |sizes: [usize; 3], buffer: &Floats| {
        let needed = sizes.into_iter().try_fold(1usize, usize::checked_mul);
        needed.is_some_and(|needed| needed <= buffer.len())
    };
    let Pass { agents, batch, stride } = pass;
    assert!(
        batch > 0 && given.sparse.len() == agents,
        "a pass of {agents} agents that nothing was prepared for"
    );
    assert!(layer.is_sound(), "a layer that lies outside of its own activations: {layer:?}");
    assert!(
        layer.end() <= stride && fits([agents, stride, 1], given.parameters),
        "too few parameters for {layer:?}"
    );
    assert!(fits([agents, batch, layer.input_pitch], given.input), "too few inputs for {layer:?}");
    assert!(fits([agents, batch, layer.output_pitch], given.output), "too few outputs for {layer:?}");
}

/// Floating-point operations of a product over the whole layer.
pub(crate) fn flops(pass: Pass, layer: &Affine) -> usize {
    2 * pass.agents * pass.batch * layer.positions() * layer.fan_in() * layer.filters
}

/// Offsets, from the start of a patch, of all its values in the order of the weights.
pub(crate) fn patch(layer: &Affine) -> Sum {
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

/// Goes through the patches of a layer, sample after sample, without a division per patch.
pub(crate) struct Walk<'a> {
    layer: &'a Affine,
    out_height: usize,
    out_width: usize,
    sample: usize,
    row: usize,
    column: usize,
}

impl Walk<'_> {
    /// Starts at a patch, counted over all samples.
    pub fn new(layer: &Affine, patch: usize) -> Walk<'_> {
        let (out_height, out_width) = (layer.out_height(), layer.out_width());
        let (line, column) = (patch / out_width, patch % out_width);
        Walk { layer, out_height, out_width, sample: line / out_height, row: line % out_height, column }
    }

    /// Where the patch starts among the inputs and where its outputs start, from the layer's first of each.
    pub fn next(&mut self) -> (usize, usize) {
        let Walk { layer, sample, row, column, .. } = *self;
        let input = sample * layer.input_pitch + (row * layer.width + column) * layer.stride * layer.channels;
        let output = sample * layer.output_pitch + (row * self.out_width + column) * layer.filters;
        self.column += 1;
        if self.column == self.out_width {
            (self.row, self.column) = (row + 1, 0);
            if self.row == self.out_height {
                (self.sample, self.row) = (sample + 1, 0);
            }
        }
        (input, output)
    }

    /// The next patches, up to as many as a tile has rows; the last one is repeated to fill it.
    pub fn next_rows(&mut self, count: usize) -> [(usize, usize); ROWS] {
        let mut places = [self.next(); ROWS];
        for r in 1..ROWS {
            places[r] = if r < count { self.next() } else { places[r - 1] };
        }
        places
    }
}

/// For each agent, whether so many of its factors of a product are 0 that skipping them pays. Each agent's own
/// factors decide, and sums of finite numbers are the same to the last bit either way. The factors are `len` floats
/// for each sample, `pitch` apart, starting at `at`.
pub(crate) fn find_sparse(
    kernels: &Kernels,
    pass: Pass,
    sparse: &mut [bool],
    factors: &Floats,
    (at, pitch, len): (usize, usize, usize),
) {
    const DENSEST_PERCENT: usize = 70;
    /// Samples that are looked at.
    const PROBED: usize = 8;
    let probed = pass.batch.min(PROBED);
    for (agent, sparse) in sparse.iter_mut().enumerate() {
        let samples = agent * pass.batch..agent * pass.batch + probed;
        // SAFETY: `check` made sure that all of the pass's samples lie within the buffer, and that `sparse` has no more
        // entries than there are agents.
        let count = |sample| unsafe { (kernels.count_nonzeros)(factors.at(sample * pitch + at), len) };
        let count: usize = samples.map(count).sum();
        *sparse = 100 * count < DENSEST_PERCENT * probed * len;
    }
}

/// As [`find_sparse`], for a fully connected layer's inputs. Others are taken to be dense.
pub(crate) fn find_sparse_inputs(
    kernels: &Kernels,
    pass: Pass,
    layer: &Affine,
    sparse: &mut [bool],
    input: &Floats,
) {
    if layer.is_linear() && layer.rectified {
        find_sparse(kernels, pass, sparse, input, (layer.input_at, layer.input_pitch, layer.fan_in()));
    } else {
        sparse.fill(false);
    }
}
