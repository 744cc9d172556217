//! The networks of a population on a GPU: their buffers, and the kernels of a pass in their order.

mod backward;

use super::device::{Arg, CudaError, Device, Event, Kernel, Memory, Shape, Stream};
use super::net::Net;
use super::plan::{ForwardKernel, LayerPlan, NetworkPlan, passes_apart};
use super::shapes::{Precision, Target, Trunk};
use super::source;
use crate::architecture::Input;
use crate::rounding::bf16_bits;
use crate::streams::DenseHead;
use backward::Backward;

/// What the kernels must know of one network besides its parameters: where to find this update's numbers of Adam, which
/// other kernels compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Address of a u32: 0 leaves the network as it is.
    pub learns: u64,
    /// Address of an f64: learning rate / (1 − β₁ᵗ).
    pub step_size: u64,
    /// Address of an f64: 1 / √(1 − β₂ᵗ).
    pub root_correction: u64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the corrected second moment.
    pub epsilon: f64,
}

/// One of the four vectors of numbers that a network consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// The parameters being trained.
    Online,
    /// Their copy from the last refresh.
    Target,
    /// Adam's first moments.
    AdamM,
    /// Adam's second moments.
    AdamV,
}

/// Which networks a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The online networks, on the minibatches' states.
    Online,
    /// The target networks, on the states that followed.
    Target,
    /// The online networks, on the states that followed: double Q-learning chooses actions by them.
    Choosing,
}

/// The networks of a population, of one trunk and with heads of their own widths, for one size of minibatch.
///
/// Nothing here waits: passes are queued on a stream, usually to be captured as a graph.
#[derive(Debug)]
pub struct Networks {
    plan: NetworkPlan,
    pitch: usize,
    scale: f32,
    /// Online, target, first and second moments; agent after agent.
    vectors: [Memory; 4],
    /// Copies of the first two in bf16, where a layer is multiplied by them; kept up to date for such layers.
    halves: Option<[Memory; 2]>,
    /// Where each agent's numbers start in the vectors, in floats.
    starts: Vec<usize>,
    nets: Memory,
    input: Memory,
    planes: Option<Memory>,
    acting_input: Memory,
    training: Vec<Stage>,
    /// Of [`Pass::Choosing`]; none unless it was asked for.
    choosing: Vec<Stage>,
    acting: Vec<Stage>,
    backward: Vec<Backward>,
    last: Memory,
    trunk_gradient: Memory,
    forks: [Event; 3],
    joins: [Event; 3],
    sides: [Stream; 3],
}

/// A layer's forward pass.
#[derive(Debug)]
struct Stage {
    kernel: Kernel,
    /// For one network.
    shape: Shape,
    output: Memory,
    workspace: Memory,
    tickets: Memory,
}

/// Whose forward pass a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stages {
    Training,
    Choosing,
    Acting,
}

impl Stage {
    /// For so many networks, of which each has so many bytes of outputs.
    fn new(
        device: &Device,
        kernel: Kernel,
        way: &ForwardKernel,
        networks: usize,
        bytes: usize,
    ) -> Result<Stage, CudaError> {
        // Splits of a product are added up by whoever is last.
        let (tiles, sums) = way.cut().map_or((0, 0), |cut| {
            let sums = if cut.splits > 1 { cut.tile.rows * cut.tile.columns * cut.splits } else { 0 };
            (networks * cut.tiles, sums)
        });
        Ok(Stage {
            shape: launch_of(&kernel, way.launch())?,
            kernel,
            output: device.zeros(networks * bytes)?,
            workspace: device.zeros(4 * tiles * sums)?,
            tickets: device.zeros(4 * tiles)?,
        })
    }
}

/// Tells a kernel how much shared memory it will have.
fn launch_of(kernel: &Kernel, shape: Shape) -> Result<Shape, CudaError> {
    if shape.shared > 0 {
        kernel.allow_shared(shape.shared)?;
    }
    Ok(shape)
}

