//! The text of a population's kernels: the general ones with every shape put in as a constant.

use super::direct::{BLOCK_SHARED, Direct, DirectWeights, Room};
use super::net::net_header;
use super::shapes::{Cut, Precision, Trunk};
use super::warpgroups::Warpgroups;
use crate::architecture::Input;

const PARTS: [&str; 13] = [
    include_str!("kernels/words.cuh"),
    include_str!("kernels/product.cuh"),
    include_str!("kernels/layers.cuh"),
    include_str!("kernels/linear.cuh"),
    include_str!("kernels/stream.cuh"),
    include_str!("kernels/head.cuh"),
    include_str!("kernels/matrices.cuh"),
    include_str!("kernels/copied.cuh"),
    include_str!("kernels/direct.cuh"),
    include_str!("kernels/direct_weights.cuh"),
    include_str!("kernels/tensor_cores.cuh"),
    include_str!("kernels/warpgroup.cuh"),
    include_str!("kernels/warpgroup_gradients.cuh"),
];

/// The size of a population, on which tiles and splits depend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size<'a> {
    pub outputs: &'a [usize],
    pub batch: usize,
    pub target: Target,
    pub precision: Precision,
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

impl Size<'_> {
    pub fn agents(&self) -> usize {
        self.outputs.len()
    }

    /// The width of the widest head.
    pub fn widest(&self) -> usize {
        self.outputs.iter().copied().max().unwrap_or(0)
    }

    /// Outputs of a layer; the head counts with its widest.
    pub fn filters(&self, layer: &crate::layout::Affine) -> usize {
        if layer.filters == 0 { self.widest() } else { layer.filters }
    }

    /// Samples of a network, and networks.
    fn samples(&self, acting: bool) -> (usize, usize) {
        match (acting, passes_apart(self.agents())) {
            (true, _) => (1, self.agents()),
            (false, true) => (self.batch, self.agents()),
            (false, false) => (self.batch, 2 * self.agents()),
        }
    }

    /// How the forward pass of layer l of a trunk is cut if it is a direct convolution.
    pub fn direct_forward(&self, trunk: &Trunk, l: usize, acting: bool) -> Option<Direct> {
        let (batch, networks) = self.samples(acting);
        let bytes = if l == 0 { 1 } else { 2 };
        Direct::forward(trunk.layer(l), bytes, batch, networks, self.target.processors, self.precision)
    }

    /// Whether warpgroups convolve in layer l; they take the first layer's input as planes.
    fn by_warpgroups(&self, trunk: &Trunk, l: usize) -> bool {
        self.target.warpgroups && self.precision == Precision::Bf16 && (l > 0 || self.planes_apart(trunk))
    }

    /// How the forward pass of layer l is cut if warpgroups convolve.
    pub fn warpgroup_forward(&self, trunk: &Trunk, l: usize, acting: bool) -> Option<Warpgroups> {
        let (batch, networks) = self.samples(acting);
        if acting || !self.by_warpgroups(trunk, l) {
            return None;
        }
        Warpgroups::forward(trunk.layer(l), l == 0, batch, networks, self.target.processors)
    }

    /// Bytes of shared memory that the block of a streaming layer takes on a multiprocessor.
    fn streaming(&self, trunk: &Trunk) -> Option<usize> {
        let streamed = |l: &usize| trunk.streamed(*l, self.batch, self.precision, self.target);
        let l = (0..trunk.layers.len()).find(streamed)?;
        Some(stream_shared(trunk.layer(l).filters, self.batch))
    }

    /// Bytes of shared memory that a warpgroups' block of a convolution's backward pass may take: beside a streaming layer's
    /// block in populations of any size.
    fn shared_room(&self, trunk: &Trunk) -> usize {
        self.target.shared.saturating_sub(self.streaming(trunk).map_or(0, |taken| taken + 1024))
    }

    /// How the gradient of the input of layer l is cut if warpgroups convolve.
    pub fn warpgroup_input_gradient(&self, trunk: &Trunk, l: usize) -> Option<Warpgroups> {
        if !self.by_warpgroups(trunk, l) {
            return None;
        }
        let (processors, room) = (self.target.processors, self.shared_room(trunk));
        Warpgroups::input_gradient(trunk.layer(l), self.batch, self.agents(), processors, room)
    }

    /// How the gradient of the weights of layer l is cut if warpgroups convolve.
    pub fn warpgroup_weights(&self, trunk: &Trunk, l: usize) -> Option<Warpgroups> {
        if !self.by_warpgroups(trunk, l) {
            return None;
        }
        let (processors, room) = (self.target.processors, self.shared_room(trunk));
        Warpgroups::weights(trunk.layer(l), l == 0, self.batch, self.agents(), processors, room)
    }

    /// What the backward pass of the convolutions has: a streaming layer's block leaves room beside it for theirs.
    fn room(&self, trunk: &Trunk) -> Room {
        match self.streaming(trunk) {
            Some(taken) if self.agents() >= BESIDE_FROM => Room::beside(taken),
            _ => Room::ALL,
        }
    }

    /// How the gradient of the input of layer l is cut if it is a direct convolution.
    pub fn direct_input_gradient(&self, trunk: &Trunk, l: usize) -> Option<Direct> {
        let (processors, room) = (self.target.processors, self.room(trunk));
        Direct::input_gradient(trunk.layer(l), self.batch, self.agents(), processors, self.precision, room)
    }

    /// How the gradient of the weights of layer l is cut if it is a direct one.
    pub fn direct_weights(&self, trunk: &Trunk, l: usize) -> Option<DirectWeights> {
        let (bytes, processors) = (if l == 0 { 1 } else { 2 }, self.target.processors);
        let (layer, room) = (trunk.layer(l), self.room(trunk));
        DirectWeights::new(layer, bytes, self.batch, self.agents(), processors, self.precision, room)
    }

    /// Whether the passes of layer l multiply by copies of its weights.
    pub fn copied(&self, trunk: &Trunk, l: usize) -> bool {
        trunk.copied(l, self.batch, self.precision, self.target)
    }

    /// Whether any pass of layer l multiplies by bf16 copies of its weights.
    pub fn by_copies(&self, trunk: &Trunk, l: usize) -> bool {
        let direct = |acting: bool| self.direct_forward(trunk, l, acting).is_some();
        self.copied(trunk, l)
            || direct(false)
            || direct(true)
            || (l > 0 && self.direct_input_gradient(trunk, l).is_some())
            || self.warpgroup_forward(trunk, l, false).is_some()
            || (l > 0 && self.warpgroup_input_gradient(trunk, l).is_some())
    }

    /// Whether the first layer takes the planes of a minibatch from where they are: if all its kernels can, and copies of 16
    /// bytes suit whatever part of a plane they need.
    pub fn planes_apart(&self, trunk: &Trunk) -> bool {
        let a = trunk.layer(0);
        // The kernels keep the table of a network in shared memory.
        let table = 8 * a.channels * self.batch;
        let forward = self.direct_forward(trunk, 0, false).map(|direct| direct.shared);
        let weights = self.direct_weights(trunk, 0).map(|direct| direct.shared);
        matches!(trunk.input, Input::Planes { channels: 4, .. })
            && [forward, weights].iter().all(|used| used.is_some_and(|used| used + table <= BLOCK_SHARED))
            && [a.stride, a.kernel, a.height].iter().all(|rows| (rows * a.width).is_multiple_of(16))
    }

    /// How the forward pass of layer l is cut, for a minibatch or for acting (one sample).
    pub fn forward(&self, trunk: &Trunk, l: usize, acting: bool) -> Cut {
        let (layer, (batch, networks)) = (trunk.layer(l), self.samples(acting));
        if self.copied(trunk, l) {
            return Cut::copied_forward(layer, batch, networks, self.target.processors);
        }
        // The head's two passes are separate, because targets are made between them.
        let networks = if layer.filters == 0 { self.agents() } else { networks };
        Cut::forward(layer, self.filters(layer), batch, networks, self.target.processors, self.precision)
    }

    /// How the gradient of a layer's input is cut if it is no direct convolution.
    pub fn input_gradient(&self, layer: &crate::layout::Affine) -> Cut {
        Cut::input_gradient(layer, self.batch, self.agents(), self.target.processors, self.precision)
    }
}

