//! The models that a run has kept of an agent, and with which arithmetic they are played.

use crate::checkpoint::Checkpoints;
use crate::error::TrainError;
use crate::model_file;
use crate::population::ModelKind;
use crate::resolve::ResolvedRun;
use crate::run_dir::RunDir;

spectral_core::choices! {
    /// Which of an agent's models.
    ModelChoice {
        /// That of the run's end; of a run that has not ended, that of the newest checkpoint.
        Last = "last",
        /// The one that played best in the run's evaluations.
        Best = "best",
        /// The one with the running mean of the weights: as it was at the run's end, or in the newest checkpoint.
        Average = "average",
    }
}

spectral_core::choices! {
    /// With which arithmetic a model is played.
    Arithmetic {
        /// fp32, whatever the run was trained with.
        Fp32 = "fp32",
        /// That with which the run was last trained, but for the order of sums: factors are rounded to bf16 if that was a
        /// GPU's.
        Training = "training",
    }
}

/// A model that a run has kept.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptModel {
    /// The bytes of [`Population::save_model`](crate::population::Population::save_model).
    pub bytes: Vec<u8>,
    /// Frames that the agent had seen.
    pub frames: u64,
}

impl KeptModel {
    /// The model of one agent; `None` if the run has not kept such a one.
    pub fn find(
        dir: &RunDir,
        run: &ResolvedRun,
        agent: usize,
        choice: ModelChoice,
    ) -> Result<Option<Self>, TrainError> {
        let id = &run.plan.agents[agent].id;
        let kind = match choice {
            ModelChoice::Last => Some(ModelKind::Last),
            ModelChoice::Average => Some(ModelKind::Average),
            ModelChoice::Best => None,
        };
        // A file that is there before the run's end is that of an earlier end.
        if let Some(kind) = kind.filter(|_| !dir.finished())
            && let Some((bytes, frames)) = Checkpoints::model(dir, run, agent, kind)?
        {
            return Ok(Some(KeptModel { bytes, frames }));
        }
        let path = path(dir, id, choice);
        if !path.exists() {
            return Ok(None);
        }
        // What an ended run leaves is of its last frame; the best model, and those of an earlier end, are of some other one.
        let end = (kind.is_some() && dir.finished()).then(|| dir.frames(id)).filter(|frames| *frames > 0);
        let bytes = model_file::read_own(&path, run, agent, end)?;
        let frames = model_file::frames_in(&path)?.unwrap_or_else(|| dir.frames(id));
        Ok(Some(KeptModel { bytes, frames }))
    }

    /// [`find`](KeptModel::find), where the absence of the model is an error that says what there is.
    pub fn need(
        dir: &RunDir,
        run: &ResolvedRun,
        agent: usize,
        choice: ModelChoice,
    ) -> Result<Self, TrainError> {
        Self::find(dir, run, agent, choice)?.ok_or_else(|| Self::absent(dir, run, agent, choice))
    }

    /// The error for a model that is not there.
    pub fn absent(dir: &RunDir, run: &ResolvedRun, agent: usize, choice: ModelChoice) -> TrainError {
        let id = &run.plan.agents[agent].id;
        if choice != ModelChoice::Best
            && let Some(error) = Checkpoints::damage(dir, run, agent)
        {
            return TrainError::Data(format!(
                "{id} has no model '{choice}': the checkpoints cannot be read; of the newest: {error}"
            ));
        }
        let others = [ModelChoice::Last, ModelChoice::Best, ModelChoice::Average];
        let there =
            |other: &ModelChoice| Self::find(dir, run, agent, *other).is_ok_and(|found| found.is_some());
        let others: Vec<String> =
            others.iter().filter(|other| there(other)).map(ModelChoice::to_string).collect();
        let why = match choice {
            ModelChoice::Last => return crate::eval::no_model(dir, id),
            ModelChoice::Best if !run.plan.run.evaluates() => {
                "frozen games choose it, and this run has none; that needs a run of 50,000 frames or more, or --set eval_every=N"
            }
            ModelChoice::Best => "no frozen games have been played yet",
            ModelChoice::Average if run.plan.agents[agent].settings.average == 0 => {
                "its run keeps no mean of the weights; that needs --set average=N"
            }
            ModelChoice::Average => {
                "there is none before the first checkpoint that follows an update and a refresh"
            }
        };
        let there = match &others[..] {
            [] => "it has no other model either".into(),
            others => format!("what it has is: {}", others.join(", ")),
        };
        TrainError::Usage(format!("{id} has no model '{}': {why}; {there}", choice))
    }
}

fn path(dir: &RunDir, id: &str, choice: ModelChoice) -> std::path::PathBuf {
    match choice {
        ModelChoice::Last => dir.model(id),
        ModelChoice::Best => model_file::best_in(&dir.agent(id)),
        ModelChoice::Average => model_file::average_in(&dir.agent(id)),
    }
}

impl Arithmetic {
    /// Whether factors are rounded to bf16 when the models of this run are played.
    pub fn rounds(self, dir: &RunDir) -> Result<bool, TrainError> {
        let device = dir.device();
        if self == Arithmetic::Fp32 || !device.starts_with("cuda") {
            return Ok(false);
        }
        match device.rsplit_once('(').map(|(_, precision)| precision.trim_end_matches(')')) {
            Some("auto" | "bf16") => Ok(true),
            Some("fp32") => Ok(false),
            _ => Err(TrainError::Usage(format!(
                "{} was trained on {device}, whose arithmetic a CPU does not compute here; play it with --arithmetic fp32",
                dir.path().display()
            ))),
        }
    }
}
