//! Games started and played by us and by ale-py: RAM, screen, rewards, lives and ends are equal in every frame, in the
//! default mode over many games, and at the beginning of every other mode. Air Raid, the one game of the set that was made
//! for European television, is among them.

use spectral_atari::games::{self, Action, Game};
use spectral_atari::machine::Rom;
use spectral_atari::roms;
use spectral_atari::task::AleGame;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn number(&mut self) -> i32 {
        i32::from_le_bytes(self.take(4).try_into().unwrap())
    }
}

fn same_state(ale: &AleGame, from: &mut Bytes<'_>, when: &str) -> Result<(), String> {
    let (ram, screen) = (from.take(128), from.number() as u32);
    let ours = ale.console().ram();
    let differences: Vec<_> = (0..128)
        .filter(|&at| ours[at] != ram[at])
        .map(|at| format!("{:02x}: {:02x}, ours {:02x}", at + 128, ram[at], ours[at]))
        .collect();
    if !differences.is_empty() {
        return Err(format!("{when}: {}", differences.join("; ")));
    }
    if crc32fast::hash(ale.console().screen()) == screen {
        Ok(())
    } else {
        Err(format!("{when}: the screens differ, the memory is equal"))
    }
}

/// Plays the next recorded frame.
fn play(ale: &mut AleGame, from: &mut Bytes<'_>, when: &str) -> Result<(), String> {
    let action = Action::from_number(from.byte()).unwrap();
    let expected = (from.number(), from.number(), from.byte() != 0);
    let outcome = ale.act(action, true);
    same_state(ale, from, when)?;
    let found = (outcome.reward, ale.tally().lives, outcome.over);
    if found == expected { Ok(()) } else { Err(format!("{when}: {expected:?}, ours {found:?}")) }
}

fn compare(game: &'static Game, folder: &std::path::Path, frames: u32, seed: u32) -> Result<u32, String> {
    let rom = Arc::new(Rom::new(&roms::find_in(folder, game).unwrap(), None).unwrap());
    let modes = game.playable_modes().len().to_string();
    let output = Command::new(python())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/games_play.py"))
        .args([game.name, &frames.to_string(), &seed.to_string(), &modes])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}: {}", game.name, String::from_utf8_lossy(&output.stderr));
    let mut from = Bytes(&output.stdout);
    for _ in 0..from.byte() {
        let mode = u16::from_le_bytes(from.take(2).try_into().unwrap());
        let difficulty = from.byte();
        let mut ale = AleGame::as_ale(game, rom.clone());
        ale.reset();
        assert!(ale.choose(mode, difficulty), "{} has mode {mode}", game.name);
        for reset in 0..2 {
            ale.reset();
            same_state(&ale, &mut from, &format!("mode {mode}, reset {reset}"))?;
            // In some modes of Demon Attack, ale-py's game is over before it begins, and nothing can be compared.
            let frames = if from.byte() == 0 { 20 } else { 0 };
            for frame in 0..frames {
                play(&mut ale, &mut from, &format!("mode {mode}, reset {reset}, frame {frame}"))?;
            }
        }
    }
    let mut ale = AleGame::as_ale(game, rom);
    let (mut frame, mut ends) = (0, 0);
    while !from.0.is_empty() {
        if from.byte() == 0 {
            ale.reset();
            ends += 1;
            same_state(&ale, &mut from, &format!("reset before frame {frame}"))?;
        } else {
            play(&mut ale, &mut from, &format!("frame {frame}"))?;
            frame += 1;
        }
    }
    Ok(ends - 1)
}

fn python() -> String {
    std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into())
}

/// `SPECTRAL_GAME_FRAMES` and `SPECTRAL_GAME_SEEDS` make it longer, `SPECTRAL_GAMES` (names with commas) narrower.
#[test]
fn every_game_plays_as_in_ale_py() {
    if std::env::var("SPECTRAL_ORACLES").map_or(true, |value| value != "1") {
        let why = "SKIPPED: comparison of games played by us and by ale-py; set SPECTRAL_ORACLES=1 to run it";
        let _ = writeln!(std::io::stderr(), "{why}");
        return;
    }
    let find = "import ale_py.roms, os; print(os.path.dirname(ale_py.roms.__file__))";
    let output = Command::new(python()).args(["-c", find]).output().unwrap();
    let folder = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let number =
        |name: &str, default: u32| std::env::var(name).map_or(default, |value| value.parse().expect(name));
    let (frames, seeds) = (number("SPECTRAL_GAME_FRAMES", 3_000), number("SPECTRAL_GAME_SEEDS", 1));
    let only = std::env::var("SPECTRAL_GAMES").unwrap_or_default();
    let wanted = |game: &&Game| only.is_empty() || only.split(',').any(|name| name == game.name);
    let queue = Mutex::new(games::all().filter(wanted));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(game) = queue.lock().unwrap().next() else { break };
                    for seed in 0..seeds {
                        match compare(game, &folder, frames, seed) {
                            Ok(ends) => println!("{}: {frames} frames, {ends} ends, all equal", game.name),
                            Err(what) => failures.lock().unwrap().push(format!("{}: {what}", game.name)),
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
