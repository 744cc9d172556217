//! A console that runs one of the games, started and played as the Arcade Learning Environment does.

use crate::games::{Action, Game, Select, Tally};
use crate::machine::{
    Console, Controllers, Format, Input, PADDLE_DEFAULT, PADDLE_MAX, PADDLE_MIN, PADDLE_STEP, PowerOn, Rom,
};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use std::sync::Arc;

/// Frames without input after a system reset.
const IDLE_FRAMES: usize = 60;
/// Frames for which the reset switch is held to start a game.
const RESET_FRAMES: usize = 4;

/// The result of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameResult {
    /// The change of the game's score.
    pub reward: i32,
    /// True if there are fewer lives than before the frame.
    pub life_lost: bool,
    /// True if the game is over.
    pub over: bool,
}

/// A game in progress, with the Arcade Learning Environment's semantics.
#[derive(Clone, Debug)]
pub struct AleGame {
    game: &'static Game,
    console: Console,
    tally: Tally,
    /// The position of the first player's paddle, in ohms.
    paddle: i32,
    mode: u16,
    difficulty: u8,
}

impl AleGame {
    /// Switches a console on. [`reset`](AleGame::reset) begins a game.
    pub fn new(game: &'static Game, rom: Arc<Rom>, power_on: PowerOn) -> Self {
        let format = if game.pal { Format::Pal } else { Format::Ntsc };
        AleGame {
            game,
            console: Console::new(rom, power_on, format),
            tally: game.begin(),
            paddle: PADDLE_DEFAULT,
            mode: game.modes[0],
            difficulty: game.difficulties[0],
        }
    }

    /// Switches a console on in the state that the Arcade Learning Environment's console has after loading a game.
    pub fn as_ale(game: &'static Game, rom: Arc<Rom>) -> Self {
        let mut game = AleGame::new(game, rom, PowerOn::ale());
        // The environment runs a game for a second when it loads it, to detect its television standard.
        game.console.system_reset();
        game.idle(IDLE_FRAMES);
        game.console.system_reset();
        game
    }

    /// Switches the console off and on again, with other contents of its memory.
    pub fn power_on(&mut self, power_on: PowerOn) {
        self.console = Console::new(self.console.rom().clone(), power_on, self.console.format());
        self.tally = self.game.begin();
    }

    /// Chooses the mode and the difficulty of the following games. Returns false if the game does not have them.
    pub fn choose(&mut self, mode: u16, difficulty: u8) -> bool {
        let known =
            self.game.playable_modes().contains(&mode) && self.game.difficulties.contains(&difficulty);
        if known {
            (self.mode, self.difficulty) = (mode, difficulty);
        }
        known
    }

    /// Begins a game: resets the machine, waits a second, presses the reset switch, chooses the mode, and performs the
    /// actions that this game needs to start. Memory is not cleared, and the machine's timer starts at a random value, so
    /// successive games can differ. All frames on the way are drawn.
    pub fn reset(&mut self) {
        self.paddle = PADDLE_DEFAULT;
        self.console.system_reset();
        self.idle(IDLE_FRAMES);
        self.press_reset();
        self.tally = self.game.begin();
        self.set_mode();
        self.press_reset();
        for &(action, frames) in self.game.start {
            for _ in 0..frames {
                let input = self.input(action);
                self.run(input, 1);
            }
        }
    }

    /// Plays one frame. `draw` says whether its picture will be used. Once the game is over, nothing happens.
    pub fn act(&mut self, action: Action, draw: bool) -> FrameResult {
        if self.tally.over {
            return FrameResult { over: true, ..FrameResult::default() };
        }
        let action = if self.game.legal.contains(action) { action } else { Action::Noop };
        let input = self.input(action);
        self.console.run_frame(&input, draw);
        let lives = self.tally.lives;
        let reward = self.tally.read(&self.game.reading, self.console.ram());
        FrameResult { reward, life_lost: self.tally.lives < lives, over: self.tally.over }
    }

