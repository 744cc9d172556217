//! Where a run trains: which devices there are, which one a plan gets, and why.

use crate::error::TrainError;
use crate::machine::human_bytes;
use crate::memory::Memory;
use crate::plan::{AgentPlan, Plan};
use crate::store::SEGMENT_BYTES;
use crate::workshop::Workshop;
use spectral_agent::codecs::Codec;
use spectral_agent::gpu::{AgentSpec, CudaGroup, host_resident, memory_bytes as gpu_bytes};
use spectral_agent::learner::architecture;
use spectral_agent::lockstep::{DeviceFailure, Group};
use spectral_agent::replay::Replay;
use spectral_agent::settings::{AgentSettings, Setting};
use spectral_env::TaskSpec;
use spectral_nn::cuda::{Device, has_compiler};
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes on the GPU.
    pub device: u64,
    /// Bytes of main memory.
    pub host: u64,
    /// Per agent, whether its observations lie in main memory.
    pub spilt: Vec<bool>,
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
    let unusable = |e| format!("cuda:{number} cannot be used: {e}");
    let device = Device::open(number).map_err(unusable)?;
    let free_bytes = device.free_memory().map_err(unusable)?;
    Ok(Gpu { number, name: device.info().name.clone(), free_bytes })
}

/// Opens a group of agents on a GPU; `spilt` is [`Need::spilt`] of its agents. Several groups of one population may be open at
/// once.
pub fn open(
    gpu: &Gpu,
    precision: Precision,
    members: &[Member<'_>],
    spilt: &[bool],
) -> Result<Box<dyn Group>, DeviceFailure> {
    let device = Device::open(gpu.number).map_err(|e| DeviceFailure(e.to_string()))?;
    let Some(first) = members.first() else {
        return Err(DeviceFailure("a group needs at least one agent".into()));
    };
    let specs = members.iter().map(|m| spec(m.plan, m.codec.clone())).collect();
    Ok(Box::new(CudaGroup::with_host_resident(&device, precision.arithmetic(), first.task, specs, spilt)?))
}

fn spec(plan: &AgentPlan, codec: Arc<dyn Codec>) -> AgentSpec {
    AgentSpec { settings: plan.settings.clone(), codec, seed: plan.seed }
}

impl Precision {
    /// The arithmetic that this stands for.
    pub fn arithmetic(self) -> spectral_nn::cuda::Precision {
        match self {
            Precision::Auto | Precision::Bf16 => spectral_nn::cuda::Precision::Bf16,
            Precision::Tf32 => spectral_nn::cuda::Precision::Tf32,
            Precision::Fp32 => spectral_nn::cuda::Precision::Fp32,
        }
    }
}

/// What every GPU that was found is, or why none is used.
pub fn describe() -> Vec<String> {
    let count = match Device::count() {
        Ok(0) => return vec!["no GPU: the driver finds none (see CUDA_VISIBLE_DEVICES)".into()],
        Ok(count) => count,
        Err(reason) => return vec![format!("no GPU: {reason}")],
    };
    let mut lines: Vec<String> = (0..count).map(describe_one).collect();
    if !has_compiler() {
        lines.push(
            "CUDA's run-time compiler (libnvrtc) was not found: only kernels that an earlier run compiled can be used".into(),
        );
    }
    lines
}

fn describe_one(number: usize) -> String {
    match Device::open(number) {
        Ok(device) => {
            let info = device.info();
            let (major, minor) = info.capability;
            format!(
                "cuda:{number} {}, {} of {} free, {} multiprocessors, compute capability {major}.{minor}, CUDA {}.{}",
                info.name,
                human_bytes(info.free),
                human_bytes(info.memory),
                info.multiprocessors,
                info.driver / 1000,
                info.driver % 1000 / 10
            )
        }
        Err(reason) => format!("cuda:{number} is not used: {reason}"),
    }
}

/// What a population needs when a GPU trains it. Observations of agents that the GPU has no room for lie in main memory.
pub fn need(plan: &Plan, workshop: &Workshop, task: &TaskSpec, gpu: &Gpu) -> Result<Need, TrainError> {
    let members = plan.agents.iter().map(|agent| Ok(spec(agent, workshop.codec(agent)?)));
    let specs: Vec<AgentSpec> = members.collect::<Result<_, TrainError>>()?;
    let (fixed, frames) = gpu_bytes(task, &specs, plan.precision.arithmetic())?;
    let spilt = host_resident(gpu.free_bytes, fixed, &frames);
    let mut need = Need { device: fixed, host: HOST_BYTES, spilt };
    for (frames, spilt) in frames.into_iter().zip(&need.spilt) {
        *(if *spilt { &mut need.host } else { &mut need.device }) += frames;
    }
    need.host += 2 * plan.agents.len() as u64 * Replay::bytes_per_record(task.observation) as u64;
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

/// Operations of one update below which a GPU spends its time waiting for kernels to start.
const FEWEST_OPERATIONS: u64 = 200_000_000;

/// Whether networks are large enough for a GPU to be the faster choice.
fn large_enough(plan: &Plan, workshop: &Workshop) -> Result<Result<(), String>, TrainError> {
    let task = workshop.task(plan)?;
    let Some(agent) = plan.agents.first() else { return Ok(Ok(())) };
    let network = architecture(&agent.settings, task.spec(), workshop.codec(agent)?.as_ref())?;
    let small = network.flops_step(agent.settings.batch) < FEWEST_OPERATIONS;
    Ok(if small {
        Err("networks as small as these train faster there (--device cuda insists)".into())
    } else {
        Ok(())
    })
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
        DeviceChoice::Auto => match large_enough(plan, workshop)?.and_then(|()| gpu(0)) {
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
