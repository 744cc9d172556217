//! How the work of a layer is cut into tiles: by shapes and by how many multiprocessors have to be kept busy.

use super::device::Shape;
use super::linear::{STREAM_INPUTS, STREAM_SLAB, STREAM_WARPS, backward_shared, stream_shared};
use crate::architecture::{Architecture, ArchitectureError, Input};
use crate::layout::{Affine, Plan};
use crate::streams::DenseHead;

/// How products are made. Parameters, their moments and all sums are fp32 in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// fp32 throughout, without tensor cores: the reference.
    Fp32,
    /// Factors rounded to TF32: 10 bits of mantissa.
    Tf32,
    /// Factors and stored activations rounded to bf16: 7 bits of mantissa.
    Bf16,
}

impl Precision {
    /// The name that settings use.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }

    pub(super) fn mode(self) -> usize {
        match self {
            Precision::Fp32 => 0,
            Precision::Tf32 => 1,
            Precision::Bf16 => 2,
        }
    }

    /// Bytes of a stored activation.
    pub(super) fn activation(self) -> usize {
        if self == Precision::Bf16 { 2 } else { 4 }
    }

    /// Numbers of the reduction that pass through shared memory at a time.
    fn chunk(self) -> usize {
        if self == Precision::Bf16 { 32 } else { 16 }
    }
}

/// What the kernels must know of the device that they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Multiprocessors, all of which are to be kept busy.
    pub processors: usize,
    /// Whether it has Hopper's bulk copies (compute capability 9.0 and later).
    pub hopper: bool,
    /// Whether warpgroups can use its tensor cores as Hopper's can (compute capability 9.0 alone).
    pub warpgroups: bool,
    /// Bytes of shared memory that a block may have.
    pub shared: usize,
}

/// Warps that a multiprocessor should have to choose from, so that some can work while others wait for memory.
const WARPS: usize = 24;

/// What beginning and ending a block costs, in chunks of a reduction.
const SPLIT_COST: usize = 3;

/// Numbers of the reduction that pass through shared memory at a time where weights have bf16 copies, the stages that hold
/// them, and the blocks that share a multiprocessor; as `Copied` in `copied.cuh`.
const COPIED_CHUNK: usize = 64;
const COPIED_STAGES: usize = 3;
/// With lines along the reduction there are more blocks, which are to be at work all at once.
const COPIED_STAGES_ALONG: usize = 2;
const COPIED_BLOCKS: usize = 5;

/// The largest batch for which a layer's backward pass keeps its sums in registers.
const MAX_FUSED_BATCH: usize = 64;

/// What the networks of a population share: the input and the hidden layers. Heads have widths of their own.
#[derive(Clone, Debug)]
pub struct Trunk {
    pub(super) input: Input,
    pub(super) layers: Vec<Affine>,
    /// The head as a layer without a width; dueling streams as one, see [`DenseHead`].
    pub(super) head: Affine,
    /// The actions of dueling heads.
    pub(super) dueling: Option<usize>,
}

impl Trunk {
    /// The input and the hidden layers of an architecture.
    pub fn new(architecture: &Architecture) -> Result<Trunk, ArchitectureError> {
        let plan = Plan::new(architecture)?;
        let mut head = Affine { filters: 0, ..plan.heads[0].clone() };
        if let Some(dense) = DenseHead::of(architecture)? {
            head.channels = dense.inputs;
        }
        let dueling = architecture.head.dueling.then_some(architecture.head.actions);
        Ok(Trunk { input: architecture.input.clone(), layers: plan.trunk, head, dueling })
    }

    /// Whether two populations could be one.
    pub fn same(&self, other: &Trunk) -> bool {
        self.input == other.input && self.layers == other.layers && self.dueling == other.dueling
    }

    /// Dueling streams of so many outputs, both streams', as the kernels hold them.
    pub(super) fn dense(&self, outputs: usize) -> Option<DenseHead> {
        let value = outputs / (self.dueling? + 1);
        let (at, inputs) = self.head();
        Some(DenseHead { at, inputs, value, advantages: outputs - value })
    }

    /// Where the head's weights start within a network's parameters, and how many inputs it has.
    pub fn head(&self) -> (usize, usize) {
        (self.head.weights_at, self.head.fan_in())
    }

    /// Floats of a network whose head has this many outputs, as the kernels hold them.
    pub fn parameters(&self, outputs: usize) -> usize {
        let (at, inputs) = self.head();
        at + (inputs + 1) * outputs
    }

