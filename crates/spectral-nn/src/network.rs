//! Populations of networks: parameters, targets and optimiser state over a backend's operations.

use crate::architecture::{Architecture, ArchitectureError, Input};
use crate::backend::{AdamBuffers, AdamSettings, Backend, Pass};
use crate::cpu::Cpu;
use crate::layout::{Affine, Plan};

/// Which of an agent's two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The network being trained.
    Online,
    /// Its copy from the last target refresh.
    Target,
}

/// A population: P independent networks of one architecture, each with online and target parameters, gradients
/// and Adam's moments.
///
/// What agent k computes does not depend on P or on the number of threads, to the last bit.
///
/// ```
/// use spectral_nn::{AdamSettings, Architecture, Cpu, Head, Input, Network, Samples, Which};
/// let shape = Architecture::mlp(Input::Vector { len: 4 }, &[16], Head::new(2, 1));
/// let mut net = Network::new(Cpu::new(), shape, 1, 8).unwrap();
/// let mut state = 1u32;
/// net.init(0, || { state = state.wrapping_mul(1664525).wrapping_add(1013904223); (state >> 8) as f32 / (1 << 24) as f32 });
/// let s = [0.1, 0.2, -0.3, 0.4];
/// let before = net.forward(Which::Online, Samples::Floats(&s), 1)[0];
/// net.forward_train(Samples::Floats(&s), 1);
/// net.backward(&[1.0, 0.0], &[1.0, 0.0]);
/// net.adam(&[AdamSettings::default()], &[true]);
/// assert!(net.forward(Which::Online, Samples::Floats(&s), 1)[0] < before);
/// assert_eq!(net.forward(Which::Target, Samples::Floats(&s), 1)[0], before);
/// ```
#[derive(Debug)]
pub struct Network<B: Backend = Cpu> {
    pub(crate) backend: B,
    pub(crate) architecture: Architecture,
    pub(crate) plan: Plan,
    pub(crate) agents: usize,
    pub(crate) max_batch: usize,
    /// False if the buffers that only training uses have no elements.
    trains: bool,
    /// Whether forward passes round what goes into layers to bf16.
    pub(crate) rounds: bool,
    pub(crate) online: B::Floats,
    pub(crate) target: B::Floats,
    pub(crate) adam_m: B::Floats,
    pub(crate) adam_v: B::Floats,
    pub(crate) gradients: B::Floats,
    pub(crate) steps: Vec<u64>,
    /// The input and every hidden layer's output, kept by `forward_train` for `backward`.
    kept: Vec<B::Floats>,
    /// Samples per agent that `kept` holds; 0 when there are none.
    kept_batch: usize,
    /// Two buffers that a forward pass without a backward alternates between.
    passing: [B::Floats; 2],
    /// Two buffers that the gradient alternates between on its way down.
    deltas: [B::Floats; 2],
    train_outputs: Outputs<B>,
    outputs: Outputs<B>,
    /// Output gradients as handed over: for the last layer, and for the layers below it.
    last_delta: B::Floats,
    trunk_delta: B::Floats,
    /// The same behind dueling streams.
    raw_last_delta: Option<B::Floats>,
    raw_trunk_delta: Option<B::Floats>,
}

/// The head's outputs; a dueling head has raw ones, which are then joined.
#[derive(Debug)]
struct Outputs<B: Backend> {
    raw: Option<B::Floats>,
    joined: B::Floats,
}

impl<B: Backend> Network<B> {
    /// A population of `agents` networks for batches of up to `max_batch` samples. All parameters are zero until
    /// `init`; nothing is allocated after this.
    pub fn new(
        backend: B,
        architecture: Architecture,
        agents: usize,
        max_batch: usize,
    ) -> Result<Self, ArchitectureError> {
        Self::build(backend, architecture, agents, max_batch, true)
    }

