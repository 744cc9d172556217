//! Single models out of checkpoints, for those who play while a run is at work or after it was interrupted.

use super::{Checkpoints, average_section, read_manifest};
use crate::actor::Actor;
use crate::error::TrainError;
use crate::population::ModelKind;
use crate::resolve::ResolvedRun;
use crate::run_dir::RunDir;
use crate::store::{Container, StoreError};
use spectral_agent::average::Average;
use spectral_core::bytes::{StateReader, StateWriter};
use std::path::Path;

impl Checkpoints {
    /// A model of one agent in the newest sound checkpoint, if there is one of this kind, as a policy reads it, and the frames that the agent had seen. The
    /// run may be at work meanwhile: a checkpoint is written whole, and one that is removed while it is read is not the newest.
    pub fn model(
        dir: &RunDir,
        run: &ResolvedRun,
        agent: usize,
        kind: ModelKind,
    ) -> Result<Option<(Vec<u8>, u64)>, TrainError> {
        for path in Self::list(dir)?.iter().rev() {
            match Self::model_in(path, run, agent, kind) {
                Err(TrainError::Store(StoreError::NotFound { .. })) => continue,
                Err(TrainError::Store(error)) if error.is_damage() => continue,
                read => return read,
            }
        }
        Ok(None)
    }

    /// Why none of a run's checkpoints gives an agent's model, if there are some and all are damaged: the newest one's damage.
    pub(crate) fn damage(dir: &RunDir, run: &ResolvedRun, agent: usize) -> Option<StoreError> {
        let mut newest = None;
        for path in Self::list(dir).ok()?.iter().rev() {
            match Self::model_in(path, run, agent, ModelKind::Last) {
                // It went as an older one does.
                Err(TrainError::Store(StoreError::NotFound { .. })) => {}
                Err(TrainError::Store(error)) if error.is_damage() => newest = newest.or(Some(error)),
                _ => return None,
            }
        }
        newest
    }

    fn model_in(
        path: &Path,
        run: &ResolvedRun,
        agent: usize,
        kind: ModelKind,
    ) -> Result<Option<(Vec<u8>, u64)>, TrainError> {
        let container = Container::open(path)?;
        if read_manifest(&container)?.0 != run.plan.fingerprint() {
            let detail = "it belongs to a run with other settings".into();
            return Err(StoreError::Mismatch { path: path.into(), detail }.into());
        }
        let id = &run.plan.agents[agent].id;
        let state = container.section(&format!("agent/{id}"))?;
        let mut actor = Actor::new(run, agent, run.make_task()?);
        let mut from = StateReader::new(&state);
        let mut read = || {
            actor.restore_own(&mut from)?;
            // A learner's state begins with its model.
            Ok((from.f32s()?, from.f64s()?))
        };
        let (mut parameters, mut statistics) = read().map_err(|e| StoreError::state(path, &e))?;
        if kind == ModelKind::Average {
            if !container.names().any(|name| name == average_section(id)) {
                return Ok(None);
            }
            let state = container.section(&average_section(id))?;
            let mean = Average::saved_model(&mut StateReader::new(&state));
            match mean.map_err(|e| StoreError::state(path, &e))? {
                Some(mean) => (parameters, statistics) = mean,
                None => return Ok(None),
            }
        }
        let mut model = StateWriter::default();
        model.f32s(&parameters);
        model.f64s(&statistics);
        Ok(Some((model.into_bytes(), actor.frames())))
    }
}