    /// Numbers of one input sample.
    pub fn input_len(&self) -> usize {
        self.input.len()
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Affine> + ExactSizeIterator {
        // Not a chain: that is no exact iterator.
        (0..self.layers.len() + 1).map(|l| self.layer(l))
    }

    pub(super) fn layer(&self, l: usize) -> &Affine {
        self.layers.get(l).unwrap_or(&self.head)
    }

    /// Whether layer l's gradients need not go to memory: `linear_backward` or, for some layers, `linear_stream` takes the step.
    pub(super) fn fused(&self, l: usize, batch: usize, precision: Precision, target: Target) -> bool {
        let layer = self.layer(l);
        let fits = backward_shared(layer.filters == 0, batch, precision) <= target.shared;
        layer.is_linear() && precision != Precision::Fp32 && batch <= MAX_FUSED_BATCH && fits
    }

    /// Whether layer l, whose backward pass is `linear_backward`, takes its step in a launch of its own: a head's weights are few,
    /// so that reading them twice costs less than waiting for their step.
    pub(super) fn learns_apart(&self, l: usize) -> bool {
        l > 0 && self.layer(l).filters == 0
    }

    /// Whether layer l is a head whose forward pass has a kernel of its own: see `head.cuh`.
    pub(super) fn short_head(&self, l: usize, batch: usize, precision: Precision) -> bool {
        self.layer(l).filters == 0 && precision != Precision::Fp32 && batch <= MAX_FUSED_BATCH
    }

    /// Whether layer l's parameters stream through shared memory as they are trained: see `stream.cuh`.
    pub(super) fn streamed(&self, l: usize, batch: usize, precision: Precision, target: Target) -> bool {
        let layer = self.layer(l);
        let units = layer.filters;
        // Whole tensor core tiles for every warp.
        let whole = units.is_multiple_of(16 * STREAM_WARPS)
            && (units <= STREAM_SLAB || units.is_multiple_of(STREAM_SLAB))
            && layer.fan_in().is_multiple_of(STREAM_INPUTS);
        // The copy engine moves multiples of 16 bytes.
        let aligned = layer.weights_at.is_multiple_of(4);
        let fits = units > 0 && batch <= 32 && stream_shared(units, batch) <= target.shared;
        // In bf16 the copies of its weights must suit the other passes.
        let copies = precision != Precision::Bf16
            || (layer.fan_in().is_multiple_of(COPIED_CHUNK) && layer.weights_at.is_multiple_of(8));
        target.hopper
            && self.fused(l, batch, precision, target)
            && l > 0
            && whole
            && aligned
            && fits
            && copies
    }

    /// Whether the passes of layer l multiply by bf16 copies of its weights: see `copied.cuh`.
    pub(super) fn copied(&self, l: usize, batch: usize, precision: Precision, target: Target) -> bool {
        precision == Precision::Bf16 && self.streamed(l, batch, precision, target)
    }

    /// Bytes of device memory that a population needs, but for replay: parameters, target parameters, copies and both moments,
    /// and activations and gradients for every sample.
    pub fn memory_bytes(&self, outputs: &[usize], batch: usize, precision: Precision) -> u64 {
        let agents = outputs.len() as u64;
        let parameters: u64 =
            outputs.iter().map(|&n| 4 * self.parameters(n).next_multiple_of(16) as u64).sum();
        let hidden: usize = self.layers.iter().map(Affine::output_len).sum();
        let widest = outputs.iter().copied().max().unwrap_or(0);
        let input =
            if matches!(self.input, Input::Planes { .. }) { self.input_len() } else { 4 * self.input_len() };
        let per_sample = 2 * input + 3 * precision.activation() * hidden + 4 * 4 * widest;
        // Shares of weight gradients: a rough bound of what `Cut::weight_gradient` plans.
        let shares: usize = self.layers.iter().filter(|a| !a.is_linear()).map(|a| 8 * 4 * a.end()).sum();
        // Four vectors of fp32, and copies of two in bf16.
        5 * parameters + agents * (batch * per_sample + shares) as u64
    }
}

/// A tile of outputs per block, and how its warps share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub rows: usize,
    pub columns: usize,
    warps: (usize, usize),
}

impl Tile {
    fn new(rows: usize, columns: usize) -> Tile {
        let warps = if rows <= 32 { (1, 4) } else { (rows / 32, columns / 32) };
        Tile { rows, columns, warps }
    }

    pub fn threads(&self) -> usize {
        32 * self.warps.0 * self.warps.1
    }

