//! An agent's state between the device and bytes, in the format of [`Learner`](crate::learner::Learner).

use super::CudaGroup;
use crate::average::Average;
use crate::diagnostics::Diagnostics;
use crate::gpu::abi::Counters;
use crate::learner::LearnerState;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_nn::cuda::{CudaError, Weights};

impl CudaGroup {
    pub(super) fn counters(&self, agent: usize) -> Result<Counters, CudaError> {
        let mut counters = [Counters::default()];
        self.stream.synchronise()?;
        self.members[agent].counters.read(0, &mut counters)?;
        Ok(counters[0])
    }

    /// The diagnostics with the device's sums.
    pub(super) fn diagnostics(&self, agent: usize) -> Result<Diagnostics, CudaError> {
        let member = &self.members[agent];
        let mut diagnostics = member.diagnostics.clone();
        let mut sums = diagnostics.to_sums();
        self.stream.synchronise()?;
        member.doubles.read(8 * (2 * member.state + member.constants), &mut sums)?;
        diagnostics.take_sums(&sums);
        Ok(diagnostics)
    }

    pub(super) fn set_diagnostics(&self, agent: usize, diagnostics: &Diagnostics) -> Result<(), CudaError> {
        let member = &self.members[agent];
        member.doubles.write(8 * (2 * member.state + member.constants), &diagnostics.to_sums())
    }

    /// The codec's online and frozen state.
    pub(super) fn states(&self, agent: usize) -> Result<(Vec<f64>, Vec<f64>), CudaError> {
        let member = &self.members[agent];
        let mut both = vec![0.0f64; 2 * member.state];
        self.stream.synchronise()?;
        member.doubles.read(0, &mut both)?;
        let frozen = both.split_off(member.state);
        Ok((both, frozen))
    }

    pub(super) fn write_state(&mut self, agent: usize, out: &mut StateWriter) -> Result<(), CudaError> {
        let (online_state, frozen) = self.states(agent)?;
        let [online, target, adam_m, adam_v] =
            [Weights::Online, Weights::Target, Weights::AdamM, Weights::AdamV]
                .map(|which| self.networks.read(which, agent));
        let counters = self.counters(agent)?;
        let state = LearnerState {
            online: &online?,
            online_state: &online_state,
            target: &target?,
            frozen: &frozen,
            adam_m: &adam_m?,
            adam_v: &adam_v?,
            // Every update is one step of Adam.
            steps: counters.updates,
            updates: counters.updates,
            error_magnitude: counters.error_magnitude,
            diagnostics: &self.diagnostics(agent)?,
        };
        state.save(out);
        // As `Replay::save`.
        out.u64(counters.newest);
        out.bool(counters.starting != 0);
        if let Some(priorities) = &self.members[agent].priorities {
            out.f64(counters.largest);
            out.f64s(&priorities.read()?);
        }
        Ok(())
    }

    pub(super) fn read_state(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let (parameters, state) = (self.networks.parameters(agent), self.members[agent].state);
        let lost = |e: CudaError| StateError(e.0);
        let floats = |from: &mut StateReader<'_>| exact(from.f32s()?, parameters, "parameters");
        let doubles = |from: &mut StateReader<'_>| exact(from.f64s()?, state, "codec statistics");
        let (online, online_state) = (floats(from)?, doubles(from)?);
        let (target, frozen) = (floats(from)?, doubles(from)?);
        let (adam_m, adam_v) = (floats(from)?, floats(from)?);
        let _steps = from.u64()?;
        let (updates, error_magnitude) = (from.u64()?, from.f64()?);
        let mut diagnostics = self.members[agent].diagnostics.clone();
        diagnostics.restore(from)?;
        let (newest, starting) = (from.u64()?, u32::from(from.bool()?));
        let member = &self.members[agent];
        let (largest, leaves) = match &member.priorities {
            Some(_) => (from.f64()?, exact(from.f64s()?, member.ring.capacity, "priorities")?),
            None => (1.0, Vec::new()),
        };
        self.average(agent).map_err(lost)?.into_iter().for_each(Average::clear);
        self.stream.synchronise().map_err(lost)?;
        for (which, values) in [
            (Weights::Online, &online),
            (Weights::Target, &target),
            (Weights::AdamM, &adam_m),
            (Weights::AdamV, &adam_v),
        ] {
            self.networks.write(which, agent, values).map_err(lost)?;
        }
        self.set_diagnostics(agent, &diagnostics).map_err(lost)?;
        let member = &mut self.members[agent];
        member.doubles.write(0, &[online_state, frozen].concat()).map_err(lost)?;
        if let Some(priorities) = &member.priorities {
            priorities.write(leaves).map_err(lost)?;
        }
        let counters = Counters { newest, starting, updates, error_magnitude, largest, ..Default::default() };
        member.counters.write(0, &[counters]).map_err(lost)?;
        (member.ring.newest, member.ring.floor) = (newest, 0);
        Ok(())
    }
}

fn exact<T>(values: Vec<T>, expected: usize, what: &str) -> Result<Vec<T>, StateError> {
    if values.len() != expected {
        return Err(StateError(format!("{} {what}, {expected} expected", values.len())));
    }
    Ok(values)
}
