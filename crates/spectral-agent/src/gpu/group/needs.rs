//! What a group needs of a device, and what no device offers.

use super::{MARGIN, Trainee};
use crate::gpu::ring::frame_bytes;
use crate::gpu::source::{MOST_ROWS, unsupported};
use crate::learner::architecture;
use crate::lockstep::DeviceFailure;
use spectral_env::TaskSpec;
use spectral_nn::Architecture;
use spectral_nn::cuda::{Precision, Trunk};

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

/// Whose observations lie in the host's memory, if the device has so much free, needs so much for everything else (see
/// [`memory_bytes`]) and takes observations agent by agent while they fit.
///
/// ```
/// assert_eq!(spectral_agent::gpu::spills(10, 3, &[4, 4, 2]), [false, true, false]);
/// ```
pub fn spills(free: u64, fixed: u64, frames: &[u64]) -> Vec<bool> {
    let mut room = free.saturating_sub(fixed);
    let mut spilt = |&own: &u64| {
        let spilt = own > room;
        if !spilt {
            room -= own;
        }
        spilt
    };
    frames.iter().map(&mut spilt).collect()
}

pub(super) fn shape_of(trainee: &Trainee, task: &TaskSpec) -> Result<Architecture, DeviceFailure> {
    if let Some(why) = unsupported(&trainee.settings) {
        return Err(DeviceFailure(why));
    }
    if trainee.codec.device().is_none() {
        return Err(DeviceFailure(format!(
            "the codec {:?} has no device code (Codec::device); use --device cpu",
            trainee.codec
        )));
    }
    if trainee.settings.batch > MOST_ROWS {
        return Err(DeviceFailure(format!(
            "a batch of {} is too large for a GPU's shared memory: at most {MOST_ROWS}, or use --device cpu",
            trainee.settings.batch
        )));
    }
    architecture(&trainee.settings, task, trainee.codec.as_ref()).map_err(|e| DeviceFailure(e.to_string()))
}