/// A table of all planes of a minibatch.
fn name_planes(device: &Device, trunk: &Trunk, minibatch: &Memory) -> Result<Memory, CudaError> {
    let first = trunk.layer(0);
    let area = first.height * first.width;
    let all: Vec<u64> = (0..minibatch.len() / area).map(|plane| minibatch.offset(plane * area)).collect();
    let table = device.zeros(8 * all.len())?;
    table.write(0, &all)?;
    Ok(table)
}

fn of_networks(shape: &Shape, networks: usize) -> Shape {
    let [x, y, _] = shape.grid;
    Shape { grid: [x, y, networks], ..*shape }
}

impl Networks {
    /// Networks with heads of these widths (of dueling heads, both streams' together), all parameters zero.
    pub fn new(
        device: &Device,
        trunk: Trunk,
        outputs: &[usize],
        batch: usize,
        precision: Precision,
    ) -> Result<Networks, CudaError> {
        let info = device.info();
        let (processors, shared) = (info.multiprocessors, info.shared_per_block);
        let (hopper, warpgroups) = (info.capability >= (9, 0), info.has_warpgroups());
        let target = Target { processors, hopper, warpgroups, shared };
        let plan = NetworkPlan::new(&trunk, outputs, batch, target, precision);
        let module = device.compile("networks", &source::text(&plan), true)?;
        let mut starts = Vec::with_capacity(outputs.len());
        let mut floats = 0;
        for &width in outputs {
            starts.push(floats);
            floats += trunk.parameters(width).next_multiple_of(16);
        }
        let vector = || device.zeros(4 * floats);
        let (agents, act) = (outputs.len(), precision.activation());
        let element = if matches!(trunk.input, Input::Planes { .. }) { 1 } else { 4 };
        let input = trunk.input_len() * element;
        let pitch = plan.widest().next_multiple_of(8);
        let stage = |l: usize, acting: bool| -> Result<Stage, CudaError> {
            let layer = trunk.layer(l);
            let own = &plan.layers[l];
            let (name, way, networks, samples) = match acting {
                true => ("act", &own.acting, agents, 1),
                false => ("forward", &own.forward, 2 * agents, batch),
            };
            let bytes = if layer.filters == 0 { 4 * pitch } else { act * layer.output_len() };
            Stage::new(device, module.kernel(&format!("{name}_{l}"))?, way, networks, samples * bytes)
        };
        let layers = 0..plan.layers.len();
        let training = layers.clone().map(|l| stage(l, false)).collect::<Result<_, _>>()?;
        let acting = layers.clone().map(|l| stage(l, true)).collect::<Result<_, _>>()?;
        let backward = layers.map(|l| Backward::new(device, &module, &plan, l)).collect::<Result<_, _>>()?;
        let scale = if element == 1 { 1.0 / 255.0 } else { 1.0 };
        let halves = match plan.layers.iter().any(LayerPlan::reads_copies) {
            true => Some([device.zeros(2 * floats)?, device.zeros(2 * floats)?]),
            false => None,
        };
        let minibatch = device.zeros(2 * agents * batch * input)?;
        let planes = if plan.planes_apart { Some(name_planes(device, &trunk, &minibatch)?) } else { None };
        Ok(Networks {
            pitch,
            scale,
            vectors: [vector()?, vector()?, vector()?, vector()?],
            halves,
            starts,
            nets: device.zeros(size_of::<Net>() * agents)?,
            input: minibatch,
            planes,
            acting_input: device.zeros(agents * input)?,
            training,
            choosing: Vec::new(),
            acting,
            backward,
            last: device.zeros(4 * agents * batch * pitch)?,
            trunk_gradient: device.zeros(4 * agents * batch * pitch)?,
            forks: [device.mark()?, device.mark()?, device.mark()?],
            joins: [device.mark()?, device.mark()?, device.mark()?],
            sides: [device.stream()?, device.stream()?, device.stream()?],
            plan,
        })
    }

