//! Whole updates of agents with small networks on the CPU: where the codec's own work shows.

use spectral_agent::codecs::configure;
use spectral_agent::learner::Learner;
use spectral_agent::replay::Outcome;
use spectral_agent::settings::AgentSettings;
use spectral_core::rng::{Purpose, Stream};
use spectral_env::TaskSpec;
use std::time::{Duration, Instant};

/// Inputs and actions of the task, and transitions in replay.
const INPUTS: usize = 18;
const ACTIONS: [&str; 3] = ["left", "stay", "right"];
const REPLAY: usize = 2000;
/// Updates that are timed together.
const AT_ONCE: u32 = 20;

/// The agents that are measured, the first of which the others are compared with.
pub const AGENTS: [&str; 5] = [
    "spectral",
    "spectral choice=steady",
    "popart",
    "categorical atoms=65",
    "categorical atoms=65 targets=projection readout=mean",
];

/// Milliseconds of one update of each of [`AGENTS`], and how many times the first one's that is. The agents take turns, and the
/// fastest turn counts: what else the machine does can only slow one down.
pub fn measure(seconds: f64) -> Result<Vec<(&'static str, f64, f64)>, String> {
    let mut learners = AGENTS.map(learner).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut times = vec![Vec::new(); learners.len()];
    let (begun, limit) = (Instant::now(), Duration::from_secs_f64(seconds * AGENTS.len() as f64));
    while times[0].len() < 5 || begun.elapsed() < limit {
        for (learner, times) in learners.iter_mut().zip(&mut times) {
            let begun = Instant::now();
            for _ in 0..AT_ONCE {
                learner.update().map_err(|e| e.to_string())?;
            }
            times.push(1e3 * begun.elapsed().as_secs_f64() / f64::from(AT_ONCE));
        }
    }
    let least = |times: &Vec<f64>| times.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest: Vec<f64> = times.iter().map(least).collect();
    Ok(AGENTS.iter().zip(&fastest).map(|(name, ms)| (*name, *ms, ms / fastest[0])).collect())
}

/// An agent with hidden layers of 128 and 128 units, a minibatch of 32, and replay full of rewards of all sizes.
fn learner(text: &str) -> Result<Learner, String> {
    let settings = AgentSettings { replay: REPLAY, hidden: "128,128".into(), ..Default::default() };
    let (settings, codec) = configure(text, settings).map_err(|e| e.to_string())?;
    let task = TaskSpec::vector("random vectors", INPUTS, &ACTIONS);
    let mut learner = Learner::new(settings, codec, &task, 1).map_err(|e| e.to_string())?;
    let mut random = Stream::new(1, Purpose::Other, 0);
    for _ in 0..REPLAY {
        learner.observation().vector().fill_with(|| random.unit_f32() - 0.5);
        let size = 10f64.powf(5.0 * random.unit_f64()) as f32;
        learner.record(Outcome {
            action: random.below(ACTIONS.len()) as u8,
            reward: if random.chance(0.3) { size } else { 0.0 },
            terminal: random.chance(0.01),
            ..Default::default()
        });
    }
    Ok(learner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_measured_and_compared_with_the_first() {
        let measured = measure(1e-3).unwrap();
        assert_eq!(measured.len(), AGENTS.len());
        assert_eq!((measured[0].0, measured[0].2), ("spectral", 1.0));
        assert!(measured.iter().all(|(_, ms, ratio)| *ms > 0.0 && (ratio * measured[0].1 - ms).abs() < 1e-9));
    }
}