    /// A population that only computes [`forward`](Self::forward) passes of its online networks, in a fraction of the
    /// memory. Whatever trains it or reads its target networks panics.
    pub fn frozen(
        backend: B,
        architecture: Architecture,
        agents: usize,
        max_batch: usize,
    ) -> Result<Self, ArchitectureError> {
        Self::build(backend, architecture, agents, max_batch, false)
    }

    fn build(
        mut backend: B,
        architecture: Architecture,
        agents: usize,
        max_batch: usize,
        trains: bool,
    ) -> Result<Self, ArchitectureError> {
        let plan = Plan::new(&architecture)?;
        for (what, size) in [("the number of agents", agents), ("the largest batch", max_batch)] {
            if size == 0 {
                return Err(ArchitectureError::Zero { what: what.into() });
            }
        }
        let samples = agents.checked_mul(max_batch).ok_or(ArchitectureError::TooLarge)?;
        let floats = agents
            .checked_mul(5 * plan.stride)
            .and_then(|n| samples.checked_mul(plan.floats_per_sample())?.checked_add(n));
        if floats.is_none_or(|n| n >= 1 << 50) {
            return Err(ArchitectureError::TooLarge);
        }
        let layers: Vec<_> = plan.affines().cloned().collect();
        if trains {
            backend.prepare(&layers, agents, max_batch);
        } else {
            // Forward passes need no scratch memory, only what is kept for each agent.
            backend.prepare(&[], agents, max_batch);
        }
        let training = usize::from(trains);
        let sizes = std::iter::once(plan.input).chain(plan.trunk.iter().map(|a| a.output_len()));
        let kept = sizes.map(|size| backend.zeros(training * samples * size)).collect();
        let dueling = architecture.head.dueling;
        let outputs = architecture.outputs();
        let new_outputs = |backend: &mut B, samples: usize| Outputs {
            raw: dueling.then(|| backend.zeros(samples * plan.raw)),
            joined: backend.zeros(samples * outputs),
        };
        let train_outputs = new_outputs(&mut backend, training * samples);
        let acting_outputs = new_outputs(&mut backend, samples);
        let widest = samples * plan.widest();
        let parameters = agents * plan.stride;
        let (learned, sampled) = (training * parameters, training * samples);
        Ok(Network {
            online: backend.zeros(parameters),
            target: backend.zeros(learned),
            adam_m: backend.zeros(learned),
            adam_v: backend.zeros(learned),
            gradients: backend.zeros(learned),
            steps: vec![0; agents],
            kept,
            kept_batch: 0,
            passing: [backend.zeros(widest), backend.zeros(widest)],
            deltas: [backend.zeros(training * widest), backend.zeros(training * widest)],
            train_outputs,
            outputs: acting_outputs,
            last_delta: backend.zeros(sampled * outputs),
            trunk_delta: backend.zeros(sampled * outputs),
            raw_last_delta: dueling.then(|| backend.zeros(sampled * plan.raw)),
            raw_trunk_delta: dueling.then(|| backend.zeros(sampled * plan.raw)),
            backend,
            architecture,
            plan,
            agents,
            max_batch,
            trains,
            rounds: false,
        })
    }

    /// The shape of every network of the population.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The layers with their places in the canonical [layout](crate::layout), first to last.
    pub fn layers(&self) -> impl Iterator<Item = &Affine> {
        self.plan.affines()
    }

    /// Number of networks.
    pub fn agents(&self) -> usize {
        self.agents
    }

