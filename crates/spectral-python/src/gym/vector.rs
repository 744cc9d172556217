//! A vector environment of the user's, whose environments belong to one agent each.

use super::lock;
use super::member::{Group, seed};
use numpy::PyArray1;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use spectral_env::{Step, StepTogether, Stream, TaskError};
use std::sync::Arc;

/// Who begins the next episode when one has ended, in Gymnasium's terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Autoreset {
    /// The caller.
    Disabled,
    /// The environment, in the next step, whose action it ignores.
    NextStep,
    /// The environment, in the same step, which returns the first observation of the next episode.
    SameStep,
}

impl Autoreset {
    pub fn parse(text: &str) -> PyResult<Self> {
        match text {
            "disabled" => Ok(Autoreset::Disabled),
            "next_step" => Ok(Autoreset::NextStep),
            "same_step" => Ok(Autoreset::SameStep),
            other => Err(PyValueError::new_err(format!("no autoreset mode is called {other}"))),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It has never been reset, or its episode ended and nobody has begun another.
    Ended,
    /// It begins an episode in the course of the next step.
    Resetting,
    /// It has begun an episode that its agent has not seen yet.
    Fresh,
    /// It plays.
    Playing,
}

/// Steps a vector environment.
pub struct VectorStepper {
    group: Arc<Group>,
    env: Py<PyAny>,
    autoreset: Autoreset,
    states: Vec<State>,
    begun: bool,
    actions: Vec<i64>,
}

impl VectorStepper {
    pub fn new(py: Python<'_>, group: Arc<Group>, env: Py<PyAny>, autoreset: Autoreset) -> PyResult<Self> {
        let count: usize = env.bind(py).getattr("num_envs")?.extract()?;
        let agents = group.slots.len();
        if count != agents {
            return Err(PyValueError::new_err(format!(
                "the vector environment has {count} environments for {agents} agents: each agent needs one"
            )));
        }
        let start = group.source.action(0);
        let (states, actions) = (vec![State::Ended; count], vec![start; count]);
        Ok(VectorStepper { group, env, autoreset, states, begun: false, actions })
    }

    /// Resets the environments that have ended, with these seeds; at first all of them.
    fn reset_ended(&mut self, py: Python<'_>, seeds: &[Option<u32>]) -> PyResult<()> {
        let ended: Vec<bool> = self.states.iter().map(|&state| state == State::Ended).collect();
        if !ended.contains(&true) {
            return Ok(());
        }
        let keywords = PyDict::new(py);
        // An environment whose agent is at its end plays on without anyone watching, from a seed of no importance.
        let seeds: Vec<u32> = seeds.iter().map(|seed| seed.unwrap_or(0)).collect();
        keywords.set_item("seed", seeds)?;
        if self.begun {
            let options = PyDict::new(py);
            options.set_item("reset_mask", PyArray1::from_vec(py, ended.clone()))?;
            keywords.set_item("options", options)?;
        }
        let result = self.env.bind(py).call_method("reset", (), Some(&keywords))?;
        let (observations, infos) = super::read_reset(&result)?;
        for (task, _) in ended.iter().enumerate().filter(|(_, ended)| **ended) {
            self.read(task, &observations, &infos)?;
            self.states[task] = State::Fresh;
        }
        self.begun = true;
        Ok(())
    }

    fn read(&self, task: usize, observations: &Bound<'_, PyAny>, infos: &Bound<'_, PyAny>) -> PyResult<()> {
        let source = &self.group.source;
        let mut slot = lock(&self.group.slots[task]);
        source.layout.read(&observations.get_item(task)?, &mut slot.observation)?;
        if source.spec.masks_actions {
            let masks = infos.get_item(pyo3::intern!(infos.py(), "action_mask")).map_err(|_| {
                PyKeyError::new_err(
                    "the vector environment's info has no \"action_mask\", though the first one had",
                )
            })?;
            super::read_mask(&masks.get_item(task)?, source.spec.actions.len(), &mut slot.legal)?;
        }
        Ok(())
    }

    fn step_all(&mut self, py: Python<'_>, actions: &[(usize, usize)]) -> PyResult<()> {
        if self.autoreset == Autoreset::Disabled || !self.begun {
            self.reset_ended(py, &vec![None; self.states.len()])?;
        }
        let source = self.group.source.clone();
        for &(task, action) in actions {
            self.actions[task] = source.action(action);
        }
        let played = PyArray1::from_slice(py, &self.actions);
        let result = self.env.bind(py).call_method1(pyo3::intern!(py, "step"), (played,))?;
        let tuple = result.cast::<PyTuple>().ok().filter(|tuple| tuple.len() == 5).ok_or_else(|| {
            PyTypeError::new_err(
                "step must return (observations, rewards, terminations, truncations, infos), as Gymnasium has it",
            )
        })?;
        let (observations, infos) = (tuple.get_item(0)?, tuple.get_item(4)?);
        let [rewards, terminated, truncated] = [tuple.get_item(1)?, tuple.get_item(2)?, tuple.get_item(3)?];
        for task in 0..self.states.len() {
            if self.states[task] == State::Resetting {
                self.read(task, &observations, &infos)?;
                self.states[task] = State::Fresh;
                continue;
            }
            let reward = rewards.get_item(task)?;
            let reward: f64 = reward.extract().map_err(|_| {
                PyTypeError::new_err(format!("step returned the reward {reward:?}, which is not a number"))
            })?;
            let (terminated, truncated) =
                (terminated.get_item(task)?.is_truthy()?, truncated.get_item(task)?.is_truthy()?);
            let step = Step { reward, score: reward, terminated, truncated, ..Step::default() };
            let ended = terminated || truncated;
            if !ended || self.autoreset == Autoreset::SameStep {
                self.read(task, &observations, &infos)?;
            }
            self.states[task] = match (ended, self.autoreset) {
                (false, _) => State::Playing,
                (true, Autoreset::Disabled) => State::Ended,
                (true, Autoreset::NextStep) => State::Resetting,
                (true, Autoreset::SameStep) => State::Fresh,
            };
            if actions.iter().any(|&(named, _)| named == task) {
                lock(&self.group.slots[task]).step = Some(step);
            }
        }
        Ok(())
    }
}

impl StepTogether for VectorStepper {
    fn reset(&mut self, tasks: &mut [(usize, Stream)]) -> Result<(), TaskError> {
        let mut seeds = vec![None; self.states.len()];
        for (task, stream) in tasks.iter_mut() {
            seeds[*task] = Some(seed(stream));
        }
        let source = self.group.source.clone();
        if self.autoreset == Autoreset::Disabled || !self.begun {
            source.attached(|py| self.reset_ended(py, &seeds))?;
        }
        for &(task, _) in tasks.iter() {
            lock(&self.group.slots[task]).is_reset = true;
        }
        Ok(())
    }

    fn is_ready(&self, task: usize) -> bool {
        self.states[task] != State::Resetting
    }

    fn step(&mut self, actions: &[(usize, usize)]) -> Result<(), TaskError> {
        let source = self.group.source.clone();
        source.attached(|py| self.step_all(py, actions))
    }
}
