//! Which kernels a population's networks use: decided once per layer and pass, from shapes, population, precision and device.
//!
//! [`NetworkPlan`] holds the decisions. [`source`](super::source) writes the kernels that it names, and
//! [`Networks`](super::Networks) launches them as it says.

use super::device::Shape;
use super::direct::{BLOCK_SHARED, Direct, DirectWeights, Room};
use super::linear::{
    BACKWARD_THREADS, STREAM_THREADS, backward_blocks, backward_shared, stream_shared, stream_tiles,
};
use super::shapes::{Cut, Precision, Target, Trunk};
use super::warpgroups::Warpgroups;
use crate::architecture::Input;
use crate::layout::Affine;

/// The smallest population whose convolutions are tiled to share multiprocessors with a streaming layer: smaller ones leave room
/// anyway.
const MIN_SHARING_AGENTS: usize = 4;

/// A layer's forward pass. Launches are for one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardKernel {
    /// A convolution by warpgroups.
    Warpgroup(Warpgroups),
    /// A direct convolution.
    Direct(Direct),
    /// A head, in so many blocks: see `head.cuh`.
    Head { blocks: usize },
    /// A product with bf16 copies of the weights: see `copied.cuh`.
    Copied(Cut),
    /// A product in tiles: any layer.
    Tiled(Cut),
}

impl ForwardKernel {
    pub fn launch(&self) -> Shape {
        match self {
            ForwardKernel::Warpgroup(way) => way.launch(),
            ForwardKernel::Direct(direct) => direct.launch(),
            ForwardKernel::Head { blocks } => Shape::new([*blocks, 1, 1], 256),
            ForwardKernel::Copied(cut) => Shape { shared: cut.copied_shared(false), ..cut.launch() },
            ForwardKernel::Tiled(cut) => cut.launch(),
        }
    }

    /// How the product is cut, if its splits have to be added up in memory.
    pub fn cut(&self) -> Option<&Cut> {
        match self {
            ForwardKernel::Copied(cut) | ForwardKernel::Tiled(cut) => Some(cut),
            _ => None,
        }
    }

    /// Whether it reads bf16 copies of the weights.
    fn reads_copies(&self) -> bool {
        !matches!(self, ForwardKernel::Head { .. } | ForwardKernel::Tiled(_))
    }
}

/// The gradient of a layer's input. Launches are for one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputGradientKernel {
    /// A convolution by warpgroups.
    Warpgroup(Warpgroups),
    /// A direct convolution.
    Direct(Direct),
    /// A product with bf16 copies of the weights: see `copied.cuh`.
    Copied(Cut),
    /// A product in tiles, one for each of so many phases of the stride: any layer.
    Tiled(Cut, usize),
}

impl InputGradientKernel {
    pub fn launch(&self) -> Shape {
        match self {
            InputGradientKernel::Warpgroup(way) => way.launch(),
            InputGradientKernel::Direct(direct) => direct.launch(),
            InputGradientKernel::Copied(cut) => Shape {
                grid: [cut.tiles, 1, 1],
                threads: cut.tile.threads(),
                shared: cut.copied_shared(true),
            },
            InputGradientKernel::Tiled(cut, phases) => {
                Shape::new([cut.tiles, *phases, 1], cut.tile.threads())
            }
        }
    }

    /// Whether it reads bf16 copies of the weights.
    fn reads_copies(&self) -> bool {
        !matches!(self, InputGradientKernel::Tiled(..))
    }
}

/// The gradient of a layer's weights, in shares that another kernel adds up. Launches are for one network; the second number of
/// the grid is the shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightGradientKernel {
    /// A convolution by warpgroups.
    Warpgroup(Warpgroups),
    /// A direct convolution.
    Direct(DirectWeights),
    /// A product in tiles: any layer.
    Tiled(Cut),
}

impl WeightGradientKernel {
    pub fn launch(&self) -> Shape {
        match self {
            WeightGradientKernel::Warpgroup(way) => way.launch(),
            WeightGradientKernel::Direct(direct) => direct.launch(),
            WeightGradientKernel::Tiled(cut) => cut.launch(),
        }
    }
}

/// A layer's backward pass and its step of Adam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackwardKernels {
    /// `linear_backward` does everything, in one launch or, if `twice`, in one for the input gradient and one for the step.
    /// The launch is for all networks.
    Fused { twice: bool, launch: Shape },
    /// `linear_stream`, through whose shared memory the parameters stream as they are trained, after the input gradient. The launch
    /// is for all networks.
    Streamed { input_gradient: InputGradientKernel, launch: Shape },
    /// Input gradient (not of the first layer), weight gradient and a step that adds up its shares.
    Separate { input_gradient: Option<InputGradientKernel>, weight_gradient: WeightGradientKernel },
}

