//! Where tasks and codecs come from: the built-in ones, and whatever a program adds.

use crate::config::unknown;
use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use spectral_agent::codecs::{self, Codec};
use spectral_agent::settings::{AgentSettings, Setting};
use spectral_atari::task::{AtariError, AtariOptions, Protocol};
use spectral_env::{Env, ObservationKind, TaskError};
use std::collections::BTreeMap;
use std::sync::Arc;

type MakeTask = dyn Fn() -> Box<dyn Env> + Send + Sync;
type MakeCodec = dyn Fn(&AgentSettings) -> Arc<dyn Codec> + Send + Sync;

/// Makes tasks and codecs by name. A program that brings its own adds them here; everything else (population,
/// checkpoints, reports) then works for them too.
#[derive(Clone, Default)]
pub struct Workshop {
    tasks: BTreeMap<String, Arc<MakeTask>>,
    codecs: BTreeMap<String, Arc<MakeCodec>>,
}

impl Workshop {
    /// Adds a task.
    pub fn with_task(mut self, name: &str, make: impl Fn() -> Box<dyn Env> + Send + Sync + 'static) -> Self {
        self.tasks.insert(name.into(), Arc::new(make));
        self
    }

    /// Adds a codec; an [`AgentPlan`] names it.
    pub fn with_codec(
        mut self,
        name: &str,
        make: impl Fn(&AgentSettings) -> Arc<dyn Codec> + Send + Sync + 'static,
    ) -> Self {
        self.codecs.insert(name.into(), Arc::new(make));
        self
    }

    /// A fresh instance of the plan's task.
    pub fn task(&self, plan: &Plan) -> Result<Box<dyn Env>, TrainError> {
        match self.tasks.get(&plan.task) {
            Some(make) => Ok(make()),
            None if is_atari(&plan.task) => atari(plan),
            None => spectral_env::make(&plan.task, &plan.options).map_err(|error| match error {
                // The nearest name may be one of the Atari tasks, which that crate does not know.
                TaskError::UnknownTask { name, .. } => {
                    let atari = spectral_atari::task::tasks().iter().map(|task| task.name.as_str());
                    unknown("task", &name, spectral_env::tasks().iter().map(|task| task.name).chain(atari))
                }
                other => other.into(),
            }),
        }
    }

    /// The codec of one agent.
    pub fn codec(&self, agent: &AgentPlan) -> Result<Arc<dyn Codec>, TrainError> {
        match self.codecs.get(&agent.codec) {
            Some(make) => Ok(make(&agent.settings)),
            None if agent.codec == agent.settings.codec.show() => Ok(codecs::build(&agent.settings)?),
            None => Err(TrainError::Usage(format!(
                "agent {} uses the codec '{}', which is not built in: the program that made this run brings it",
                agent.id, agent.codec
            ))),
        }
    }
}

/// Whether a name is, or looks like, that of an Atari task.
pub(crate) fn is_atari(task: &str) -> bool {
    task.starts_with("atari/") || spectral_atari::task::tasks().iter().any(|known| known.name == task)
}

fn atari(plan: &Plan) -> Result<Box<dyn Env>, TrainError> {
    let seen = plan.options.observation;
    if !matches!(seen, ObservationKind::Auto | ObservationKind::Pixels) || plan.options.reward_scale != 1.0 {
        return Err(TrainError::Usage(format!(
            "{} is seen as pixels and its rewards are not scaled",
            plan.task
        )));
    }
    if plan.options.frame_skip != 1 {
        return Err(TrainError::Usage(format!(
            "{} always plays 4 frames a step: leave frame_skip out",
            plan.task
        )));
    }
    let protocol = if plan.protocol == "machado" { Protocol::Machado } else { Protocol::Paper };
    let options = AtariOptions { protocol, ..AtariOptions::default() };
    spectral_atari::task::make(&plan.task, &options).map_err(|error| match error {
        AtariError::Roms(_) | AtariError::Rom(_) => TrainError::Data(error.to_string()),
        other => TrainError::Usage(other.to_string()),
    })
}
