//! Glimpses of agents at work, for people who watch a run.
//!
//! Whoever watches asks a [`GlimpseSlot`]; the agent fills it in passing and goes on. A slot holds one glimpse: one that nobody
//! takes is replaced, so watching can neither queue up nor hold training back. A glimpse draws no random number and changes
//! nothing of the agent, so a watched run computes the bits of one that is not. An agent that nobody asks pays for the reading
//! of one flag per step.

use spectral_agent::replay::Observations;
use spectral_env::{ActionMask, Env, Observation, ObservationSpec, Picture};
use std::sync::atomic::{AtomicBool, Ordering};
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
            action: 0,
            explored: false,
        }
    }
}

/// Where one agent leaves glimpses and copies of its model for those who ask.
///
/// ```
/// use spectral_env::ObservationSpec;
/// use spectral_train::glimpse::{Glimpse, GlimpseSlot};
/// let observation = ObservationSpec::Vector { len: 3 };
/// let slot = GlimpseSlot::new(observation);
/// slot.ask();
/// let mut glimpse = Glimpse::new(observation);
/// assert!(!slot.take(&mut glimpse), "no agent has come by");
/// ```
#[derive(Debug)]
pub struct GlimpseSlot {
    asked: AtomicBool,
    filled: AtomicBool,
    glimpse: Mutex<Glimpse>,
    model_asked: AtomicBool,
    model: Mutex<Option<(u64, Vec<u8>)>>,
}

impl GlimpseSlot {
    /// An empty slot for an agent whose task is observed like this.
    pub fn new(observation: ObservationSpec) -> Self {
        GlimpseSlot {
            asked: AtomicBool::new(false),
            filled: AtomicBool::new(false),
            glimpse: Mutex::new(Glimpse::new(observation)),
            model_asked: AtomicBool::new(false),
            model: Mutex::new(None),
        }
    }

    /// Asks for a glimpse. It comes with one of the agent's next steps.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Takes the glimpse that was asked for, in exchange for an older one; false if it has not come yet.
    pub fn take(&self, older: &mut Glimpse) -> bool {
        if !self.filled.load(Ordering::Acquire) {
            return false;
        }
        std::mem::swap(&mut *lock(&self.glimpse), older);
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
    /// Exchanged with the slot's when it is complete.
    glimpse: Glimpse,
    observation: ObservationSpec,
    /// Observations of the stack that are in place, while a glimpse is being made.
    gathered: Option<usize>,
    /// All but the action is there.
    complete: bool,
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
    pub(crate) fn new(slot: Arc<GlimpseSlot>, observation: ObservationSpec, stack_begins: bool) -> Self {
        let glimpse = Glimpse::new(observation);
        GlimpseTaker {
            slot,
            glimpse,
            observation,
            gathered: None,
            complete: false,
            stack_begins,
            reward: 0.0,
        }
    }

    /// Looks at what the task has just shown. The last observations of an episode make a stack, so a glimpse takes as many
    /// steps as a stack is deep, unless an episode begins.
    pub(crate) fn observed(
        &mut self,
        env: &dyn Env,
        seen: &Observation<'_>,
        legal: Option<&ActionMask>,
        standing: Standing,
    ) {
        let begins = std::mem::take(&mut self.stack_begins);
        if self.gathered.is_none() {
            if !self.slot.asked.load(Ordering::Acquire) {
                return;
            }
            self.gathered = Some(0);
        }
        let depth = self.observation.stack();
        if begins {
            clear(&mut self.glimpse.stack);
        }
        push(&mut self.glimpse.stack, seen);
        let gathered = if begins { depth } else { self.gathered.unwrap_or(0) + 1 };
        self.gathered = Some(gathered);
        if gathered < depth {
            return;
        }
        let glimpse = &mut self.glimpse;
        if !env.picture(&mut glimpse.picture) {
            glimpse.picture = Picture::default();
        }
        let Standing { frame, episode, score } = standing;
        (glimpse.frame, glimpse.episode, glimpse.score, glimpse.reward) =
            (frame, episode, score, self.reward);
        glimpse.legal = legal.copied();
        self.complete = true;
    }

    /// Whether a glimpse lacks nothing but the action.
    pub(crate) fn awaits_action(&self) -> bool {
        self.complete
    }

    /// Completes the glimpse with the action that is played.
    pub(crate) fn acted(&mut self, action: usize, explored: bool) {
        (self.glimpse.action, self.glimpse.explored) = (action, explored);
        self.complete = false;
        self.gathered = None;
        // Whoever holds the lock is taking an older glimpse. Training does not wait for that.
        if let Ok(mut shown) = self.slot.glimpse.try_lock() {
            std::mem::swap(&mut *shown, &mut self.glimpse);
            self.slot.asked.store(false, Ordering::Release);
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
