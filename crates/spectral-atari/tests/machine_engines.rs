//! Translated programs do exactly what interpreted ones do: every game, and programs of random bytes.

mod machine_common;

use machine_common::{GAMES, Held, Player, python, rom_folder};
use proptest::prelude::*;
use spectral_atari::machine::{
    Console, Controllers, Engine, Format, Input, PADDLE_MAX, PADDLE_MIN, PowerOn, Rom, Scheme,
};
use spectral_core::bytes::{StateReader, StateWriter};
use std::sync::Arc;

fn same(one: &Console, other: &Console) -> Result<(), String> {
    let (one, other) = (saved(one), saved(other));
    let places: Vec<_> = one.iter().zip(&other).enumerate().filter(|(_, (a, b))| a != b).collect();
    if one == other {
        Ok(())
    } else {
        Err(format!("states differ (place, (one, other)): {:?}", &places[..places.len().min(8)]))
    }
}

fn saved(console: &Console) -> Vec<u8> {
    let mut out = StateWriter::default();
    console.save(&mut out);
    out.into_bytes()
}

#[test]
fn every_game_is_the_same_in_both_engines() {
    let Some(python) = python() else { return };
    let folder = rom_folder(&python);
    for game in GAMES {
        let bytes = std::fs::read(folder.join(format!("{game}.bin"))).expect("the ROM");
        let mut translated = Player::new(game, &bytes);
        let mut interpreted = translated.clone();
        interpreted.console.set_engine(Engine::Interpreter);
        translated.reset();
        interpreted.reset();
        let mut random = 77u32;
        for frame in 0..600 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let action = (random >> 16) as u8 % 18;
            for player in [&mut translated, &mut interpreted] {
                player.draw = frame % 7 < 3;
                player.act(action, Held::Nothing);
            }
            assert_eq!(translated.console.ram(), interpreted.console.ram(), "{game}, frame {frame}");
            // States hold both pictures, which take a while to compare.
            if frame % 10 == 0 || frame > 590 {
                let same = same(&translated.console, &interpreted.console);
                assert_eq!(same, Ok(()), "{game}, frame {frame}");
            }
        }
    }
}

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// A program of random instructions that loop, call and return, touch every chip and sometimes end a frame.
fn program(len: usize, scheme: Scheme, seed: u64) -> Vec<u8> {
    let mut next = random(seed);
    let mut bytes: Vec<u8> = (0..len).map(|_| next() as u8).collect();
    let mut at = 0;
    while at + 8 < len {
        let byte = next() as u8;
        let piece: &[u8] = match next() % 26 {
            0 => &[0x85, byte & 0x3F],
            1 => &[0x85, 0x02],
            2 => &[0xA9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02],
            3 => &[0xA9, 0x00, 0x85, 0x00],
            4 => &[0xA5, byte],
            5 => &[0xB1, byte | 0x80],
            6 => &[0x91, byte | 0x80],
            7 => &[0x69, byte],
            8 => &[0xF5, byte],
            9 => &[0xCA, 0xD0, 0xF0 | byte & 0x0F],
            10 => &[0x20, byte, 0xF0 | (byte >> 4)],
            11 => &[0x60],
            12 => &[0xBD, byte, 0xF0 | (byte >> 3 & 0x0F)],
            13 => &[0x96, byte],
            14 => &[0xA2, byte, 0x9A],
            15 => &[0x08, 0x48],
            16 => &[0x68, 0x28],
            17 => &[0x8D, 0x94 + (byte & 3), 0x02],
            18 => &[0xAD, 0x84, 0x02, 0xD0, 0xFB],
            19 => &[0x2C, 0x85, 0x02, 0x10, 0xFB],
            20 => &[0xAC, 0x84, 0x02, 0x10, 0xFB],
            21 => &[0x95, byte],
            22 => &[if byte & 1 == 0 { 0xD8 } else { 0xF8 }],
            // Paddles: let them charge, and look.
            23 => &[0xA9, 0x80, 0x85, 0x01, 0xA9, 0x00, 0x85, 0x01],
            24 => &[0xA2, byte & 3, 0xBD, 0x08, 0x00, 0x05, 0x80 | byte],
            _ => &[0xAD, 0xF0 | (byte & 0x0F), 0xFF],
        };
        if !next().is_multiple_of(3) {
            bytes[at..at + piece.len()].copy_from_slice(piece);
        }
        at += piece.len();
    }
    // Most programs keep the cartridge's addresses; some wander off.
    for bank in bytes.chunks_mut(4096) {
        if bank.len() == 4096 {
            bank[0xFFD] |= 0xF0;
            bank[0xFFF] |= 0x10;
            if scheme == Scheme::E0 {
                bank[0x3FD] |= 0xF0;
            }
        }
    }
    bytes
}

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_programs_are_the_same_in_both_engines(
        which in 0usize..10,
        seed: u64,
        bits: u8,
        paddles in proptest::option::of([PADDLE_MIN..=PADDLE_MAX, PADDLE_MIN..=PADDLE_MAX]),
    ) {
        let (scheme, len) = SCHEMES[which];
        let rom = Arc::new(Rom::new(&program(len, scheme, seed), Some(scheme)).unwrap());
        let mut translated = Console::new(rom, PowerOn::seeded(seed), Format::Ntsc);
        let mut interpreted = translated.clone();
        interpreted.set_engine(Engine::Interpreter);
        let mut input = Input { up: [bits & 1 != 0, bits & 2 != 0], fire: [bits & 4 != 0, false], ..Input::default() };
        if let Some([one, two]) = paddles {
            (input.controllers, input.paddles) = (Controllers::Paddles, [one, two, 0, 0]);
        }
        for frame in 0..10 {
            translated.run_frame(&input, frame % 2 == 0);
            interpreted.run_frame(&input, frame % 2 == 0);
            prop_assert_eq!(translated.ram(), interpreted.ram(), "memory after frame {}", frame);
            prop_assert_eq!(same(&translated, &interpreted), Ok(()), "after frame {}", frame);
        }
        // A state saved by one engine goes on in the other.
        let bytes = saved(&translated);
        interpreted.restore(&mut StateReader::new(&bytes)).unwrap();
        translated.run_frame(&input, true);
        interpreted.run_frame(&input, true);
        prop_assert_eq!(same(&translated, &interpreted), Ok(()), "after a change of engines");
    }
}

