//! Where a run trains: which devices there are, which one a plan gets, and why.

use crate::error::TrainError;
use crate::machine::human_bytes;
use crate::memory::Memory;
use crate::plan::{AgentPlan, Plan};
use crate::store::SEGMENT_BYTES;
use crate::workshop::Workshop;
use spectral_agent::codecs::Codec;
use spectral_agent::learner::memory_bytes;
use spectral_agent::lockstep::{DeviceFailure, Group};
use spectral_agent::replay::Replay;
use spectral_agent::settings::{AgentSettings, Setting};
use spectral_env::TaskSpec;
use std::sync::Arc;

/// Where to train.
///
/// ```
/// use spectral_agent::settings::Setting;
/// use spectral_train::devices::DeviceChoice;
/// assert_eq!(DeviceChoice::parse("cuda"), Ok(DeviceChoice::Cuda(0)));
/// assert_eq!(DeviceChoice::parse("cuda:2").unwrap().show(), "cuda:2");
/// assert!(DeviceChoice::parse("gpu").is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one and the population suits it, else the CPU.
    #[default]
    Auto,
    /// The CPU, agent by agent.
    Cpu,
    /// The CPU behind the pipeline that a GPU has: for tests of that pipeline.
    CpuLockstep,
    /// The GPU of this number.
    Cuda(usize),
}

impl Setting for DeviceChoice {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(DeviceChoice::Auto),
            "cpu" => Ok(DeviceChoice::Cpu),
            "cpu-lockstep" => Ok(DeviceChoice::CpuLockstep),
            "cuda" => Ok(DeviceChoice::Cuda(0)),
            other => {
                let number = other.strip_prefix("cuda:").and_then(|n| n.parse().ok());
                number.map(DeviceChoice::Cuda).ok_or_else(Self::kind)
            }
        }
    }
    fn show(&self) -> String {
        match self {
            DeviceChoice::Auto => "auto".into(),
            DeviceChoice::Cpu => "cpu".into(),
            DeviceChoice::CpuLockstep => "cpu-lockstep".into(),
            DeviceChoice::Cuda(number) => format!("cuda:{number}"),
        }
    }
    fn kind() -> String {
        "auto | cpu | cuda | cuda:N".into()
    }
    fn quoted() -> bool {
        true
    }
}

spectral_agent::choices! {
    /// Arithmetic of matrix products on a GPU. State and sums are fp32 in every case.
    Precision {
        /// The fastest that was found to learn as well as fp32.
        Auto = "auto",
        /// Single precision throughout.
        Fp32 = "fp32",
        /// Factors rounded to 10 bits.
        Tf32 = "tf32",
        /// Factors rounded to 7 bits.
        Bf16 = "bf16",
    }
}

/// A GPU that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number.
    pub number: usize,
    /// Its name, as its driver says.
    pub name: String,
    /// Bytes of its memory that are free.
    pub free_bytes: u64,
}

/// What a plan trains on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The CPU, agent by agent.
    Cpu,
    /// The CPU behind a GPU's pipeline.
    CpuLockstep,
    /// A GPU.
    Cuda(Gpu),
}

impl Chosen {
    /// How a run's directory names it.
    pub fn name(&self, precision: Precision) -> String {
        match self {
            Chosen::Cpu => "cpu".into(),
            Chosen::CpuLockstep => "cpu-lockstep".into(),
            Chosen::Cuda(gpu) => format!("cuda:{} {} ({})", gpu.number, gpu.name, precision.show()),
        }
    }
}

/// Memory that a population needs when a GPU trains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes on the GPU.
    pub device: u64,
    /// Bytes of main memory.
    pub host: u64,
}

/// One agent as a device makes it.
pub struct Member<'a> {
    /// Its settings and seed.
    pub plan: &'a AgentPlan,
    /// Its codec.
    pub codec: Arc<dyn Codec>,
    /// Its task.
    pub task: &'a TaskSpec,
}

/// Looks for a GPU; the error says why it cannot be used.
pub fn probe(number: usize) -> Result<Gpu, String> {
    Err(format!("cuda:{number} cannot be used: this version has no CUDA support yet"))
}

