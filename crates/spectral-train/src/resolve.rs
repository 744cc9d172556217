//! A run before it starts, with nothing left open: made once, from a plan, and handed to everything that follows.

use crate::checkpoint::CheckpointKind;
use crate::devices::{self, Chosen};
use crate::error::TrainError;
use crate::machine::{free_disk, human_bytes};
use crate::memory::Memory;
use crate::plan::{AgentPlan, Plan};
use crate::registry::Registry;
use spectral_agent::codecs::Codec;
use spectral_agent::learner::architecture;
use spectral_agent::replay::Replay;
use spectral_env::{Env, TaskEntry, TaskSpec};
use std::path::Path;
use std::sync::Arc;

/// Weights, target weights and two moments, four bytes each.
const BYTES_PER_PARAMETER: u64 = 16;
/// Checkpoints that a run keeps.
const CHECKPOINTS: u64 = 2;

/// A plan with all that follows from it: the task's shape, the codecs, where it trains, what it needs.
///
/// [`Registry::resolve`] makes it. It is written as `run.toml`; populations, checkpoints and forecasts read it.
#[derive(Clone, Debug)]
pub struct ResolvedRun {
    /// The plan.
    pub plan: Plan,
    /// What the task says of itself.
    pub task: TaskSpec,
    /// One codec per agent, in the plan's order.
    pub codecs: Vec<Arc<dyn Codec>>,
    /// Where it trains.
    pub device: Chosen,
    /// Memory that it needs and that there is.
    pub memory: Memory,
    /// Bytes of disk that it may come to need at most, before compression.
    pub disk: u64,
    /// What was decided for the user and should be told.
    pub notes: Vec<String>,
    entry: TaskEntry,
}

/// A plan's task and codecs, before a device is chosen.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub plan: &'a Plan,
    pub task: &'a TaskSpec,
    pub codecs: &'a [Arc<dyn Codec>],
}

impl ResolvedRun {
    pub(crate) fn new(registry: &Registry, plan: Plan) -> Result<Self, TrainError> {
        let entry = registry.task(&plan.task)?.clone();
        // The one instance that is made to be asked; agents get instances of their own.
        let task = checked_spec(entry.make(&plan.task_settings)?.spec(), entry.name())?;
        let codecs = build_codecs(registry, &plan.agents)?;
        let parts = Parts { plan: &plan, task: &task, codecs: &codecs };
        let (device, note) = devices::choose(parts)?;
        let memory = Memory::of(parts, &device)?;
        let disk = parts.disk()?;
        Ok(ResolvedRun { task, codecs, device, memory, disk, notes: note.into_iter().collect(), entry, plan })
    }

    /// A fresh instance of the task.
    pub fn make_task(&self) -> Result<Box<dyn Env>, TrainError> {
        Ok(self.entry.make(&self.plan.task_settings)?)
    }

    /// The task's entry in the registry.
    pub fn entry(&self) -> &TaskEntry {
        &self.entry
    }

    /// The same run on the CPU, because a device that was found cannot be used.
    pub(crate) fn on_cpu(&self, reason: &str) -> Result<Self, TrainError> {
        let memory = self.memory_on(&Chosen::Cpu)?;
        let notes = vec![format!("trains on the CPU: {reason}")];
        Ok(ResolvedRun { device: Chosen::Cpu, memory, notes, ..self.clone() })
    }

    /// Memory that it would need elsewhere.
    pub fn memory_on(&self, device: &Chosen) -> Result<Memory, TrainError> {
        Memory::of(self.parts(), device)
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts { plan: &self.plan, task: &self.task, codecs: &self.codecs }
    }

    /// The device as `run.toml` names it.
    pub fn device_name(&self) -> String {
        self.device.name(self.plan.run.precision)
    }

