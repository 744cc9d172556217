//! For tests: device code against the learner, for built-in codecs and for your own. Needs the feature `testing`.
//!
//! [`Codec::device`] says the same thing as the rest of the trait a second time, in CUDA C.
//! [`compare_device_code`] has both say it about the same random life and compares every number. That needs no GPU: a
//! C++ compiler takes the kernels' text, and with one thread and one lane no bit may differ.
//! `compile_device_code`, with the feature `cuda`, has NVIDIA's own compiler take it.
//!
//! ```no_run
//! use spectral_agent::codecs::{Codec, DeviceCodec, Rows, squared_error_gradient};
//! use spectral_agent::settings::AgentSettings;
//! use spectral_agent::testing::compare_device_code;
//! use std::sync::Arc;
//!
//! /// Rewards divided by a constant.
//! #[derive(Debug)]
//! struct Scaled {
//!     by: f64,
//! }
//!
//! impl Codec for Scaled {
//!     fn outputs(&self) -> usize {
//!         1
//!     }
//!     fn encode_reward(&self, reward: f32, factor: f32, out: &mut [f32]) {
//!         out[0] += factor * (reward / self.by as f32);
//!     }
//!     fn decode(&self, outputs: &[f32], _: &[f64]) -> f32 {
//!         outputs[0] * self.by as f32
//!     }
//!     fn target(&self, encoded: &[f32], bootstrap: f32, next: &[f32], _: &[f64], out: &mut [f32]) {
//!         out[0] = encoded[0] + bootstrap * next[0];
//!     }
//!     fn gradient(&self, rows: &Rows<'_>, _: &mut [f64], gradients: &mut [f32], trunk: &mut [f32]) {
//!         squared_error_gradient(rows, gradients);
//!         trunk.fill(1.0);
//!     }
//!     fn device(&self) -> Option<DeviceCodec> {
//!         Some(DeviceCodec { name: "Scaled", source: SCALED, constants: vec![self.by] })
//!     }
//! }
//!
//! const SCALED: &str = r#"
//! struct Scaled : CodecDefaults<Scaled> {
//!     static __device__ void encode(const Agent& agent, float reward, float factor, float* out) {
//!         if (lane() == 0) out[0] += factor * (reward / (float)agent.codec[0]);
//!     }
//!     static __device__ float decode(const Agent& agent, const float* outputs, const double*) {
//!         return outputs[0] * (float)agent.codec[0];
//!     }
//!     static __device__ void target(const Agent&, const float* encoded, float bootstrap, const float* next, float* out) {
//!         if (lane() == 0) out[0] = encoded[0] + bootstrap * next[0];
//!     }
//! };
//! "#;
//!
//! // In a test of yours:
//! let comparison = compare_device_code(&AgentSettings::default(), Arc::new(Scaled { by: 10.0 }))?;
//! println!("{comparison}");
//! # Ok::<(), String>(())
//! ```

mod emulator;

pub(crate) use emulator::Emulator;

use crate::codecs::Codec;
#[cfg(feature = "cuda")]
use crate::gpu::source::Extras;
use crate::learner::device_comparison;
use crate::settings::AgentSettings;
use spectral_env::ObservationSpec;
use std::sync::Arc;

/// A named agent of a comparison.
pub type Variant = (String, AgentSettings, Arc<dyn Codec>);

/// What came of a comparison in which nothing differed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Every number agreed.
    Agreed {
        /// Steps of each agent that were compared.
        steps: usize,
        /// Updates that were compared, over all agents.
        updates: usize,
    },
    /// Nothing was compared, and why. The line is to be printed: it begins `SKIPPED:` where a tool is missing that a
    /// complete run of the tests needs, so that nobody takes silence for success.
    Skipped(String),
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Comparison::Agreed { steps, updates } => {
                write!(f, "device code and learner agree over {steps} steps and {updates} updates")
            }
            Comparison::Skipped(why) => f.write_str(why),
        }
    }
}

/// What runs the device code, and with it how closely numbers have to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// The CPU, one thread: every sum has the learner's order, and nothing may differ by a bit.
    Serial,
    /// The CPU, sixteen threads in teams of four, with real barriers: sums have another order. 2·10⁻⁵ of a number.
    Teams,
    /// The first GPU, if `SPECTRAL_CUDA=1`: functions such as exp have other last bits there. 10⁻⁴ of a number.
    #[cfg(feature = "cuda")]
    Gpu,
}

impl Runner {
    pub(crate) fn start(self, text: &str) -> Result<Emulator, Unavailable> {
        match self {
            Runner::Serial => Emulator::on_host(text, 1, 1),
            Runner::Teams => Emulator::on_host(text, 4, 16),
            #[cfg(feature = "cuda")]
            Runner::Gpu => Emulator::on_gpu(text),
        }
    }

    pub(crate) fn tolerance(self) -> f64 {
        match self {
            Runner::Serial => 0.0,
            Runner::Teams => 2e-5,
            #[cfg(feature = "cuda")]
            Runner::Gpu => 1e-4,
        }
    }
}

/// Why nothing could be compared.
pub(crate) enum Unavailable {
    /// A tool is missing, which this line says.
    Skipped(String),
    /// It is there and failed.
    Failed(String),
}

impl From<String> for Unavailable {
    fn from(why: String) -> Self {
        Unavailable::Failed(why)
    }
}

/// Screens of four planes: the kernels move four pixels at a time.
pub const SCREENS: ObservationSpec = ObservationSpec::Planes { channels: 1, height: 6, width: 6, stack: 4 };
/// Boards of another depth: the kernels' general path.
pub const BOARDS: ObservationSpec = ObservationSpec::Planes { channels: 3, height: 3, width: 5, stack: 2 };
/// Vectors of floats.
pub const VECTORS: ObservationSpec = ObservationSpec::Vector { len: 5 };

