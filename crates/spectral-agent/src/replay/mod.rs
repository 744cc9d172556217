//! Replay: a ring of transitions in which each observation is stored once.
//!
//! A stored transition is the observation *before* the action, the action, the raw reward, flags and the player's score: at
//! Atari size 7056 + 7 bytes, not the 56 KB of two stacks of four. Stacks and n-step returns are put together when a
//! minibatch is drawn. Where a task says which actions are legal, a transition holds those of its observation too, one bit
//! per action: the maximum over a next state needs them.

mod observations;
mod sumtree;

pub use observations::{Observations, network_input};
pub use sumtree::SumTree;

use crate::codecs::Codec;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{ActionMask, Observation, ObservationSpec, Step, TaskSpec};

/// What follows an action, as the learner sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The action taken.
    pub action: u8,
    /// The raw reward.
    pub reward: f32,
    /// No value follows: the episode's end, or a lost life where the protocol says so.
    pub terminal: bool,
    /// The episode was cut off here.
    pub truncated: bool,
    /// The player's score in the state in which the action was taken.
    pub player_score: u8,
}

impl Outcome {
    /// What a step of the task is to the learner, if `life_loss_terminal` says that a lost life ends an episode for it.
    ///
    /// ```
    /// use spectral_agent::replay::Outcome;
    /// use spectral_env::Step;
    /// let step = Step { reward: 2.0, life_lost: true, ..Step::default() };
    /// assert!(Outcome::of(&step, 1, 0, true).terminal);
    /// assert!(!Outcome::of(&step, 1, 0, false).terminal);
    /// ```
    pub fn of(step: &Step, action: u8, player_score: u8, life_loss_terminal: bool) -> Self {
        let life_lost = step.life_lost && life_loss_terminal;
        Outcome {
            action,
            reward: step.reward as f32,
            terminal: step.terminated || (life_lost && !step.truncated),
            truncated: step.truncated && !step.terminated,
            player_score,
        }
    }

    /// [`TERMINAL`] and [`TRUNCATED`], where they apply.
    pub(crate) fn flags(&self) -> u8 {
        (u8::from(self.terminal) * TERMINAL) | (u8::from(self.truncated) * TRUNCATED)
    }
}

/// Flags of a stored transition.
pub(crate) const TERMINAL: u8 = 1;
pub(crate) const TRUNCATED: u8 = 2;
/// The first observation of an episode (or of a life): stacks do not reach past it.
pub(crate) const START: u8 = 4;

/// One sampled transition, without its observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The action taken.
    pub action: usize,
    /// γⁿ, or 0 if the episode ended within the n steps.
    pub bootstrap: f32,
    /// False if a time-out lies within the n steps.
    pub live: bool,
    /// The player's score in the first state.
    pub player_score: u8,
    /// The index of the state that is bootstrapped from.
    pub next: u64,
}

/// A ring of transitions. Records are numbered from 0 for ever; the newest `capacity` of them are kept.
///
/// ```
/// use spectral_agent::replay::{Outcome, Replay};
/// use spectral_env::{ActionMask, Observation, ObservationSpec, TaskSpec};
/// let mut replay = Replay::new(ObservationSpec::Vector { len: 2 }, 100, 3);
/// if let Observation::Vector(v) = replay.observation() { v.copy_from_slice(&[0.1, 0.2]) }
/// replay.record(Outcome { reward: 1.0, ..Default::default() });
/// assert_eq!(replay.newest(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Replay {
    spec: ObservationSpec,
    capacity: usize,
    n_step: usize,
    frames: Observations,
    actions: Vec<u8>,
    rewards: Vec<f32>,
    flags: Vec<u8>,
    scores: Vec<u8>,
    /// `mask_bytes` per record: which actions are legal in the state that was observed.
    legal: Vec<u8>,
    mask_bytes: usize,
    newest: u64,
    /// Records before this one are gone, though the ring had room for them.
    floor: u64,
    /// The next observation begins an episode.
    starting: bool,
    /// Whether the legal actions of the current observation are still to be told.
    untold: bool,
}

