//! The least time that an update could take: what must move through memory, what must be multiplied.

use spectral_nn::cuda::{DeviceInfo, Precision};

/// Transitions in a minibatch.
pub const BATCH: u64 = 32;
/// Steps of reward before bootstrapping.
pub const N_STEP: u64 = 3;
/// Observations that the network sees at once.
pub const STACK: u64 = 4;
/// Side of an observation.
pub const SIDE: u64 = 84;
/// Actions of the task.
pub const ACTIONS: u64 = 6;
/// Outputs per action: frequencies 0 to 20.
pub const FREQUENCIES: u64 = 21;

/// The Nature network's layers with this head: positions at which a layer's weights are used, inputs, outputs. Dueling heads have
/// a hidden layer each.
fn layers(dueling: bool) -> Vec<(u64, u64, u64)> {
    let mut layers = vec![
        (20 * 20, 8 * 8 * STACK, 32),
        (9 * 9, 4 * 4 * 32, 64),
        (7 * 7, 3 * 3 * 64, 64),
        (1, 7 * 7 * 64, 512),
        (1, 512, ACTIONS * FREQUENCIES),
    ];
    if dueling {
        layers.extend([(1, 7 * 7 * 64, 512), (1, 512, FREQUENCIES)]);
    }
    layers
}

/// Passes over a network's parameters that no update can do without. The online parameters are read by the forward pass, read
/// again by the backward pass (which serves Adam too) and written; the target's are read; Adam's two moments are read
/// and written.
const PASSES: u64 = 3 + 1 + 2 * 2;

/// Different frames of a sampled transition: the two stacks of 4 that lie 3 steps apart share one.
const FRAMES: u64 = STACK + N_STEP;

/// The work of one update of one agent. Activations are left out: a perfect program would keep them on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Bytes that must be read or written.
    pub bytes: u64,
    /// Floating-point operations, a multiplication and an addition counting as two.
    pub flops: u64,
}

/// Numbers in one network.
pub fn parameters(dueling: bool) -> u64 {
    layers(dueling).iter().map(|(_, inputs, outputs)| (inputs + 1) * outputs).sum()
}

/// The work of one update of one agent, with dueling heads or a plain one.
pub fn update(dueling: bool) -> Work {
    let forward = |&(positions, inputs, outputs): &(u64, u64, u64)| 2 * BATCH * positions * inputs * outputs;
    let layers = layers(dueling);
    let once: u64 = layers.iter().map(forward).sum();
    Work {
        bytes: 4 * PASSES * parameters(dueling) + BATCH * FRAMES * SIDE * SIDE,
        // Target and online forward, gradients of weights and of inputs; nobody asks for the gradient of the pixels.
        flops: 4 * once - forward(&layers[0]),
    }
}

/// Operations a second that the maker states for dense products; `None` for devices that are not in this table.
///
/// Compute capability 9.0 (H100, H200 with 132 multiprocessors): 989.4 TFLOP/s in bf16, half of that in TF32, 66.9 in fp32
/// without tensor cores.
pub fn stated_rate(info: &DeviceInfo, precision: Precision) -> Option<f64> {
    let whole = match (info.capability, precision) {
        ((9, 0), Precision::Bf16) => 989.4e12,
        ((9, 0), Precision::Tf32) => 494.7e12,
        ((9, 0), Precision::Fp32) => 66.9e12,
        _ => return None,
    };
    Some(whole * info.multiprocessors as f64 / 132.0)
}

/// The least time of an update of a whole population, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// By memory.
    pub memory_ms: f64,
    /// By arithmetic, where the rate is known.
    pub arithmetic_ms: Option<f64>,
}

impl Floor {
    /// For `agents` agents with so much work each, at this many bytes and (if known) operations a second.
    pub fn new(agents: usize, work: Work, bytes_per_second: f64, rate: Option<f64>) -> Floor {
        let Work { bytes, flops } = work;
        let milliseconds = |amount: u64, rate: f64| 1e3 * agents as f64 * amount as f64 / rate;
        Floor {
            memory_ms: milliseconds(bytes, bytes_per_second),
            arithmetic_ms: rate.map(|rate| milliseconds(flops, rate)),
        }
    }

    /// The larger of both: they could overlap perfectly.
    pub fn ms(&self) -> f64 {
        self.memory_ms.max(self.arithmetic_ms.unwrap_or(0.0))
    }

    /// Which of both it is.
    pub fn bound(&self) -> &'static str {
        if self.arithmetic_ms.is_some_and(|ms| ms > self.memory_ms) { "arithmetic" } else { "memory" }
    }
}

/// Frames a second that a GPU allows: every agent plays 16 frames, in 4 steps, for one update.
pub fn frames_per_second(agents: usize, update_ms: f64, act_ms: f64) -> f64 {
    16.0 * agents as f64 / (1e-3 * (update_ms + 4.0 * act_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_nn::cuda::Trunk;
    use spectral_nn::{Architecture, Head, Input};

    fn info(capability: (i32, i32), multiprocessors: usize) -> DeviceInfo {
        let (name, shared_per_block) = ("x".into(), 0);
        DeviceInfo { name, capability, driver: 13000, memory: 0, free: 0, multiprocessors, shared_per_block }
    }

    #[test]
    fn the_work_is_that_of_the_real_network() {
        let input = Input::Planes { channels: 4, height: 84, width: 84 };
        let nature = Architecture::nature(input.clone(), Head::new(6, 21));
        let trunk = Trunk::new(&nature).unwrap();
        assert_eq!(parameters(false), trunk.parameters(126) as u64);
        let Work { bytes, flops } = update(false);
        assert!((flops as f64 / 2.20e9 - 1.0).abs() < 0.005, "{flops}");
        assert_eq!(bytes, 32 * parameters(false) + 32 * 7 * 7056);
        let dueling = Head { dueling: true, ..Head::new(6, 21) };
        let dueling = Architecture::nature(input, dueling);
        assert_eq!(parameters(true), dueling.parameters() as u64);
    }

    #[test]
    fn the_floor_is_the_larger_time_and_grows_with_the_population() {
        let rate = stated_rate(&info((9, 0), 132), Precision::Bf16);
        let twenty = Floor::new(20, update(false), 4e12, rate);
        assert!((twenty.memory_ms - 0.2877).abs() < 1e-3, "{twenty:?}");
        assert!((twenty.arithmetic_ms.unwrap() - 0.0444).abs() < 1e-3, "{twenty:?}");
        assert_eq!((twenty.ms(), twenty.bound()), (twenty.memory_ms, "memory"));
        assert!((Floor::new(1, update(false), 4e12, rate).ms() * 20.0 - twenty.ms()).abs() < 1e-12);
        let slow = Floor::new(20, update(false), 4e12, stated_rate(&info((9, 0), 132), Precision::Fp32));
        assert_eq!((slow.ms(), slow.bound()), (slow.arithmetic_ms.unwrap(), "arithmetic"));
        let half = stated_rate(&info((9, 0), 66), Precision::Tf32).unwrap();
        assert!((half / 247.35e12 - 1.0).abs() < 1e-9);
        let unknown = Floor::new(1, update(false), 4e12, stated_rate(&info((8, 0), 108), Precision::Tf32));
        assert_eq!((unknown.arithmetic_ms, unknown.bound()), (None, "memory"));
    }

    #[test]
    fn frames_follow_from_one_update_and_four_steps() {
        // 320 frames in 0.8 + 4 · 0.1 milliseconds.
        assert!((frames_per_second(20, 0.8, 0.1) - 320.0 / 1.2e-3).abs() < 1e-6);
    }
}
