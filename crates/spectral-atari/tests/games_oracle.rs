//! Our reading of every game's RAM against ale-py's rewards, lives and ends, frame by frame: on played RAM and on RAM
//! with bytes changed. The machine has no part in it: both read the RAM that ale-py's emulator left.

use spectral_atari::games::{self, Game, Tally, peek};
use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::process::Command;

/// True if comparisons with Python programs must run; else says loudly that they do not.
fn oracles(what: &str) -> bool {
    let wanted = std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1");
    if !wanted {
        // Straight to standard error: the test harness would swallow what `eprintln!` says.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {what}; set SPECTRAL_ORACLES=1 to run it");
    }
    wanted
}

/// What was compared, and what differed.
#[derive(Default)]
struct Comparison {
    frames: u32,
    probes: u32,
    ends: u32,
    differences: Vec<String>,
}

struct Record<'a> {
    kind: u8,
    back: usize,
    over: bool,
    lives: i32,
    reward: i32,
    ram: &'a [u8; 128],
}

const RECORD: usize = 11 + 128;

fn parse(bytes: &[u8]) -> Record<'_> {
    let number = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    Record {
        kind: bytes[0],
        back: bytes[1].into(),
        over: bytes[2] != 0,
        lives: number(3),
        reward: number(7),
        ram: bytes[11..].try_into().unwrap(),
    }
}

fn compare(game: &Game, frames: u32, seed: u32) -> Comparison {
    let addresses: Vec<_> = game.reading.addresses().iter().map(|at| format!("{at:02x}")).collect();
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(&python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/games_oracle.py"))
        .args([game.name, &frames.to_string(), &seed.to_string(), &addresses.join(",")])
        .output()
        .unwrap_or_else(|error| panic!("{python}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{python} failed on {}: {said}", game.name);
    let mut stream = &output.stdout[..];
    let mut known = String::new();
    stream.read_line(&mut known).unwrap();
    let minimal: Vec<u8> = game.minimal.iter().map(|action| action as u8).collect();
    let ours = format!("{minimal:?} {:?} {:?} {}\n", game.modes, game.difficulties, game.height);
    assert_eq!(known, ours, "{}", game.name);
    assert_eq!(stream.len() % RECORD, 0);

    let mut result = Comparison::default();
    let mut tally = game.begin();
    let mut before: VecDeque<Tally> = VecDeque::new();
    for record in stream.chunks_exact(RECORD).map(parse) {
        let mut next = match (record.kind, record.back) {
            (0, _) => {
                tally = game.begin();
                before.clear();
                assert_eq!((tally.lives, tally.over), (record.lives, record.over), "{} begins", game.name);
                continue;
            }
            (1, _) | (2, 0) => tally,
            (_, back) => before[before.len() - back],
        };
        let reward = next.read(&game.reading, record.ram);
        if (reward, next.lives, next.over) != (record.reward, record.lives, record.over) {
            let bytes: Vec<_> = game
                .reading
                .addresses()
                .iter()
                .map(|&at| format!("{at:02x}={:02x}", peek(record.ram, at)))
                .collect();
            result.differences.push(format!(
                "{} {} (reward, lives, over): ale-py ({}, {}, {}), ours ({reward}, {}, {}), lives before {}, {}",
                game.name,
                if record.kind == 1 { "frame" } else { "probe" },
                record.reward,
                record.lives,
                record.over,
                next.lives,
                next.over,
                tally.lives,
                bytes.join(" ")
            ));
        }
        if record.kind == 1 {
            before.push_back(tally);
            if before.len() > 8 {
                before.pop_front();
            }
            tally = next;
            result.frames += 1;
            result.ends += u32::from(record.over);
        } else {
            result.probes += 1;
        }
    }
    result
}

/// `SPECTRAL_GAME_FRAMES` and `SPECTRAL_GAME_SEEDS` make it longer, `SPECTRAL_GAMES` (names with commas) narrower.
#[test]
fn every_game_is_read_as_ale_py_reads_it() {
    if !oracles("comparison of the games' scores, lives and ends with ale-py") {
        return;
    }
    let number =
        |name: &str, default: u32| std::env::var(name).map_or(default, |value| value.parse().expect(name));
    let (frames, seeds) = (number("SPECTRAL_GAME_FRAMES", 3_000), number("SPECTRAL_GAME_SEEDS", 1));
    let only = std::env::var("SPECTRAL_GAMES").unwrap_or_default();
    let wanted = |game: &&Game| only.is_empty() || only.split(',').any(|name| name == game.name);
    let queue = std::sync::Mutex::new(games::all().filter(wanted));
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(game) = queue.lock().unwrap().next() else { break };
                    for seed in 0..seeds {
                        let result = compare(game, frames, seed);
                        println!(
                            "{}: {} frames, {} probes, {} ends, {} differences",
                            game.name,
                            result.frames,
                            result.probes,
                            result.ends,
                            result.differences.len()
                        );
                        failures.lock().unwrap().extend(result.differences.into_iter().take(5));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
