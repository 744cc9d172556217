//! Where tasks and codecs come from: the built-in ones, and whatever a program adds.

use crate::atari;
use crate::config::unknown;
use crate::error::TrainError;
use crate::plan::{AgentPlan, Plan};
use spectral_agent::codecs::{self, Codec};
use spectral_agent::settings::{AgentSettings, Setting};
use spectral_env::{Env, TaskError};
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
            None if atari::is_atari(&plan.task) => atari::make(plan),
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
