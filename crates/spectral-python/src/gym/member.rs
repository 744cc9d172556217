//! One instance of a Gymnasium task, as its agent sees it.

use super::observation::Buffer;
use super::{Source, call_reset, lock, read_reset, read_step};
use pyo3::prelude::*;
use spectral_env::{
    ActionMask, Env, Observation, StateError, StateReader, StateWriter, Step, Stream, TaskSpec,
};
use std::sync::{Arc, Mutex};

/// The instances of a population.
pub struct Group {
    pub source: Arc<Source>,
    pub slots: Vec<Mutex<Slot>>,
}

/// The state of one instance.
pub struct Slot {
    /// Its environment; a vector environment has one for all.
    env: Option<Py<PyAny>>,
    pub observation: Buffer,
    pub legal: ActionMask,
    /// Reset already, for the agent's next `reset`.
    pub is_reset: bool,
    /// Stepped already, for the agent's next `step`.
    pub step: Option<Step>,
    /// How the episode under way came about.
    episode: Option<Trace>,
}

/// What makes an episode again: the seed and the actions since.
#[derive(Default)]
struct Trace {
    seed: u32,
    actions: Vec<u8>,
    sum: f64,
}

impl Group {
    pub fn new(source: Arc<Source>, envs: Vec<Option<Py<PyAny>>>) -> Arc<Self> {
        let slot = |env| {
            Mutex::new(Slot {
                env,
                observation: source.layout.buffer(),
                legal: ActionMask::all(source.spec.actions.len()),
                is_reset: false,
                step: None,
                episode: None,
            })
        };
        let slots = envs.into_iter().map(slot).collect();
        Arc::new(Group { source, slots })
    }
}

impl Drop for Group {
    /// Instances are used again: those of a probe by the population, those of one run by the next.
    fn drop(&mut self) {
        let envs = self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).env.take());
        lock(&self.source.idle).extend(envs);
    }
}

impl Slot {
    /// Begins an episode of an instance with an environment of its own.
    pub fn reset(&mut self, py: Python<'_>, source: &Source, seed: u32) -> PyResult<()> {
        let env = self.env.as_ref().expect("an environment of its own").bind(py);
        let (observation, info) = read_reset(&call_reset(env, seed)?)?;
        source.layout.read(&observation, &mut self.observation)?;
        source.read_legal(&info, &mut self.legal)?;
        self.episode = Some(Trace { seed, ..Trace::default() });
        Ok(())
    }

    /// Plays an action in an instance with an environment of its own.
    pub fn play(&mut self, py: Python<'_>, source: &Source, action: usize) -> PyResult<Step> {
        let env = self.env.as_ref().expect("an environment of its own").bind(py);
        let result = env.call_method1(pyo3::intern!(py, "step"), (source.action(action),))?;
        let (observation, info, step) = read_step(&result)?;
        source.layout.read(&observation, &mut self.observation)?;
        if step.terminated || step.truncated {
            self.episode = None;
        } else {
            source.read_legal(&info, &mut self.legal)?;
            if let Some(episode) = self.episode.as_mut().filter(|_| source.reproducible) {
                episode.actions.push(action as u8);
                episode.sum += step.reward;
            }
        }
        Ok(step)
    }
}

/// An instance of its own, or one of a group.
pub struct Member {
    group: Arc<Group>,
    index: usize,
    failure: Option<String>,
}

/// What a checkpoint says of an instance.
const NOTHING: u8 = 0;
const EPISODE: u8 = 1;

impl Member {
    pub fn new(group: Arc<Group>, index: usize) -> Self {
        Member { group, index, failure: None }
    }

    /// Runs something with the slot in Python; an exception becomes the reason of failure.
    fn attached<T>(
        &mut self,
        work: impl FnOnce(Python<'_>, &Source, &mut Slot) -> PyResult<T>,
    ) -> Result<T, String> {
        let Group { source, slots } = self.group.as_ref();
        Python::attach(|py| {
            work(py, source, &mut lock(&slots[self.index])).map_err(|error| source.keep(py, error))
        })
    }
}

impl Env for Member {
    fn spec(&self) -> &TaskSpec {
        &self.group.source.spec
    }

    fn reset(&mut self, rng: &mut Stream) {
        let done = {
            let mut slot = lock(&self.group.slots[self.index]);
            std::mem::take(&mut slot.is_reset) || slot.env.is_none()
        };
        if !done {
            let seed = seed(rng);
            self.failure = self.attached(|py, source, slot| slot.reset(py, source, seed)).err();
        }
    }

    fn step(&mut self, action: usize, _: &mut Stream) -> Step {
        if let Some(step) = lock(&self.group.slots[self.index]).step.take() {
            return step;
        }
        match self.attached(|py, source, slot| slot.play(py, source, action)) {
            Ok(step) => step,
            Err(reason) => {
                self.failure = Some(reason);
                Step::default()
            }
        }
    }

    fn observe(&self, out: Observation<'_>) {
        lock(&self.group.slots[self.index]).observation.write(out);
    }

    fn legal_actions(&self, legal: &mut ActionMask) {
        *legal = lock(&self.group.slots[self.index]).legal;
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn save(&self, out: &mut StateWriter) {
        let slot = lock(&self.group.slots[self.index]);
        let Some(trace) = slot.episode.as_ref().filter(|_| self.saves_state()) else {
            return out.u8(NOTHING);
        };
        out.u8(EPISODE);
        out.u64(u64::from(trace.seed));
        out.blob(&trace.actions);
        out.u64(trace.sum.to_bits());
        out.u64(slot.observation.fingerprint());
    }

    fn saves_state(&self) -> bool {
        self.group.source.reproducible
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if from.u8()? == NOTHING {
            return Ok(());
        }
        let seed = u32::try_from(from.u64()?).map_err(|_| StateError("a seed of another version".into()))?;
        let (actions, sum, fingerprint) = (from.blob()?, from.u64()?, from.u64()?);
        if !self.saves_state() {
            return Ok(());
        }
        let limit = self.spec().actions.len();
        if actions.iter().any(|&action| usize::from(action) >= limit) {
            return Err(StateError("actions that the task does not have".into()));
        }
        let replayed = self.attached(|py, source, slot| {
            slot.reset(py, source, seed)?;
            for &action in actions {
                slot.play(py, source, usize::from(action))?;
            }
            let sum = slot.episode.as_ref().map(|trace| trace.sum.to_bits());
            Ok((sum, slot.observation.fingerprint()))
        });
        match replayed {
            Ok(reached) if reached == (Some(sum), fingerprint) => Ok(()),
            Ok(_) => Err(StateError(format!(
                "{} did not come to the same state when its episode was played again: its seed and actions do not decide what \
                 happens, or the task was changed; with reproducible=False the run goes on at the start of an episode",
                self.group.source.name
            ))),
            Err(reason) => Err(StateError(format!("its episode cannot be played again: {reason}"))),
        }
    }
}

/// The seed of an episode.
pub fn seed(rng: &mut Stream) -> u32 {
    // Gymnasium's own checks and some tasks take seeds for signed numbers.
    rng.next_u32() >> 1
}