impl Replay {
    /// An empty ring for `capacity` transitions of a task, with the legal actions if the task says which they are.
    ///
    /// ```
    /// use spectral_agent::replay::{Outcome, Replay};
    /// use spectral_env::{ActionMask, TaskSpec};
    /// let task = TaskSpec::vector("mine", 2, &["left", "right"]).masking();
    /// let mut replay = Replay::of_task(&task, 100, 3);
    /// replay.observation().vector().fill(0.5);
    /// let mut legal = ActionMask::all(2);
    /// legal.forbid(0);
    /// replay.allow(&legal);
    /// replay.record(Outcome { action: 1, ..Default::default() });
    /// assert_eq!(replay.legal(0).map(|legal| legal.first()), Some(Some(1)));
    /// ```
    pub fn of_task(task: &TaskSpec, capacity: usize, n_step: usize) -> Self {
        let mask_bytes = task.mask_bytes();
        let legal = vec![0; capacity * mask_bytes];
        Replay { legal, mask_bytes, ..Self::new(task.observation, capacity, n_step) }
    }

    /// An empty ring for `capacity` transitions of a task in which every action is always legal.
    pub fn new(spec: ObservationSpec, capacity: usize, n_step: usize) -> Self {
        Replay {
            spec,
            capacity,
            n_step,
            frames: Observations::new(spec, capacity),
            actions: vec![0; capacity],
            rewards: vec![0.0; capacity],
            flags: vec![0; capacity],
            scores: vec![0; capacity],
            legal: Vec::new(),
            mask_bytes: 0,
            newest: 0,
            floor: 0,
            starting: true,
            untold: false,
        }
    }

    /// Bytes that one transition of a task takes.
    pub fn bytes_per_record(task: &TaskSpec) -> usize {
        record_bytes(task.observation, task.mask_bytes())
    }

    /// Bytes that one of its transitions takes.
    pub fn record_bytes(&self) -> usize {
        record_bytes(self.spec, self.mask_bytes)
    }

    /// The shape of an observation.
    pub fn spec(&self) -> ObservationSpec {
        self.spec
    }

    /// The number of the oldest record that is kept.
    pub fn oldest(&self) -> u64 {
        self.newest.saturating_sub(self.capacity as u64).max(self.floor)
    }