    /// The largest batch that forward passes accept.
    pub fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// Outputs `[agent][sample][outputs]` for samples `[agent][sample][input]`; nothing is kept for `backward`, and
    /// what an earlier [`forward_train`](Self::forward_train) kept stays.
    ///
    /// # Panics
    /// If `batch` is 0 or above the largest batch, or the samples are not as many as that.
    pub fn forward(&mut self, which: Which, samples: B::Samples<'_>, batch: usize) -> &B::View {
        let pass = self.pass(batch);
        let parameters = match which {
            Which::Online => &self.online,
            Which::Target => {
                self.check_trains();
                &self.target
            }
        };
        let [input, output] = &mut self.passing;
        let (mut input, mut output) = (input, output);
        self.backend.load(pass, &self.architecture.input, samples, input);
        let count = pass.agents * pass.batch;
        if self.rounds && matches!(self.architecture.input, Input::Vector { .. }) {
            self.backend.round_to_bf16(input, count * self.plan.input);
        }
        for layer in &self.plan.trunk {
            self.backend.forward(pass, layer, parameters, input, output);
            std::mem::swap(&mut input, &mut output);
            if self.rounds {
                self.backend.round_to_bf16(input, count * layer.output_len());
            }
        }
        run_head(
            &mut self.backend,
            pass,
            &self.plan,
            &self.architecture,
            parameters,
            input,
            &mut self.outputs,
        );
        B::view(&self.outputs.joined, self.agents * batch * self.architecture.outputs())
    }

    /// Outputs of the online networks, as [`forward`](Self::forward), with the activations kept for
    /// [`backward`](Self::backward).
    ///
    /// # Panics
    /// As `forward`.
    pub fn forward_train(&mut self, samples: B::Samples<'_>, batch: usize) -> &B::View {
        self.check_trains();
        assert!(!self.rounds, "weights that were rounded are not to be trained further");
        let pass = self.pass(batch);
        self.backend.load(pass, &self.architecture.input, samples, &mut self.kept[0]);
        for (index, layer) in self.plan.trunk.iter().enumerate() {
            let (below, above) = self.kept.split_at_mut(index + 1);
            self.backend.forward(pass, layer, &self.online, &below[index], &mut above[0]);
        }
        let top = &self.kept[self.plan.trunk.len()];
        let outputs = &mut self.train_outputs;
        run_head(&mut self.backend, pass, &self.plan, &self.architecture, &self.online, top, outputs);
        self.kept_batch = batch;
        B::view(&self.train_outputs.joined, self.agents * batch * self.architecture.outputs())
    }

    /// The outputs of the last [`forward_train`](Self::forward_train), again.
    pub fn train_outputs(&self) -> &B::View {
        B::view(&self.train_outputs.joined, self.agents * self.kept_batch * self.architecture.outputs())
    }

    /// The outputs of the last [`forward`](Self::forward) pass, of a batch of this size, before dueling streams were joined:
    /// `[agent][sample]`, and of each the value's and then the advantages'. `None` if the head is plain.
    pub fn streams(&self, batch: usize) -> Option<&B::View> {
        let len = self.pass(batch).agents * batch * self.plan.raw;
        self.outputs.raw.as_ref().map(|raw| B::view(raw, len))
    }

    /// Gradients of all parameters for the batch of the last [`forward_train`](Self::forward_train).
    ///
    /// Both arguments are output gradients `[agent][sample][outputs]`: `last` is used for the last layer's own
    /// weights and biases, `trunk` is what flows down to the hidden layers.
    ///
    /// # Panics
    /// If no batch has been kept, or the gradients are not as many as its outputs.
    pub fn backward(&mut self, last: &B::View, trunk: &B::View) {
        assert!(self.kept_batch > 0, "backward needs a forward_train before it");
        let pass = self.pass(self.kept_batch);
        let head = &self.architecture.head;
        let len = self.agents * self.kept_batch * self.architecture.outputs();
        let depth = self.plan.trunk.len();
        let top = &self.kept[depth];

        self.backend.fill(last, &mut self.last_delta, len);
        let mut delta = &self.last_delta;
        if let Some(raw) = &mut self.raw_last_delta {
            self.backend.duel_gradient(pass, head.actions, head.per_action, delta, raw);
            delta = raw;
        }
        for layer in &self.plan.heads {
            self.backend.weight_gradient(pass, layer, top, delta, &mut self.gradients);
        }
        if depth == 0 {
            return;
        }
        if !std::ptr::eq(last, trunk) {
            self.backend.fill(trunk, &mut self.trunk_delta, len);
            delta = &self.trunk_delta;
            if let Some(raw) = &mut self.raw_trunk_delta {
                self.backend.duel_gradient(pass, head.actions, head.per_action, delta, raw);
                delta = raw;
            }
        }
        let [down, up] = &mut self.deltas;
        let (mut down, mut up) = (down, up);
        for layer in &self.plan.heads {
            self.backend.input_gradient(pass, layer, &self.online, delta, top, down);
        }
        for (index, layer) in self.plan.trunk.iter().enumerate().rev() {
            std::mem::swap(&mut down, &mut up);
            let input = &self.kept[index];
            self.backend.weight_gradient(pass, layer, input, up, &mut self.gradients);
            if index > 0 {
                self.backend.input_gradient(pass, layer, &self.online, up, input, down);
            }
        }
    }

