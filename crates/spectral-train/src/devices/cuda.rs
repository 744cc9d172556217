//! GPUs through CUDA: finding one, what a population needs of it, groups of agents on it.

use super::{Gpu, Member, Need, Precision};
use crate::error::TrainError;
use crate::machine::human_bytes;
use crate::plan::AgentPlan;
use crate::resolve::Parts;
use crate::store::SEGMENT_BYTES;
use spectral_agent::codecs::Codec;
use spectral_agent::gpu::{AgentSpec, CudaGroup, average_bytes, host_resident, memory_bytes};
use spectral_agent::lockstep::{DeviceFailure, Group};
use spectral_agent::replay::Replay;
use spectral_nn::cuda::{Device, has_compiler};
use std::sync::Arc;

/// Looks for a GPU; the error says why it cannot be used.
pub fn probe(number: usize) -> Result<Gpu, String> {
    let unusable = |e| format!("cuda:{number} cannot be used: {e}");
    let device = Device::open(number).map_err(unusable)?;
    let free_bytes = device.free_memory().map_err(unusable)?;
    Ok(Gpu { number, name: device.info().name.clone(), free_bytes })
}

/// Opens a group of agents on a GPU; `host_resident` says whose observations lie in main memory. Several groups of one
/// population may be open at once.
pub fn open(
    gpu: &Gpu,
    precision: Precision,
    members: &[Member<'_>],
    host_resident: &[bool],
) -> Result<Box<dyn Group>, DeviceFailure> {
    let device = Device::open(gpu.number).map_err(|e| DeviceFailure(e.to_string()))?;
    let Some(first) = members.first() else {
        return Err(DeviceFailure("a group needs at least one agent".into()));
    };
    let specs = members.iter().map(|m| spec(m.plan, m.codec.clone())).collect();
    Ok(Box::new(CudaGroup::with_host_resident(
        &device,
        precision.arithmetic(),
        first.task,
        specs,
        host_resident,
    )?))
}

fn spec(plan: &AgentPlan, codec: Arc<dyn Codec>) -> AgentSpec {
    AgentSpec { settings: plan.settings.clone(), codec, seed: plan.seed }
}

impl Precision {
    /// The arithmetic that this stands for.
    fn arithmetic(self) -> spectral_nn::cuda::Precision {
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

/// Where CUDA's run-time compiler is, if it was found.
pub fn compiler() -> Option<String> {
    spectral_nn::cuda::compiler().map(|place| place.to_string())
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
pub(crate) fn need(parts: Parts<'_>, gpu: &Gpu) -> Result<Need, TrainError> {
    let Parts { plan, task, codecs, .. } = parts;
    let specs: Vec<AgentSpec> =
        plan.agents.iter().zip(codecs).map(|(agent, codec)| spec(agent, codec.clone())).collect();
    let (fixed, frames) = memory_bytes(task, &specs, plan.run.precision.arithmetic())?;
    let resident = host_resident(gpu.free_bytes, fixed, &frames);
    let mut need = Need { device: fixed, host: HOST_BYTES, host_resident: resident };
    for (frames, resident) in frames.into_iter().zip(&need.host_resident) {
        *(if *resident { &mut need.host } else { &mut need.device }) += frames;
    }
    for spec in &specs {
        need.host += average_bytes(task, spec)?;
    }
    need.host += 2 * plan.agents.len() as u64 * Replay::bytes_per_record(task) as u64;
    Ok(need)
}

/// Buffers in main memory of a population that lives on a GPU; the largest is one segment of a checkpoint.
const HOST_BYTES: u64 = 3 * SEGMENT_BYTES as u64;