    /// One past the number of the newest record.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// How many records the ring has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn slot(&self, index: u64) -> usize {
        (index % self.capacity as u64) as usize
    }

    /// Where the environment writes the current observation, before [`record`](Replay::record) completes it.
    pub fn observation(&mut self) -> Observation<'_> {
        let (slot, len) = (self.slot(self.newest), self.spec.len());
        self.flags[slot] = if self.starting { START } else { 0 };
        self.untold = self.mask_bytes > 0;
        self.frames.write(slot * len..(slot + 1) * len)
    }

    /// Says which actions are legal in the state that was observed, after [`observation`](Replay::observation). Where all are
    /// always legal, nothing is kept.
    pub fn allow(&mut self, legal: &ActionMask) {
        let at = self.slot(self.newest) * self.mask_bytes;
        self.legal[at..at + self.mask_bytes].copy_from_slice(&legal.to_bytes()[..self.mask_bytes]);
        self.untold = false;
    }

    /// The legal actions in the state of a record, or in the current one; `None` if the task does not say.
    ///
    /// # Panics
    /// If those of the current state have not been told.
    pub fn legal(&self, index: u64) -> Option<ActionMask> {
        if self.mask_bytes == 0 {
            return None;
        }
        assert!(
            !self.untold || index != self.newest,
            "the task says which actions are legal, but nobody told the learner (Learner::allow)"
        );
        let at = self.slot(index) * self.mask_bytes;
        Some(ActionMask::from_bytes(&self.legal[at..at + self.mask_bytes]))
    }

    /// The stack that ends with the current observation, for acting.
    pub fn current(&self, out: &mut Observations) {
        self.stack(self.newest, 0, out);
    }

    /// Completes the current observation with what its action brought.
    pub fn record(&mut self, outcome: Outcome) {
        debug_assert!(!self.untold, "the legal actions of what was observed come before the outcome");
        let slot = self.slot(self.newest);
        self.actions[slot] = outcome.action;
        self.rewards[slot] = outcome.reward;
        self.scores[slot] = outcome.player_score;
        self.flags[slot] |= outcome.flags();
        self.starting = outcome.terminal || outcome.truncated;
        self.newest += 1;
    }

    /// The numbers of records that may be sampled: their stack and their n-step successor lie wholly in the ring, and none of
    /// it where the current observation is.
    pub fn valid(&self) -> std::ops::Range<u64> {
        let kept = (self.newest + 1).saturating_sub(self.capacity as u64).max(self.floor);
        let first = kept + self.spec.stack() as u64 - 1;
        first..self.newest.saturating_sub(self.n_step as u64).max(first)
    }

    /// Adds the encoded n-step return of a record to `encoded` (zeroed by the caller) and says what follows.
    pub fn sample(&self, index: u64, discount: f32, codec: &dyn Codec, encoded: &mut [f32]) -> Sampled {
        let first = self.slot(index);
        let mut sampled = Sampled {
            action: usize::from(self.actions[first]),
            bootstrap: 0.0,
            live: true,
            player_score: self.scores[first],
            next: index,
        };
        let mut factor = 1.0;
        for k in 0..self.n_step as u64 {
            let slot = self.slot(index + k);
            codec.encode_reward(self.rewards[slot], factor, encoded);
            factor *= discount;
            if self.flags[slot] & TRUNCATED != 0 {
                sampled.live = false;
                return sampled;
            }
            if self.flags[slot] & TERMINAL != 0 {
                return sampled;
            }
        }
        sampled.bootstrap = factor;
        sampled.next = index + self.n_step as u64;
        sampled
    }

    /// Writes the stack that ends with record `index` as row `row`; where the episode had not begun, zeros.
    pub fn stack(&self, index: u64, row: usize, out: &mut Observations) {
        let (len, depth) = (self.spec.len(), self.spec.stack());
        // How many observations before this one belong to the same episode.
        let mut reach = 0;
        while reach + 1 < depth
            && self.flags[self.slot(index - reach as u64)] & START == 0
            && index > reach as u64
        {
            reach += 1;
        }
        for position in 0..depth {
            let back = depth - 1 - position;
            let at = (row * depth + position) * len;
            let source = (back <= reach).then(|| self.slot(index - back as u64) * len);
            match (&self.frames, &mut *out) {
                (Observations::Bytes(from), Observations::Bytes(to)) => {
                    copy_or_clear(from, source, &mut to[at..at + len])
                }
                (Observations::Floats(from), Observations::Floats(to)) => {
                    copy_or_clear(from, source, &mut to[at..at + len])
                }
                _ => unreachable!("stacks are made from the same observation spec"),
            }
        }
    }

    /// Writes counters and, if an episode is under way, nothing more: records travel in segments.
    pub fn save(&self, out: &mut StateWriter) {
        out.u64(self.newest);
        out.bool(self.starting);
    }

    /// Restores the counters; [`read_range`](Replay::read_range) brings the records.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.newest = match from.u64()? {
            newest if newest <= u64::MAX / 2 => newest,
            newest => return Err(StateError(format!("{newest} transitions, which no run reaches"))),
        };
        self.floor = 0;
        self.starting = from.bool()?;
        Ok(())
    }

    /// Counts the records before `first` as gone. If that is all of them, the next observation begins a stack of its own,
    /// as at an episode's start: what it would have been stacked on is no longer known.
    pub fn forget_before(&mut self, first: u64) {
        self.floor = first.min(self.newest);
        self.starting |= self.floor == self.newest;
    }

    /// Appends records `first..first + count` to `out`, field by field (equal fields compress together).
    pub fn write_range(&self, first: u64, count: u64, out: &mut Vec<u8>) {
        let len = self.spec.len();
        let slots = || (first..first + count).map(|i| self.slot(i));
        out.extend(slots().map(|s| self.actions[s]));
        out.extend(slots().map(|s| self.flags[s]));
        out.extend(slots().map(|s| self.scores[s]));
        for s in slots() {
            out.extend_from_slice(&self.rewards[s].to_le_bytes());
        }
        if self.mask_bytes > 0 {
            slots().for_each(|s| {
                out.extend_from_slice(&self.legal[s * self.mask_bytes..][..self.mask_bytes]);
            });
        }
        for s in slots() {
            match &self.frames {
                Observations::Bytes(v) => out.extend_from_slice(&v[s * len..][..len]),
                Observations::Floats(v) => {
                    for x in &v[s * len..][..len] {
                        out.extend_from_slice(&x.to_le_bytes());
                    }
                }
            }
        }
    }

    /// Marks one record, as [`write_range`](Replay::write_range) wrote it, as cut off by a limit.
    pub fn mark_truncated(record: &mut [u8]) {
        if let Some(flags) = record.get_mut(1) {
            *flags |= TRUNCATED;
        }
    }

    /// The actions of `count` records, as [`write_range`](Replay::write_range) wrote them, and whether the first of them begins an
    /// episode (or a life).
    pub fn played(records: &[u8], count: u64) -> (&[u8], bool) {
        let (actions, rest) = records.split_at(count as usize);
        (actions, rest[0] & START != 0)
    }

    /// Refuses records, in the format of [`write_range`](Replay::write_range), that no play of this task leaves: with an action that
    /// it does not have or that was not legal, a reward that is no number, or unknown flags. Checksums say that a file is what
    /// somebody wrote, not that it was us, and learners use actions as indices without asking again.
    ///
    /// ```
    /// use spectral_agent::replay::{Outcome, Replay};
    /// use spectral_env::TaskSpec;
    /// let task = TaskSpec::vector("mine", 1, &["left", "right"]);
    /// let mut replay = Replay::of_task(&task, 10, 1);
    /// replay.observation().vector().fill(0.5);
    /// replay.record(Outcome { action: 1, ..Default::default() });
    /// let mut record = Vec::new();
    /// replay.write_range(0, 1, &mut record);
    /// assert!(Replay::check(&task, 1, &record).is_ok());
    /// record[0] = 2;
    /// assert!(Replay::check(&task, 1, &record).is_err());
    /// ```
    pub fn check(task: &TaskSpec, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        let (n, record, mask) = (count as usize, Self::bytes_per_record(task), task.mask_bytes());
        if n.checked_mul(record) != Some(bytes.len()) {
            return Err(StateError(format!("{} bytes are not {count} transitions of {record}", bytes.len())));
        }
        let all = ActionMask::all(task.actions.len());
        let (rewards, legal) = (&bytes[3 * n..7 * n], &bytes[7 * n..(7 + mask) * n]);
        for i in 0..n {
            let (action, flags) = (usize::from(bytes[i]), bytes[n + i]);
            if action >= task.actions.len() {
                let (name, actions) = (&task.name, task.actions.len());
                return Err(StateError(format!(
                    "a transition has action {action}, but {name} has {actions}"
                )));
            }
            if flags & !(TERMINAL | TRUNCATED | START) != 0 {
                return Err(StateError(format!("a transition has unknown flags ({flags})")));
            }
            if !read_f32(&rewards[4 * i..]).is_finite() {
                return Err(StateError("a transition has a reward that is no number".into()));
            }
            if mask > 0 {
                let told = ActionMask::from_bytes(&legal[i * mask..][..mask]);
                let mut known = told;
                known.retain(&all);
                if known != told || !told.allows(action) {
                    return Err(StateError(format!("a transition has action {action}, which was not legal")));
                }
            }
        }
        Ok(())
    }

    /// Takes its place among the records: the next is number `newest`, and it begins an episode if `starting`. There are none
    /// before it.
    pub fn begin_at(&mut self, newest: u64, starting: bool) {
        (self.newest, self.floor, self.starting) = (newest, newest, starting);
    }

    /// Lets the next observation begin an episode, whatever came before.
    pub fn begin_episode(&mut self) {
        self.starting = true;
    }

    /// Puts back what [`write_range`](Replay::write_range) wrote.
    pub fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        let n = count as usize;
        let (record, mask) = (self.record_bytes(), self.mask_bytes);
        if n.checked_mul(record) != Some(bytes.len()) {
            return Err(StateError(format!("{} bytes are not {count} transitions of {record}", bytes.len())));
        }
        let (actions, rest) = bytes.split_at(n);
        let (flags, rest) = rest.split_at(n);
        let (scores, rest) = rest.split_at(n);
        let (rewards, rest) = rest.split_at(4 * n);
        let (legal, frames) = rest.split_at(mask * n);
        let len = self.spec.len();
        for i in 0..n {
            let s = self.slot(first + i as u64);
            self.actions[s] = actions[i];
            self.flags[s] = flags[i];
            self.scores[s] = scores[i];
            self.rewards[s] = read_f32(&rewards[4 * i..]);
            self.legal[s * mask..][..mask].copy_from_slice(&legal[i * mask..][..mask]);
            match &mut self.frames {
                Observations::Bytes(v) => v[s * len..][..len].copy_from_slice(&frames[i * len..][..len]),
                Observations::Floats(v) => {
                    for (j, x) in v[s * len..][..len].iter_mut().enumerate() {
                        *x = read_f32(&frames[4 * (i * len + j)..]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Action, flags, score and reward, then the legal actions and the observation.
fn record_bytes(spec: ObservationSpec, mask_bytes: usize) -> usize {
    let element = match spec {
        ObservationSpec::Planes { .. } => 1,
        ObservationSpec::Vector { .. } => 4,
    };
    7 + mask_bytes + spec.len() * element
}

fn read_f32(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn copy_or_clear<T: Copy + Default>(from: &[T], source: Option<usize>, to: &mut [T]) {
    match source {
        Some(at) => to.copy_from_slice(&from[at..at + to.len()]),
        None => to.fill(T::default()),
    }
}

#[cfg(test)]
mod tests;
