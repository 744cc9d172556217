//! Programs of random bytes: nothing panics, hangs or depends on whether anybody looks.

use proptest::prelude::*;
use spectral_atari::machine::{Console, Controllers, Format, Input, PowerOn, Rom, RomError, Scheme};
use spectral_core::bytes::{StateReader, StateWriter};
use std::sync::Arc;

/// Bytes that are somewhat like a program: random, with the opcodes that write to the TIA more often than
/// chance.
fn program(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = (0..len).map(|_| next() as u8).collect();
    for at in (0..len.saturating_sub(2)).step_by(3) {
        if next() % 2 == 0 {
            bytes[at] = [0x85, 0x86, 0x84, 0x95, 0xA5, 0x8D][next() as usize % 6];
            bytes[at + 1] = next() as u8 & 0x3F;
        }
    }
    bytes
}

fn input(bits: u32) -> Input {
    let bit = |n: u32| bits >> n & 1 != 0;
    Input {
        up: [bit(0), bit(1)],
        down: [bit(2), bit(3)],
        left: [bit(4), bit(5)],
        right: [bit(6), bit(7)],
        fire: [bit(8), bit(9)],
        controllers: if bit(10) { Controllers::Paddles } else { Controllers::Joysticks },
        paddles: [(bits >> 4) as i32, (bits >> 8) as i32, bits as i32, -1],
        paddle_fire: [bit(11), bit(12), bit(13), bit(14)],
        select: bit(15),
        reset: bit(16),
        difficulty_a: bit(17),
        difficulty_b: bit(18),
        color: bit(19),
    }
}

fn saved(console: &Console) -> Vec<u8> {
    let mut out = StateWriter::default();
    console.save(&mut out);
    out.into_bytes()
}

const SCHEMES: [(Scheme, usize); 14] = [
    (Scheme::K2, 2048),
    (Scheme::K2, 700),
    (Scheme::K4, 4096),
    (Scheme::F8, 8192),
    (Scheme::F8SC, 8192),
    (Scheme::F6, 16384),
    (Scheme::F6SC, 16384),
    (Scheme::F4, 32768),
    (Scheme::F4SC, 32768),
    (Scheme::E0, 8192),
    (Scheme::E7, 16384),
    (Scheme::FE, 8192),
    (Scheme::CV, 2048),
    (Scheme::Tigervision3F, 8192),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_program_runs(which in 0usize..14, seed: u64, pal: bool, inputs in prop::collection::vec(any::<u32>(), 12)) {
        let (scheme, len) = SCHEMES[which];
        let rom = Arc::new(Rom::new(&program(len, seed), Some(scheme)).unwrap());
        let format = if pal { Format::Pal } else { Format::Ntsc };
        let mut watched = Console::new(rom, PowerOn::seeded(seed), format);
        let mut unwatched = watched.clone();
        let mut sparing = watched.clone();
        for (frame, bits) in inputs.into_iter().enumerate() {
            let input = input(bits);
            watched.run_frame(&input, true);
            unwatched.run_frame(&input, false);
            prop_assert_eq!(watched.ram(), unwatched.ram(), "memory depends on being watched");
            // Whoever looks at some frames only sees what it would have seen looking at all.
            let look = seed >> frame & 1 != 0;
            sparing.run_frame(&input, look);
            if look {
                prop_assert!(watched.screen() == sparing.screen(), "the picture depends on other frames' being drawn");
            }
            if frame == 5 {
                watched.system_reset();
                unwatched.system_reset();
                sparing.system_reset();
            }
            if frame == 8 {
                let bytes = saved(&watched);
                let mut other = watched.clone();
                other.run_frame(&input, true);
                other.restore(&mut StateReader::new(&bytes)).unwrap();
                prop_assert_eq!(saved(&other), bytes);
                watched = other;
                let bytes = saved(&sparing);
                sparing.restore(&mut StateReader::new(&bytes)).unwrap();
            }
        }
    }

    #[test]
    fn damaged_states_are_errors_or_harmless(seed: u64, at in 0usize..400, value: u8) {
        let rom = Arc::new(Rom::new(&program(4096, seed), None).unwrap());
        let mut console = Console::new(rom, PowerOn::seeded(seed), Format::Ntsc);
        console.run_frame(&Input::default(), true);
        let mut bytes = saved(&console);
        let at = at % bytes.len();
        bytes[at] = value;
        if console.restore(&mut StateReader::new(&bytes)).is_ok() {
            console.run_frame(&Input::default(), true);
        }
        prop_assert!(console.restore(&mut StateReader::new(&bytes[..at])).is_err());
    }

    #[test]
    fn sizes_that_no_cartridge_has_are_errors(len in 0usize..40_000) {
        let fits = (1..=2048).contains(&len)
            || [4096, 8192, 16384, 32768].contains(&len);
        match Rom::new(&vec![0xEA; len], None) {
            Ok(_) => prop_assert!(fits),
            Err(RomError::Empty) => prop_assert_eq!(len, 0),
            Err(error) => prop_assert!(!fits, "{}", error),
        }
    }
}

#[test]
fn a_clone_goes_on_as_its_original_and_leaves_it_alone() {
    let rom = Arc::new(Rom::new(&program(4096, 9), None).unwrap());
    let mut console = Console::new(rom, PowerOn::seeded(9), Format::Ntsc);
    (0..10).for_each(|_| console.run_frame(&Input::default(), true));
    let before = *console.ram();
    let mut clone = console.clone();
    (0..30).for_each(|_| clone.run_frame(&Input::default(), true));
    assert_eq!(*console.ram(), before);
    (0..30).for_each(|_| console.run_frame(&Input::default(), true));
    assert_eq!((console.ram(), console.screen()), (clone.ram(), clone.screen()));
}