    /// Makes room for [`Pass::Choosing`], which [`queue_until_targets`](Self::queue_until_targets) then queues too.
    pub fn with_choosing(mut self, device: &Device) -> Result<Networks, CudaError> {
        let agents = self.plan.agents();
        let stage = |(stage, plan): (&Stage, &LayerPlan)| {
            // The outputs of one of two passes; the kernels are the same.
            let bytes = stage.output.len() / (2 * agents);
            Stage::new(device, stage.kernel.clone(), &plan.forward, agents, bytes)
        };
        self.choosing = self.training.iter().zip(&self.plan.layers).map(stage).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Tells the kernels where each network's numbers of Adam will be; to be called once, before any pass.
    ///
    /// # Panics
    /// If there is not one entry per network.
    pub fn connect(&self, members: &[Member]) -> Result<(), CudaError> {
        assert_eq!(members.len(), self.plan.agents(), "one entry per network");
        let entry = |(agent, m): (usize, &Member)| Net {
            online: self.address(Weights::Online, agent).into(),
            target: self.address(Weights::Target, agent).into(),
            adam_m: self.address(Weights::AdamM, agent).into(),
            adam_v: self.address(Weights::AdamV, agent).into(),
            learns: m.learns.into(),
            step_size: m.step_size.into(),
            root_correction: m.root_correction.into(),
            beta1: m.beta1 as f32,
            beta2: m.beta2 as f32,
            epsilon: m.epsilon as f32,
            outputs: self.plan.outputs[agent] as u32,
            online_half: self.half_address(Weights::Online, agent).into(),
            target_half: self.half_address(Weights::Target, agent).into(),
        };
        let table: Vec<Net> = members.iter().enumerate().map(entry).collect();
        self.nets.write(0, &table)
    }

    /// Where a network's numbers are on the device.
    pub fn address(&self, which: Weights, agent: usize) -> u64 {
        self.vectors[which as usize].offset(4 * self.starts[agent])
    }

    /// Where the bf16 copies of a network's online or target parameters are on the device; 0 if there are none.
    pub fn half_address(&self, which: Weights, agent: usize) -> u64 {
        self.half(which).map_or(0, |half| half.offset(2 * self.starts[agent]))
    }

    fn half(&self, which: Weights) -> Option<&Memory> {
        self.halves.as_ref()?.get(which as usize)
    }

    /// How many numbers a network has in the canonical [layout](crate::layout).
    pub fn parameters(&self, agent: usize) -> usize {
        self.dense(agent).map_or(self.stored(agent), |dense| dense.canonical())
    }

    /// How many numbers a network has on the device: more, if its head is dueling.
    pub fn stored(&self, agent: usize) -> usize {
        self.plan.trunk.parameters(self.plan.outputs[agent])
    }

    /// How its numbers on the device differ from the canonical [layout](crate::layout), if they do.
    pub fn dense(&self, agent: usize) -> Option<DenseHead> {
        self.plan.trunk.dense(self.plan.outputs[agent])
    }

    /// Copies numbers of a network to the device, in the canonical [layout](crate::layout).
    ///
    /// # Panics
    /// If they are not as many as the network has.
    pub fn write(&self, which: Weights, agent: usize, from: &[f32]) -> Result<(), CudaError> {
        assert_eq!(from.len(), self.parameters(agent), "as many numbers as the network has");
        let dense = self.dense(agent).map(|dense| dense.spread(from));
        let from = dense.as_deref().unwrap_or(from);
        self.vectors[which as usize].write(4 * self.starts[agent], from)?;
        match self.half(which) {
            None => Ok(()),
            Some(half) => {
                let rounded: Vec<u16> = from.iter().map(|&x| bf16_bits(x)).collect();
                half.write(2 * self.starts[agent], &rounded)
            }
        }
    }

    /// Copies numbers of a network from the device.
    pub fn read(&self, which: Weights, agent: usize) -> Result<Vec<f32>, CudaError> {
        let mut to = vec![0.0f32; self.stored(agent)];
        self.vectors[which as usize].read(4 * self.starts[agent], &mut to)?;
        Ok(self.dense(agent).map(|dense| dense.collect(&to)).unwrap_or(to))
    }

    /// Queues a copy of a network's numbers as the device [stores](Self::stored) them to pinned memory, to byte `at` of it.
    ///
    /// # Safety
    /// As [`Stream::fetch`]; and these networks must outlast the copy.
    pub unsafe fn fetch(
        &self,
        stream: &Stream,
        which: Weights,
        agent: usize,
        to: &Memory,
        at: usize,
    ) -> Result<(), CudaError> {
        let from = 4 * self.starts[agent];
        let range = from..from + 4 * self.stored(agent);
        // SAFETY: the caller keeps `Stream::fetch`'s contract, and these networks, whose memory it is, until the copy is done.
        unsafe { stream.fetch(&self.vectors[which as usize], range, to, at) }
    }

    /// Where minibatches go: `[states, next states][agent][sample][row][column][channel]` bytes, or floats for vectors. Where
    /// there are [`planes`](Self::planes), each sample's channels follow each other instead.
    pub fn input(&self) -> &Memory {
        &self.input
    }

    /// If the first layer takes each plane of a minibatch from where it is: the table of their addresses,
    /// `[states, next states][agent][sample][channel]`; 0 stands for a plane of zeros. It starts out with the planes of
    /// [`input`](Self::input). Planes begin at multiples of 16 bytes.
    pub fn planes(&self) -> Option<&Memory> {
        self.planes.as_ref()
    }

    /// What the first layer's kernels read a minibatch from.
    fn minibatch(&self) -> &Memory {
        self.planes.as_ref().unwrap_or(&self.input)
    }

    /// Where observations to act on go: `[agent][row][column][channel]`.
    pub fn acting_input(&self) -> &Memory {
        &self.acting_input
    }

    /// Floats from one row of outputs, or of their gradients, to the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The address of a pass's outputs: `[agent][sample][pitch]`; 0 for a pass that was not asked for.
    pub fn outputs(&self, pass: Pass) -> u64 {
        let half = 4 * self.plan.agents() * self.plan.batch * self.pitch;
        match pass {
            Pass::Online => self.output_memory().at(),
            Pass::Target => self.output_memory().offset(half),
            Pass::Choosing => self.choosing_memory().map_or(0, Memory::at),
        }
    }

    /// Both passes' outputs, the online networks' first.
    pub fn output_memory(&self) -> &Memory {
        &self.training[self.training.len() - 1].output
    }

    /// The outputs of [`Pass::Choosing`], if it was asked for.
    pub fn choosing_memory(&self) -> Option<&Memory> {
        self.choosing.last().map(|stage| &stage.output)
    }

    /// The outputs for the observations to act on: `[agent][pitch]`.
    pub fn acting_outputs(&self) -> &Memory {
        &self.acting[self.acting.len() - 1].output
    }

    /// Where the outputs' gradients go: those for the head's own weights, and those for the hidden layers;
    /// `[agent][sample][pitch]`.
    pub fn gradients(&self) -> (&Memory, &Memory) {
        (&self.last, &self.trunk_gradient)
    }

    /// Queues the hidden layers of both networks, online on the states and target on the next states.
    pub fn queue_hidden(&self, stream: &Stream) -> Result<(), CudaError> {
        let hidden = self.training.len() - 1;
        let networks = 2 * self.plan.agents();
        (0..hidden).try_for_each(|l| self.queue_forward(stream, Stages::Training, l, 0, networks))
    }

    /// Queues everything up to the online networks' last hidden layer: the hidden layers of both networks, the target
    /// networks' head, the whole of [`Pass::Choosing`] if there is one, and what `targets` queues, on the stream that it is
    /// given, once that is done.
    pub fn queue_until_targets(
        &self,
        stream: &Stream,
        targets: impl FnOnce(&Stream) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let agents = self.plan.agents();
        let chooser = &self.sides[1];
        if !self.choosing.is_empty() {
            // Beside the others, as they are beside each other: a kernel's end is filled by the next of another pass.
            chooser.wait_for(stream, &self.forks[1])?;
            (0..self.choosing.len())
                .try_for_each(|l| self.queue_forward(chooser, Stages::Choosing, l, 0, agents))?;
        }
        let targets = |stream: &Stream| {
            if !self.choosing.is_empty() {
                stream.wait_for(chooser, &self.joins[1])?;
            }
            targets(stream)
        };
        if !passes_apart(agents) {
            self.queue_hidden(stream)?;
            self.queue_head(stream, Pass::Target)?;
            return targets(stream);
        }
        let hidden = self.training.len() - 1;
        let side = &self.sides[0];
        side.wait_for(stream, &self.forks[0])?;
        (0..hidden).try_for_each(|l| self.queue_forward(side, Stages::Training, l, agents, agents))?;
        (0..hidden).try_for_each(|l| self.queue_forward(stream, Stages::Training, l, 0, agents))?;
        self.queue_head(side, Pass::Target)?;
        targets(side)?;
        stream.wait_for(side, &self.joins[0])
    }

    /// Queues the head of one of the two networks, after [`queue_hidden`](Self::queue_hidden).
    pub fn queue_head(&self, stream: &Stream, pass: Pass) -> Result<(), CudaError> {
        let first = if pass == Pass::Target { self.plan.agents() } else { 0 };
        self.queue_forward(stream, Stages::Training, self.training.len() - 1, first, self.plan.agents())
    }

    /// Queues the online networks' pass over the observations to act on. Its first kernel may start before the one queued
    /// before it has ended, but waits for that one before it touches the observations; so that one must not change
    /// parameters, and must have been launched after all that does.
    pub fn queue_acting(&self, stream: &Stream) -> Result<(), CudaError> {
        (0..self.acting.len())
            .try_for_each(|l| self.queue_forward(stream, Stages::Acting, l, 0, self.plan.agents()))
    }

    fn queue_forward(
        &self,
        stream: &Stream,
        stages: Stages,
        l: usize,
        first: usize,
        networks: usize,
    ) -> Result<(), CudaError> {
        let acting = stages == Stages::Acting;
        let (stages, own_input) = match stages {
            Stages::Training => (&self.training, self.minibatch().at()),
            // The second half of the minibatch, the next states, for networks that count from the first: online ones.
            Stages::Choosing => (&self.choosing, self.minibatch().offset(self.minibatch().len() / 2)),
            Stages::Acting => (&self.acting, self.acting_input.at()),
        };
        let (stage, layer) = (&stages[l], self.plan.trunk.layer(l));
        let input = if l == 0 { own_input } else { stages[l - 1].output.at() };
        let pitch = if layer.filters == 0 { self.pitch } else { layer.filters };
        let shape = of_networks(&stage.shape, networks);
        let args = [
            (&self.nets).into(),
            Arg::Int(self.plan.agents() as i32),
            Arg::Int(first as i32),
            Arg::At(input),
            (&stage.output).into(),
            Arg::Int(pitch as i32),
            Arg::Float(self.scale_of(l)),
            (&stage.workspace).into(),
            (&stage.tickets).into(),
        ];
        // SAFETY: the arguments are those of a layer's forward kernel, in their order. All of it is memory of these networks,
        // whose owner keeps them until the stream is done. Kernels that start early wait before they read.
        unsafe {
            match acting && self.starts_early() {
                true => stream.launch_early(&stage.kernel, shape, &args),
                false => stream.launch(&stage.kernel, shape, &args),
            }
        }
    }

    /// Whether kernels of acting start early: see [`Stream::launch_early`].
    pub fn starts_early(&self) -> bool {
        self.plan.target.hopper
    }

    fn scale_of(&self, l: usize) -> f32 {
        if l == 0 { self.scale } else { 1.0 }
    }
}