/// Whether the target networks run beside the online ones, and not in the same kernels. A large population fills the device
/// with either; then each fills the ends of the other's kernels, and the targets are made while the online networks go on.
/// An H200 in bf16 gains 3% with 5 agents and loses 2% with 4.
pub(super) fn passes_apart(agents: usize) -> bool {
    agents >= 5
}

/// The CUDA C of all kernels of a population of networks; `outputs` are the widths of their heads.
///
/// ```
/// use spectral_nn::cuda::{Precision, Target, Trunk, network_source};
/// use spectral_nn::{Architecture, Head, Input};
/// let shape = Architecture::suited(Input::Vector { len: 4 }, Head::new(2, 1));
/// let target = Target { processors: 132, hopper: true, warpgroups: true, shared: 232_448 };
/// let text = network_source(&Trunk::new(&shape)?, &[2], 32, target, Precision::Bf16);
/// assert!(text.contains(" forward_0("));
/// # Ok::<(), spectral_nn::ArchitectureError>(())
/// ```
pub fn network_source(
    trunk: &Trunk,
    outputs: &[usize],
    batch: usize,
    target: Target,
    precision: Precision,
) -> String {
    let size = Size { outputs, batch, target, precision };
    let mut text = format!("#define MODE {}\n", precision.mode());
    if target.warpgroups {
        text.push_str("#define WARPGROUPS\n");
    }
    if target.hopper {
        text.push_str(&format!(
            "#define STREAM_WARPS {STREAM_WARPS}\n#define STREAM_STAGES {STREAM_STAGES}\n"
        ));
    }
    text.push_str(&net_header());
    for part in PARTS {
        text.push_str(part);
    }
    for l in 0..trunk.all().len() {
        layer(&mut text, trunk, l, size);
    }
    text
}

