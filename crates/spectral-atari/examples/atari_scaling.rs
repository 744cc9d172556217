//! Measures how Atari tasks scale to many threads: whole steps, four frames each, pooled and shrunk to 84 × 84.
//!
//! Usage: `atari_scaling FOLDER_OF_ROMS SECONDS THREADS GAME`; prints frames per second of all threads together, each of
//! which plays a game of its own with random actions.

use spectral_atari::task::{AtariOptions, FRAME_SKIP, make};
use spectral_env::{Env, Observation, Purpose, Stream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seconds, threads, game] = arguments.as_slice() else {
        return Err("usage: atari_scaling FOLDER_OF_ROMS SECONDS THREADS GAME".into());
    };
    let (duration, threads) = (Duration::from_secs_f64(seconds.parse()?), threads.parse()?);
    let options = AtariOptions { roms: Some(folder.into()), ..AtariOptions::default() };
    let tasks = (0..threads).map(|_| make(&format!("atari/{game}"), &options)).collect::<Result<Vec<_>, _>>();
    let barrier = Barrier::new(threads);
    let rate: f64 = std::thread::scope(|scope| {
        let playing: Vec<_> = (1..)
            .zip(tasks.map_err(|error| error.to_string())?)
            .map(|(seed, mut task)| {
                let barrier = &barrier;
                scope.spawn(move || play(task.as_mut(), seed, duration, barrier))
            })
            .collect();
        Ok::<f64, Failure>(playing.into_iter().map(|thread| thread.join().expect("a thread's rate")).sum())
    })?;
    println!("{rate:.0}");
    Ok(())
}

/// Frames per second of one task.
fn play(task: &mut dyn Env, seed: u64, duration: Duration, barrier: &Barrier) -> f64 {
    let actions = task.spec().actions.len();
    let mut seen = vec![0; task.spec().observation.len()];
    task.reset(&mut Stream::new(seed, Purpose::Environment, 0));
    barrier.wait();
    let (start, mut steps) = (Instant::now(), 0);
    while start.elapsed() < duration {
        for _ in 0..50 {
            steps += 1;
            let mut chance = Stream::new(seed, Purpose::Environment, steps);
            let step = task.step(chance.below(actions), &mut chance);
            task.observe(Observation::Planes(&mut seen));
            if step.terminated || step.truncated {
                task.reset(&mut chance);
            }
        }
    }
    std::hint::black_box(&seen);
    steps as f64 * f64::from(FRAME_SKIP) / start.elapsed().as_secs_f64()
}
