//! How many steps a task plays in a second.

use crate::env::{Observation, ObservationSpec};
use crate::registry::{TaskError, TaskOptions, make};
use spectral_core::rng::{Purpose, Stream};
use std::time::{Duration, Instant};

/// Steps per second of one core, each as the trainer plays it: a fresh stream, a random action, the step, the
/// observation, and a reset where an episode ends.
///
/// ```
/// use spectral_env::{TaskOptions, bench::bench_steps};
/// assert!(bench_steps("catch-scale", &TaskOptions::default(), 0.01)? > 1000.0);
/// # Ok::<(), spectral_env::TaskError>(())
/// ```
pub fn bench_steps(name: &str, options: &TaskOptions, seconds: f64) -> Result<f64, TaskError> {
    let mut env = make(name, options)?;
    let spec = env.spec().clone();
    let (mut bytes, mut numbers) = match spec.observation {
        ObservationSpec::Planes { .. } => (vec![0; spec.observation.len()], Vec::new()),
        ObservationSpec::Vector { len } => (Vec::new(), vec![0.0; len]),
    };
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
    env.reset(&mut Stream::new(0, Purpose::Other, 0));
    let start = Instant::now();
    let mut steps = 0u64;
    loop {
        // The clock is read once per block, to keep it out of the figure.
        for _ in 0..1024 {
            steps += 1;
            let mut rng = Stream::new(0, Purpose::Other, steps);
            let action = ((u64::from(rng.next_u32()) * spec.actions.len() as u64) >> 32) as usize;
            let step = env.step(action, &mut rng);
            if step.terminated || step.truncated {
                env.reset(&mut rng);
            }
            env.observe(match spec.observation {
                ObservationSpec::Planes { .. } => Observation::Planes(&mut bytes),
                ObservationSpec::Vector { .. } => Observation::Vector(&mut numbers),
            });
            std::hint::black_box((&bytes, &numbers));
        }
        let elapsed = start.elapsed();
        if elapsed >= limit {
            return Ok(steps as f64 / elapsed.as_secs_f64());
        }
    }
}