/// The kernels of one layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerPlan {
    /// The forward pass of a minibatch, and of one sample to act on.
    pub forward: ForwardKernel,
    pub acting: ForwardKernel,
    pub backward: BackwardKernels,
}

impl LayerPlan {
    /// Whether any pass reads bf16 copies of the weights, which then have to be kept.
    pub fn reads_copies(&self) -> bool {
        let down = match &self.backward {
            BackwardKernels::Fused { .. } => None,
            BackwardKernels::Streamed { input_gradient, .. } => Some(input_gradient),
            BackwardKernels::Separate { input_gradient, .. } => input_gradient.as_ref(),
        };
        self.forward.reads_copies()
            || self.acting.reads_copies()
            || down.is_some_and(InputGradientKernel::reads_copies)
    }
}

/// The kernels of a population.
#[derive(Clone, Debug)]
pub(super) struct NetworkPlan {
    pub trunk: Trunk,
    /// Widths of the heads.
    pub outputs: Vec<usize>,
    pub batch: usize,
    pub target: Target,
    pub precision: Precision,
    /// Whether the first layer takes the planes of a minibatch from where they are.
    pub planes_apart: bool,
    pub layers: Vec<LayerPlan>,
}

impl NetworkPlan {
    pub fn new(
        trunk: &Trunk,
        outputs: &[usize],
        batch: usize,
        target: Target,
        precision: Precision,
    ) -> NetworkPlan {
        let mut planner = Planner { trunk, outputs, batch, target, precision, planes_apart: false };
        planner.planes_apart = planner.takes_planes_apart();
        let layer = |l: usize| LayerPlan {
            forward: planner.forward(l, false),
            acting: planner.forward(l, true),
            backward: planner.backward(l),
        };
        NetworkPlan {
            layers: (0..trunk.all().len()).map(layer).collect(),
            planes_apart: planner.planes_apart,
            trunk: trunk.clone(),
            outputs: outputs.to_vec(),
            batch,
            target,
            precision,
        }
    }

    pub fn agents(&self) -> usize {
        self.outputs.len()
    }

    /// The width of the widest head.
    pub fn widest(&self) -> usize {
        widest(&self.outputs)
    }

    /// Outputs of a layer; the head counts with its widest.
    pub fn filters(&self, layer: &Affine) -> usize {
        if layer.filters == 0 { self.widest() } else { layer.filters }
    }
}

fn widest(outputs: &[usize]) -> usize {
    outputs.iter().copied().max().unwrap_or(0)
}

/// Whether the target networks run concurrently with the online ones, and not in the same kernels. A large population fills the device
/// with either; then each fills the ends of the other's kernels, and the targets are made while the online networks go on.
/// An H200 in bf16 gains 3% with 5 agents and loses 2% with 4.
pub(super) fn passes_apart(agents: usize) -> bool {
    agents >= 5
}

/// What decisions depend on.
struct Planner<'a> {
    trunk: &'a Trunk,
    outputs: &'a [usize],
    batch: usize,
    target: Target,
    precision: Precision,
    planes_apart: bool,
}

