//! The one learner: DQN, whatever the codec.
//!
//! Order of one update, as the authors' code has it: draw a minibatch → target network on the next states → greedy
//! action by decoded value → targets → the codec's `before_forward` (Pop-Art moves its last layer here) → online network
//! → the codec's gradient → error-magnitude correction, importance weights, division by the batch → backward → Adam.

#[cfg(feature = "testing")]
pub(crate) mod device_comparison;
mod saving;

#[cfg(feature = "cuda")]
pub(crate) use saving::LearnerState;

use crate::average::Average;
use crate::codecs::{Affine, Codec, MAX_ACTIONS, NextStates, Rows, greedy};
use crate::diagnostics::{Diagnostics, ScoreError};
use crate::replay::{Observations, Outcome, Replay, SumTree, network_input};
use crate::settings::{AgentSettings, NetworkKind, Setting, SettingError};
use spectral_core::moments::bias_correction;
use spectral_core::rng::{Purpose, Stream};
use spectral_env::{ActionMask, Observation, ObservationSpec, TaskSpec};
use spectral_nn::{AdamSettings, Architecture, ArchitectureError, Cpu, Head, Network, Which};
use std::sync::Arc;

/// Rate of the running error magnitude, and the level and floor that it is divided by (the authors' constants).
pub(crate) const CORRECTION_RATE: f64 = 0.001;
pub(crate) const CORRECTION_LEVEL: f64 = 0.01;
pub(crate) const CORRECTION_FLOOR: f64 = 1e-4;

/// Priorities are never zero, so that every transition can be drawn.
pub(crate) const MIN_PRIORITY: f64 = 1e-6;

/// An agent's values stopped being finite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFinite {
    /// Updates made before it happened.
    pub update: u64,
}

impl std::fmt::Display for NotFinite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the network's values stopped being finite at update {}; a smaller learning_rate may help",
            self.update
        )
    }
}

impl std::error::Error for NotFinite {}

/// The network that an agent with these settings uses on a task.
pub fn architecture(
    settings: &AgentSettings,
    task: &TaskSpec,
    codec: &dyn Codec,
) -> Result<Architecture, SettingError> {
    let head = Head {
        actions: task.actions.len(),
        per_action: codec.outputs(),
        dueling: settings.dueling,
        zero_init: codec.zero_init(),
    };
    let input = network_input(task.observation);
    let architecture = match (settings.network, task.observation) {
        (NetworkKind::Auto, ObservationSpec::Planes { .. }) => Architecture::suited(input, head),
        (NetworkKind::Auto | NetworkKind::Mlp, _) => {
            Architecture::mlp(input, &settings.hidden_widths()?, head)
        }
        (NetworkKind::Nature, _) => Architecture::nature(input, head),
        (NetworkKind::SmallCnn, _) => Architecture::small_cnn(input, head),
    };
    architecture.validate().map_err(|error| {
        let task = &task.name;
        let expected = match error {
            ArchitectureError::ConvOnVector { .. } => {
                format!("mlp or auto: the observations of {task} are vectors, and this network reads pictures")
            }
            ArchitectureError::KernelTooLarge { kernel, height, width, .. } => format!(
                "small-cnn, mlp or auto: the pictures of {task} are too small for this network, in which a kernel of \
                 {kernel}×{kernel} would read {height}×{width}"
            ),
            other => format!("one that fits {task}: {other}"),
        };
        SettingError::bad("network", settings.network.show(), expected)
    })?;
    Ok(architecture)
}

/// Bytes of memory that one agent will need.
pub fn memory_bytes(
    settings: &AgentSettings,
    task: &TaskSpec,
    codec: &dyn Codec,
) -> Result<u64, SettingError> {
    let shape = architecture(settings, task, codec)?;
    let network = shape.memory_bytes(1, settings.batch);
    let replay = settings.replay * Replay::bytes_per_record(task);
    let priorities = if settings.prioritised { 16 * settings.replay.next_power_of_two() } else { 0 };
    let stacks = 4 * 2 * settings.batch * task.observation.len() * task.observation.stack();
    let average = Average::memory_bytes(settings, &shape);
    Ok(network + average + (replay + priorities + stacks) as u64)
}

