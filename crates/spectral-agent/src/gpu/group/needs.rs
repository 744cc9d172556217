//! What a group needs of a device, and what no device offers.

use super::{AgentSpec, MARGIN, priorities};
use crate::average::Average;
use crate::gpu::ring::{frame_bytes, small_bytes};
use crate::gpu::source::{MAX_ROWS, device_code};
use crate::learner::architecture;
use crate::lockstep::DeviceFailure;
use crate::settings::AgentSettings;
use spectral_env::TaskSpec;
use spectral_nn::Architecture;
use spectral_nn::cuda::{Precision, Trunk};

/// What a population needs, in bytes: on the device without observations, and for each agent's observations, which may lie
/// in the host's memory.
pub fn memory_bytes(
    task: &TaskSpec,
    specs: &[AgentSpec],
    precision: Precision,
) -> Result<(u64, Vec<u64>), DeviceFailure> {
    let shapes = specs.iter().map(|spec| shape_of(spec, task)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = shapes.first() else { return Ok((0, Vec::new())) };
    let outputs: Vec<usize> = shapes.iter().map(Architecture::head_outputs).collect();
    let trunk = Trunk::new(first).map_err(|e| DeviceFailure(e.to_string()))?;
    let networks = trunk.memory_bytes(&outputs, specs[0].settings.batch, precision);
    let small = small_bytes(task) as u64;
    let ring = |s: &AgentSettings| {
        let priorities = if s.prioritised { priorities::bytes(s.replay, s.batch) } else { 0 };
        small * s.replay as u64 + priorities as u64
    };
    let rings: u64 = specs.iter().map(|spec| ring(&spec.settings)).sum();
    let frame = frame_bytes(task.observation) as u64;
    let frames = specs.iter().map(|spec| spec.settings.replay as u64 * frame).collect();
    Ok((networks + rings + MARGIN, frames))
}

/// Bytes of the host's memory for the mean of an agent's weights: the mean, what is fetched from the device, and what that is put
/// in order in.
pub fn average_bytes(task: &TaskSpec, spec: &AgentSpec) -> Result<u64, DeviceFailure> {
    Ok(3 * Average::memory_bytes(&spec.settings, &shape_of(spec, task)?))
}

/// Whose observations lie in the host's memory, if the device has so much free, needs so much for everything else (see
/// [`memory_bytes`]) and takes observations agent by agent while they fit.
///
/// ```
/// assert_eq!(spectral_agent::gpu::host_resident(10, 3, &[4, 4, 2]), [false, true, false]);
/// ```
pub fn host_resident(free: u64, fixed: u64, frames: &[u64]) -> Vec<bool> {
    let mut room = free.saturating_sub(fixed);
    let mut host_resident = |&own: &u64| {
        let host_resident = own > room;
        if !host_resident {
            room -= own;
        }
        host_resident
    };
    frames.iter().map(&mut host_resident).collect()
}

pub(super) fn shape_of(spec: &AgentSpec, task: &TaskSpec) -> Result<Architecture, DeviceFailure> {
    device_code(spec.codec.as_ref()).map_err(|e| DeviceFailure(e.to_string()))?;
    if spec.settings.batch > MAX_ROWS {
        return Err(DeviceFailure(format!(
            "a batch of {} is too large for a GPU's shared memory: at most {MAX_ROWS}, or use --device cpu",
            spec.settings.batch
        )));
    }
    architecture(&spec.settings, task, spec.codec.as_ref()).map_err(|e| DeviceFailure(e.to_string()))
}
