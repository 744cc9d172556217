//! A group of agents on a GPU: replay, networks, codecs and diagnostics on the device, one graph per step.

mod averages;
mod bench;
mod needs;
mod priorities;
mod state;
mod steps;

pub use needs::{average_bytes, host_resident, memory_bytes};

use super::abi::{self, AGENT_THREADS, Agent, BATCH_THREADS, Counters, ROW_THREADS, Staged};
use super::ring::{Ring, frame_bytes, small_bytes};
use super::source;
use crate::codecs::Codec;
use crate::diagnostics::Diagnostics;
use crate::lockstep::{Decision, DeviceFailure, ObservationBuffer};
use crate::replay::Outcome;
use crate::settings::AgentSettings;
use averages::Averages;
use needs::shape_of;
use priorities::Priorities;
use spectral_core::rng::{Purpose, Stream as Random};
use spectral_env::{ActionMask, Observation, ObservationSpec, TaskSpec};
use spectral_nn::abi::bytes_of;
use spectral_nn::cuda::{
    Arg, CudaError, Device, Event, Graph, Kernel, Member, Memory, Networks, Pass, Precision, Rank, Shape,
    Stream, Trunk, Weights,
};
use spectral_nn::{Architecture, Cpu, Network, Which};
use std::mem::offset_of;
use std::sync::Arc;

/// Device memory that is left to others: the driver, other groups' small buffers, kernels' local memory.
const MARGIN: u64 = 1 << 30;

/// One agent to be trained on a device.
#[derive(Clone, Debug)]
pub struct AgentSpec {
    /// Its settings.
    pub settings: AgentSettings,
    /// Its codec.
    pub codec: Arc<dyn Codec>,
    /// Its seed.
    pub seed: u64,
}

/// Agents that step together on a GPU. They share the task, the hidden layers, the batch and n; codecs, seeds, replay sizes
/// and the optimiser's settings are each agent's own.
///
/// What one agent computes differs from a [`Learner`](crate::learner::Learner) on the CPU only by rounding in the
/// networks: draws, targets, statistics and schedules are the same.
pub struct CudaGroup {
    device: Device,
    /// Everything but updates. Tasks wait for actions, so these go before other groups' updates.
    stream: Stream,
    /// The layers of an update, one after the other; what nobody waits for runs beside it.
    updates: Stream,
    fork: Event,
    graded: Event,
    join: Event,
    networks: Networks,
    members: Vec<DeviceAgent>,
    /// If agents keep means of their weights.
    averages: Option<Averages>,
    kernels: Kernels,
    agents: Memory,
    /// What the host stages, in its own memory: a [`Staged`] per agent, and the observations. The device fetches both.
    staging: Memory,
    seen: Arc<Memory>,
    /// Per agent the legal actions of what it sees, in the host's memory; `None` if the task does not say which they are.
    legal: Option<Memory>,
    /// The device's copies.
    staged: Memory,
    observations: Memory,
    /// Submissions so far.
    sequence: u64,
    /// How often the host has looked for an answer to the latest.
    looks: u32,
    /// Agents whose part of `seen` was lent.
    lent: Vec<bool>,
    rows: Memory,
    targets: Memory,
    returns: Memory,
    /// In the host's memory; the device writes there.
    decisions: Memory,
    answers: Vec<Decision>,
    graphs: Option<Graphs>,
    batch: usize,
    /// Bytes of one observation, and whether it is a vector of floats.
    frame: usize,
    vector: bool,
}

/// What belongs to one agent.
struct DeviceAgent {
    spec: AgentSpec,
    ring: Ring,
    /// If it draws by priority.
    priorities: Option<Priorities>,
    counters: Memory,
    /// The codec's online state, frozen state, constants; then the diagnostics' sums.
    doubles: Memory,
    state: usize,
    constants: usize,
    /// Shapes only; the sums are on the device.
    diagnostics: Diagnostics,
}

/// What an agent's memory has to hold, and where.
struct AgentMemory<'a> {
    constants: &'a [f64],
    /// Player's scores told apart.
    scores: usize,
    /// Observations go to the host's memory even if the device has room.
    host_resident: bool,
}

