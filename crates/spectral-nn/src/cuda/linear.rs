//! The arithmetic of the fully connected layers' backward kernels, which `linear.cuh` and `stream.cuh` repeat and assert.

use super::shapes::Precision;

/// Threads of a block of `linear_backward`, and how many blocks share a multiprocessor.
pub(super) const BACKWARD_THREADS: usize = 256;
pub(super) const BACKWARD_BLOCKS: usize = 2;

/// How many blocks share the tiles of inputs of one agent's layer. More blocks balance better; each has to load the
/// output gradients first, which costs about a third of a tile's time.
pub(super) fn backward_blocks(inputs: usize, agents: usize, processors: usize) -> usize {
    let tiles = inputs.div_ceil(32);
    let cost = |&blocks: &usize| {
        let waves = (blocks * agents).div_ceil(BACKWARD_BLOCKS * processors);
        (waves * (3 * tiles.div_ceil(blocks) + 1), tiles - blocks)
    };
    (1..=tiles).min_by_key(cost).unwrap_or(1)
}

/// Bytes of dynamic shared memory that `linear_backward` needs; the same arithmetic as `Backward` in `linear.cuh`.
pub(super) fn backward_shared(head: bool, batch: usize, precision: Precision) -> usize {
    let per_word = if precision == Precision::Bf16 { 2 } else { 1 };
    let samples = batch.next_multiple_of(16);
    let slab = 16384 / samples.max(32) / 16 * 16;
    let deltas = samples * (slab + 4 * per_word) / per_word;
    4 * ((1 + usize::from(head)) * deltas + 5 * samples * 33)
}

/// Warps of a block of `linear_stream` that compute, and how many tiles of parameters are in shared memory at once.
pub(super) const STREAM_WARPS: usize = 8;
pub(super) const STREAM_STAGES: usize = 2;
/// Inputs of a tile, and the most units of one; wider layers are cut into slabs.
pub(super) const STREAM_INPUTS: usize = 8;
pub(super) const STREAM_SLAB: usize = 512;
/// Threads of a block of `linear_stream`; one warp only copies.
pub(super) const STREAM_THREADS: usize = 32 * (STREAM_WARPS + 1);

/// Blocks as large as one of `linear_stream` that a multiprocessor should find registers for: so few each that every quarter of
/// the multiprocessor has half of its registers left for a convolution. TF32 has no direct ones, and so few would not suffice for its own.
pub(super) fn stream_blocks(precision: Precision) -> usize {
    if precision == Precision::Bf16 { 3 } else { 1 }
}

/// Bytes of dynamic shared memory that `linear_stream` needs; the same arithmetic as `Streamed` in `stream.cuh`.
pub(super) fn stream_shared(units: usize, batch: usize) -> usize {
    let stage = 3 * STREAM_INPUTS * (units.min(STREAM_SLAB) + 8);
    let inputs = batch.next_multiple_of(16) * (STREAM_INPUTS + 1);
    4 * (STREAM_STAGES * stage + 2 * inputs + 4 * STREAM_STAGES)
}

/// Tiles of all agents' layers.
pub(super) fn stream_tiles(units: usize, inputs: usize, agents: usize) -> usize {
    agents * units.div_ceil(STREAM_SLAB) * inputs / STREAM_INPUTS
}
