//! Glimpses of agents at work, for people who watch a run.
//!
//! Whoever watches asks a [`GlimpseSlot`] for some successive steps; the agent fills it in passing and goes on. A slot holds one
//! such sequence: one that nobody takes is replaced, so watching can neither queue up nor hold training back. A glimpse draws no
//! random number and changes nothing of the agent, so a watched run computes the bits of one that is not. An agent that nobody
//! asks pays for the reading of one flag per step.

use spectral_agent::replay::Observations;
use spectral_env::{ActionMask, Env, Observation, ObservationSpec, Picture};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an agent saw and did in one step.
#[derive(Clone, Debug)]
pub struct Glimpse {
    /// Frames that the agent had seen.
    pub frame: u64,
    /// Episodes that it had finished.
    pub episode: u64,
    /// The episode's score before this step.
    pub score: f64,
    /// The reward of the step before.
    pub reward: f64,
    /// The state as a picture; of no size if the task draws none.
    pub picture: Picture,
    /// What the network saw: the whole stack.
    pub stack: Observations,
    /// The legal actions, if the task says which they are.
    pub legal: Option<ActionMask>,
    /// The network's outputs, `[action][output]`, and the decoded action-values, of the weights that acted; empty if they were
    /// not asked for or are out of reach.
    pub outputs: Vec<f32>,
    /// The decoded action-values that belong to them.
    pub values: Vec<f32>,
    /// The action that was played.
    pub action: usize,
    /// Whether exploration chose it.
    pub explored: bool,
}

impl Glimpse {
    /// Room for a glimpse of a task that is observed like this.
    pub fn new(observation: ObservationSpec) -> Self {
        Glimpse {
            frame: 0,
            episode: 0,
            score: 0.0,
            reward: 0.0,
            picture: Picture::default(),
            stack: Observations::stacked(observation, 1),
            legal: None,
            outputs: Vec::new(),
            values: Vec::new(),
            action: 0,
            explored: false,
        }
    }
}

/// Where one agent leaves glimpses and copies of its model for those who ask.
///
/// ```
/// use spectral_env::ObservationSpec;
/// use spectral_train::glimpse::GlimpseSlot;
/// let slot = GlimpseSlot::new(ObservationSpec::Vector { len: 3 });
/// slot.ask(20, true);
/// assert!(!slot.take(&mut Vec::new()), "no agent has come by");
/// ```
#[derive(Debug)]
pub struct GlimpseSlot {
    observation: ObservationSpec,
    /// Steps that are wanted; 0 if none are.
    asked: AtomicUsize,
    with_values: AtomicBool,
    filled: AtomicBool,
    glimpses: Mutex<Vec<Glimpse>>,
    model_asked: AtomicBool,
    model: Mutex<Option<(u64, Vec<u8>)>>,
}

impl GlimpseSlot {
    /// An empty slot for an agent whose task is observed like this.
    pub fn new(observation: ObservationSpec) -> Self {
        GlimpseSlot {
            observation,
            asked: AtomicUsize::new(0),
            with_values: AtomicBool::new(false),
            filled: AtomicBool::new(false),
            glimpses: Mutex::new(Vec::new()),
            model_asked: AtomicBool::new(false),
            model: Mutex::new(None),
        }
    }

    /// Asks for glimpses of so many successive steps, if possible with the values that the agent acts on. They come when the
    /// last of these steps is taken.
    pub fn ask(&self, steps: usize, with_values: bool) {
        self.with_values.store(with_values, Ordering::Relaxed);
        self.asked.store(steps, Ordering::Release);
    }

    /// Takes the glimpses that were asked for, in exchange for older ones, whose memory is used again; false if they have not
    /// come yet.
    pub fn take(&self, older: &mut Vec<Glimpse>) -> bool {
        if !self.filled.load(Ordering::Acquire) {
            return false;
        }
        std::mem::swap(&mut *lock(&self.glimpses), older);
        self.filled.store(false, Ordering::Release);
        true
    }

    /// Asks for a copy of the model, which comes between two steps.
    pub fn ask_model(&self) {
        self.model_asked.store(true, Ordering::Release);
    }

    /// Takes the model that was asked for: the frames that the agent had seen and what
    /// [`Policy::from_model`](crate::policy::Policy::from_model) reads.
    pub fn take_model(&self) -> Option<(u64, Vec<u8>)> {
        lock(&self.model).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An agent's side of its slot.
pub(crate) struct GlimpseTaker {
    slot: Arc<GlimpseSlot>,
    /// The sequence in the making; exchanged with the slot's when it is complete.
    glimpses: Vec<Glimpse>,
    /// How many of them are complete, and how many are wanted; 0 if none are.
    complete: usize,
    wanted: usize,
    /// The newest observations while a sequence is being made, and how many of a stack they are.
    stack: Observations,
    gathered: usize,
    /// The current glimpse lacks nothing but the action.
    awaits_action: bool,
    /// Whether the next observation begins a stack.
    stack_begins: bool,
    reward: f64,
}

/// What the agent knows of itself when it observes.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub frame: u64,
    pub episode: u64,
    pub score: f64,
}

impl GlimpseTaker {
    pub(crate) fn new(slot: Arc<GlimpseSlot>, stack_begins: bool) -> Self {
        let stack = Observations::stacked(slot.observation, 1);
        GlimpseTaker {
            slot,
            glimpses: Vec::new(),
            complete: 0,
            wanted: 0,
            stack,
            gathered: 0,
            awaits_action: false,
            stack_begins,
            reward: 0.0,
        }
    }

