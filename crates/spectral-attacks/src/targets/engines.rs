//! Programs of any bytes: the interpreter and translated code must bring a console to the same state, frame by frame.

use spectral_atari::machine::{
    Console, Controllers, Engine, Format, Input, PADDLE_MAX, PADDLE_MIN, PowerOn, Rom, Scheme,
};
use spectral_core::bytes::{StateReader, StateWriter};
use std::sync::Arc;

/// Pieces of programs: waits, strobes, banks, stacks, decimal arithmetic, loops.
pub(super) const WORDS: &[&[u8]] = &[
    &[0x85, 0x02],
    &[0xA9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02],
    &[0xAD, 0x84, 0x02, 0xD0, 0xFB],
    &[0x2C, 0x85, 0x02, 0x10, 0xFB],
    &[0x8D, 0x95, 0x02],
    &[0xCA, 0xD0, 0xFD],
    &[0x20, 0x00, 0xF0],
    &[0x60],
    &[0x40],
    &[0x00],
    &[0xF8],
    &[0xAD, 0xF9, 0xFF],
    &[0xA2, 0xFF, 0x9A],
    &[0x4C, 0x00, 0xF0],
    &[0x91, 0x80],
    &[0xB5, 0x30],
];

const SCHEMES: [(Scheme, usize); 10] = [
    (Scheme::K2, 2048),
    (Scheme::K4, 4096),
    (Scheme::F8, 8192),
    (Scheme::F8SC, 8192),
    (Scheme::F6, 16384),
    (Scheme::F6SC, 16384),
    (Scheme::F4, 32768),
    (Scheme::F4SC, 32768),
    (Scheme::E0, 8192),
    (Scheme::FE, 8192),
];

/// Four bytes choose cartridge, memory at power-on and controllers; the rest is the program, repeated until the cartridge is full.
pub(super) fn run(bytes: &[u8]) {
    let [scheme, seed, sticks, paddle, program @ ..] = bytes else { return };
    if program.is_empty() {
        return;
    }
    // As anybody might give it, and as a cartridge of a kind.
    let _ = Rom::new(program, None);
    let (scheme, len) = SCHEMES[usize::from(*scheme) % SCHEMES.len()];
    let mut image: Vec<u8> = program.iter().copied().cycle().take(len).collect();
    for bank in image.chunks_mut(2048) {
        // The vectors of a program that begins at the cartridge's start; a quarter of the programs choose their own.
        if seed % 4 != 0 {
            let end = bank.len() - 4;
            bank[end..].copy_from_slice(&[0x00, 0xF0, 0x00, 0xF0]);
        }
    }
    let rom = Arc::new(Rom::new(&image, Some(scheme)).expect("a cartridge of the right length"));
    let mut translated = Console::new(rom, PowerOn::seeded(u64::from(*seed)), Format::Ntsc);
    let mut interpreted = translated.clone();
    interpreted.set_engine(Engine::Interpreter);
    let mut input =
        Input { up: [sticks & 1 != 0, sticks & 2 != 0], fire: [sticks & 4 != 0, false], ..Input::default() };
    if sticks & 8 != 0 {
        let at = PADDLE_MIN + (PADDLE_MAX - PADDLE_MIN) / 256 * i32::from(*paddle);
        (input.controllers, input.paddles) = (Controllers::Paddles, [at, PADDLE_MAX, 0, 0]);
    }
    for frame in 0..6 {
        translated.run_frame(&input, frame % 2 == 0);
        interpreted.run_frame(&input, frame % 2 == 0);
        assert!(saved(&translated) == saved(&interpreted), "the engines differ after frame {frame}");
    }
    // A state saved by one engine goes on in the other, and a state of any bytes is refused or goes on.
    let state = saved(&translated);
    interpreted.restore(&mut StateReader::new(&state)).expect("a state that was just saved");
    interpreted.run_frame(&input, true);
    translated.run_frame(&input, true);
    assert!(saved(&translated) == saved(&interpreted), "the engines differ after a restoration");
    let mut forged = state;
    for pair in program.chunks_exact(3).take(8) {
        let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % forged.len().min(1024);
        forged[at] = pair[2];
    }
    if translated.restore(&mut StateReader::new(&forged)).is_ok() {
        let mut interpreted = translated.clone();
        interpreted.set_engine(Engine::Interpreter);
        translated.run_frame(&input, true);
        interpreted.run_frame(&input, true);
        assert!(saved(&translated) == saved(&interpreted), "the engines differ after a forged state");
    }
}

fn saved(console: &Console) -> Vec<u8> {
    let mut out = StateWriter::default();
    console.save(&mut out);
    out.into_bytes()
}