struct Kernels {
    enter: Kernel,
    record: Kernel,
    /// Before and after an update in which some agents draw by priority.
    prioritised: Option<[Kernel; 2]>,
    gather: Kernel,
    targets: Kernel,
    gradients: Kernel,
    choose: Kernel,
    refresh: Kernel,
}

struct Graphs {
    /// Outcome, observation, action.
    step: Graph,
    /// What may follow it, while tasks play the action.
    update: Graph,
    /// An outcome alone, before checkpoints.
    record: Graph,
    /// An action alone, for benchmarks.
    act: Graph,
}

impl Drop for CudaGroup {
    fn drop(&mut self) {
        if let Some(averages) = &mut self.averages {
            averages.end();
        }
        // The device may be at work for a submission that nobody waits for any more; its memory must outlast that.
        let _ = self.stream.synchronise();
    }
}

/// An agent's part of the pinned memory for observations, which outlives the group if it has to.
struct PinnedSlice {
    memory: Arc<Memory>,
    range: std::ops::Range<usize>,
    /// Whether it holds a vector of floats.
    vector: bool,
}

impl ObservationBuffer for PinnedSlice {
    fn observation(&mut self) -> Observation<'_> {
        // Within the memory: `range` is one agent's part.
        let (start, len) = (self.memory.host_pointer().wrapping_add(self.range.start), self.range.len());
        // SAFETY: pinned memory that stays as long as this does; each agent's part is lent once, after which the group itself
        // does not touch it any more. A vector's part starts at a multiple of its length, so of 4 bytes, from the start of a page.
        unsafe {
            match self.vector {
                true => Observation::Vector(std::slice::from_raw_parts_mut(start.cast(), len / 4)),
                false => Observation::Planes(std::slice::from_raw_parts_mut(start, len)),
            }
        }
    }
}

fn failed(error: CudaError) -> DeviceFailure {
    DeviceFailure(error.0)
}

impl CudaGroup {
    /// Fresh agents for a task on a device.
    pub fn new(
        device: &Device,
        precision: Precision,
        task: &TaskSpec,
        specs: Vec<AgentSpec>,
    ) -> Result<CudaGroup, DeviceFailure> {
        Self::with_host_resident(device, precision, task, specs, &[])
    }

