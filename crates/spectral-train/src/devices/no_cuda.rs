//! What stands in for CUDA in a program that was built without it.

use super::{Gpu, Member, Need, Precision};
use crate::error::TrainError;
use crate::resolve::Parts;
use spectral_agent::lockstep::{DeviceFailure, Group};

const WITHOUT: &str = "this program was built without the feature `cuda`";

/// Looks for a GPU; the error says why it cannot be used.
pub fn probe(_number: usize) -> Result<Gpu, String> {
    Err(WITHOUT.into())
}

/// Opens a group of agents on a GPU.
pub fn open(
    _gpu: &Gpu,
    _precision: Precision,
    _members: &[Member<'_>],
    _host_resident: &[bool],
) -> Result<Box<dyn Group>, DeviceFailure> {
    Err(DeviceFailure(WITHOUT.into()))
}

/// What every GPU that was found is, or why none is used.
pub fn describe() -> Vec<String> {
    vec![format!("no GPU: {WITHOUT}")]
}

/// What a population needs when a GPU trains it.
pub(crate) fn need(_parts: Parts<'_>, _gpu: &Gpu) -> Result<Need, TrainError> {
    Err(TrainError::Device(WITHOUT.into()))
}

/// Where CUDA's run-time compiler is, if it was found.
pub fn compiler() -> Option<String> {
    None
}
