//! What a group needs of a device, and what no device offers.

use super::{MARGIN, Trainee};
use crate::gpu::ring::frame_bytes;
use crate::learner::architecture;
use crate::lockstep::DeviceFailure;
use crate::settings::AgentSettings;
use spectral_env::TaskSpec;
use spectral_nn::Architecture;
use spectral_nn::cuda::{Precision, Trunk};

/// Why these settings cannot be trained on a GPU, if they cannot.
pub fn unsupported(settings: &AgentSettings) -> Option<String> {
    let named =
        [(settings.dueling, "dueling"), (settings.prioritised, "prioritised"), (settings.double, "double")];
    let (_, name) = named.into_iter().find(|(on, _)| *on)?;
    Some(format!("{name}=true is not made for GPUs; turn it off, or use --device cpu"))
}

/// What a population needs, in bytes: on the device without observations, and for each agent's observations, which may lie
/// in the host's memory.
pub fn memory_bytes(
    task: &TaskSpec,
    trainees: &[Trainee],
    precision: Precision,
) -> Result<(u64, Vec<u64>), DeviceFailure> {
    let shapes = trainees.iter().map(|t| shape_of(t, task)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = shapes.first() else { return Ok((0, Vec::new())) };
    let outputs: Vec<usize> = shapes.iter().map(Architecture::outputs).collect();
    let trunk = Trunk::new(first).map_err(|e| DeviceFailure(e.to_string()))?;
    let networks = trunk.memory_bytes(&outputs, trainees[0].settings.batch, precision);
    let rings: u64 = trainees.iter().map(|t| 7 * t.settings.replay as u64).sum();
    let frame = frame_bytes(task.observation) as u64;
    let frames = trainees.iter().map(|t| t.settings.replay as u64 * frame).collect();
    Ok((networks + rings + MARGIN, frames))
}

pub(super) fn shape_of(trainee: &Trainee, task: &TaskSpec) -> Result<Architecture, DeviceFailure> {
    if let Some(why) = unsupported(&trainee.settings) {
        return Err(DeviceFailure(why));
    }
    architecture(&trainee.settings, task, trainee.codec.as_ref()).map_err(|e| DeviceFailure(e.to_string()))
}
