//! Where a run trains: which devices there are, which one a plan gets, and why.

use spectral_agent::settings::Setting;

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