impl Planner<'_> {
    fn agents(&self) -> usize {
        self.outputs.len()
    }

    /// Samples of a network, and networks.
    fn samples(&self, acting: bool) -> (usize, usize) {
        match (acting, passes_apart(self.agents())) {
            (true, _) => (1, self.agents()),
            (false, true) => (self.batch, self.agents()),
            (false, false) => (self.batch, 2 * self.agents()),
        }
    }

    /// Bytes of a number of a layer's input where convolutions are direct.
    fn input_bytes(l: usize) -> usize {
        if l == 0 { 1 } else { 2 }
    }

    fn direct_forward(&self, l: usize, acting: bool) -> Option<Direct> {
        let ((batch, networks), bytes) = (self.samples(acting), Self::input_bytes(l));
        Direct::forward(self.trunk.layer(l), bytes, batch, networks, self.target.processors, self.precision)
    }

    fn direct_weights(&self, l: usize) -> Option<DirectWeights> {
        let (layer, bytes, processors) = (self.trunk.layer(l), Self::input_bytes(l), self.target.processors);
        DirectWeights::new(layer, bytes, self.batch, self.agents(), processors, self.precision, self.room())
    }

    /// Whether the first layer takes the planes of a minibatch from where they are: if all its kernels can, and copies of 16
    /// bytes suit whatever part of a plane they need.
    fn takes_planes_apart(&self) -> bool {
        let a = self.trunk.layer(0);
        // The kernels keep the table of a network in shared memory.
        let table = 8 * a.channels * self.batch;
        let forward = self.direct_forward(0, false).map(|direct| direct.shared);
        let weights = self.direct_weights(0).map(|direct| direct.shared);
        matches!(self.trunk.input, Input::Planes { channels: 4, .. })
            && [forward, weights].iter().all(|used| used.is_some_and(|used| used + table <= BLOCK_SHARED))
            && [a.stride, a.kernel, a.height].iter().all(|rows| (rows * a.width).is_multiple_of(16))
    }

    /// Whether warpgroups convolve in layer l if its shape suits; they take the first layer's input as planes.
    fn by_warpgroups(&self, l: usize) -> bool {
        self.target.warpgroups && self.precision == Precision::Bf16 && (l > 0 || self.planes_apart)
    }

    /// Bytes of shared memory that the block of a streaming layer takes on a multiprocessor.
    fn streaming(&self) -> Option<usize> {
        let streamed = |l: &usize| self.streamed(*l);
        let l = (0..self.trunk.layers.len()).find(streamed)?;
        Some(stream_shared(self.trunk.layer(l).filters, self.batch))
    }

    fn streamed(&self, l: usize) -> bool {
        self.trunk.streamed(l, self.batch, self.precision, self.target)
    }

    /// Bytes of shared memory that a warpgroups' block of a convolution's backward pass may take: what a streaming layer's block
    /// leaves, in populations of any size.
    fn shared_room(&self) -> usize {
        self.target.shared.saturating_sub(self.streaming().map_or(0, |taken| taken + 1024))
    }

    /// What a multiprocessor has for the backward pass of direct convolutions: in large populations, what a streaming layer's block
    /// leaves.
    fn room(&self) -> Room {
        match self.streaming() {
            Some(taken) if self.agents() >= MIN_SHARING_AGENTS => Room::sharing(taken),
            _ => Room::ALL,
        }
    }

    /// The forward pass of layer l, for a minibatch or for acting (one sample).
    fn forward(&self, l: usize, acting: bool) -> ForwardKernel {
        let (layer, processors) = (self.trunk.layer(l), self.target.processors);
        let (batch, networks) = self.samples(acting);
        if !acting
            && self.by_warpgroups(l)
            && let Some(way) = Warpgroups::forward(layer, l == 0, batch, networks, processors)
        {
            return ForwardKernel::Warpgroup(way);
        }
        if let Some(direct) = self.direct_forward(l, acting) {
            return ForwardKernel::Direct(direct);
        }
        if self.trunk.short_head(l, batch, self.precision) {
            return ForwardKernel::Head { blocks: widest(self.outputs).div_ceil(16) };
        }
        if self.trunk.copied(l, self.batch, self.precision, self.target) {
            return ForwardKernel::Copied(Cut::copied_forward(layer, batch, networks, processors));
        }
        // The head's two passes are separate, because targets are made between them.
        let networks = if layer.filters == 0 { self.agents() } else { networks };
        let filters = if layer.filters == 0 { widest(self.outputs) } else { layer.filters };
        ForwardKernel::Tiled(Cut::forward(layer, filters, batch, networks, processors, self.precision))
    }

    /// The gradient of the input of layer l, which is not fused with the rest of its backward pass.
    fn input_gradient(&self, l: usize) -> InputGradientKernel {
        let (layer, processors) = (self.trunk.layer(l), self.target.processors);
        let (batch, agents) = (self.batch, self.agents());
        if self.by_warpgroups(l)
            && let Some(way) =
                Warpgroups::input_gradient(layer, batch, agents, processors, self.shared_room())
        {
            return InputGradientKernel::Warpgroup(way);
        }
        if let Some(direct) =
            Direct::input_gradient(layer, batch, agents, processors, self.precision, self.room())
        {
            return InputGradientKernel::Direct(direct);
        }
        let cut = Cut::input_gradient(layer, batch, agents, processors, self.precision);
        match self.trunk.copied(l, batch, self.precision, self.target) {
            true => InputGradientKernel::Copied(cut),
            false => InputGradientKernel::Tiled(cut, layer.stride * layer.stride),
        }
    }

    /// The gradient of the weights of layer l, which is not fused with the rest of its backward pass.
    fn weight_gradient(&self, l: usize) -> WeightGradientKernel {
        let (layer, processors) = (self.trunk.layer(l), self.target.processors);
        let (batch, agents) = (self.batch, self.agents());
        if self.by_warpgroups(l)
            && let Some(way) =
                Warpgroups::weights(layer, l == 0, batch, agents, processors, self.shared_room())
        {
            return WeightGradientKernel::Warpgroup(way);
        }
        if let Some(direct) = self.direct_weights(l) {
            return WeightGradientKernel::Direct(direct);
        }
        let filters = if layer.filters == 0 { widest(self.outputs) } else { layer.filters };
        let cut = Cut::weight_gradient(layer, filters, batch, agents, processors, self.precision);
        WeightGradientKernel::Tiled(cut)
    }

    fn backward(&self, l: usize) -> BackwardKernels {
        let (layer, processors) = (self.trunk.layer(l), self.target.processors);
        if self.streamed(l) {
            let tiles = stream_tiles(layer.filters, layer.fan_in(), self.agents());
            let launch = Shape {
                grid: [processors.min(tiles), 1, 1],
                threads: STREAM_THREADS,
                shared: stream_shared(layer.filters, self.batch),
            };
            return BackwardKernels::Streamed { input_gradient: self.input_gradient(l), launch };
        }
        if self.trunk.fused(l, self.batch, self.precision, self.target) {
            let (head, twice) = (layer.filters == 0, self.trunk.learns_apart(l));
            let launch = Shape {
                grid: [backward_blocks(layer.fan_in(), self.agents(), processors), 1, self.agents()],
                threads: BACKWARD_THREADS,
                // In two launches, each needs one kind of the head's gradients only.
                shared: backward_shared(head && !twice, self.batch, self.precision),
            };
            return BackwardKernels::Fused { twice, launch };
        }
        BackwardKernels::Separate {
            input_gradient: (l > 0).then(|| self.input_gradient(l)),
            weight_gradient: self.weight_gradient(l),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::{Architecture, Head};

    const H200: Target = Target { processors: 132, hopper: true, warpgroups: true, shared: 232_448 };
    const A100: Target = Target { processors: 108, hopper: false, warpgroups: false, shared: 166_912 };

    /// One letter per layer and pass: what the Nature network is given.
    fn kernels(target: Target, precision: Precision, dueling: bool) -> [String; 4] {
        let input = Input::Planes { channels: 4, height: 84, width: 84 };
        let nature = Architecture::nature(input, Head { dueling, ..Head::new(6, 21) });
        let trunk = Trunk::new(&nature).unwrap();
        let plan = NetworkPlan::new(&trunk, &[nature.head_outputs(); 20], 32, target, precision);
        let forward = |way: &ForwardKernel| match way {
            ForwardKernel::Warpgroup(_) => 'w',
            ForwardKernel::Direct(_) => 'd',
            ForwardKernel::Head { .. } => 'h',
            ForwardKernel::Copied(_) => 'c',
            ForwardKernel::Tiled(_) => 't',
        };
        let down = |way: &InputGradientKernel| match way {
            InputGradientKernel::Warpgroup(_) => 'w',
            InputGradientKernel::Direct(_) => 'd',
            InputGradientKernel::Copied(_) => 'c',
            InputGradientKernel::Tiled(..) => 't',
        };
        let backward = |layer: &LayerPlan| match &layer.backward {
            BackwardKernels::Fused { twice: false, .. } => ('-', 'f'),
            BackwardKernels::Fused { twice: true, .. } => ('f', 'f'),
            BackwardKernels::Streamed { input_gradient, .. } => (down(input_gradient), 's'),
            BackwardKernels::Separate { input_gradient, weight_gradient } => {
                let weights = match weight_gradient {
                    WeightGradientKernel::Warpgroup(_) => 'w',
                    WeightGradientKernel::Direct(_) => 'd',
                    WeightGradientKernel::Tiled(_) => 't',
                };
                (input_gradient.as_ref().map_or('-', down), weights)
            }
        };
        [
            plan.layers.iter().map(|layer| forward(&layer.forward)).collect(),
            plan.layers.iter().map(|layer| forward(&layer.acting)).collect(),
            plan.layers.iter().map(|layer| backward(layer).0).collect(),
            plan.layers.iter().map(|layer| backward(layer).1).collect(),
        ]
    }

    #[test]
    fn the_nature_network_gets_the_kernels_that_were_made_for_it() {
        assert_eq!(kernels(H200, Precision::Bf16, false), ["wwwch", "dddch", "-wwcf", "wwwsf"]);
        assert_eq!(kernels(H200, Precision::Tf32, false), ["tttth", "tttth", "-tttf", "tttsf"]);
        assert_eq!(kernels(A100, Precision::Bf16, false), ["dddth", "dddth", "-dd-f", "dddff"]);
        assert_eq!(kernels(A100, Precision::Fp32, false), ["ttttt", "ttttt", "-tttt", "ttttt"]);
    }

    /// Two streams are one layer of twice the width, which is cut into slabs.
    #[test]
    fn dueling_heads_get_the_same_kernels() {
        for (target, precision) in [(H200, Precision::Bf16), (H200, Precision::Tf32), (A100, Precision::Bf16)]
        {
            assert_eq!(kernels(target, precision, true), kernels(target, precision, false), "{precision:?}");
        }
    }
}
