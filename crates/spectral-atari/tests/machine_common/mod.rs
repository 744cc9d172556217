//! Shared by the tests that compare the machine with the Arcade Learning Environment.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use spectral_atari::machine::{
    Console, Controllers, Format, Input, PADDLE_DEFAULT, PADDLE_MAX, PADDLE_MIN, PADDLE_STEP, PowerOn, Rom,
};
use std::io::Write as _;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

/// The interpreter that has ale-py, or `None` (said aloud) where comparisons are not asked for.
pub fn python() -> Option<PathBuf> {
    if std::env::var("SPECTRAL_ORACLES").as_deref() != Ok("1") {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: comparison with the Arcade Learning Environment (set SPECTRAL_ORACLES=1 to run it)"
        );
        return None;
    }
    Some(std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into()).into())
}

/// The folder of ROMs inside the ale-py package.
pub fn rom_folder(python: &PathBuf) -> PathBuf {
    let find = "import importlib.util, os; \
                print(os.path.join(os.path.dirname(importlib.util.find_spec('ale_py').origin), 'roms'))";
    let output = Command::new(python).args(["-c", find]).output().expect("run the Python of the oracles");
    assert!(output.status.success(), "ale-py is missing: {}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

/// One frame (or the state after a reset) as the oracle saw it.
pub struct Record {
    pub is_reset: bool,
    pub action: u8,
    pub ram: [u8; 128],
    pub screen: Vec<u8>,
}

/// A running oracle.
pub struct Oracle {
    child: Child,
    out: BufReader<ChildStdout>,
    pub height: usize,
}

impl Oracle {
    pub fn start(python: &PathBuf, rom: &std::path::Path, frames: usize, seed: u32) -> Oracle {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/play.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(rom)
            .args([frames.to_string(), seed.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the oracle");
        let mut out = BufReader::with_capacity(1 << 20, child.stdout.take().expect("piped"));
        let mut height = [0; 4];
        out.read_exact(&mut height).expect("the oracle's header");
        Oracle { child, out, height: u32::from_le_bytes(height) as usize }
    }

    pub fn next(&mut self) -> Option<Record> {
        let mut head = [0; 11];
        if self.out.read_exact(&mut head).is_err() {
            assert!(self.child.wait().expect("the oracle ends").success(), "the oracle failed");
            return None;
        }
        let mut record = Record {
            is_reset: head[0] == 1,
            action: head[1],
            ram: [0; 128],
            screen: vec![0; self.height * 160],
        };
        self.out.read_exact(&mut record.ram).expect("memory");
        self.out.read_exact(&mut record.screen).expect("a screen");
        Some(record)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A switch of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Nothing,
    Reset,
    Select,
}

/// A console driven as the Arcade Learning Environment drives its own.
#[derive(Clone)]
pub struct Player {
    pub console: Console,
    /// Whether pixels are asked for.
    pub draw: bool,
    paddles: Option<i32>,
    starting: Vec<u8>,
    reset_frames: usize,
    game: String,
    no_button: bool,
}

const UP: [u8; 6] = [2, 6, 7, 10, 14, 15];
const RIGHT: [u8; 6] = [3, 6, 8, 11, 14, 16];
const LEFT: [u8; 6] = [4, 7, 9, 12, 15, 17];
const DOWN: [u8; 6] = [5, 8, 9, 13, 16, 17];

impl Player {
    pub fn new(game: &str, rom: &[u8]) -> Player {
        let rom = Arc::new(Rom::new(rom, None).expect("a game of the set"));
        let format = if PAL.contains(&game) { Format::Pal } else { Format::Ntsc };
        let console = Console::new(rom, PowerOn::ale(), format);
        let paddles = PADDLES.contains(&game).then_some(PADDLE_DEFAULT);
        let starting = STARTING.iter().find(|entry| entry.0 == game).map_or(vec![], |entry| entry.1.to_vec());
        let reset_frames = if ONE_MODE.contains(&game) { 8 } else { 12 };
        let mut player = Player {
            game: game.to_owned(),
            draw: true,
            console,
            paddles,
            starting,
            reset_frames,
            no_button: game == "skiing",
        };
        // Loading a game resets the console thrice before play begins.
        player.console.system_reset();
        for _ in 0..60 {
            player.act(0, Held::Nothing);
        }
        player.console.system_reset();
        player
    }

    /// What the environment does at the start of every episode.
    pub fn reset(&mut self) {
        self.console.system_reset();
        self.paddles = self.paddles.map(|_| PADDLE_DEFAULT);
        self.hold(Held::Nothing, 60);
        self.hold(Held::Reset, 4);
        if let Some((_, wait, reset, presses)) = MODES.iter().find(|entry| entry.0 == self.game) {
            self.hold(Held::Nothing, *wait);
            self.hold(Held::Reset, *reset);
            for (count, frames) in *presses {
                for _ in 0..*count {
                    self.hold(Held::Select, *frames);
                    self.hold(Held::Nothing, 1);
                }
            }
        }
        if self.game == "double_dunk" {
            // Its modes are entries of a menu.
            self.hold(Held::Select, 1);
            self.hold(Held::Nothing, 1);
            for action in [5, 0, 5, 0, 5, 0, 5, 0, 5, 0] {
                self.act(action, Held::Nothing);
            }
            self.hold(Held::Reset, 4);
            self.act(10, Held::Nothing);
            self.act(0, Held::Nothing);
            self.hold(Held::Reset, 4);
        } else {
            self.hold(Held::Reset, self.reset_frames - 4);
        }
        for action in self.starting.clone() {
            self.act(action, Held::Nothing);
        }
    }

    fn hold(&mut self, held: Held, frames: usize) {
        for _ in 0..frames {
            self.act(0, held);
        }
    }

    pub fn act(&mut self, action: u8, held: Held) {
        // Skiing knows no button: the environment does nothing in place of actions that press it.
        let action = if self.no_button && (action == 1 || action >= 10) { 0 } else { action };
        let mut input =
            Input { reset: held == Held::Reset, select: held == Held::Select, ..Input::default() };
        let fire = action == 1 || action >= 10;
        if let Some(position) = &mut self.paddles {
            input.controllers = Controllers::Paddles;
            let turn = i32::from(LEFT.contains(&action)) - i32::from(RIGHT.contains(&action));
            *position = (*position + turn * PADDLE_STEP).clamp(PADDLE_MIN, PADDLE_MAX);
            input.paddles[0] = *position;
            input.paddle_fire[0] = fire;
        } else {
            input.up[0] = UP.contains(&action);
            input.down[0] = DOWN.contains(&action);
            input.left[0] = LEFT.contains(&action);
            input.right[0] = RIGHT.contains(&action);
            input.fire[0] = fire;
        }
        self.console.run_frame(&input, self.draw);
    }
}

const PAL: &[&str] = &[];
const PADDLES: &[&str] = &["breakout", "pong"];
const STARTING: &[(&str, &[u8])] = &[
    ("asterix", &[1]),
    ("beam_rider", &[3]),
    ("double_dunk", &[10]),
    ("enduro", &[1]),
    ("gopher", &[1]),
    ("gravitar", &[1; 16]),
    ("pitfall", &[2]),
    ("private_eye", &[2]),
    ("skiing", &[5; 16]),
    ("up_n_down", &[1]),
    ("yars_revenge", &[1]),
];
const ONE_MODE: &[&str] = &[
    "journey_escape",
    "kaboom",
    "krull",
    "kung_fu_master",
    "montezuma_revenge",
    "phoenix",
    "pitfall",
    "qbert",
    "riverraid",
    "road_runner",
    "robotank",
    "amidar",
    "assault",
    "asterix",
    "beam_rider",
    "boxing",
    "carnival",
    "enduro",
    "fishing_derby",
    "seaquest",
    "skiing",
    "solaris",
    "time_pilot",
    "up_n_down",
    "venture",
    "wizard_of_wor",
];

/// How many presses, of how many frames.
type Presses = &'static [(usize, usize)];

/// How the environment reaches a game's default mode, after the first four frames of the reset switch:
/// frames of waiting, frames of the reset switch, and presses of the select switch (how many, of how many
/// frames).
const MODES: &[(&str, usize, usize, Presses)] = &[
    ("berzerk", 20, 0, &[]),
    ("gopher", 0, 4, &[]),
    ("name_this_game", 0, 0, &[(134, 2)]),
    ("surround", 0, 0, &[(1, 2)]),
    ("yars_revenge", 0, 0, &[(1, 2), (6, 1)]),
];

/// The games that are compared.
pub const GAMES: &[&str] = &[
    "alien",
    "amidar",
    "assault",
    "asterix",
    "asteroids",
    "atlantis",
    "bank_heist",
    "battle_zone",
    "beam_rider",
    "berzerk",
    "bowling",
    "boxing",
    "breakout",
    "centipede",
    "chopper_command",
    "crazy_climber",
    "defender",
    "demon_attack",
    "double_dunk",
    "enduro",
    "fishing_derby",
    "freeway",
    "frostbite",
    "gopher",
    "gravitar",
    "hero",
    "ice_hockey",
    "jamesbond",
    "kangaroo",
    "krull",
    "kung_fu_master",
    "montezuma_revenge",
    "ms_pacman",
    "name_this_game",
    "phoenix",
    "pitfall",
    "pong",
    "private_eye",
    "qbert",
    "riverraid",
    "road_runner",
    "robotank",
    "seaquest",
    "skiing",
    "solaris",
    "space_invaders",
    "star_gunner",
    "surround",
    "tennis",
    "time_pilot",
    "tutankham",
    "up_n_down",
    "venture",
    "video_pinball",
    "wizard_of_wor",
    "yars_revenge",
    "zaxxon",
];
