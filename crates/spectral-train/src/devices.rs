//! Where a run trains: which devices there are, which one a plan gets, and why.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "devices/no_cuda.rs"]
mod cuda;

pub(crate) use cuda::need;
pub use cuda::{compiler, describe, open, probe};

use crate::error::TrainError;
use crate::memory::Memory;
use crate::plan::{AgentPlan, Plan};
use crate::resolve::Parts;
use spectral_agent::codecs::Codec;
use spectral_agent::learner::architecture;
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
    fn quoted(&self) -> bool {
        true
    }
}

spectral_core::choices! {
    /// Arithmetic of matrix products on a GPU. State and sums are fp32 in every case.
    Precision {
        /// bf16, the fastest. No loss to fp32 was seen where the two were compared, on small tasks and before Spectral DQN
        /// starts to improve there (docs/GPU.md).
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

/// The machine for which a run is planned.
///
/// ```
/// use spectral_train::devices::{Gpu, Place};
/// // Jobs of a cluster, planned where there is no GPU.
/// let gpu = Gpu { number: 0, name: "a GPU of 139 GiB".into(), free_bytes: 139 << 30 };
/// assert_ne!(Place::Elsewhere { gpu: Some(gpu) }, Place::Here);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// This one: its GPUs are looked for, its memory is what there is.
    #[default]
    Here,
    /// Another one, of which only this is known.
    Elsewhere {
        /// The GPU that a run gets there, if any.
        gpu: Option<Gpu>,
    },
}

impl Place {
    /// The GPU of this number there; the error says why there is none.
    fn gpu(&self, number: usize) -> Result<Gpu, TrainError> {
        match self {
            // Another machine may have one, or this one when it has been mended. No machine has what the program lacks.
            Place::Here if cfg!(feature = "cuda") => probe(number).map_err(TrainError::Machine),
            Place::Here => probe(number).map_err(TrainError::Usage),
            Place::Elsewhere { gpu: Some(gpu) } => Ok(Gpu { number, ..gpu.clone() }),
            Place::Elsewhere { gpu: None } => {
                Err(TrainError::Usage("it is planned for a machine without a GPU".into()))
            }
        }
    }
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
    /// The setting with which a run trains there and nowhere else.
    pub fn choice(&self) -> DeviceChoice {
        match self {
            Chosen::Cpu => DeviceChoice::Cpu,
            Chosen::CpuLockstep => DeviceChoice::CpuLockstep,
            Chosen::Cuda(gpu) => DeviceChoice::Cuda(gpu.number),
        }
    }

    /// How a run's directory names it.
    pub fn name(&self, precision: Precision) -> String {
        match self {
            Chosen::Cpu => "cpu".into(),
            Chosen::CpuLockstep => "cpu-lockstep".into(),
            Chosen::Cuda(gpu) => format!("cuda:{} {} ({})", gpu.number, gpu.name, precision.show()),
        }
    }
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

/// Memory that a population needs when a GPU trains it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Bytes on the GPU.
    pub device: u64,
    /// Bytes of main memory.
    pub host: u64,
    /// Per agent, whether its observations lie in main memory.
    pub host_resident: Vec<bool>,
}

/// The first setting that two agents would have to share to train in lockstep and do not, with the values of both.
pub(crate) fn unshared(mine: &AgentSettings, its: &AgentSettings) -> Option<(&'static str, String, String)> {
    type Show = fn(&AgentSettings) -> String;
    const SHARED: [(&str, Show); 9] = [
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
    SHARED.iter().map(|(key, show)| (*key, show(mine), show(its))).find(|(_, mine, its)| mine != its)
}

/// Whether a population can train in lockstep; the error says what is in the way.
pub fn suits(plan: &Plan) -> Result<(), String> {
    let Some((first, others)) = plan.agents.split_first() else { return Ok(()) };
    for other in others {
        if let Some((key, ours, theirs)) = unshared(&first.settings, &other.settings) {
            return Err(format!(
                "agents that a GPU trains together must share {key}, which is {ours} for {} and {theirs} for {}: give \
                 them the same, split them into several runs, or use --device cpu",
                first.id, other.id
            ));
        }
    }
    Ok(())
}

/// Operations of one update below which a GPU spends its time waiting for kernels to start.
const MIN_OPERATIONS: u64 = 200_000_000;

/// Whether networks are large enough for a GPU to be the faster choice.
fn large_enough(parts: Parts<'_>) -> Result<Result<(), String>, TrainError> {
    let (Some(agent), Some(codec)) = (parts.plan.agents.first(), parts.codecs.first()) else {
        return Ok(Ok(()));
    };
    let network = architecture(&agent.settings, parts.task, codec.as_ref())?;
    let small = network.flops_step(agent.settings.batch) < MIN_OPERATIONS;
    Ok(if small {
        // Whether there is a GPU that works is not known here: to ask for one takes longer than to plan such a run.
        Err("a GPU would train networks as small as these no faster (--device cuda uses one all the same)"
            .into())
    } else {
        Ok(())
    })
}

/// Whether the system has the files of a GPU's driver; where this is not known, it may.
fn may_have_gpu() -> bool {
    let files = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"];
    !cfg!(target_os = "linux") || files.iter().any(|file| std::path::Path::new(file).exists())
}

/// What a plan trains on, and what to tell the user about it.
pub(crate) fn choose(parts: Parts<'_>) -> Result<(Chosen, Option<String>), TrainError> {
    let plan = parts.plan;
    let gpu = |number: usize| -> Result<Chosen, TrainError> {
        let gpu = parts.place.gpu(number)?;
        suits(plan).map_err(TrainError::Usage)?;
        let chosen = Chosen::Cuda(gpu);
        Memory::of(parts, &chosen)?.check()?;
        Ok(chosen)
    };
    match plan.run.device {
        DeviceChoice::Cpu => Ok((Chosen::Cpu, None)),
        DeviceChoice::CpuLockstep => {
            suits(plan).map_err(TrainError::Usage)?;
            Ok((Chosen::CpuLockstep, None))
        }
        DeviceChoice::Cuda(number) => Ok((gpu(number)?, None)),
        DeviceChoice::Auto if cfg!(not(feature = "cuda")) => Ok((Chosen::Cpu, None)),
        // Of a GPU that would not help anyway, nothing is said where there can be none.
        DeviceChoice::Auto
            if large_enough(parts)?.is_err() && *parts.place == Place::Here && !may_have_gpu() =>
        {
            Ok((Chosen::Cpu, None))
        }
        DeviceChoice::Auto => match large_enough(parts)?.and_then(|()| gpu(0).map_err(|e| e.to_string())) {
            Ok(chosen) => {
                let note = format!("trains on {}", chosen.name(plan.run.precision));
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
    use crate::registry::Registry;

    fn plan(pairs: &[&str]) -> Plan {
        let mut config = Configuration::default();
        config.set("task=pong-mini").unwrap();
        pairs.iter().for_each(|pair| config.set(pair).unwrap());
        Registry::default().plan(&config).unwrap()
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
            let registry = Registry::default();
            assert!(matches!(registry.resolve_plan(plan.clone()), Err(TrainError::Usage(_))));
            let alone = plan.with(|run| run.device = DeviceChoice::Cpu);
            assert_eq!(registry.resolve_plan(alone).unwrap().device, Chosen::Cpu);
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