    /// As [`new`](CudaGroup::new); the observations of those agents lie in the host's memory for which `host_resident` says so, and
    /// of others for which the device turns out to have no room.
    pub fn with_host_resident(
        device: &Device,
        precision: Precision,
        task: &TaskSpec,
        specs: Vec<AgentSpec>,
        host_resident: &[bool],
    ) -> Result<CudaGroup, DeviceFailure> {
        let Some(first) = specs.first() else {
            return Err(DeviceFailure("a group needs at least one agent".into()));
        };
        let (batch, n_step) = (first.settings.batch, first.settings.n_step);
        let shapes = specs.iter().map(|spec| shape_of(spec, task)).collect::<Result<Vec<_>, _>>()?;
        let trunk = Trunk::new(&shapes[0]).map_err(|e| DeviceFailure(e.to_string()))?;
        for (spec, shape) in specs.iter().zip(&shapes) {
            let same = Trunk::new(shape).is_ok_and(|other| other.same(&trunk));
            if !same || spec.settings.batch != batch || spec.settings.n_step != n_step {
                return Err(DeviceFailure(
                    "agents on one GPU must share the network's hidden layers, dueling, batch and n_step; train them in separate runs, \
                     or use --device cpu"
                        .into(),
                ));
            }
        }
        let outputs: Vec<usize> = shapes.iter().map(Architecture::head_outputs).collect();
        let (head_at, head_in) = trunk.head();
        let mut networks = Networks::new(device, trunk, &outputs, batch, precision).map_err(failed)?;
        let extras = source::Extras::of(specs.iter().map(|spec| (&spec.settings, spec.codec.as_ref())));
        if extras.double {
            networks = networks.with_choosing(device).map_err(failed)?;
        }
        let shape = source::Shape {
            batch,
            n_step,
            actions: task.actions.len(),
            observation: task.observation,
            head_at,
            head_in,
            pitch: networks.pitch(),
            mask_bytes: task.mask_bytes(),
            extras,
        };
        let codecs: Vec<&dyn Codec> = specs.iter().map(|spec| spec.codec.as_ref()).collect();
        let text = source::build(&shape, &codecs).map_err(|e| DeviceFailure(e.to_string()))?;
        let kernels = Kernels::new(device, &text.text, extras).map_err(failed)?;
        let scores = if task.max_player_score == 0 { 0 } else { usize::from(task.max_player_score) + 1 };
        let frame = frame_bytes(task.observation);
        let agents = specs.len();
        let reserve = |bytes: usize| device.zeros(bytes).map_err(failed);
        let mut group = CudaGroup {
            stream: device.ranked_stream(Rank::First).map_err(failed)?,
            updates: device.ranked_stream(Rank::Second).map_err(failed)?,
            fork: device.mark().map_err(failed)?,
            graded: device.mark().map_err(failed)?,
            join: device.mark().map_err(failed)?,
            agents: reserve(agents * size_of::<Agent>())?,
            staging: device.pinned(agents * size_of::<Staged>()).map_err(failed)?,
            seen: Arc::new(device.pinned(agents * frame).map_err(failed)?),
            legal: match task.mask_bytes() {
                0 => None,
                bytes => Some(device.pinned(agents * bytes).map_err(failed)?),
            },
            staged: reserve(agents * size_of::<Staged>())?,
            observations: reserve(agents * frame)?,
            sequence: 0,
            looks: 0,
            lent: vec![false; agents],
            rows: reserve(agents * batch * abi::row_bytes(n_step))?,
            targets: reserve(4 * agents * batch * text.max_outputs)?,
            returns: reserve(4 * agents * batch * text.max_encoded)?,
            decisions: device.pinned(agents * size_of::<abi::Decision>()).map_err(failed)?,
            answers: vec![Decision::default(); agents],
            members: Vec::with_capacity(agents),
            averages: None,
            networks,
            kernels,
            graphs: None,
            batch,
            frame,
            vector: matches!(task.observation, ObservationSpec::Vector { .. }),
            device: device.clone(),
        };
        for (index, spec) in specs.into_iter().enumerate() {
            let host_resident = host_resident.get(index).copied().unwrap_or(false);
            let memory = AgentMemory { constants: &text.constants[index], scores, host_resident };
            group.add_agent(task, spec, &shapes[index], memory)?;
        }
        group.averages = Averages::of(device, &group.members, &group.networks, &shapes).map_err(failed)?;
        group.connect(&text.kinds, scores).map_err(failed)?;
        group.graphs = Some(group.capture().map_err(failed)?);
        Ok(group)
    }

    /// Gives an agent its memory and its initial weights.
    fn add_agent(
        &mut self,
        task: &TaskSpec,
        spec: AgentSpec,
        shape: &Architecture,
        AgentMemory { constants, scores, host_resident }: AgentMemory<'_>,
    ) -> Result<(), DeviceFailure> {
        let capacity = spec.settings.replay;
        let frames = (capacity * self.frame) as u64;
        let host_resident = host_resident
            || self.device.free_memory().map_err(failed)?
                < frames + (small_bytes(task) * capacity) as u64 + MARGIN;
        let ring = Ring::new(&self.device, task, capacity, host_resident).map_err(failed)?;
        let priorities = match spec.settings.prioritised {
            true => Some(Priorities::new(&self.device, capacity, self.batch).map_err(failed)?),
            false => None,
        };
        let diagnostics = Diagnostics::new(spec.codec.as_ref(), scores);
        let state = spec.codec.init();
        let sums = diagnostics.to_sums();
        let doubles = [&state[..], &state, constants, &sums].concat();
        let memory = self.device.zeros(8 * doubles.len()).map_err(failed)?;
        memory.write(0, &doubles).map_err(failed)?;
        let counters = self.device.zeros(size_of::<Counters>()).map_err(failed)?;
        let fresh = Counters { starting: 1, largest: 1.0, ..Default::default() };
        counters.write(0, &[fresh]).map_err(failed)?;
        // The initial weights of the same agent on the CPU, from its own code.
        let mut twin =
            Network::new(Cpu::new(), shape.clone(), 1, 1).map_err(|e| DeviceFailure(e.to_string()))?;
        let mut random = Random::new(spec.seed, Purpose::Weights, 0);
        twin.init(0, || random.unit_f32());
        let agent = self.members.len();
        for which in [Weights::Online, Weights::Target] {
            self.networks.write(which, agent, twin.parameters(Which::Online, 0)).map_err(failed)?;
        }
        let (state, constants) = (state.len(), constants.len());
        self.members.push(DeviceAgent {
            spec,
            ring,
            priorities,
            counters,
            doubles: memory,
            state,
            constants,
            diagnostics,
        });
        Ok(())
    }