fn layer(text: &mut String, trunk: &Trunk, l: usize, size: Size<'_>) {
    let a = trunk.layer(l);
    let head = a.filters == 0;
    let input_of = |acting: bool| match trunk.input {
        Input::Planes { .. } if l == 0 && !acting && size.planes_apart(trunk) => "planar",
        Input::Planes { .. } if l == 0 => "u8",
        Input::Vector { .. } if l == 0 => "float",
        _ => "act_t",
    };
    let input = input_of(false);
    let (output, delta) = if head { ("float", "float") } else { ("act_t", "act_t") };
    let mut out = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    out(format!(
        "typedef Layer<{}, {}, {}, {}, {}, {}, {}, {}> L{l};",
        a.height, a.width, a.channels, a.kernel, a.stride, a.filters, a.relu, a.weights_at
    ));
    for acting in [false, true] {
        let cut = size.forward(trunk, l, acting);
        // Direct convolutions wait when they have their weights.
        let waits = acting && size.direct_forward(trunk, l, acting).is_none();
        let wait = if waits { "wait_for_previous(); " } else { "" };
        let (name, batch) = if acting { ("act", 1) } else { ("forward", size.batch) };
        let input = input_of(acting);
        let by_warpgroups = |way: Warpgroups| {
            let (first, rest) = (format!("L{l}, {input}"), "nets, agents, first, input, output, scale");
            way.call("warpgroup_forward", "CellShape", &first, batch, rest)
        };
        let otherwise = || match size.direct_forward(trunk, l, acting) {
            Some(direct) => (
                direct.bounds(),
                direct.assertion(&format!("ForwardShape<L{l}, {input}, {}>", direct.forward_arguments()))
                    + &format!(
                        " direct_forward<L{l}, {input}, {}, {batch}, {acting}>(nets, agents, first, input, output, scale)",
                        direct.forward_arguments()
                    ),
            ),
            None if trunk.short_head(l, batch, size.precision) => (
                "256".into(),
                format!("head<L{l}, {input}, {batch}>(nets, agents, first, input, output, pitch, scale)"),
            ),
            None if size.copied(trunk, l) => (
                cut.tile.threads().to_string(),
                format!(
                    "static_assert(Copied<{tile}, false>::BYTES == {}, \"shared memory as planned\"); \
                     copied_forward<L{l}, {tile}, {batch}>(nets, agents, first, input, output, pitch, scale, workspace, \
                     tickets)",
                    cut.copied_shared(false),
                    tile = cut.tile.text(),
                ),
            ),
            None => (
                cut.tile.threads().to_string(),
                format!(
                    "forward<L{l}, {input}, {output}, {}, {batch}>(nets, agents, first, input, output, pitch, scale, \
                     workspace, tickets)",
                    cut.tile.text()
                ),
            ),
        };
        let warpgroups = size.warpgroup_forward(trunk, l, acting).map(by_warpgroups);
        let (bounds, call) = warpgroups.unwrap_or_else(otherwise);
        out(format!(
            "extern \"C\" __global__ void __launch_bounds__({bounds}) {name}_{l}(const Net* nets, int agents, int first, \
             const {input}* input, {output}* output, int pitch, float scale, float* workspace, u32* tickets) {{ {wait}{call}; }}",
        ));
    }
    let batch = size.batch;
    let streamed = trunk.streamed(l, batch, size.precision, size.target);
    if trunk.fused(l, batch, size.precision, size.target) && !streamed {
        let even = size.outputs.iter().all(|n| n.is_multiple_of(2)) || !head;
        let vector = even && a.filters.is_multiple_of(2) && a.weights_at.is_multiple_of(2);
        let apart = trunk.learns_apart(l);
        // In two launches, each needs one kind of the head's gradients only.
        let both = head && !apart;
        let mut backward = |name: &str, down: bool, learn: bool| {
            out(format!(
                "extern \"C\" __global__ void __launch_bounds__(256, {}) {name}_{l}(const Net* nets, const {input}* input, \
                 const {delta}* last, const {delta}* trunk, int pitch, float scale, act_t* input_delta) {{ \
                 static_assert(Backward<{delta}, {both}, {batch}>::SHARED == {}, \"as the host reckons\"); \
                 linear_backward<L{l}, {input}, {delta}, {both}, {vector}, {down}, {learn}, {batch}>(nets, input, last, \
                 trunk, pitch, scale, input_delta); }}",
                BACKWARD_BLOCKS,
                backward_shared(both, batch, size.precision),
            ))
        };
        if apart {
            backward("down", true, false);
        }
        backward("backward", l > 0 && !apart, true);
        return;
    }
    if l > 0 {
        let cut = size.input_gradient(a);
        let tile = cut.tile.text();
        let by_warpgroups = |way: Warpgroups| {
            let (first, rest) = (format!("L{l}"), "nets, delta, input, input_delta");
            way.call("warpgroup_input_gradient", "DependentShape", &first, batch, rest)
        };
        let otherwise = || match size.direct_input_gradient(trunk, l) {
            Some(direct) => (
                direct.bounds(),
                direct.assertion(&format!("GradientShape<L{l}, {}>", direct.gradient_arguments()))
                    + &format!(
                        " direct_input_gradient<L{l}, {}, {batch}>(nets, delta, input, input_delta)",
                        direct.gradient_arguments()
                    ),
            ),
            None if size.copied(trunk, l) => (
                cut.tile.threads().to_string(),
                format!(
                    "static_assert(Copied<{tile}, true>::BYTES == {}, \"shared memory as planned\"); \
                     copied_input_gradient<L{l}, {tile}, {batch}>(nets, delta, input, input_delta)",
                    cut.copied_shared(true),
                ),
            ),
            None => (
                cut.tile.threads().to_string(),
                format!(
                    "input_gradient<L{l}, {delta}, {tile}, {batch}>(nets, delta, pitch, input, input_delta)"
                ),
            ),
        };
        let (bounds, call) =
            size.warpgroup_input_gradient(trunk, l).map(by_warpgroups).unwrap_or_else(otherwise);
        out(format!(
            "extern \"C\" __global__ void __launch_bounds__({bounds}) down_{l}(const Net* nets, const {delta}* delta, \
             int pitch, const act_t* input, act_t* input_delta) {{ {call}; }}",
        ));
    }
    if streamed {
        out(format!(
            "extern \"C\" __global__ void __launch_bounds__({STREAM_THREADS}, {}) backward_{l}(const Net* nets, \
             int agents, const {input}* input, const {delta}* delta, float scale) {{ \
             typedef Streamed<L{l}, {batch}> Z; \
             static_assert(Z::SHARED == {} && Z::THREADS + 32 == {STREAM_THREADS}, \"as the host reckons\"); \
             linear_stream<L{l}, {input}, {delta}, {batch}>(nets, agents, input, delta, scale); }}",
            if size.precision == Precision::Bf16 { STREAM_ROOM } else { 1 },
            stream_shared(a.filters, batch),
        ));
        return;
    }
    let by_warpgroups = |way: Warpgroups| {
        let (first, rest) = (format!("L{l}, {input}"), "input, delta, scale, partial, most");
        way.call("warpgroup_weight_gradient", "CellWeightsShape", &first, batch, rest)
    };
    let otherwise = || match size.direct_weights(trunk, l) {
        Some(direct) => {
            let arguments = direct.arguments();
            let assertion = direct.assertion(&format!("WeightsShape<L{l}, {input}, {arguments}>"));
            let call = format!(
                "{assertion} direct_weight_gradient<L{l}, {input}, {arguments}, {batch}>(input, delta, scale, partial, most)"
            );
            (direct.bounds(), call)
        }
        None => {
            let cut = weight_cut(trunk, l, size);
            let call = format!(
                "weight_gradient<L{l}, {input}, {delta}, {}, {batch}>(nets, input, delta, pitch, scale, partial, most)",
                cut.tile.text()
            );
            (cut.tile.threads().to_string(), call)
        }
    };
    let (bounds, call) = size.warpgroup_weights(trunk, l).map(by_warpgroups).unwrap_or_else(otherwise);
    out(format!(
        "extern \"C\" __global__ void __launch_bounds__({bounds}) weights_{l}(const Net* nets, const {input}* input, \
         const {delta}* delta, int pitch, float scale, float* partial, int most) {{ {call}; }}",
    ));
    out(format!(
        "extern \"C\" __global__ void __launch_bounds__(256) step_{l}(const Net* nets, const float* partial, int splits, \
         int most) {{ step<L{l}>(nets, partial, splits, most); }}"
    ));
}