    /// Looks at what the task has just shown. A device keeps older frames to itself, so the first glimpse comes once as many
    /// observations were seen as a stack is deep, or an episode begins.
    pub(crate) fn observed(
        &mut self,
        env: &dyn Env,
        seen: &Observation<'_>,
        legal: Option<&ActionMask>,
        standing: Standing,
    ) {
        let begins = std::mem::take(&mut self.stack_begins);
        if self.wanted == 0 {
            self.wanted = self.slot.asked.load(Ordering::Acquire);
            if self.wanted == 0 {
                return;
            }
            (self.complete, self.gathered) = (0, 0);
        }
        let depth = self.slot.observation.stack();
        if begins {
            clear(&mut self.stack);
            self.gathered = depth;
        } else {
            self.gathered = (self.gathered + 1).min(depth);
        }
        push(&mut self.stack, seen);
        if self.gathered < depth {
            return;
        }
        if self.glimpses.len() == self.complete {
            self.glimpses.push(Glimpse::new(self.slot.observation));
        }
        let glimpse = &mut self.glimpses[self.complete];
        if !env.picture(&mut glimpse.picture) {
            glimpse.picture = Picture::default();
        }
        copy(&mut glimpse.stack, &self.stack);
        let Standing { frame, episode, score } = standing;
        (glimpse.frame, glimpse.episode, glimpse.score, glimpse.reward) =
            (frame, episode, score, self.reward);
        glimpse.legal = legal.copied();
        glimpse.outputs.clear();
        glimpse.values.clear();
        self.awaits_action = true;
    }

    /// Whether a glimpse lacks nothing but the action.
    pub(crate) fn awaits_action(&self) -> bool {
        self.awaits_action
    }

    /// Where to write the values that the agent acts on, if they are wanted now: outputs, then decoded values.
    pub(crate) fn wanted_values(&mut self) -> Option<(&mut Vec<f32>, &mut Vec<f32>)> {
        let wanted = self.awaits_action && self.slot.with_values.load(Ordering::Relaxed);
        let glimpse = self.glimpses.get_mut(self.complete).filter(|_| wanted)?;
        Some((&mut glimpse.outputs, &mut glimpse.values))
    }

    /// Completes the glimpse with the action that is played, and hands the sequence over with its last one.
    pub(crate) fn acted(&mut self, action: usize, explored: bool) {
        let glimpse = &mut self.glimpses[self.complete];
        (glimpse.action, glimpse.explored) = (action, explored);
        self.awaits_action = false;
        self.complete += 1;
        if self.complete < self.wanted {
            return;
        }
        self.glimpses.truncate(self.complete);
        self.wanted = 0;
        // Whoever holds the lock is taking an older sequence. Training does not wait for that.
        if let Ok(mut shown) = self.slot.glimpses.try_lock() {
            std::mem::swap(&mut *shown, &mut self.glimpses);
            self.slot.asked.store(0, Ordering::Release);
            self.slot.filled.store(true, Ordering::Release);
        }
    }

    /// Takes note of what a step brought.
    pub(crate) fn stepped(&mut self, reward: f64, stack_ends: bool) {
        self.reward = reward;
        self.stack_begins = stack_ends;
    }

    pub(crate) fn wants_model(&self) -> bool {
        self.slot.model_asked.load(Ordering::Acquire)
    }

    pub(crate) fn give_model(&self, frames: u64, model: Vec<u8>) {
        self.slot.model_asked.store(false, Ordering::Release);
        *lock(&self.slot.model) = Some((frames, model));
    }
}

/// Takes over a stack of the same shape.
fn copy(to: &mut Observations, from: &Observations) {
    match (to, from) {
        (Observations::Bytes(to), Observations::Bytes(from)) => to.copy_from_slice(from),
        (Observations::Floats(to), Observations::Floats(from)) => to.copy_from_slice(from),
        _ => unreachable!("stacks of one task are of one kind"),
    }
}

fn clear(stack: &mut Observations) {
    match stack {
        Observations::Bytes(bytes) => bytes.fill(0),
        Observations::Floats(floats) => floats.fill(0.0),
    }
}

/// Adds an observation at the end of a stack; the oldest leaves it.
fn push(stack: &mut Observations, seen: &Observation<'_>) {
    match (stack, seen) {
        (Observations::Bytes(stack), Observation::Planes(seen)) => shift(stack, seen),
        (Observations::Floats(stack), Observation::Vector(seen)) => shift(stack, seen),
        _ => unreachable!("a task shows what its specification says"),
    }
}

fn shift<T: Copy>(stack: &mut [T], seen: &[T]) {
    let old = stack.len() - seen.len();
    stack.copy_within(seen.len().., 0);
    stack[old..].copy_from_slice(seen);
}
