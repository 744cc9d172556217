//! Measures whole steps of a task: four frames, of which the last two are drawn, made grey, pooled and shrunk to 84 × 84.
//!
//! Usage: `atari_preprocess FOLDER_OF_ROMS FRAMES GAME...`; one line per game: name, frames per CPU-second of one thread,
//! and microseconds that a step spends on emulation (with two frames drawn) and on pooling and shrinking.

use spectral_atari::games::{self, Action};
use spectral_atari::machine::{PowerOn, Rom, grey_palette};
use spectral_atari::preprocess::{Pooler, SIDE};
use spectral_atari::task::{AleGame, AtariOptions, make};
use spectral_env::{Env, Purpose, Stream};
use std::sync::Arc;

const SKIP: usize = 4;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: atari_preprocess FOLDER_OF_ROMS FRAMES GAME...";
    let folder = arguments.next().ok_or(usage)?;
    let frames: usize = arguments.next().ok_or(usage)?.parse()?;
    for game in arguments {
        let options = AtariOptions { roms: Some(folder.clone().into()), ..AtariOptions::default() };
        let mut task = make(&format!("atari/{game}"), &options)?;
        let rom = Arc::new(Rom::new(&std::fs::read(format!("{folder}/{game}.bin"))?, None)?);
        let steps = frames / SKIP;
        let (mut whole, mut pooled) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..3 {
            whole = whole.min(play(task.as_mut(), steps)?);
            pooled = pooled.min(pool(&game, &rom, steps)?);
        }
        let step = 1e6 / steps as f64;
        let rate = (SKIP * steps) as f64 / whole;
        println!("{game} {rate:.0} {:.1} {:.1}", (whole - pooled) * step, pooled * step);
    }
    Ok(())
}

fn chance(step: usize) -> Stream {
    Stream::new(1, Purpose::Environment, step as u64)
}

/// CPU-seconds of so many steps with random actions.
fn play(task: &mut dyn Env, steps: usize) -> Result<f64, Failure> {
    let actions = task.spec().actions.len();
    task.reset(&mut chance(0));
    let start = cpu_seconds()?;
    for step in 0..steps {
        let mut chance = chance(step);
        let result = task.step(chance.below(actions), &mut chance);
        if result.terminated || result.truncated {
            task.reset(&mut chance);
        }
    }
    Ok(cpu_seconds()? - start)
}

/// CPU-seconds of so many poolings of pictures from a game with random actions.
fn pool(game: &str, rom: &Arc<Rom>, steps: usize) -> Result<f64, Failure> {
    let game = games::find(game).ok_or("no such game")?;
    let mut ale = AleGame::new(game, rom.clone(), PowerOn::seeded(chance(0).next_u64()));
    let actions: Vec<Action> = game.minimal.iter().collect();
    ale.reset();
    let mut pictures = Vec::new();
    for step in 0..1000 {
        let action = actions[chance(step).below(actions.len())];
        let mut shown = || {
            ale.act(action, true);
            ale.console().screen().to_vec()
        };
        let _ = (shown(), shown());
        let pair = (shown(), shown());
        if step % 20 == 0 {
            pictures.push(pair);
        }
    }
    let mut pooler = Pooler::new(game.height, *grey_palette(ale.console().format()));
    let mut seen = [0; SIDE * SIDE];
    let start = cpu_seconds()?;
    // More of them, because the clock ticks slowly.
    for (first, second) in pictures.iter().cycle().take(20 * steps) {
        pooler.pool(first, second, &mut seen);
    }
    std::hint::black_box(seen);
    Ok((cpu_seconds()? - start) / 20.0)
}

/// Time that this process has spent on a processor, so that other work on the machine does not count.
fn cpu_seconds() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = text.split(' ').next().ok_or("an empty schedstat")?.parse()?;
    Ok(nanoseconds * 1e-9)
}
