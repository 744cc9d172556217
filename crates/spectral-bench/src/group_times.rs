//! Updates and action selection of a group of agents on a GPU, timed by the GPU's own clock.

use crate::floor::{ACTIONS, BATCH, N_STEP, SIDE, STACK};
use spectral_agent::codecs::configure;
use spectral_agent::gpu::{AgentSpec, CudaGroup};
use spectral_agent::lockstep::{DeviceFailure, Group, ObservationRef};
use spectral_agent::settings::{AgentSettings, NetworkKind, SettingError};
use spectral_core::rng::{Purpose, Stream as Random};
use spectral_env::{ObservationSpec, TaskSpec};
use spectral_nn::cuda::{Arg, CudaError, Device, Precision, Shape, Stream};
use std::time::{Duration, Instant};

/// Transitions in each agent's replay.
pub const REPLAY: usize = 50_000;
const FRAME: usize = (SIDE * SIDE) as usize;
/// The GPU's clock rises only when there is work: so long it works before anything is timed.
const WARM_UP: Duration = Duration::from_millis(200);
/// About as long a batch of launches takes, so that neither events nor the clock's grain matter.
const BATCH_MS: f32 = 5.0;
/// The flags that replay keeps: end of an episode, time-out, first observation of an episode.
const TERMINAL: u8 = 1;
const TRUNCATED: u8 = 2;
const START: u8 = 4;

/// The task as far as a GPU sees it: screens of 84×84 and six actions, as most Atari games.
pub fn task() -> TaskSpec {
    let side = SIDE as usize;
    TaskSpec {
        name: "random screens".into(),
        observation: ObservationSpec::Planes {
            channels: 1,
            height: side,
            width: side,
            stack: STACK as usize,
        },
        actions: (0..ACTIONS).map(|a| a.to_string()).collect(),
        frames_per_step: 4,
        max_player_score: 21,
        masks_actions: false,
    }
}

/// The agent that is measured if no other is asked for, as the paper has it.
pub const USUAL: &str = "spectral";

/// What agents are with the paper's settings but for those in `text`: a codec's name and settings such as
/// `spectral choice=steady double=true`.
pub fn specs(text: &str, agents: usize, replay: usize) -> Result<Vec<AgentSpec>, SettingError> {
    let settings = AgentSettings {
        replay,
        batch: BATCH as usize,
        n_step: N_STEP as usize,
        network: NetworkKind::Nature,
        ..Default::default()
    };
    let (settings, codec) = configure(text, settings)?;
    let one = |seed| AgentSpec { settings: settings.clone(), codec: codec.clone(), seed };
    Ok((1..=agents as u64).map(one).collect())
}

/// Replay full of noise, in the format of the records of a checkpoint: random frames and actions, three rewards in ten of
/// any size that the codec knows, now and then the end of an episode. Not zeros, which a GPU multiplies faster.
pub struct Noise {
    records: Vec<u8>,
}

impl Noise {
    /// Makes it once for all agents.
    pub fn new() -> Noise {
        Self::with(REPLAY)
    }

    fn with(count: usize) -> Noise {
        let mut random = Random::new(1, Purpose::Other, 0);
        let mut records = Vec::with_capacity(count * (FRAME + 7));
        records.extend((0..count).map(|_| random.below(ACTIONS as usize) as u8));
        let mut starts = true;
        records.extend((0..count).map(|_| {
            let begins = if starts { START } else { 0 };
            let ends = if random.chance(0.005) {
                TERMINAL
            } else if random.chance(0.0005) {
                TRUNCATED
            } else {
                0
            };
            starts = ends != 0;
            begins | ends
        }));
        records.extend((0..count).map(|_| random.below(22) as u8));
        for _ in 0..count {
            let size = 2f64.powf(20.0 * random.unit_f64());
            let sign = if random.chance(0.5) { 1.0 } else { -1.0 };
            let reward = if random.chance(0.3) { (sign * size) as f32 } else { 0.0 };
            records.extend_from_slice(&reward.to_le_bytes());
        }
        // Hundreds of megabytes: a short generator of its own (xorshift64*), eight pixels at a time.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..count * FRAME / 8 {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            records.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        Noise { records }
    }
}