    fn idle(&mut self, frames: usize) {
        let input = self.input(Action::Noop);
        self.run(input, frames);
    }

    /// Runs frames before a game begins. They are drawn, because what they show stays in the lines below the frames of a game
    /// that are shorter than the picture.
    fn run(&mut self, input: Input, frames: usize) {
        for _ in 0..frames {
            self.console.run_frame(&input, true);
        }
    }

    fn press_reset(&mut self) {
        let input = Input { reset: true, ..self.input(Action::Noop) };
        self.run(input, RESET_FRAMES);
    }

    fn set_mode(&mut self) {
        let Select { presses, hold, release, resets, menu, entries } = self.game.select;
        let index = self.game.modes.iter().position(|&mode| mode == self.mode).unwrap_or(0);
        for _ in 0..resets.0 {
            self.press_reset();
        }
        for _ in 0..presses[index] {
            let input = Input { select: true, ..self.input(Action::Noop) };
            self.run(input, hold.into());
            self.idle(release.into());
        }
        let mode = self.game.modes[index];
        for at in 0..=menu.0.len() {
            if entries.iter().any(|&(before, bit)| before == at && mode & bit != 0) {
                self.play(&[Action::Right, Action::Noop]);
            }
            self.play(menu.0.get(at..at + 1).unwrap_or_default());
        }
        for _ in 0..resets.1 {
            self.press_reset();
        }
        self.play(menu.1);
    }

    fn play(&mut self, actions: &[Action]) {
        for &action in actions {
            let input = self.input(action);
            self.run(input, 1);
        }
    }

    /// The controls for one frame of this action. A paddle turns by a fixed amount per frame.
    fn input(&mut self, action: Action) -> Input {
        let mut input = Input {
            difficulty_a: self.difficulty & 1 != 0,
            difficulty_b: self.difficulty & 2 != 0,
            ..Input::default()
        };
        if self.game.paddles {
            let turned = i32::from(action.left()) - i32::from(action.right());
            self.paddle = (self.paddle + turned * PADDLE_STEP).clamp(PADDLE_MIN, PADDLE_MAX);
            input.controllers = Controllers::Paddles;
            // The second pair of paddles is plugged in and never moves.
            input.paddles = [self.paddle, PADDLE_DEFAULT, 0, 0];
            input.paddle_fire[0] = action.fire();
        } else {
            input.up[0] = action.up();
            input.down[0] = action.down();
            input.left[0] = action.left();
            input.right[0] = action.right();
            input.fire[0] = action.fire();
        }
        input
    }

    /// The chosen mode and difficulty.
    pub fn chosen(&self) -> (u16, u8) {
        (self.mode, self.difficulty)
    }

    /// The game's definition.
    pub fn definition(&self) -> &'static Game {
        self.game
    }

    /// The machine.
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// Score, lives and status of the game in progress.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Writes everything that changes while a game is played.
    pub fn save(&self, out: &mut StateWriter) {
        self.console.save(out);
        out.i32(self.paddle);
        out.i32(self.tally.score);
        out.i32(self.tally.lives);
        out.i32(self.tally.memory);
        out.bool(self.tally.over);
    }

    /// Restores what [`save`](AleGame::save) wrote for the same game.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.console.restore(from)?;
        let mut number = |what: &str, range: std::ops::RangeInclusive<i32>| {
            let value = from.i32()?;
            if range.contains(&value) {
                Ok(value)
            } else {
                Err(StateError(format!("{what} of {value} in a state of {}", self.game.name)))
            }
        };
        self.paddle = number("a paddle", PADDLE_MIN..=PADDLE_MAX)?;
        self.tally.score = number("a score", -1_000_000_000..=1_000_000_000)?;
        self.tally.lives = number("lives", -1_000..=1_000)?;
        self.tally.memory = number("a memory", -1_000..=1_000)?;
        self.tally.over = from.bool()?;
        Ok(())
    }
}