/// Compares a codec's device code with its Rust code on screens, boards and vectors, to the bit with one thread and up to
/// rounding with several. The error says which number differed, or what the compiler said.
///
/// The settings are those that the codec was made from. Batch, n-step, replay, network and learning rate are the
/// comparison's own.
pub fn compare_device_code(settings: &AgentSettings, codec: Arc<dyn Codec>) -> Result<Comparison, String> {
    let agents = [(format!("{codec:?}"), settings.clone(), codec)];
    let (mut all_steps, mut all_updates) = (0, 0);
    for (observation, runner) in [
        (SCREENS, Runner::Serial),
        (BOARDS, Runner::Serial),
        (VECTORS, Runner::Serial),
        (SCREENS, Runner::Teams),
    ] {
        match compare_group(&agents, observation, runner)? {
            Comparison::Agreed { steps, updates } => {
                (all_steps, all_updates) = (all_steps + steps, all_updates + updates)
            }
            skipped => return Ok(skipped),
        }
    }
    Ok(Comparison::Agreed { steps: all_steps, updates: all_updates })
}

/// Compares the device code of a group of agents, which may have different codecs, with their Rust code over one random
/// life: replay, actions, minibatches, targets, gradients, statistics, diagnostics and counters. One agent alone is
/// taken twice, because one of a group stops being finite in the end.
pub fn compare_group(
    agents: &[Variant],
    observation: ObservationSpec,
    runner: Runner,
) -> Result<Comparison, String> {
    said(device_comparison::compare(agents, observation, false, runner))
}

/// As [`compare_group`], on a task that says which actions are legal: acting and targets keep to them on both sides.
pub fn compare_masked_group(
    agents: &[Variant],
    observation: ObservationSpec,
    runner: Runner,
) -> Result<Comparison, String> {
    said(device_comparison::compare(agents, observation, true, runner))
}

fn said(compared: Result<Comparison, Unavailable>) -> Result<Comparison, String> {
    match compared {
        Ok(agreed) => Ok(agreed),
        Err(Unavailable::Skipped(why)) => Ok(Comparison::Skipped(why)),
        Err(Unavailable::Failed(why)) => Err(why),
    }
}

/// What came of compiling.
#[cfg(feature = "cuda")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compilation {
    /// The kernels as machine code.
    Compiled(Vec<u8>),
    /// Nothing was compiled, and why, as in [`Comparison::Skipped`].
    Skipped(String),
}

/// Compiles the kernels of a group of codecs to machine code for Hopper, with NVIDIA's run-time compiler where it is found
/// (`libnvrtc`; no GPU is needed). The group has 18 actions and minibatches of `batch` rows of these observations. The error is
/// the compiler's log.
///
/// ```no_run
/// use spectral_agent::codecs::Clipped;
/// use spectral_agent::testing::{Compilation, SCREENS, compile_device_code};
/// if let Compilation::Skipped(why) = compile_device_code(&[&Clipped], SCREENS, 32)? {
///     eprintln!("{why}");
/// }
/// # Ok::<(), String>(())
/// ```
#[cfg(feature = "cuda")]
pub fn compile_device_code(
    codecs: &[&dyn Codec],
    observation: ObservationSpec,
    batch: usize,
) -> Result<Compilation, String> {
    compile_device_code_with(codecs, observation, batch, false, Extras::default())
}

/// As [`compile_device_code`], for a task that says which actions are legal.
#[cfg(feature = "cuda")]
pub fn compile_masked_device_code(
    codecs: &[&dyn Codec],
    observation: ObservationSpec,
    batch: usize,
) -> Result<Compilation, String> {
    compile_device_code_with(codecs, observation, batch, true, Extras::default())
}

/// As [`compile_device_code`], for agents that do more than plain Q-learning, and on a task that says which actions are legal if it
/// is `masked`. What the codecs themselves need is always there.
#[cfg(feature = "cuda")]
pub fn compile_device_code_with(
    codecs: &[&dyn Codec],
    observation: ObservationSpec,
    batch: usize,
    masked: bool,
    extras: Extras,
) -> Result<Compilation, String> {
    use crate::gpu::source::{Shape, build};
    const ACTIONS: usize = 18;
    let outputs =
        codecs.iter().map(|codec| codec.outputs()).max().ok_or("a group needs at least one codec")?;
    let compares = codecs.iter().any(|codec| codec.compares());
    let extras = Extras { double: extras.double || compares, ..extras };
    let pitch = (ACTIONS + usize::from(extras.dueling)) * outputs;
    let mask_bytes = if masked { ACTIONS.div_ceil(8) } else { 0 };
    let (n_step, head_at, head_in) = (3, 0, 512);
    let actions = ACTIONS;
    let shape = Shape { batch, n_step, actions, observation, head_at, head_in, pitch, mask_bytes, extras };
    let source = build(&shape, codecs).map_err(|e| e.to_string())?;
    if !spectral_nn::cuda::has_compiler() {
        if std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1") {
            return Err("SPECTRAL_ORACLES=1 needs libnvrtc: tests/oracles/requirements.txt brings it".into());
        }
        let why = "SKIPPED: compilation of device code; libnvrtc was not found";
        return Ok(Compilation::Skipped(why.into()));
    }
    let image = spectral_nn::cuda::check("learner", &source.text, "sm_90").map_err(|e| e.0)?;
    Ok(Compilation::Compiled(image))
}