/// Milliseconds of one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The median over batches of launches.
    pub median: f64,
    /// The fastest batch.
    pub min: f64,
    /// Launches, warm-up included.
    pub launches: u64,
}

impl Times {
    fn of(mut batches: Vec<f64>, launches: u64) -> Times {
        batches.sort_by(f64::total_cmp);
        Times { median: batches[batches.len() / 2], min: batches[0], launches }
    }
}

/// What one group of agents takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupTimes {
    /// One update of every agent, replay sampling included.
    pub update: Times,
    /// Action selection for every agent, from the stacked observation to the answer in the host's memory.
    pub act: Times,
    /// The same from an observation in the host's memory, which the device fetches, stores and stacks first.
    pub step: Times,
}

/// Makes a group of agents as [`specs`] reads them, fills its replay and measures it. The first `spilt` agents have their
/// observations in the host's memory.
pub fn measure(
    device: &Device,
    precision: Precision,
    (text, agents): (&str, usize),
    spilt: usize,
    noise: &Noise,
    seconds: f64,
) -> Result<GroupTimes, DeviceFailure> {
    let specs = specs(text, agents, REPLAY).map_err(|e| DeviceFailure(e.to_string()))?;
    let mut group = CudaGroup::with_host_resident(device, precision, &task(), specs, &vec![true; spilt])?;
    for agent in 0..agents {
        let put = group.put_records(agent, 0, REPLAY as u64, &noise.records);
        put.map_err(|e| DeviceFailure(e.0))?;
        group.pretend_newest(agent, REPLAY as u64)?;
    }
    stage(&mut group, noise);
    // This tells the device who takes part; what follows goes on with it.
    group.submit(false, false)?;
    group.wait()?;
    let act = time(device, group.stream(), seconds, || group.queue_act_alone())?;
    let before = updates(&mut group)?;
    let update = time(device, group.stream(), seconds, || group.queue_update_alone())?;
    check_updates(&before, &updates(&mut group)?, update.launches)?;
    stage(&mut group, noise);
    let stream = group.stream().clone();
    let step = time(device, &stream, seconds, || group.submit(false, false))?;
    Ok(GroupTimes { update, act, step })
}

fn stage(group: &mut CudaGroup, noise: &Noise) {
    let frames = &noise.records[7 * REPLAY..];
    for agent in 0..group.len() {
        group.stage(agent, None, Some(ObservationRef::Bytes(&frames[agent * FRAME..][..FRAME])), None);
    }
}

fn updates(group: &mut CudaGroup) -> Result<Vec<u64>, DeviceFailure> {
    (0..group.len()).map(|agent| group.updates(agent)).collect()
}

/// Every launch must have been an update of every agent: kernels that find nothing to do are fast.
fn check_updates(before: &[u64], after: &[u64], launches: u64) -> Result<(), DeviceFailure> {
    match (0..before.len()).find(|&agent| after[agent] != before[agent] + launches) {
        None => Ok(()),
        Some(agent) => Err(DeviceFailure(format!(
            "agent {agent} made {} updates in {launches} launches: the times would mean nothing",
            after[agent].saturating_sub(before[agent])
        ))),
    }
}

