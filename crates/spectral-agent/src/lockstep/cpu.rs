//! A group of learners on the CPU: the reference for groups on devices, and the group with which device populations are tested.

use super::{Decision, DeviceFailure, Group, ObservationRef};
use crate::average::ModelKind;
use crate::diagnostics::ScoreError;
use crate::learner::Learner;
use crate::replay::{Observations, Outcome};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_env::{ActionMask, Observation};
use std::ops::Range;

/// Learners that step together, one after the other, on the thread that submits.
///
/// ```
/// use spectral_agent::codecs::configure;
/// use spectral_agent::learner::Learner;
/// use spectral_agent::lockstep::{CpuGroup, Group, ObservationRef};
/// let env = spectral_env::make("catch-scale", &Default::default())?;
/// let (settings, codec) = configure("spectral replay=100", Default::default())?;
/// let learner = Learner::new(settings, codec, env.spec(), 1)?;
/// let mut group = CpuGroup::new(vec![learner]);
/// let seen = vec![0.5; env.spec().observation.len()];
/// group.stage(0, None, Some(ObservationRef::Floats(&seen)), None);
/// group.submit(false, false)?;
/// assert!(group.wait()?[0].action < 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CpuGroup {
    members: Vec<LockstepAgent>,
    decisions: Vec<Decision>,
}

struct LockstepAgent {
    learner: Learner,
    observation: Observations,
    legal: Option<ActionMask>,
    outcome: Option<Outcome>,
    staged: bool,
    /// As in [`Decision`]. It is known only after the answer was given, so the next answer reports it.
    not_finite: Option<u64>,
}

impl CpuGroup {
    /// A group of these learners.
    pub fn new(learners: Vec<Learner>) -> Self {
        let member = |learner: Learner| {
            let observation = Observations::new(learner.replay().spec(), 1);
            LockstepAgent {
                learner,
                observation,
                legal: None,
                outcome: None,
                staged: false,
                not_finite: None,
            }
        };
        let members: Vec<LockstepAgent> = learners.into_iter().map(member).collect();
        CpuGroup { decisions: vec![Decision::default(); members.len()], members }
    }
}

impl LockstepAgent {
    /// An update and a refresh, if they are due.
    fn learn(&mut self, update: bool, refresh: bool) {
        if self.not_finite.is_some() {
            return;
        }
        if update && self.learner.can_update() {
            self.not_finite = self.learner.update().err().map(|error| error.update);
        }
        if refresh && self.not_finite.is_none() {
            self.learner.refresh_target();
        }
    }

    fn observe(&mut self) -> usize {
        match (self.learner.observation(), &self.observation) {
            (Observation::Planes(to), Observations::Bytes(from)) => to.copy_from_slice(from),
            (Observation::Vector(to), Observations::Floats(from)) => to.copy_from_slice(from),
            _ => unreachable!("the buffer is made from the replay's own spec"),
        }
        if let Some(legal) = &self.legal {
            self.learner.allow(legal);
        }
        self.learner.act()
    }
}

impl Group for CpuGroup {
    fn len(&self) -> usize {
        self.members.len()
    }

    fn stage(
        &mut self,
        agent: usize,
        outcome: Option<Outcome>,
        observation: Option<ObservationRef<'_>>,
        legal: Option<&ActionMask>,
    ) {
        let member = &mut self.members[agent];
        match (observation, &mut member.observation) {
            (Some(ObservationRef::Bytes(from)), Observations::Bytes(to)) => to.copy_from_slice(from),
            (Some(ObservationRef::Floats(from)), Observations::Floats(to)) => to.copy_from_slice(from),
            (None, _) => panic!("no buffer was lent that the observation could be in"),
            _ => panic!("the observation is not of the kind that the task says"),
        }
        (member.legal, member.outcome, member.staged) = (legal.copied(), outcome, true);
    }

    fn submit(&mut self, update: bool, refresh: bool) -> Result<(), DeviceFailure> {
        for (member, decision) in self.members.iter_mut().zip(&mut self.decisions) {
            if std::mem::take(&mut member.staged) {
                if let Some(outcome) = member.outcome {
                    member.learner.record(outcome);
                }
                *decision = Decision { action: member.observe(), not_finite: member.not_finite };
                member.learn(update, refresh);
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<&[Decision], DeviceFailure> {
        Ok(&self.decisions)
    }

    fn flush(&mut self, outcomes: &[(usize, Outcome)]) -> Result<&[Decision], DeviceFailure> {
        for &(agent, outcome) in outcomes {
            let member = &mut self.members[agent];
            member.learner.record(outcome);
            self.decisions[agent].not_finite = member.not_finite;
        }
        Ok(&self.decisions)
    }

    fn updates(&mut self, agent: usize) -> Result<u64, DeviceFailure> {
        Ok(self.members[agent].learner.updates())
    }

    fn metric_columns(&self, agent: usize) -> Vec<String> {
        self.members[agent].learner.metric_columns()
    }

    fn drain_metrics(&mut self, agent: usize) -> Result<Vec<Option<f64>>, DeviceFailure> {
        Ok(self.members[agent].learner.drain_metrics())
    }

    fn td_by_score(&mut self, agent: usize) -> Result<Vec<ScoreError>, DeviceFailure> {
        Ok(self.members[agent].learner.td_by_score().collect())
    }

    fn save_model(
        &mut self,
        agent: usize,
        kind: ModelKind,
        out: &mut StateWriter,
    ) -> Result<bool, DeviceFailure> {
        Ok(self.members[agent].learner.save_model_of(kind, out))
    }

    fn save(&mut self, agent: usize, out: &mut StateWriter) -> Result<(), DeviceFailure> {
        self.members[agent].learner.save(out);
        Ok(())
    }

    fn restore(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.decisions[agent] = Decision::default();
        self.members[agent].not_finite = None;
        self.members[agent].learner.restore(from)
    }

    fn save_average(&mut self, agent: usize, out: &mut StateWriter) -> Result<bool, DeviceFailure> {
        Ok(self.members[agent].learner.save_average(out))
    }

    fn restore_average(&mut self, agent: usize, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.members[agent].learner.restore_average(from)
    }

    fn forget_before(&mut self, agent: usize, first: u64) {
        self.members[agent].learner.forget_before(first);
    }

    fn begin_episode(&mut self, agent: usize) -> Result<(), StateError> {
        self.members[agent].learner.replay_mut().begin_episode();
        Ok(())
    }

    fn records(&self, agent: usize) -> Range<u64> {
        let replay = self.members[agent].learner.replay();
        replay.oldest()..replay.newest()
    }

    fn get_records(
        &mut self,
        agent: usize,
        first: u64,
        count: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), DeviceFailure> {
        self.members[agent].learner.replay().write_range(first, count, out);
        Ok(())
    }

    fn put_records(&mut self, agent: usize, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        self.members[agent].learner.replay_mut().read_range(first, count, bytes)
    }
}