/// One agent that learns on the CPU: its replay, networks, optimiser, codec statistics and diagnostics.
///
/// On a CPU one agent at a time is the fastest population: its weights stay in the core's cache. Threads take different
/// agents, or share the large matrix products of one.
pub struct Learner {
    settings: AgentSettings,
    codec: Arc<dyn Codec>,
    actions: usize,
    seed: u64,
    replay: Replay,
    network: Network<Cpu>,
    online_state: Vec<f64>,
    frozen_state: Vec<f64>,
    updates: u64,
    error_magnitude: f64,
    priorities: Option<Priorities>,
    diagnostics: Diagnostics,
    average: Option<Average>,
    buffers: Buffers,
}

/// Everything an update writes to, allocated once.
struct Buffers {
    current: Observations,
    states: Observations,
    next_states: Observations,
    actions: Vec<usize>,
    greedy: Vec<usize>,
    /// The states that are bootstrapped from.
    next: Vec<u64>,
    /// Their legal actions, if the task says which they are.
    legal: Vec<ActionMask>,
    /// The online network's outputs there, for codecs that compare.
    online_next: Vec<f32>,
    bootstrap: Vec<f32>,
    live: Vec<bool>,
    scores: Vec<u8>,
    indices: Vec<u64>,
    importance: Vec<f32>,
    returns: Vec<f32>,
    targets: Vec<f32>,
    affine: Affine,
    taken: Vec<f32>,
    gradients: Vec<f32>,
    trunk_weights: Vec<f32>,
    last: Vec<f32>,
    trunk: Vec<f32>,
}

struct Priorities {
    tree: SumTree,
    largest: f64,
}

impl Learner {
    /// A fresh agent for a task.
    pub fn new(
        settings: AgentSettings,
        codec: Arc<dyn Codec>,
        task: &TaskSpec,
        seed: u64,
    ) -> Result<Self, SettingError> {
        settings.validate()?;
        if task.actions.len() > MAX_ACTIONS {
            let most = format!("a task with at most {MAX_ACTIONS} actions");
            return Err(SettingError::bad("task", task.name.clone(), most));
        }
        assert!(
            !codec.has_frequencies() || codec.encoded() == codec.outputs(),
            "a codec with frequencies encodes a return as one number per output"
        );
        let architecture = architecture(&settings, task, codec.as_ref())?;
        let (batch, k, outputs) = (settings.batch, codec.outputs(), architecture.outputs());
        let average = Average::of(&settings, codec.clone(), architecture.clone());
        let mut network = Network::new(Cpu::new(), architecture, 1, batch)
            .map_err(|e| SettingError::bad("network", "", e.to_string()))?;
        let mut rng = Stream::new(seed, Purpose::Weights, 0);
        network.init(0, || rng.unit_f32());
        let buffers = Buffers {
            current: Observations::stacked(task.observation, 1),
            states: Observations::stacked(task.observation, batch),
            next_states: Observations::stacked(task.observation, batch),
            actions: vec![0; batch],
            greedy: vec![0; batch],
            next: vec![0; batch],
            legal: Vec::with_capacity(batch),
            online_next: Vec::with_capacity(if codec.compares() { batch * outputs } else { 0 }),
            bootstrap: vec![0.0; batch],
            live: vec![true; batch],
            scores: vec![0; batch],
            indices: vec![0; batch],
            importance: vec![1.0; batch],
            returns: vec![0.0; batch * codec.encoded()],
            targets: vec![0.0; batch * k],
            affine: Affine::identity(k),
            taken: vec![0.0; batch * k],
            gradients: vec![0.0; batch * k],
            trunk_weights: vec![1.0; k],
            last: vec![0.0; batch * outputs],
            trunk: vec![0.0; batch * outputs],
        };
        let scores = if task.max_player_score == 0 { 0 } else { usize::from(task.max_player_score) + 1 };
        Ok(Learner {
            actions: task.actions.len(),
            seed,
            replay: Replay::of_task(task, settings.replay, settings.n_step),
            network,
            online_state: codec.init(),
            frozen_state: codec.init(),
            updates: 0,
            error_magnitude: 0.0,
            priorities: settings
                .prioritised
                .then(|| Priorities { tree: SumTree::new(settings.replay), largest: 1.0 }),
            diagnostics: Diagnostics::new(codec.as_ref(), scores),
            average,
            buffers,
            settings,
            codec,
        })
    }

    /// The agent's settings.
    pub fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// The agent's codec.
    pub fn codec(&self) -> &dyn Codec {
        self.codec.as_ref()
    }

    /// Parameters of its network.
    pub fn parameters(&self) -> usize {
        self.network.architecture().parameters()
    }

