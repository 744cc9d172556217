//! What the three operations on a layer have in common.

use super::Floats;
use super::kernels::{Kernels, Sum};
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

/// Offset of a patch from the start of its sample.
pub(crate) fn patch_at(layer: &Affine, position: usize) -> usize {
    let (row, column) = (position / layer.out_width(), position % layer.out_width());
    (row * layer.width + column) * layer.stride * layer.channels
}

/// For each agent, whether so many of its factors of a product are 0 that skipping them pays. Each agent's own
/// factors decide, and the sums are the same to the last bit either way. The factors are `len` floats for each
/// sample, `pitch` apart, starting at `at`.
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
        // SAFETY: the samples lie within the buffer.
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