    /// Whether checkpoints in `folder` leave replay out, and what to tell the user about it. `taken` is what earlier
    /// checkpoints of this run take there, which counts as room.
    pub fn light_checkpoints(&self, folder: &Path, taken: u64) -> (bool, Option<String>) {
        let wanted = self.parts().replay_bytes().saturating_mul(2);
        match (self.plan.run.checkpoint, free_disk(folder)) {
            (CheckpointKind::Full, _) => (false, None),
            (CheckpointKind::Light, _) => (true, None),
            (CheckpointKind::Auto, Some(free)) if wanted > free.saturating_add(taken) => {
                let note = format!(
                    "checkpoints leave out replay: twice its {} do not fit into the {} free on the disk; a resumed run will \
                     fill it anew before it learns on (--set checkpoint=full insists)",
                    human_bytes(wanted / 2),
                    human_bytes(free)
                );
                (true, Some(note))
            }
            (CheckpointKind::Auto, _) => (false, None),
        }
    }
}

impl Parts<'_> {
    /// Bytes of replay's records when the population has come to its end, before compression.
    fn replay_bytes(self) -> u64 {
        let record = Replay::bytes_per_record(self.task.observation) as u64;
        let steps = self.plan.run.frames.div_ceil(self.task.frames_per_step);
        let records = |agent: &AgentPlan| (agent.settings.replay as u64).min(steps);
        self.plan.agents.iter().map(|agent| records(agent).saturating_mul(record)).sum()
    }

    /// Bytes of disk at most: checkpoints and replay.
    fn disk(self) -> Result<u64, TrainError> {
        let mut bytes = self.replay_bytes();
        for (agent, codec) in self.plan.agents.iter().zip(self.codecs) {
            let network = architecture(&agent.settings, self.task, codec.as_ref())?;
            bytes += CHECKPOINTS * BYTES_PER_PARAMETER * network.parameters() as u64;
        }
        Ok(bytes)
    }
}

/// The codecs of these agents.
pub(crate) fn build_codecs(
    registry: &Registry,
    agents: &[AgentPlan],
) -> Result<Vec<Arc<dyn Codec>>, TrainError> {
    let build = |agent: &AgentPlan| {
        let codec = registry.codec(&agent.codec)?.build(&agent.codec_settings, &agent.settings);
        codec.map_err(|e| TrainError::Usage(format!("agent {}: {e}", agent.agent)))
    };
    agents.iter().map(build).collect()
}

/// What a task says of itself, if an agent can learn it. Tasks of other people are checked once, here.
fn checked_spec(spec: &TaskSpec, name: &str) -> Result<TaskSpec, TrainError> {
    let wrong = |what: &str| Err(TrainError::Usage(format!("the task {name} cannot be learned: {what}")));
    if spec.observation.is_empty() || spec.observation.stack() == 0 {
        return wrong("its observations have no elements");
    }
    if !(1..=256).contains(&spec.actions.len()) {
        return wrong("it must have 1 to 256 actions");
    }
    if spec.frames_per_step == 0 {
        return wrong("a step must play at least one frame (TaskSpec::frames_per_step)");
    }
    Ok(spec.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;

    #[test]
    fn light_where_the_disk_is_small() {
        let mut config = Configuration::default();
        let set = [
            "task=pong-mini",
            "observation=pixels",
            "seeds=5",
            "replay=1000000",
            "frames=1000000000000000",
            "device=cpu",
        ];
        set.iter().for_each(|pair| config.set(pair).unwrap());
        let run = Registry::default().resolve(&config).unwrap();
        let bytes = run.parts().replay_bytes();
        assert_eq!(bytes, 5_000_000 * 7063);
        let here = std::env::temp_dir();
        let with = |plan: Plan| ResolvedRun { plan, ..run.clone() };
        let decide = |plan: Plan, taken| with(plan).light_checkpoints(&here, taken);
        assert_eq!(decide(run.plan.clone(), 2 * bytes), (false, None));
        let huge = Plan { agents: vec![run.plan.agents[0].clone(); 100_000], ..run.plan.clone() };
        let (light, note) = decide(huge.clone(), 0);
        assert!(light && note.unwrap().contains("checkpoint=full"));
        assert!(!decide(huge.with(|run| run.checkpoint = CheckpointKind::Full), 0).0);
        let short = run.plan.with(|run| (run.checkpoint, run.frames) = (CheckpointKind::Light, 10));
        assert!(decide(short.clone(), 0).0);
        // A short run never fills its replay.
        assert_eq!(with(short).parts().replay_bytes(), 50 * 7063);
    }
}