    /// Updates made so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Transitions seen so far.
    pub fn transitions(&self) -> u64 {
        self.replay.newest()
    }

    /// Where the environment writes the current observation.
    pub fn observation(&mut self) -> Observation<'_> {
        self.replay.observation()
    }

    /// Says which actions are legal in the current state, after its [`observation`](Learner::observation) and before
    /// [`act`](Learner::act) and [`record`](Learner::record). A task that masks no actions needs no such call, and it does nothing.
    pub fn allow(&mut self, legal: &ActionMask) {
        self.replay.allow(legal);
    }

    /// The greedy action for the current observation, among the legal ones; of equal values the first.
    ///
    /// # Panics
    /// If the task says which actions are legal and the learner was not told ([`allow`](Learner::allow)).
    pub fn act(&mut self) -> usize {
        self.replay.current(&mut self.buffers.current);
        let legal = self.replay.legal(self.replay.newest());
        let outputs = self.network.forward(Which::Online, self.buffers.current.samples(), 1);
        greedy(self.codec.as_ref(), outputs, &self.online_state, legal.as_ref()).0
    }

    /// The online network's outputs for the current observation, and the statistics that decode them.
    pub fn outputs(&mut self) -> (&[f32], &[f64]) {
        self.replay.current(&mut self.buffers.current);
        (self.network.forward(Which::Online, self.buffers.current.samples(), 1), &self.online_state)
    }

    /// Adds the outputs for the current observation, and the action-values that they stand for, to these lists.
    pub fn values(&mut self, all: &mut Vec<f32>, values: &mut Vec<f32>) {
        let codec = self.codec.clone();
        let (outputs, state) = self.outputs();
        all.extend_from_slice(outputs);
        values.extend(outputs.chunks_exact(codec.outputs()).map(|outputs| codec.decode(outputs, state)));
    }

    /// The greedy action, and its value, for a stack of observations outside replay (evaluation); every action counts as legal.
    pub fn act_on(&mut self, stack: &Observations) -> (usize, f32) {
        let outputs = self.network.forward(Which::Online, stack.samples(), 1);
        greedy(self.codec.as_ref(), outputs, &self.online_state, None)
    }

    /// Completes the current observation with what its action brought.
    pub fn record(&mut self, outcome: Outcome) {
        if let Some(priorities) = &mut self.priorities {
            let slot = (self.replay.newest() % self.replay.capacity() as u64) as usize;
            priorities.tree.set(slot, priorities.largest.powf(self.settings.priority_exponent));
        }
        self.replay.record(outcome);
    }

    /// True once replay holds a transition that can be learned from.
    pub fn can_update(&self) -> bool {
        !self.replay.valid().is_empty()
    }

    /// One gradient step on a minibatch from replay.
    pub fn update(&mut self) -> Result<(), NotFinite> {
        self.draw();
        self.make_targets();
        self.change_outputs();
        let magnitude = self.make_gradients();
        if !magnitude.is_finite() {
            return Err(NotFinite { update: self.updates });
        }
        self.descend();
        Ok(())
    }

    /// What the codec does before the online forward pass.
    fn change_outputs(&mut self) {
        let Buffers { targets, affine, .. } = &mut self.buffers;
        if self.codec.before_forward(targets, &mut self.online_state, affine) {
            self.network.affine_outputs(0, &affine.scale, &affine.shift);
        }
    }

    /// The backward pass and Adam's step.
    fn descend(&mut self) {
        self.network.backward(&self.buffers.last, &self.buffers.trunk);
        let adam = AdamSettings {
            learning_rate: self.settings.learning_rate as f32,
            beta1: self.settings.adam_beta1 as f32,
            beta2: self.settings.adam_beta2 as f32,
            epsilon: self.settings.adam_epsilon as f32,
        };
        self.network.adam(&[adam], &[true]);
        self.updates += 1;
    }

    /// Copies the online network, and the codec's statistics with it, to the target. The [mean](crate::average) moves, if the
    /// agent keeps one.
    pub fn refresh_target(&mut self) {
        self.network.refresh_target(0);
        self.frozen_state.copy_from_slice(&self.online_state);
        if let Some(average) = &mut self.average {
            average.refreshed(self.updates, self.network.parameters(Which::Target, 0), &self.frozen_state);
        }
    }

    /// Draws the minibatch: indices, stacks, encoded returns.
    fn draw(&mut self) {
        let Learner { buffers: b, replay, settings, codec, .. } = self;
        let valid = replay.valid();
        let mut rng = Stream::new(self.seed, Purpose::Sampling, self.updates);
        let uniform = |rng: &mut Stream| valid.start + rng.below((valid.end - valid.start) as usize) as u64;
        match &self.priorities {
            None => b.indices.fill_with(|| uniform(&mut rng)),
            Some(priorities) => {
                priorities.draw(replay, settings, &mut rng, uniform, &mut b.indices, &mut b.importance);
            }
        }
        b.returns.fill(0.0);
        let discount = settings.discount as f32;
        for (row, encoded) in b.returns.chunks_exact_mut(codec.encoded()).enumerate() {
            let sampled = replay.sample(b.indices[row], discount, codec.as_ref(), encoded);
            b.actions[row] = sampled.action;
            b.bootstrap[row] = sampled.bootstrap;
            b.live[row] = sampled.live;
            b.scores[row] = sampled.player_score;
            b.next[row] = sampled.next;
            replay.stack(b.indices[row], row, &mut b.states);
            replay.stack(sampled.next, row, &mut b.next_states);
        }
    }

    /// Greedy actions of the next states, among those that are legal there, and the targets that follow from them.
    fn make_targets(&mut self) {
        let Learner { buffers: b, codec, network, replay, .. } = self;
        let (batch, k, e) = (b.live.len(), codec.outputs(), codec.encoded());
        let width = self.actions * k;
        b.legal.clear();
        b.legal.extend(b.next.iter().map_while(|&next| replay.legal(next)));
        if self.settings.double || codec.compares() {
            let outputs = network.forward(Which::Online, b.next_states.samples(), batch);
            if self.settings.double {
                for (row, next) in outputs.chunks_exact(width).enumerate() {
                    b.greedy[row] = greedy(codec.as_ref(), next, &self.online_state, b.legal.get(row)).0;
                }
            }
            if codec.compares() {
                b.online_next.clear();
                b.online_next.extend_from_slice(outputs);
            }
        }
        let outputs = network.forward(Which::Target, b.next_states.samples(), batch);
        for (row, next) in outputs.chunks_exact(width).enumerate() {
            if !self.settings.double {
                b.greedy[row] = greedy(codec.as_ref(), next, &self.frozen_state, b.legal.get(row)).0;
            }
            codec.target(
                &b.returns[row * e..][..e],
                b.bootstrap[row],
                &next[b.greedy[row] * k..][..k],
                &self.frozen_state,
                &mut b.targets[row * k..][..k],
            );
        }
        if codec.compares() {
            let (online, target) = (&b.online_next[..], outputs);
            let next = NextStates { online, target, actions: self.actions, legal: &b.legal };
            codec.compare(&next, &mut self.online_state);
        }
    }

    /// The online forward pass and the output gradients; returns Σ|output| + Σ|gradient|, which is finite if all is well.
    fn make_gradients(&mut self) -> f64 {
        let Learner { buffers: b, codec, network, .. } = self;
        let (batch, k) = (b.live.len(), codec.outputs());
        let width = self.actions * k;
        let outputs = network.forward_train(b.states.samples(), batch);
        for (row, taken) in b.taken.chunks_exact_mut(k).enumerate() {
            taken.copy_from_slice(&outputs[row * width + b.actions[row] * k..][..k]);
        }
        let rows = Rows { outputs: &b.taken, targets: &b.targets, returns: &b.returns, live: &b.live };
        codec.gradient(&rows, &mut self.online_state, &mut b.gradients, &mut b.trunk_weights);
        self.diagnostics.batch(&rows, &b.gradients, &b.trunk_weights);
        for row in (0..batch).filter(|&row| b.live[row]) {
            let prediction = codec.decode(&b.taken[row * k..][..k], &self.online_state);
            let target = codec.target_value(&b.targets[row * k..][..k], &self.online_state);
            self.diagnostics.row(prediction, target, b.scores[row]);
        }
        let mut magnitude = 0.0;
        for (row, gradient) in b.gradients.chunks_exact_mut(k).enumerate() {
            if !b.live[row] {
                gradient.fill(0.0);
            }
            if let Some(priorities) = &mut self.priorities {
                let norm = gradient.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt();
                let slot = (b.indices[row] % self.replay.capacity() as u64) as usize;
                priorities.update(slot, norm, self.settings.priority_exponent);
            }
            magnitude += gradient.iter().map(|g| f64::from(g.abs())).sum::<f64>();
        }
        let mut scale = 1.0 / batch as f64;
        if codec.error_correction() {
            let mean = magnitude / (batch * k) as f64 / batch as f64;
            self.error_magnitude += CORRECTION_RATE * (mean - self.error_magnitude);
            let running = self.error_magnitude / bias_correction(CORRECTION_RATE, self.updates + 1);
            scale /= (running / CORRECTION_LEVEL).max(CORRECTION_FLOOR);
        }
        b.last.fill(0.0);
        b.trunk.fill(0.0);
        for (row, gradient) in b.gradients.chunks_exact(k).enumerate() {
            let scale = scale as f32 * b.importance[row];
            let at = row * width + b.actions[row] * k;
            for (i, g) in gradient.iter().enumerate() {
                b.trunk[at + i] = scale * g * b.trunk_weights[i];
                b.last[at + i] = if codec.undo_last_layer() { scale * g } else { b.trunk[at + i] };
            }
        }
        // Clipped gradients would hide outputs that are not finite.
        magnitude + b.taken.iter().map(|y| f64::from(y.abs())).sum::<f64>()
    }

    /// Names of the values that [`drain_metrics`](Learner::drain_metrics) gives.
    pub fn metric_columns(&self) -> Vec<String> {
        let mut columns = self.diagnostics.columns();
        columns.extend(self.codec.statistics(&self.online_state).into_iter().map(|(name, _)| name));
        columns
    }

    /// Means since the last call, then the codec's statistics as they are now.
    pub fn drain_metrics(&mut self) -> Vec<Option<f64>> {
        let mut values = self.diagnostics.drain();
        let updated = self.updates > 0;
        let statistics = self.codec.statistics(&self.online_state);
        values.extend(statistics.into_iter().map(|(_, value)| updated.then_some(value)));
        values
    }

    /// The TD errors at every player's score sampled so far.
    pub fn td_by_score(&self) -> impl Iterator<Item = ScoreError> {
        self.diagnostics.td_by_score()
    }

    /// The replay, whose records checkpoints store in segments of their own.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// The replay, for putting records back.
    pub fn replay_mut(&mut self) -> &mut Replay {
        &mut self.replay
    }

    /// Counts the records before `first` as gone: see [`Replay::forget_before`].
    pub fn forget_before(&mut self, first: u64) {
        self.replay.forget_before(first);
        if self.replay.oldest() == self.replay.newest()
            && let Some(priorities) = &mut self.priorities
        {
            (0..self.replay.capacity()).for_each(|slot| priorities.tree.set(slot, 0.0));
        }
    }
}

