//! One network as the kernels see it.

use crate::abi::{C_INTEGERS, CType, Const, DevicePtr};

/// A number of bf16, as the kernels name it; the host has only their bits.
#[derive(Debug)]
pub(super) struct Bf16;

impl CType for Bf16 {
    fn c_name() -> String {
        "bf16".into()
    }
}

crate::device_structs! {
    /// One network as the kernels see it.
    pub(super) struct Net {
        /// Online parameters.
        online: DevicePtr<f32>,
        /// Target parameters.
        target: DevicePtr<f32>,
        /// Adam's first moments.
        adam_m: DevicePtr<f32>,
        /// Adam's second moments.
        adam_v: DevicePtr<f32>,
        /// 0: leave this network as it is.
        learns: DevicePtr<Const<u32>>,
        /// learning_rate / (1 - beta1^t)
        step_size: DevicePtr<Const<f64>>,
        /// 1 / sqrt(1 - beta2^t)
        root_correction: DevicePtr<Const<f64>>,
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the root of the corrected second moment.
        epsilon: f32,
        /// Width of the last layer.
        outputs: u32,
        /// A copy of the online parameters in bf16, current for the layers that copied.cuh, direct.cuh and warpgroup.cuh
        /// multiply by; else null.
        online_half: DevicePtr<Bf16>,
        /// The same of the target parameters.
        target_half: DevicePtr<Bf16>,
    }
}

/// What stands before the kernels' text: names of integers and `Net`.
pub fn net_header() -> String {
    format!("{C_INTEGERS}struct bf16;\n{}", Net::c_text())
}
