//! What a run needs of memory, and whether the machine has it.

use crate::devices::{self, Chosen, Place};
use crate::error::TrainError;
use crate::machine::{available_memory, human_bytes};
use crate::resolve::Parts;
use spectral_agent::learner::memory_bytes;

/// Beyond this, bytes could no longer be counted.
const MAX_TRANSITIONS: usize = 1_000_000_000_000_000;

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
    /// What a run needs where `chosen` lets it train.
    pub(crate) fn of(parts: Parts<'_>, chosen: &Chosen) -> Result<Self, TrainError> {
        for agent in &parts.plan.agents {
            let replay = agent.settings.replay;
            if replay > MAX_TRANSITIONS {
                return Err(TrainError::Usage(format!(
                    "a replay of {replay} transitions is more than any memory holds: use a smaller one (--set replay=…)"
                )));
            }
        }
        let (mut needed, mut device) = (0, None);
        if let Chosen::Cuda(gpu) = chosen {
            let need = devices::need(parts, gpu)?;
            needed = need.host;
            device =
                Some(DeviceMemory { name: gpu.name.clone(), needed: need.device, available: gpu.free_bytes });
        } else {
            for (agent, codec) in parts.plan.agents.iter().zip(parts.codecs) {
                needed += memory_bytes(&agent.settings, parts.task, codec.as_ref())?;
            }
        }
        let available = if *parts.place == Place::Here { available_memory() } else { None };
        Ok(Memory { needed, available, device })
    }

    /// Refuses what does not fit.
    pub fn check(&self) -> Result<(), TrainError> {
        let remedy = "use fewer agents or seeds, or a smaller replay (--set replay=…)";
        if let Some(DeviceMemory { name, needed, available }) = &self.device
            && needed > available
        {
            return Err(TrainError::Machine(format!(
                "this run needs {} of memory on {name}, where {} is free: {remedy}, or --device cpu",
                human_bytes(*needed),
                human_bytes(*available)
            )));
        }
        match self.available {
            Some(available) if self.needed > available => Err(TrainError::Machine(format!(
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