impl Priorities {
    /// Stratified draws in proportion to priority, and the weights that undo the bias, the largest scaled to 1.
    fn draw(
        &self,
        replay: &Replay,
        settings: &AgentSettings,
        rng: &mut Stream,
        uniform: impl Fn(&mut Stream) -> u64,
        indices: &mut [u64],
        importance: &mut [f32],
    ) {
        let valid = replay.valid();
        let (batch, capacity) = (indices.len() as f64, replay.capacity() as u64);
        let last = replay.newest() - 1;
        // The record that now sits in a slot.
        let number = |slot: u64| last - (last - slot) % capacity;
        for (row, index) in indices.iter_mut().enumerate() {
            let mass = (row as f64 + rng.unit_f64()) / batch * self.tree.total();
            let slot = self.tree.find(mass) as u64;
            let found = if slot <= last { number(slot) } else { u64::MAX };
            // The newest few have no n-step successor yet, and the oldest few no whole stack any more: draw those rows
            // uniformly.
            *index = if valid.contains(&found) { found } else { uniform(rng) };
        }
        let mut largest = 0.0f64;
        let weight = |index: u64| {
            let probability = self.tree.get((index % capacity) as usize) / self.tree.total();
            (probability * (valid.end - valid.start) as f64).powf(-settings.importance_exponent)
        };
        for index in indices.iter() {
            largest = largest.max(weight(*index));
        }
        for (w, index) in importance.iter_mut().zip(indices.iter()) {
            *w = (weight(*index) / largest) as f32;
        }
    }

    fn update(&mut self, slot: usize, magnitude: f64, exponent: f64) {
        let priority = magnitude + MIN_PRIORITY;
        if priority.is_finite() {
            self.largest = self.largest.max(priority);
            self.tree.set(slot, priority.powf(exponent));
        }
    }
}

#[cfg(test)]
mod legal_tests;
#[cfg(test)]
mod tests;