/// Opens a group of agents on a GPU. Two groups of one population may be open at once.
pub fn open(
    gpu: &Gpu,
    _precision: Precision,
    _members: &[Member<'_>],
) -> Result<Box<dyn Group>, DeviceFailure> {
    probe(gpu.number).map_err(DeviceFailure)?;
    Err(DeviceFailure("this version has no CUDA support yet".into()))
}

/// What every GPU that was found is, or why none is used.
pub fn describe() -> Vec<String> {
    match probe(0) {
        Ok(gpu) => vec![format!("cuda:{} {}, {} free", gpu.number, gpu.name, human_bytes(gpu.free_bytes))],
        Err(reason) => vec![reason],
    }
}

/// What a population needs when a GPU trains it.
pub fn need(plan: &Plan, workshop: &Workshop, task: &TaskSpec) -> Result<Need, TrainError> {
    let mut need = Need { device: 0, host: HOST_BYTES };
    for agent in &plan.agents {
        // Weights, moments, gradients and activations take on a GPU about what they take on a CPU.
        need.device += memory_bytes(&agent.settings, task, workshop.codec(agent)?.as_ref())?;
        need.host += 2 * Replay::bytes_per_record(task.observation) as u64;
    }
    Ok(need)
}

/// Buffers in main memory of a population that lives on a GPU; the largest is one segment of a checkpoint.
const HOST_BYTES: u64 = 3 * SEGMENT_BYTES as u64;

/// Whether a population can train in lockstep; the error says what is in the way.
pub fn suits(plan: &Plan) -> Result<(), String> {
    type Show = fn(&AgentSettings) -> String;
    let shared: [(&str, Show); 9] = [
        ("batch", |s| s.batch.show()),
        ("n_step", |s| s.n_step.show()),
        ("learning_starts", |s| s.learning_starts.show()),
        ("update_period", |s| s.update_period.show()),
        ("target_period", |s| s.target_period.show()),
        ("network", |s| s.network.show()),
        ("hidden", |s| s.hidden.show()),
        ("dueling", |s| s.dueling.show()),
        ("double", |s| s.double.show()),
    ];
    let Some((first, others)) = plan.agents.split_first() else { return Ok(()) };
    for other in others {
        for (key, show) in shared {
            let (ours, theirs) = (show(&first.settings), show(&other.settings));
            if ours != theirs {
                return Err(format!(
                    "agents that a GPU trains together must share {key}, which is {ours} for {} and {theirs} for {}: give \
                     them the same, split them into several runs, or use --device cpu",
                    first.id, other.id
                ));
            }
        }
    }
    Ok(())
}

/// What a plan trains on, and what to tell the user about it.
pub fn choose(plan: &Plan, workshop: &Workshop) -> Result<(Chosen, Option<String>), TrainError> {
    let gpu = |number: usize| -> Result<Chosen, String> {
        let gpu = probe(number)?;
        suits(plan)?;
        let chosen = Chosen::Cuda(gpu);
        let fits = Memory::of(plan, workshop, &chosen).and_then(|memory| memory.check());
        fits.map_err(|e| e.to_string())?;
        Ok(chosen)
    };
    match plan.device {
        DeviceChoice::Cpu => Ok((Chosen::Cpu, None)),
        DeviceChoice::CpuLockstep => {
            suits(plan).map_err(TrainError::Usage)?;
            Ok((Chosen::CpuLockstep, None))
        }
        DeviceChoice::Cuda(number) => {
            let chosen = gpu(number).map_err(TrainError::Usage)?;
            Ok((chosen, None))
        }
        DeviceChoice::Auto => match gpu(0) {
            Ok(chosen) => {
                let note = format!("trains on {}", chosen.name(plan.precision));
                Ok((chosen, Some(note)))
            }
            Err(reason) => Ok((Chosen::Cpu, Some(format!("trains on the CPU: {reason}")))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;

    fn plan(pairs: &[&str]) -> Plan {
        let mut config = Configuration::default();
        config.set("task=pong-mini").unwrap();
        pairs.iter().for_each(|pair| config.set(pair).unwrap());
        config.plan().unwrap()
    }

    #[test]
    fn a_population_that_cannot_step_together_is_told_what_to_do() {
        assert_eq!(suits(&plan(&["agents=spectral,popart,categorical", "seeds=3"])), Ok(()));
        let mixed = ["agents=spectral,popart", "device=cpu-lockstep"];
        for setting in ["batch=16", "n_step=1", "update_period=8", "hidden=7", "dueling=true"] {
            let plan = plan(&[&mixed[..], &[&format!("agent.popart.{setting}")]].concat());
            let reason = suits(&plan).unwrap_err();
            let key = setting.split('=').next().unwrap();
            for word in [key, "spectral-s1", "popart-s1", "--device cpu", "several runs"] {
                assert!(reason.contains(word), "{reason}");
            }
            assert!(matches!(choose(&plan, &Workshop::default()), Err(TrainError::Usage(_))));
            let alone = Plan { device: DeviceChoice::Cpu, ..plan };
            assert_eq!(choose(&alone, &Workshop::default()).unwrap().0, Chosen::Cpu);
        }
        // What differs by agent alone is no obstacle.
        let own = plan(&[
            "agents=spectral,popart",
            "agent.popart.learning_rate=1e-5",
            "agent.popart.epsilon_final=0",
        ]);
        assert_eq!(suits(&own), Ok(()));
    }
}
