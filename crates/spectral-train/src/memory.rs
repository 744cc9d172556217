//! What a run needs of memory and disk, and whether the machine has it.

use crate::checkpoint::CheckpointKind;
use crate::devices::{self, Chosen};
use crate::error::TrainError;
use crate::machine::{available_memory, free_disk, human_bytes};
use crate::plan::Plan;
use crate::workshop::Workshop;
use spectral_agent::learner::memory_bytes;
use spectral_agent::replay::Replay;
use spectral_env::TaskSpec;
use std::path::Path;

/// Beyond this, bytes could no longer be counted.
const MOST_TRANSITIONS: usize = 1_000_000_000_000_000;

/// Memory that a plan needs and the machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of main memory that the population needs.
    pub needed: u64,
    /// Bytes that the machine can give, if it says so.
    pub available: Option<u64>,
    /// What a device of its own memory needs and has.
    pub device: Option<DeviceMemory>,
}

/// Memory of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The device's name.
    pub name: String,
    /// Bytes that the population needs.
    pub needed: u64,
    /// Bytes that are free.
    pub available: u64,
}

impl Memory {
    /// What this plan needs where `chosen` lets it train.
    pub fn of(plan: &Plan, workshop: &Workshop, chosen: &Chosen) -> Result<Self, TrainError> {
        let task = workshop.task(plan)?;
        for agent in &plan.agents {
            let replay = agent.settings.replay;
            if replay > MOST_TRANSITIONS {
                return Err(TrainError::Usage(format!(
                    "a replay of {replay} transitions is more than any memory holds: use a smaller one (--set replay=…)"
                )));
            }
        }
        let (mut needed, mut device) = (0, None);
        if let Chosen::Cuda(gpu) = chosen {
            let need = devices::need(plan, workshop, task.spec(), gpu)?;
            needed = need.host;
            device =
                Some(DeviceMemory { name: gpu.name.clone(), needed: need.device, available: gpu.free_bytes });
        } else {
            for agent in &plan.agents {
                needed += memory_bytes(&agent.settings, task.spec(), workshop.codec(agent)?.as_ref())?;
            }
        }
        Ok(Memory { needed, available: available_memory(), device })
    }

    /// Refuses what does not fit.
    pub fn check(&self) -> Result<(), TrainError> {
        let remedy = "use fewer agents or seeds, or a smaller replay (--set replay=…)";
        if let Some(DeviceMemory { name, needed, available }) = &self.device
            && needed > available
        {
            return Err(TrainError::Usage(format!(
                "this run needs {} of memory on {name}, where {} is free: {remedy}, or --device cpu",
                human_bytes(*needed),
                human_bytes(*available)
            )));
        }
        match self.available {
            Some(available) if self.needed > available => Err(TrainError::Usage(format!(
                "this run needs {} of memory and {} is available: {remedy}",
                human_bytes(self.needed),
                human_bytes(available)
            ))),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(DeviceMemory { name, needed, available }) = &self.device {
            let (needed, available) = (human_bytes(*needed), human_bytes(*available));
            write!(f, "{needed} of {available} free on {name}, ")?;
        }
        write!(f, "{}", human_bytes(self.needed))?;
        match self.available {
            Some(bytes) => write!(f, " of {} available", human_bytes(bytes)),
            None => Ok(()),
        }
    }
}

/// Bytes of replay's records when the population has come to its end, before compression.
fn replay_bytes(plan: &Plan, task: &TaskSpec) -> u64 {
    let record = Replay::bytes_per_record(task.observation) as u64;
    let steps = plan.frames.div_ceil(task.frames_per_step.max(1));
    plan.agents.iter().map(|a| (a.settings.replay as u64).min(steps).saturating_mul(record)).sum()
}

/// Whether checkpoints in `folder` leave replay out, and what to tell the user about it. `taken` is what earlier checkpoints
/// of this run take there, which counts as room.
pub fn light_checkpoints(plan: &Plan, task: &TaskSpec, folder: &Path, taken: u64) -> (bool, Option<String>) {
    let wanted = replay_bytes(plan, task).saturating_mul(2);
    match (plan.checkpoint, free_disk(folder)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;

    #[test]
    fn light_where_the_disk_is_small() {
        let mut config = Configuration::default();
        let set =
            ["task=pong-mini", "observation=pixels", "seeds=5", "replay=1000000", "frames=1000000000000000"];
        set.iter().for_each(|pair| config.set(pair).unwrap());
        let plan = config.plan().unwrap();
        let task = Workshop::default().task(&plan).unwrap();
        let bytes = replay_bytes(&plan, task.spec());
        assert_eq!(bytes, 5_000_000 * 7063);
        let here = std::env::temp_dir();
        let decide = |plan: &Plan, taken| light_checkpoints(plan, task.spec(), &here, taken);
        assert_eq!(decide(&plan, 2 * bytes), (false, None));
        let huge = Plan { agents: vec![plan.agents[0].clone(); 100_000], ..plan.clone() };
        let (light, note) = decide(&huge, 0);
        assert!(light && note.unwrap().contains("checkpoint=full"));
        assert!(!decide(&Plan { checkpoint: CheckpointKind::Full, ..huge }, 0).0);
        assert!(decide(&Plan { checkpoint: CheckpointKind::Light, frames: 10, ..plan.clone() }, 0).0);
        // A short run never fills its replay.
        assert_eq!(replay_bytes(&Plan { frames: 10, ..plan }, task.spec()), 50 * 7063);
    }
}
