//! Measures the machine alone: frames per CPU-second of one thread, without and with pixels.
//!
//! Usage: `atari_speed FOLDER_OF_ROMS FRAMES GAME...`; one line per game: name, frames per second undrawn,
//! drawn. On standard error, how long a clone of the running game takes.

use spectral_atari::machine::{
    Console, Controllers, Format, Input, PADDLE_MAX, PADDLE_MIN, PADDLE_STEP, PowerOn, Rom,
};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: atari_speed FOLDER_OF_ROMS FRAMES GAME...";
    let folder = arguments.next().ok_or(usage)?;
    let frames: usize = arguments.next().ok_or(usage)?.parse()?;
    for game in arguments {
        let rom = Arc::new(Rom::new(&std::fs::read(format!("{folder}/{game}.bin"))?, None)?);
        let mut rates = [0.0f64; 2];
        for (draw, rate) in [false, true].into_iter().zip(&mut rates) {
            for _ in 0..3 {
                *rate = rate.max(measure(&rom, &game, frames, draw)?);
            }
        }
        println!("{game} {:.0} {:.0}", rates[0], rates[1]);
    }
    Ok(())
}

/// Plays random actions, each held for four frames.
fn measure(rom: &Arc<Rom>, game: &str, frames: usize, draw: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let mut console = Console::new(rom.clone(), PowerOn::ale(), Format::Ntsc);
    let mut input = Input::default();
    if ["pong", "breakout"].contains(&game) {
        input.controllers = Controllers::Paddles;
    }
    (0..60).for_each(|_| console.run_frame(&input, false));
    input.reset = true;
    (0..8).for_each(|_| console.run_frame(&input, false));
    input.reset = false;
    let mut random = 12345u32;
    let start = cpu_seconds()?;
    for frame in 0..frames {
        if frame % 4 == 0 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let bit = |n: u32| random >> (24 + n) & 1 != 0;
            input.fire[0] = bit(0);
            input.paddle_fire[0] = bit(0);
            input.up[0] = bit(1);
            input.left[0] = bit(2);
            input.right[0] = bit(3) && !bit(2);
        }
        let turn = i32::from(input.left[0]) - i32::from(input.right[0]);
        input.paddles[0] = (input.paddles[0] + turn * PADDLE_STEP).clamp(PADDLE_MIN, PADDLE_MAX);
        console.run_frame(&input, draw);
    }
    let seconds = cpu_seconds()? - start;
    if draw {
        let clones = std::time::Instant::now();
        (0..1000).for_each(|_| drop(std::hint::black_box(console.clone())));
        eprintln!("{game}: a clone takes {:.2} microseconds", clones.elapsed().as_secs_f64() * 1e3);
    }
    Ok(frames as f64 / seconds)
}

/// Time that this process has spent on a processor, so that other work on the machine does not count.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = text.split(' ').next().ok_or("an empty schedstat")?.parse()?;
    Ok(nanoseconds * 1e-9)
}