/// Times batches of launches for about so many seconds.
fn time(
    device: &Device,
    stream: &Stream,
    seconds: f64,
    mut launch: impl FnMut() -> Result<(), DeviceFailure>,
) -> Result<Times, DeviceFailure> {
    let failed = |e: CudaError| DeviceFailure(e.0);
    let (start, end) = (device.event().map_err(failed)?, device.event().map_err(failed)?);
    let mut launches = 0;
    let mut batch = |count: u64| {
        stream.record(&start).map_err(failed)?;
        for _ in 0..count {
            launch()?;
        }
        stream.record(&end).map_err(failed)?;
        stream.synchronise().map_err(failed)?;
        launches += count;
        Ok(start.milliseconds_until(&end).map_err(failed)? / count as f32)
    };
    let begun = Instant::now();
    let mut each = batch(3)?;
    while begun.elapsed() < WARM_UP {
        each = batch(10)?;
    }
    let count = (BATCH_MS / each.max(1e-3)).ceil().clamp(1.0, 500.0) as u64;
    let (begun, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut batches = Vec::new();
    while batches.len() < 5 || begun.elapsed() < limit {
        batches.push(f64::from(batch(count)?));
    }
    Ok(Times::of(batches, launches))
}

/// Sixteen bytes a thread at a time, four of them on their way together.
const COPY: &str = r#"
struct alignas(16) Sixteen { unsigned int word[4]; };
extern "C" __global__ void __launch_bounds__(512) copy_all(Sixteen* to, const Sixteen* from) {
    const unsigned long long at = (unsigned long long)blockIdx.x * 2048 + threadIdx.x;
    Sixteen held[4];
#pragma unroll
    for (int i = 0; i < 4; i++) held[i] = from[at + 512 * i];
#pragma unroll
    for (int i = 0; i < 4; i++) to[at + 512 * i] = held[i];
}
"#;

/// Bytes a second, those read and those written together, of a copy that is much larger than any cache.
pub fn copy_bandwidth(device: &Device) -> Result<f64, DeviceFailure> {
    const BYTES: usize = 1 << 30;
    const PER_BLOCK: usize = 2048 * 16;
    let measure = || {
        let kernel = device.compile("copy", COPY, true)?.kernel("copy_all")?;
        let (from, to) = (device.zeros(BYTES)?, device.zeros(BYTES)?);
        // Noise, by the driver's own copies: the first 256 MiB again and again.
        let noise: Vec<u64> = (1..=32u64 << 20).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for part in 0..BYTES / (8 * noise.len()) {
            from.write(part * 8 * noise.len(), &noise)?;
        }
        let stream = device.stream()?;
        let (start, end) = (device.event()?, device.event()?);
        let mut best = f32::INFINITY;
        for _ in 0..20 {
            stream.record(&start)?;
            let shape = Shape::new([BYTES / PER_BLOCK, 1, 1], 512);
            // SAFETY: blocks × threads × 4 × 16 bytes are exactly the two stretches, which live until it is done.
            unsafe { stream.launch(&kernel, shape, &[Arg::from(&to), Arg::from(&from)]) }?;
            stream.record(&end)?;
            stream.synchronise()?;
            best = best.min(start.milliseconds_until(&end)?);
        }
        Ok(2.0 * BYTES as f64 / (1e-3 * f64::from(best)))
    };
    measure().map_err(|e: CudaError| DeviceFailure(e.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_agent::replay::Replay;

    #[test]
    fn noise_is_replay_in_the_format_of_its_records() {
        let count = 1000;
        let noise = Noise::with(count);
        let mut replay = Replay::new(task().observation, count, 3);
        replay.read_range(0, count as u64, &noise.records).unwrap();
        let mut again = Vec::new();
        replay.write_range(0, count as u64, &mut again);
        assert!(again == noise.records);
        let (flags, frames) = (&noise.records[count..2 * count], &noise.records[7 * count..]);
        assert!(flags.windows(2).all(|w| (w[0] & (TERMINAL | TRUNCATED) != 0) == (w[1] & START != 0)));
        assert!((1..50).contains(&flags.iter().filter(|f| *f & TERMINAL != 0).count()));
        let zeros = frames.iter().filter(|&&b| b == 0).count() as f64 / frames.len() as f64;
        assert!((zeros * 256.0 - 1.0).abs() < 0.1, "{zeros}");
    }

    #[test]
    fn updates_that_were_not_made_are_noticed() {
        assert!(check_updates(&[3, 4], &[13, 14], 10).is_ok());
        let error = check_updates(&[3, 4], &[13, 4], 10).unwrap_err();
        assert!(error.0.contains("agent 1 made 0 updates in 10 launches"), "{error}");
    }

    #[test]
    fn times_are_the_median_and_the_least() {
        let times = Times::of(vec![3.0, 1.0, 2.0, 9.0, 8.0], 50);
        assert_eq!(times, Times { median: 3.0, min: 1.0, launches: 50 });
    }

    #[test]
    fn the_copy_compiles() {
        if !spectral_nn::cuda::has_compiler() {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "SKIPPED: no NVRTC here");
            return;
        }
        spectral_nn::cuda::check("copy", COPY, "sm_90").unwrap();
    }
}
