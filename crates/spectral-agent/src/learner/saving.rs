//! A learner as bytes: a model that acts, and a checkpoint that goes on learning.

use super::Learner;
use crate::average::{Average, ModelKind};
use crate::diagnostics::Diagnostics;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_nn::Which;

impl Learner {
    /// Writes what acting needs: online weights and codec statistics.
    pub fn save_model(&self, out: &mut StateWriter) {
        out.f32s(self.network.parameters(Which::Online, 0));
        out.f64s(&self.online_state);
    }

    /// Writes one of the agent's models; false if there is none of this kind.
    pub fn save_model_of(&self, kind: ModelKind, out: &mut StateWriter) -> bool {
        match kind {
            ModelKind::Last => {
                self.save_model(out);
                true
            }
            ModelKind::Average => self.average.as_ref().is_some_and(|average| average.save_model(out)),
        }
    }

    /// Writes the [mean](crate::average) as [`Average::save`] does; false if the agent keeps none.
    pub fn save_average(&self, out: &mut StateWriter) -> bool {
        self.average.as_ref().map(|average| average.save(out)).is_some()
    }

    /// The [mean](crate::average) of the weights, if the agent keeps one.
    pub fn average(&self) -> Option<&Average> {
        self.average.as_ref()
    }

    /// Restores the [mean](crate::average) that [`Average::save`] wrote; [`restore`](Learner::restore) must come before.
    pub fn restore_average(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let none = || StateError("a mean of the weights of an agent that keeps none".into());
        self.average.as_mut().ok_or_else(none)?.restore(from)
    }

    /// Restores what [`save_model`](Learner::save_model) wrote.
    pub fn restore_model(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        from.f32s_into(self.network.parameters_mut(Which::Online, 0))?;
        restore_f64s(from, &mut self.online_state)
    }

    /// Acts with the arithmetic of a GPU that trains in bf16 from now on, but for the order of sums. An agent that was
    /// rounded cannot learn any more.
    pub fn round_to_bf16(&mut self) {
        self.network.round_to_bf16();
    }

    /// Writes everything but replay's records and the [mean](Learner::average).
    pub fn save(&self, out: &mut StateWriter) {
        let (adam_m, adam_v, steps) = self.network.adam_state(0);
        let state = LearnerState {
            online: self.network.parameters(Which::Online, 0),
            online_state: &self.online_state,
            target: self.network.parameters(Which::Target, 0),
            frozen: &self.frozen_state,
            adam_m,
            adam_v,
            steps,
            updates: self.updates,
            error_magnitude: self.error_magnitude,
            diagnostics: &self.diagnostics,
        };
        state.save(out);
        self.replay.save(out);
        if let Some(priorities) = &self.priorities {
            out.f64(priorities.largest);
            let leaves: Vec<f64> = (0..self.replay.capacity()).map(|i| priorities.tree.get(i)).collect();
            out.f64s(&leaves);
        }
    }

    /// Restores what [`save`](Learner::save) wrote. The [mean](Learner::average), if the agent keeps one, begins anew.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.average.iter_mut().for_each(Average::clear);
        self.restore_model(from)?;
        from.f32s_into(self.network.parameters_mut(Which::Target, 0))?;
        restore_f64s(from, &mut self.frozen_state)?;
        let (adam_m, adam_v, step) = (from.f32s()?, from.f32s()?, count(from, "optimiser steps")?);
        let expected = self.network.parameters(Which::Online, 0).len();
        if adam_m.len() != expected || adam_v.len() != expected {
            return Err(StateError(format!("{} optimiser moments, {expected} expected", adam_m.len())));
        }
        self.network.set_adam_state(0, &adam_m, &adam_v, step);
        self.updates = count(from, "updates")?;
        self.error_magnitude = from.f64()?;
        self.diagnostics.restore(from)?;
        self.replay.restore(from)?;
        if let Some(priorities) = &mut self.priorities {
            priorities.largest = from.f64()?;
            let leaves = from.f64s()?;
            let possible = |priority: &f64| priority.is_finite() && *priority >= 0.0;
            if !possible(&priorities.largest) || !leaves.iter().all(possible) {
                return Err(StateError("a priority that is negative or no number".into()));
            }
            if leaves.len() != self.replay.capacity() {
                return Err(StateError(format!(
                    "{} priorities, {} expected",
                    leaves.len(),
                    self.replay.capacity()
                )));
            }
            for (leaf, value) in leaves.into_iter().enumerate() {
                priorities.tree.set(leaf, value);
            }
        }
        Ok(())
    }
}

/// What a learner consists of beside replay, wherever it runs: the order in which checkpoints hold it.
pub(crate) struct LearnerState<'a> {
    pub online: &'a [f32],
    pub online_state: &'a [f64],
    pub target: &'a [f32],
    pub frozen: &'a [f64],
    pub adam_m: &'a [f32],
    pub adam_v: &'a [f32],
    pub steps: u64,
    pub updates: u64,
    pub error_magnitude: f64,
    pub diagnostics: &'a Diagnostics,
}

impl LearnerState<'_> {
    pub(crate) fn save(&self, out: &mut StateWriter) {
        out.f32s(self.online);
        out.f64s(self.online_state);
        out.f32s(self.target);
        out.f64s(self.frozen);
        out.f32s(self.adam_m);
        out.f32s(self.adam_v);
        out.u64(self.steps);
        out.u64(self.updates);
        out.f64(self.error_magnitude);
        self.diagnostics.save(out);
    }
}

/// A count that can go on growing.
fn count(from: &mut StateReader<'_>, what: &str) -> Result<u64, StateError> {
    match from.u64()? {
        count if count <= u64::MAX / 2 => Ok(count),
        count => Err(StateError(format!("{count} {what}, which no run reaches"))),
    }
}

fn restore_f64s(from: &mut StateReader<'_>, out: &mut [f64]) -> Result<(), StateError> {
    let values = from.f64s()?;
    if values.len() != out.len() {
        return Err(StateError(format!("{} codec statistics, {} expected", values.len(), out.len())));
    }
    out.copy_from_slice(&values);
    Ok(())
}
