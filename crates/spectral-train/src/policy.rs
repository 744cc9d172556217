//! A frozen model that answers for batches: how good is each action, and which is the best?

use crate::claim::Fence;
use crate::error::TrainError;
use crate::model_file::{self, Description, Model, Origin};
use crate::registry::Registry;
use crate::resolve::ResolvedRun;
use crate::run_dir::RunDir;
use crate::store::StoreError;
use spectral_agent::codecs::greedy;
use spectral_core::shell::quote_path;
use spectral_env::ActionMask;
use spectral_nn::{Cpu, Input, Network, Samples, Which};
use std::path::Path;

/// Rows of the largest batch that goes through the network at once; larger ones are split. What a row gives does not depend
/// on it.
const BATCH: usize = 32;

/// An agent that no longer learns.
///
/// It computes on the CPU, to the bit what [`Learner::act`](spectral_agent::learner::Learner::act) sees there. After it is
/// made, it allocates nothing but results.
///
/// ```
/// use spectral_agent::learner::Learner;
/// use spectral_core::bytes::StateWriter;
/// use spectral_nn::Samples;
/// use spectral_train::{config::Configuration, policy::Policy, registry::Registry};
/// let mut config = Configuration::default();
/// config.set("task=catch-scale")?;
/// config.set("agents=spectral")?;
/// let run = Registry::default().resolve(&config)?;
/// let settings = run.plan.agents[0].settings.clone();
/// let learner = Learner::new(settings, run.codecs[0].clone(), &run.task, 1)?;
/// let mut model = StateWriter::default();
/// learner.save_model(&mut model);
/// let mut policy = Policy::from_model(&run, 0, 0, &model.into_bytes())?;
/// let observations = vec![0.5; 2 * policy.observation_len()];
/// assert_eq!(policy.q_values(Samples::Floats(&observations))?, [0.0; 6], "2 × 3 values, before any learning");
/// assert_eq!(policy.act(Samples::Floats(&observations), None)?, [0, 0]);
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
#[derive(Debug)]
pub struct Policy {
    description: Description,
    frames: u64,
    average: Option<u64>,
    network: Network<Cpu>,
    codec_state: Vec<f64>,
}

impl Policy {
    /// The policy of one agent as it is now, from the bytes of
    /// [`Population::save_model`](crate::population::Population::save_model).
    pub fn from_model(
        run: &ResolvedRun,
        agent: usize,
        frames: u64,
        model: &[u8],
    ) -> Result<Self, TrainError> {
        let model = Model::of(run, agent, frames, model).map_err(|e| TrainError::Data(e.to_string()))?;
        Self::new(model)
    }

    /// The policy of one agent of a run directory, as it was when the run ended.
    pub fn of_run(dir: &RunDir, run: &ResolvedRun, agent: usize) -> Result<Self, TrainError> {
        let id = &run.plan.agents[agent].id;
        let model = model_file::read_own(&dir.model(id), run, agent, None).map_err(|e| match e {
            TrainError::Store(StoreError::NotFound { .. }) => crate::eval::no_model(dir, id),
            other => other,
        })?;
        Self::from_model(run, agent, dir.frames(id), &model)
    }

    /// The policy in a model file, in an agent's folder, or in the folder of a run that has one model.
    pub fn load(path: &Path, registry: &Registry) -> Result<Self, TrainError> {
        if !path.is_dir() {
            return Self::load_file(path, registry);
        }
        let agents = path.join("agents");
        if !agents.is_dir() {
            return Self::load_file(&model_file::path_in(path), registry);
        }
        let entries = std::fs::read_dir(&agents).map_err(|e| StoreError::io(&agents, "list", e))?;
        let mut models: Vec<_> = entries
            .flatten()
            .map(|entry| model_file::path_in(&entry.path()))
            .filter(|p| p.is_file())
            .collect();
        models.sort();
        match &models[..] {
            [model] => Self::load_file(model, registry),
            [] => Err(TrainError::Usage(format!(
                "{} has no models yet: finish the run with `spectral resume {}`",
                path.display(),
                quote_path(path)
            ))),
            [first, ..] => Err(TrainError::Usage(format!(
                "{} holds {} models: give the folder of one agent, such as {}",
                path.display(),
                models.len(),
                first.parent().unwrap_or(first).display()
            ))),
        }
    }

    fn load_file(path: &Path, registry: &Registry) -> Result<Self, TrainError> {
        if !model_file::is_legacy(path) {
            return Self::new(Model::load(path, registry)?);
        }
        // Version 0.1 wrote bare numbers, whose meaning only the run knows.
        let folder = path.parent().unwrap_or(Path::new(""));
        let (Some(id), Some(run)) = (folder.file_name(), folder.parent().and_then(Path::parent)) else {
            return Err(TrainError::Usage(format!(
                "{} is a model of version 0.1, which can only be read within its run directory",
                path.display()
            )));
        };
        let (dir, file) = RunDir::open(run, registry)?;
        let run = registry.resolve_plan(file.plan)?;
        let agent = run.plan.agents.iter().position(|agent| id == agent.id.as_str());
        let agent = agent.ok_or_else(|| {
            TrainError::Usage(format!("{} is not the folder of one of the run's agents", folder.display()))
        })?;
        Self::of_run(&dir, &run, agent)
    }

    /// The policy of this model.
    pub fn new(model: Model) -> Result<Self, TrainError> {
        if !model.is_finite() {
            return Err(TrainError::Data(format!(
                "the model of {} holds numbers that are not finite, so it cannot act",
                model.description.agent
            )));
        }
        let Model { description, frames, average, parameters, codec_state } = model;
        let mut network = Network::frozen(Cpu::new(), description.network().clone(), 1, BATCH)
            .map_err(|e| TrainError::Usage(e.to_string()))?;
        network.parameters_mut(Which::Online, 0).copy_from_slice(&parameters);
        Ok(Policy { description, frames, average, network, codec_state })
    }