    /// Tells the kernels where everything is.
    fn connect(&self, kinds: &[u32], scores: usize) -> Result<(), CudaError> {
        let mut members = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            let (s, codec) = (&member.spec.settings, &member.spec.codec);
            let place = |doubles: usize| member.doubles.offset(8 * doubles);
            let (ring, state, by_priority) = (&member.ring, member.state, member.priorities.as_ref());
            let agent = Agent {
                online: self.networks.address(Weights::Online, index).into(),
                target: self.networks.address(Weights::Target, index).into(),
                online_half: self.networks.half_address(Weights::Online, index).into(),
                target_half: self.networks.half_address(Weights::Target, index).into(),
                frames: ring.frames.at().into(),
                actions: ring.actions().into(),
                rewards: ring.rewards().into(),
                flags: ring.flags().into(),
                scores: ring.scores().into(),
                legal: ring.legal().into(),
                legal_seen: self.legal.as_ref().map_or(0, |seen| seen.offset(index * ring.mask)).into(),
                online_state: place(0).into(),
                frozen: place(state).into(),
                codec: place(2 * state).into(),
                sums: place(2 * state + member.constants).into(),
                counters: member.counters.at().into(),
                priorities: by_priority.map_or(0, Priorities::tree).into(),
                norms: by_priority.map_or(0, Priorities::norms).into(),
                drawn: by_priority.map_or(0, Priorities::drawn).into(),
                importance: by_priority.map_or(0, Priorities::importance).into(),
                priority_exponent: s.priority_exponent,
                importance_exponent: s.importance_exponent,
                leaves: by_priority.map_or(0, |priorities| priorities.leaves as u64),
                seed: member.spec.seed,
                capacity: ring.capacity as u64,
                parameters: self.networks.stored(index) as u32,
                kind: kinds[index],
                outputs: codec.outputs() as u32,
                encoded: codec.encoded() as u32,
                state: state as u32,
                frequencies: if codec.has_frequencies() { codec.outputs() as u32 } else { 0 },
                scores_told: scores as u32,
                error_correction: codec.error_correction().into(),
                undo_last_layer: codec.undo_last_layer().into(),
                host_resident: ring.host_resident.into(),
                double_q: s.double.into(),
                unused: 0,
                discount: s.discount as f32,
                learning_rate: s.learning_rate as f32,
                beta1: s.adam_beta1 as f32,
                beta2: s.adam_beta2 as f32,
            };
            self.agents.write(index * size_of::<Agent>(), &[agent])?;
            members.push(Member {
                learns: member.counters.offset(offset_of!(Counters, learns)),
                step_size: member.counters.offset(offset_of!(Counters, step_size)),
                root_correction: member.counters.offset(offset_of!(Counters, root_correction)),
                beta1: s.adam_beta1,
                beta2: s.adam_beta2,
                epsilon: s.adam_epsilon,
            });
        }
        self.networks.connect(&members)
    }

    fn launch(
        &self,
        kernel: &Kernel,
        grid: [usize; 3],
        threads: usize,
        args: &[u64],
    ) -> Result<(), CudaError> {
        self.launch_on(&self.stream, kernel, grid, threads, args)
    }

    fn launch_on(
        &self,
        stream: &Stream,
        kernel: &Kernel,
        grid: [usize; 3],
        threads: usize,
        args: &[u64],
    ) -> Result<(), CudaError> {
        let mut list = [Arg::At(0); 8];
        for (arg, &at) in list.iter_mut().zip(args) {
            *arg = Arg::At(at);
        }
        // SAFETY: callers pass what the kernel's text asks for, all of it this group's memory; the group waits for its streams
        // before it goes, and graphs do not outlive it.
        unsafe { stream.launch(kernel, Shape::new(grid, threads), &list[..args.len()]) }
    }

    fn queue_record(&self) -> Result<(), CudaError> {
        let (staging, seen) = (self.staging.at(), self.seen.at());
        let args = [self.agents.at(), staging, seen, self.staged.at(), self.observations.at()];
        self.launch(&self.kernels.record, [self.members.len(), 1, 1], AGENT_THREADS, &args)
    }

    fn queue_update(&self) -> Result<(), CudaError> {
        let (agents, nets, p) = (self.agents.at(), &self.networks, self.members.len());
        let (rows, targets, returns) = (self.rows.at(), self.targets.at(), self.returns.at());
        let stream = &self.updates;
        stream.wait_for(&self.stream, &self.fork)?;
        if let Some([draw, _]) = &self.kernels.prioritised {
            self.launch_on(stream, draw, [p, 1, 1], BATCH_THREADS, &[agents, self.staged.at()])?;
        }
        let planes = nets.planes().map_or(0, Memory::at);
        let args = [agents, rows, self.staged.at(), nets.input().at(), planes];
        self.launch_on(stream, &self.kernels.gather, [self.batch, 2, p], ROW_THREADS, &args)?;
        nets.queue_until_targets(stream, |stream| {
            let choosing = nets.outputs(Pass::Choosing);
            let args = [agents, rows, nets.outputs(Pass::Target), targets, returns, choosing];
            // The last argument is there only if some agents choose by it.
            let count = args.len() - usize::from(choosing == 0);
            self.launch_on(stream, &self.kernels.targets, [p, 1, 1], BATCH_THREADS, &args[..count])
        })?;
        nets.queue_head(stream, Pass::Online)?;
        let (last, trunk) = nets.gradients();
        let args = [agents, rows, nets.outputs(Pass::Online), targets, returns, last.at(), trunk.at()];
        self.launch_on(stream, &self.kernels.gradients, [p, 1, 1], BATCH_THREADS, &args)?;
        if let Some([_, reprioritise]) = &self.kernels.prioritised {
            // Nobody waits for it but the next step: beside the backward pass.
            self.stream.wait_for(stream, &self.graded)?;
            self.launch(reprioritise, [p, 1, 1], BATCH_THREADS, &[agents])?;
        }
        nets.queue_backward(stream)?;
        self.stream.wait_for(stream, &self.join)
    }

    fn queue_refresh(&self) -> Result<(), CudaError> {
        let args = [self.agents.at(), self.staged.at()];
        self.launch(&self.kernels.refresh, [64, self.members.len(), 1], AGENT_THREADS, &args)
    }

    /// What a submission begins with.
    fn queue_enter(&self) -> Result<(), CudaError> {
        let (staging, seen, input) = (self.staging.at(), self.seen.at(), self.networks.acting_input().at());
        let args = [self.agents.at(), staging, seen, self.staged.at(), self.observations.at(), input];
        self.launch(&self.kernels.enter, [self.members.len(), 1, 1], AGENT_THREADS, &args)
    }

    fn queue_act(&self) -> Result<(), CudaError> {
        self.networks.queue_acting(&self.stream)?;
        let outputs = self.networks.acting_outputs().at();
        let args = [self.agents.at(), outputs, self.staged.at(), self.decisions.at()].map(Arg::At);
        let (kernel, shape) = (&self.kernels.choose, Shape::new([self.members.len(), 1, 1], AGENT_THREADS));
        // SAFETY: as in `launch_on`; the kernel waits before it reads what the networks write.
        unsafe {
            match self.networks.starts_early() {
                true => self.stream.launch_early(kernel, shape, &args),
                false => self.stream.launch(kernel, shape, &args),
            }
        }
    }

    fn capture(&self) -> Result<Graphs, CudaError> {
        let graphs = Graphs {
            step: self.stream.capture(|| {
                self.queue_enter()?;
                self.queue_act()
            })?,
            update: self.stream.capture(|| self.queue_update())?,
            record: self.stream.capture(|| self.queue_record())?,
            act: self.stream.capture(|| self.queue_act())?,
        };
        for graph in [&graphs.step, &graphs.update, &graphs.record, &graphs.act] {
            graph.upload()?;
        }
        Ok(graphs)
    }

    fn graphs(&self) -> &Graphs {
        self.graphs.as_ref().expect("captured when the group was made")
    }

    fn set_staged(&mut self, agent: usize, staged: Staged) {
        let size = size_of::<Staged>();
        self.staging.host_bytes()[agent * size..][..size].copy_from_slice(bytes_of(&staged));
    }

    fn outcome(&mut self, agent: usize, outcome: Option<Outcome>) {
        let mut staged = Staged { active: 1, ..Default::default() };
        if let Some(o) = outcome {
            staged.has_outcome = 1;
            staged.action = o.action.into();
            staged.flags = o.flags().into();
            staged.player_score = o.player_score.into();
            staged.reward = o.reward;
            self.members[agent].ring.newest += 1;
        }
        self.set_staged(agent, staged);
    }

    /// Stages the legal actions of what an agent sees.
    fn set_legal(&mut self, agent: usize, legal: Option<&ActionMask>) {
        let bytes = self.members[agent].ring.mask;
        match (legal, &mut self.legal) {
            (Some(legal), Some(seen)) => {
                seen.host_bytes()[agent * bytes..][..bytes].copy_from_slice(&legal.to_bytes()[..bytes]);
            }
            (None, None) => {}
            _ => panic!("legal actions are staged if the task says which they are, and only then"),
        }
    }

    /// Numbers what is staged as the next submission.
    fn stamp_staged(&mut self) {
        self.sequence += 1;
        let (agents, at) = (self.members.len(), offset_of!(Staged, sequence));
        let sequence = self.sequence.to_le_bytes();
        for staged in self.staging.host_bytes().chunks_exact_mut(size_of::<Staged>()).take(agents) {
            staged[at..at + 8].copy_from_slice(&sequence);
        }
    }

    /// Whether the device has answered the latest submission: all that it wrote before is in the host's memory then.
    fn has_answered(&mut self) -> bool {
        let (agents, sequence) = (self.members.len(), self.sequence);
        // No slice of them: the device writes them meanwhile.
        let decisions = self.decisions.host_pointer().cast::<abi::Decision>();
        // SAFETY: pinned memory for as many decisions as there are agents; volatile, so nothing is remembered of what the device
        // writes meanwhile.
        let answered = (0..agents).all(|agent| unsafe {
            std::ptr::read_volatile(&raw const (*decisions.add(agent)).sequence) == sequence
        });
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        answered
    }

    /// An agent's part of the memory for observations.
    fn observation_buffer(&self, agent: usize) -> PinnedSlice {
        let range = agent * self.frame..(agent + 1) * self.frame;
        PinnedSlice { memory: self.seen.clone(), range, vector: self.vector }
    }

    fn clear_staged(&mut self) {
        let agents = self.members.len();
        self.staging.host_bytes()[..agents * size_of::<Staged>()].fill(0);
    }
}

impl Kernels {
    fn new(device: &Device, text: &str, extras: source::Extras) -> Result<Kernels, CudaError> {
        let module = device.compile("learner", text, false)?;
        Ok(Kernels {
            prioritised: match extras.prioritised {
                true => Some([module.kernel("draw")?, module.kernel("reprioritise")?]),
                false => None,
            },
            enter: module.kernel("enter")?,
            record: module.kernel("record")?,
            gather: module.kernel("gather")?,
            targets: module.kernel("targets")?,
            gradients: module.kernel("gradients")?,
            choose: module.kernel("choose")?,
            refresh: module.kernel("refresh")?,
        })
    }
}
