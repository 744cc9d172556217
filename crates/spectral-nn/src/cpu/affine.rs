//! What the three operations on a layer have in common.

use super::Floats;
use super::kernels::{Kernels, Sum};
use crate::backend::Pass;
use crate::layout::Affine;

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

/// For each agent, whether so many inputs of a fully connected layer are 0 that skipping them pays. Each agent's own
/// inputs decide, and the sums are the same to the last bit either way.
pub(crate) fn find_sparse(
    kernels: &Kernels,
    pass: Pass,
    layer: &Affine,
    input: &Floats,
    sparse: &mut [bool],
) {
    const DENSEST_PERCENT: usize = 70;
    // Skipping reads a row of weights per input; it pays only if those are whole cache lines.
    if !(layer.is_linear() && layer.rectified && layer.filters % 16 == 0) {
        sparse.fill(false);
        return;
    }
    for (agent, sparse) in sparse.iter_mut().enumerate() {
        let samples = agent * pass.batch..(agent + 1) * pass.batch;
        let start = |sample: usize| input.at(sample * layer.input_pitch + layer.input_at);
        // SAFETY: the samples lie within the buffer.
        let count = |sample| unsafe { (kernels.count_nonzeros)(start(sample), layer.fan_in()) };
        let count: usize = samples.map(count).sum();
        *sparse = 100 * count < DENSEST_PERCENT * pass.batch * layer.fan_in();
    }
}