    /// One step of Adam, with each agent's settings, for the agents that are `active`; others are not touched.
    ///
    /// # Panics
    /// If there is not one entry per agent in both slices.
    pub fn adam(&mut self, settings: &[AdamSettings], active: &[bool]) {
        self.check_trains();
        assert_eq!((settings.len(), active.len()), (self.agents, self.agents), "one entry per agent");
        for (steps, _) in self.steps.iter_mut().zip(active).filter(|(_, active)| **active) {
            *steps += 1;
        }
        let pass = self.pass(1);
        let buffers = AdamBuffers {
            parameters: &mut self.online,
            adam_m: &mut self.adam_m,
            adam_v: &mut self.adam_v,
            gradients: &self.gradients,
        };
        self.backend.adam(pass, settings, active, &self.steps, buffers);
    }

    /// Copies an agent's online parameters to its target network.
    pub fn refresh_target(&mut self, agent: usize) {
        self.check_trains();
        self.check_agent(agent);
        let stride = self.plan.stride;
        self.backend.copy(&self.online, &mut self.target, agent * stride, stride);
    }

    /// Makes every action's output k `scale[k] · y + shift[k]` by changing the agent's online last layer only. The
    /// target network and Adam's moments are not touched.
    ///
    /// # Panics
    /// If the slices do not have one entry per output of an action.
    pub fn affine_outputs(&mut self, agent: usize, scale: &[f32], shift: &[f32]) {
        self.check_agent(agent);
        let k = self.architecture.head.per_action;
        assert_eq!((scale.len(), shift.len()), (k, k), "one scale and one shift per output of an action");
        let pass = self.pass(1);
        for (layer, shift) in self.plan.shifted_heads(shift) {
            self.backend.rescale(pass, agent, layer, &mut self.online, scale, shift);
        }
    }

    pub(crate) fn pass(&self, batch: usize) -> Pass {
        assert!(
            (1..=self.max_batch).contains(&batch),
            "a batch of {batch} is not within 1..={}",
            self.max_batch
        );
        Pass { agents: self.agents, batch, stride: self.plan.stride }
    }

    /// Operations write through pointers, which nothing else would keep within empty buffers.
    fn check_trains(&self) {
        assert!(self.trains, "a frozen population has no target networks and does not learn");
    }

    pub(crate) fn check_agent(&self, agent: usize) {
        assert!(agent < self.agents, "agent {agent} of a population of {}", self.agents);
    }
}

fn run_head<B: Backend>(
    backend: &mut B,
    pass: Pass,
    plan: &Plan,
    architecture: &Architecture,
    parameters: &B::Floats,
    top: &B::Floats,
    outputs: &mut Outputs<B>,
) {
    match &mut outputs.raw {
        None => backend.forward(pass, &plan.heads[0], parameters, top, &mut outputs.joined),
        Some(raw) => {
            for layer in &plan.heads {
                backend.forward(pass, layer, parameters, top, raw);
            }
            let head = &architecture.head;
            backend.duel(pass, head.actions, head.per_action, raw, &mut outputs.joined);
        }
    }
}