pub(super) fn weight_cut(trunk: &Trunk, l: usize, size: Size<'_>) -> Cut {
    let a = trunk.layer(l);
    let filters = size.filters(a);
    Cut::weight_gradient(a, filters, size.batch, size.agents(), size.target.processors, size.precision)
}

/// Blocks of `linear_backward` that share a multiprocessor.
const BACKWARD_BLOCKS: usize = 2;

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
const STREAM_STAGES: usize = 2;
/// Inputs of a tile.
pub(super) const STREAM_INPUTS: usize = 8;
/// Blocks as large as one of `linear_stream` that a multiprocessor should find registers for: so few each that every quarter of
/// the multiprocessor has half of its registers left for a convolution. TF32 has no direct ones, and so few would not suffice for its own.
const STREAM_ROOM: usize = 3;
/// The smallest population whose convolutions are cut to run beside it: smaller ones leave room anyway.
const BESIDE_FROM: usize = 4;

/// Threads of a block of `linear_stream`; one warp only copies.
pub(super) const STREAM_THREADS: usize = 32 * (STREAM_WARPS + 1);

/// Bytes of dynamic shared memory that `linear_stream` needs; the same arithmetic as `Streamed` in `stream.cuh`.
pub(super) fn stream_shared(units: usize, batch: usize) -> usize {
    let stage = 3 * STREAM_INPUTS * (units + 8);
    let inputs = batch.next_multiple_of(16) * (STREAM_INPUTS + 1);
    4 * (STREAM_STAGES * stage + 2 * inputs + 4 * STREAM_STAGES)
}