    /// As the kernels' template argument.
    pub fn text(&self) -> String {
        format!("Tile<{}, {}, {}, {}>", self.rows, self.columns, self.warps.0, self.warps.1)
    }
}

/// A product cut into tiles and its reduction into splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub tile: Tile,
    /// Tiles of one network.
    pub tiles: usize,
    pub splits: usize,
}

impl Cut {
    /// Cuts `rows` × `columns` outputs of each of `networks`, with sums over `depth` numbers. Splits cost a pass over
    /// what they leave, so there are only as many as keep the device busy.
    fn new(
        (rows, columns, depth): (usize, usize, usize),
        networks: usize,
        processors: usize,
        precision: Precision,
        may_split: bool,
    ) -> Cut {
        let wide = if columns <= 32 { 32 } else { 64 };
        let count = |tall: usize| rows.div_ceil(tall) * columns.div_ceil(wide);
        let tile = match rows {
            0..=16 => Tile::new(16, 64),
            17..=32 => Tile::new(32, 64),
            _ if rows >= 128 && (may_split || networks * count(128) >= 2 * processors) => {
                Tile::new(128, wide)
            }
            _ => Tile::new(64, wide),
        };
        let tiles = rows.div_ceil(tile.rows) * columns.div_ceil(tile.columns);
        let chunks = depth.div_ceil(precision.chunk());
        // Blocks that are at work at the same time. A few blocks more would take as long as twice as many.
        let resident = WARPS * processors / (tile.threads() / 32);
        let time = |&splits: &usize| {
            let rounds = (tiles * networks * splits).div_ceil(resident);
            rounds * (chunks.div_ceil(splits) + SPLIT_COST)
        };
        let most = if may_split { (chunks / 4).clamp(1, 64) } else { 1 };
        let splits = (1..=most).min_by_key(time).unwrap_or(1);
        Cut { tile, tiles, splits }
    }

    /// The launch for one network.
    pub fn launch(&self) -> Shape {
        Shape::new([self.tiles, self.splits, 1], self.tile.threads())
    }

    pub fn forward(
        layer: &Affine,
        filters: usize,
        batch: usize,
        networks: usize,
        processors: usize,
        precision: Precision,
    ) -> Cut {
        let shape = (batch * layer.positions(), filters, layer.fan_in());
        Cut::new(shape, networks, processors, precision, layer.is_linear())
    }

    /// As [`forward`](Cut::forward), with copies of the weights. A split costs the one who adds them up something, too.
    pub fn copied_forward(layer: &Affine, batch: usize, networks: usize, processors: usize) -> Cut {
        let tile = Tile::new(if batch <= 16 { 16 } else { 32 }, 64);
        let (tiles, chunks) = (layer.filters / tile.columns, layer.fan_in() / COPIED_CHUNK);
        let time = |&splits: &usize| {
            let rounds = (tiles * networks * splits).div_ceil(COPIED_BLOCKS * processors);
            4 * rounds * (chunks.div_ceil(splits) + SPLIT_COST) + splits
        };
        let splits = (1..=chunks.div_ceil(2)).min_by_key(time).unwrap_or(1);
        Cut { tile, tiles, splits }
    }

    /// Bytes of dynamic shared memory of products with copies of weights; `along`: their lines run along the reduction.
    pub fn copied_shared(&self, along: bool) -> usize {
        let line = |numbers: usize| numbers / 2 + 4;
        let (lines, length, stages) = match along {
            true => (self.tile.columns, COPIED_CHUNK, COPIED_STAGES_ALONG),
            false => (COPIED_CHUNK, self.tile.columns, COPIED_STAGES),
        };
        4 * stages * (self.tile.rows * line(COPIED_CHUNK) + lines * line(length))
    }

    pub fn input_gradient(
        layer: &Affine,
        batch: usize,
        agents: usize,
        processors: usize,
        precision: Precision,
    ) -> Cut {
        let phase = |side: usize| side.div_ceil(layer.stride);
        let rows = batch * phase(layer.height) * phase(layer.width);
        let phases = layer.stride * layer.stride;
        Cut::new((rows, layer.channels, 0), agents * phases, processors, precision, false)
    }

    pub fn weight_gradient(
        layer: &Affine,
        filters: usize,
        batch: usize,
        agents: usize,
        processors: usize,
        precision: Precision,
    ) -> Cut {
        let shape = (layer.fan_in(), filters, batch * layer.positions());
        Cut::new(shape, agents, processors, precision, true)
    }
}