/// A program that goes round for ever and never ends a frame: it is cut off after so many instructions, or, if it writes
/// to the TIA, after so many lines.
fn endless(writes: bool, seed: u64) -> Vec<u8> {
    let mut next = random(seed);
    // The stack lies in memory; a subroutine at $F800 counts, and so does the handler of BRK at $F900.
    let mut code = vec![0xA2, 0xFF, 0x9A, 0xD8];
    let top = code.len() as u16;
    for _ in 0..next() % 60 {
        let byte = next() as u8;
        let ram = 0x80 | byte & 0x3F;
        match next() % if writes { 14 } else { 10 } {
            0 => code.extend([0xE6, ram]),
            1 => code.extend([0xA5, ram]),
            2 => code.extend([0x65, ram]),
            3 => code.extend([0xCA, 0x10, 0x02, 0xE6, ram]),
            4 => code.extend([0x20, 0x00, 0xF8]),
            5 => code.extend([0x00, 0xEA]),
            6 => code.extend([0x08, 0x68]),
            7 => code.extend([0xA0, byte & 7, 0x88, 0xD0, 0xFD]),
            8 => code.extend([0x8D, 0x95, 0x02, 0xAD, 0x84, 0x02, 0xD0, 0xFB]),
            9 => code.extend([0x95, 0x80]),
            10 => code.extend([0x85, 0x02]),
            11 => code.extend([0x85, 0x04 + byte % 0x28]),
            12 => code.extend([0xA9, byte]),
            _ => code.extend([0xA2, 0x1F, 0x9A, 0x08, 0xA2, 0xFF, 0x9A]),
        }
    }
    code.extend([0x4C, top as u8, 0xF0]);
    let mut bytes = vec![0xEA; 4096];
    bytes[..code.len()].copy_from_slice(&code);
    bytes[0x800..0x803].copy_from_slice(&[0xE6, 0xC0, 0x60]);
    bytes[0x900..0x903].copy_from_slice(&[0xE6, 0xC1, 0x40]);
    bytes[0xFFC..].copy_from_slice(&[0x00, 0xF0, 0x00, 0xF9]);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn endless_programs_are_cut_off_at_the_same_instruction(writes: bool, seed: u64) {
        let rom = Arc::new(Rom::new(&endless(writes, seed), Some(Scheme::K4)).unwrap());
        let mut translated = Console::new(rom, PowerOn::seeded(seed), Format::Ntsc);
        let mut interpreted = translated.clone();
        interpreted.set_engine(Engine::Interpreter);
        for frame in 0..6 {
            translated.run_frame(&Input::default(), frame % 2 == 0);
            interpreted.run_frame(&Input::default(), frame % 2 == 0);
            prop_assert_eq!(translated.registers(), interpreted.registers(), "after frame {}", frame);
            prop_assert_eq!(same(&translated, &interpreted), Ok(()), "after frame {}", frame);
        }
    }
}

#[test]
fn threads_share_translations() {
    for seed in 1..30 {
        let rom = Arc::new(Rom::new(&program(8192, Scheme::F8, seed * 977), Some(Scheme::F8)).unwrap());
        let start = Console::new(rom, PowerOn::seeded(seed), Format::Ntsc);
        let mut interpreted = start.clone();
        interpreted.set_engine(Engine::Interpreter);
        let play = |console: &mut Console| (0..12).for_each(|_| console.run_frame(&Input::default(), false));
        play(&mut interpreted);
        let ends: Vec<Console> = std::thread::scope(|scope| {
            let play_one = || {
                let mut console = start.clone();
                play(&mut console);
                console
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(play_one)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread that plays")).collect()
        });
        for console in &ends {
            assert_eq!(same(console, &interpreted), Ok(()), "program {seed}");
        }
    }
}
