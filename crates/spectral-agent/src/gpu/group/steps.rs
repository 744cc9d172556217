//! A group on a GPU as a trainer sees it: submissions and what is read back.

use super::{CudaGroup, failed};
use crate::average::ModelKind;
use crate::diagnostics::ScoreError;
use crate::gpu::abi::{self, Counters};
use crate::lockstep::{Decision, DeviceFailure, Group, ObservationBuffer, ObservationRef};
use crate::replay::Outcome;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{ActionMask, Observation};
use spectral_nn::abi::from_bytes;
use spectral_nn::cuda::CudaError;
use std::mem::offset_of;

/// Looks for an answer between two questions to the driver.
const LOOKS: u32 = 4096;

impl Group for CudaGroup {
    fn len(&self) -> usize {
        self.members.len()
    }

    fn lend(&mut self, agent: usize) -> Option<Box<dyn ObservationBuffer>> {
        let lent = std::mem::replace(&mut self.lent[agent], true);
        (!lent).then(|| Box::new(self.observation_buffer(agent)) as Box<dyn ObservationBuffer>)
    }

    fn stage(
        &mut self,
        agent: usize,
        outcome: Option<Outcome>,
        observation: Option<ObservationRef<'_>>,
        legal: Option<&ActionMask>,
    ) {
        self.outcome(agent, outcome);
        self.set_legal(agent, legal);
        let lent = self.lent[agent];
        assert_eq!(observation.is_none(), lent, "observations lie in the buffer that was lent, if it was");
        let Some(observation) = observation else { return };
        match (observation, self.observation_buffer(agent).observation()) {
            (ObservationRef::Bytes(from), Observation::Planes(to)) => to.copy_from_slice(from),
            (ObservationRef::Floats(from), Observation::Vector(to)) => to.copy_from_slice(from),
            _ => panic!("the observation is not of the kind that the task says"),
        }
    }

    fn submit(&mut self, update: bool, refresh: bool) -> Result<(), DeviceFailure> {
        self.stamp_staged();
        self.looks = 0;
        let mut queue = || {
            let graphs = self.graphs();
            graphs.step.launch()?;
            if update {
                graphs.update.launch()?;
            }
            if refresh { self.queue_refresh_and_averages() } else { Ok(()) }
        };
        queue().map_err(failed)
    }

    fn ready(&mut self) -> Result<bool, DeviceFailure> {
        if self.has_answered() {
            return Ok(true);
        }
        // A device that is lost never answers; the driver knows, but takes long to say.
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            return self.stream.is_done().map_err(failed);
        }
        Ok(false)
    }

    fn wait(&mut self) -> Result<&[Decision], DeviceFailure> {
        if !self.has_answered() {
            self.stream.synchronise().map_err(failed)?;
        }
        // Only now has the device read what was staged.
        self.clear_staged();
        let size = size_of::<abi::Decision>();
        for (answer, bytes) in self.answers.iter_mut().zip(self.decisions.host_bytes().chunks_exact(size)) {
            let decision: abi::Decision = from_bytes(bytes).expect("as many bytes as there are");
            answer.action = decision.action as usize;
            answer.not_finite = decision.not_finite.checked_sub(1);
        }
        Ok(&self.answers)
    }

    fn flush(&mut self, outcomes: &[(usize, Outcome)]) -> Result<&[Decision], DeviceFailure> {
        self.stream.synchronise().map_err(failed)?;
        self.clear_staged();
        for &(agent, outcome) in outcomes {
            self.outcome(agent, Some(outcome));
        }
        self.graphs().record.launch().map_err(failed)?;
        for &(agent, _) in outcomes {
            let counters = self.counters(agent).map_err(failed)?;
            self.answers[agent].not_finite = counters.not_finite.checked_sub(1);
        }
        self.clear_staged();
        Ok(&self.answers)
    }

    fn updates(&mut self, agent: usize) -> Result<u64, DeviceFailure> {
        Ok(self.counters(agent).map_err(failed)?.updates)
    }

    fn metric_columns(&self, agent: usize) -> Vec<String> {
        let member = &self.members[agent];
        let codec = &member.spec.codec;
        let mut columns = member.diagnostics.columns();
        columns.extend(codec.statistics(&codec.init()).into_iter().map(|(name, _)| name));
        columns
    }

    fn drain_metrics(&mut self, agent: usize) -> Result<Vec<Option<f64>>, DeviceFailure> {
        let drain = || {
            let mut diagnostics = self.diagnostics(agent)?;
            let mut values = diagnostics.drain();
            self.set_diagnostics(agent, &diagnostics)?;
            let updated = self.counters(agent)?.updates > 0;
            let (online_state, _) = self.states(agent)?;
            let statistics = self.members[agent].spec.codec.statistics(&online_state);
            values.extend(statistics.into_iter().map(|(_, value)| updated.then_some(value)));
            Ok(values)
        };
        drain().map_err(failed)
    }

    fn td_by_score(&mut self, agent: usize) -> Result<Vec<ScoreError>, DeviceFailure> {
        Ok(self.diagnostics(agent).map_err(failed)?.td_by_score().collect())
    }

    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, DeviceFailure> {
        self.write_model(agent, kind, out).map_err(failed)
    }

    fn save(&mut self, agent: usize, out: &mut StateWriter) -> Result<(), DeviceFailure> {
        self.write_state(agent, out).map_err(failed)
    }

    fn restore(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.answers[agent] = Decision::default();
        self.read_state(agent, from)
    }

    fn save_average(&mut self, agent: usize, out: &mut StateWriter) -> Result<bool, DeviceFailure> {
        self.write_average(agent, out).map_err(failed)
    }

    fn restore_average(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.read_average(agent, from)
    }

    fn forget_before(&mut self, agent: usize, first: u64) {
        let ring = &mut self.members[agent].ring;
        ring.floor = first.min(ring.newest);
        let (floor, all) = (ring.floor, ring.floor == ring.newest);
        let counters = &self.members[agent].counters;
        // A device that is lost says so at the next submission.
        let _ = self.stream.synchronise();
        let _ = counters.write(offset_of!(Counters, floor), &[floor]);
        if all {
            let _ = counters.write(offset_of!(Counters, starting), &[1u32]);
            if let Some(priorities) = &self.members[agent].priorities {
                let _ = priorities.write(Vec::new());
            }
        }
    }

    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError> {
        let lost = |e: CudaError| StateError(e.0);
        self.stream.synchronise().map_err(lost)?;
        self.members[agent].counters.write(offset_of!(Counters, starting), &[1u32]).map_err(lost)
    }

    fn records(&self, agent: usize) -> std::ops::Range<u64> {
        let ring = &self.members[agent].ring;
        ring.oldest()..ring.newest
    }

    fn get_records(
        &mut self,
        agent: usize,
        first: u64,
        count: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), DeviceFailure> {
        self.stream.synchronise().map_err(failed)?;
        self.members[agent].ring.get(first, count, out).map_err(failed)
    }

    fn put_records(&mut self, agent: usize, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        let ring = &self.members[agent].ring;
        let record = ring.record_bytes();
        if (count as usize).checked_mul(record) != Some(bytes.len()) || count > ring.capacity as u64 {
            return Err(StateError(format!("{} bytes are not {count} transitions of {record}", bytes.len())));
        }
        ring.put(first, count, bytes).map_err(|e| StateError(e.0))
    }
}