    /// Whose policy this is, what it sees and what it does.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Frames that it was trained for.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The frames over which its weights were [averaged](spectral_agent::average); `None` if they are those of one moment.
    pub fn average(&self) -> Option<u64> {
        self.average
    }

    /// The codec's statistics.
    pub fn codec_state(&self) -> &[f64] {
        &self.codec_state
    }

    /// The network's parameters in the canonical [layout](spectral_nn::layout).
    pub fn parameters(&self) -> &[f32] {
        self.network.parameters(Which::Online, 0)
    }

    /// Numbers in one stacked observation.
    pub fn observation_len(&self) -> usize {
        self.description.network().input.len()
    }

    /// Writes it as a model file, atomically.
    pub fn save(&self, path: &Path) -> Result<(), TrainError> {
        let origin = Origin { description: &self.description, frames: self.frames, average: self.average };
        model_file::write_model(path, origin, self.parameters(), &self.codec_state, &[], &Fence::default())
    }

    /// The network's outputs, `[row][action][output]`, for stacked observations one after the other.
    pub fn outputs(&mut self, observations: Samples<'_>) -> Result<Vec<f32>, TrainError> {
        let rows = self.count(observations)?;
        let mut all = Vec::with_capacity(rows * self.description.network().outputs());
        self.each_batch(observations, |outputs, _, _| all.extend_from_slice(outputs));
        Ok(all)
    }

    /// The action-values in true reward units, `[row][action]`.
    pub fn q_values(&mut self, observations: Samples<'_>) -> Result<Vec<f32>, TrainError> {
        let rows = self.count(observations)?;
        let mut all = Vec::with_capacity(rows * self.description.actions.len());
        self.each_batch(observations, |outputs, description, state| {
            let codec = description.codec();
            let values = outputs.chunks_exact(codec.outputs());
            all.extend(values.map(|outputs| codec.decode(outputs, state)));
        });
        Ok(all)
    }

    /// Outputs and action-values at once, into buffers that are used again: see [`outputs`](Policy::outputs) and
    /// [`q_values`](Policy::q_values).
    pub fn look(
        &mut self,
        observations: Samples<'_>,
        all: &mut Vec<f32>,
        values: &mut Vec<f32>,
    ) -> Result<(), TrainError> {
        self.count(observations)?;
        all.clear();
        values.clear();
        self.each_batch(observations, |outputs, description, state| {
            let codec = description.codec();
            all.extend_from_slice(outputs);
            values.extend(outputs.chunks_exact(codec.outputs()).map(|outputs| codec.decode(outputs, state)));
        });
        Ok(())
    }

    /// The best action of each row; of equal values the first. With a mask, `[row][action]`, of those that are allowed.
    pub fn act(
        &mut self,
        observations: Samples<'_>,
        mask: Option<&[bool]>,
    ) -> Result<Vec<usize>, TrainError> {
        let (rows, actions) = (self.count(observations)?, self.description.actions.len());
        if let Some(mask) = mask {
            if mask.len() != rows * actions {
                return Err(TrainError::Usage(format!(
                    "the mask has {} entries, and {rows} rows of {actions} actions need {}",
                    mask.len(),
                    rows * actions
                )));
            }
            if let Some(row) = mask.chunks_exact(actions).position(|row| !row.contains(&true)) {
                return Err(TrainError::Usage(format!("row {row} of the mask allows no action")));
            }
        }
        let mut all = Vec::with_capacity(rows);
        self.each_batch(observations, |outputs, description, state| {
            let codec = description.codec();
            for row in outputs.chunks_exact(actions * codec.outputs()) {
                let legal = mask.map(|mask| {
                    let allowed = &mask[all.len() * actions..][..actions];
                    let mut legal = ActionMask::all(actions);
                    (0..actions).filter(|&a| !allowed[a]).for_each(|a| legal.forbid(a));
                    legal
                });
                all.push(greedy(codec, row, state, legal.as_ref()).0);
            }
        });
        Ok(all)
    }

    /// Rows of these observations, if they are of the right kind and length.
    fn count(&self, observations: Samples<'_>) -> Result<usize, TrainError> {
        let input = &self.description.network().input;
        let len = input.len();
        let (given, fits, kind) = match (observations, input) {
            (Samples::Bytes(bytes), Input::Planes { .. }) => (bytes.len(), true, "bytes"),
            (Samples::Floats(floats), Input::Vector { .. }) => (floats.len(), true, "32-bit floats"),
            (_, Input::Planes { .. }) => (0, false, "bytes"),
            (_, Input::Vector { .. }) => (0, false, "32-bit floats"),
        };
        match fits && given % len == 0 {
            true => Ok(given / len),
            false => Err(TrainError::Usage(format!("observations must be {len} {kind} each"))),
        }
    }

    /// Passes the outputs of every batch on, with what decodes them.
    fn each_batch(&mut self, observations: Samples<'_>, mut each: impl FnMut(&[f32], &Description, &[f64])) {
        let Policy { description, network, codec_state, .. } = self;
        let len = description.network().input.len();
        let mut run = |samples: Samples<'_>, count: usize| {
            each(network.forward(Which::Online, samples, count), description, codec_state);
        };
        match observations {
            Samples::Bytes(bytes) => {
                bytes.chunks(BATCH * len).for_each(|part| run(Samples::Bytes(part), part.len() / len));
            }
            Samples::Floats(floats) => {
                floats.chunks(BATCH * len).for_each(|part| run(Samples::Floats(part), part.len() / len));
            }
        }
    }
}

#[cfg(test)]
mod tests;
