//! The games: how to read score, lives and end from their RAM, which actions they use, and which ROMs they have.
//!
//! Most of it is data (see [`Reading`]); a few irregular games have a small function of their own. Every game is
//! compared with ale-py by the tests, on played and on altered RAM.

mod action;
mod reading;
mod special;
mod table;

pub use action::{Action, ActionSet};
pub use reading::{Lives, Pay, Ram, Reading, Tally, Term, Test, decimal, peek, total};

/// One game.
#[derive(Clone, Copy, Debug)]
pub struct Game {
    /// The field's name for it, as in `atari/ms_pacman` and `ms_pacman.bin`.
    pub name: &'static str,
    /// The name on the box.
    pub title: &'static str,
    /// The MD5 sum of the ROM, in hexadecimal.
    pub md5: &'static str,
    /// The actions that have an effect in this game.
    pub minimal: ActionSet,
    /// The actions that are passed on to the game. Others are replaced by no action, because they would restart it.
    pub legal: ActionSet,
    /// Lives as reported before the first frame.
    pub first_lives: i32,
    /// Lines of the picture: 210, or 250 for the European machine.
    pub height: usize,
    /// The modes that the game has; the first is the default. How the others are chosen is known for some games:
    /// [`playable_modes`](Game::playable_modes).
    pub modes: &'static [u16],
    /// The difficulties that can be played; the first is the default.
    pub difficulties: &'static [u8],
    /// How score, lives and the end are read.
    pub reading: Reading,
    /// True if it is played with paddles, not with joysticks.
    pub paddles: bool,
    /// True if it was made for European television.
    pub pal: bool,
    /// How a mode is chosen.
    pub select: Select,
    /// The actions that start the game after the reset switch, each with its number of frames.
    pub start: &'static [(Action, u16)],
}

/// How the select switch chooses a game's modes. The counts are those of the Arcade Learning Environment, so that games
/// begin in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Select {
    /// How often the switch is pressed for each of the game's modes, in their order; modes beyond are not known.
    pub presses: &'static [u16],
    /// Frames for which it is held each time.
    pub hold: u8,
    /// Frames for which it is let go each time.
    pub release: u8,
    /// How often the reset switch is pressed before and after.
    pub resets: (u8, u8),
    /// Actions of one frame each, in a menu that the switch opens and after the reset that closes it.
    pub menu: (&'static [Action], &'static [Action]),
    /// Before which of the menu's first actions an entry is changed by a push to the right, and the bit of the mode that
    /// asks for it.
    pub entries: &'static [(usize, u16)],
}

impl Select {
    /// Presses of so many frames each, and a reset afterwards.
    pub(crate) const fn pressed(presses: &'static [u16], hold: u8, release: u8) -> Select {
        Select { presses, hold, release, resets: (0, 1), menu: (&[], &[]), entries: &[] }
    }

    /// For a game with one mode.
    pub(crate) const NONE: Select =
        Select { presses: &[0], hold: 0, release: 0, resets: (0, 0), menu: (&[], &[]), entries: &[] };
}

impl Game {
    /// The modes that can be played.
    pub fn playable_modes(&self) -> &'static [u16] {
        &self.modes[..self.select.presses.len().min(self.modes.len())]
    }

    /// The tally of a game that has just begun.
    pub fn begin(&self) -> Tally {
        Tally { lives: self.first_lives, ..Tally::default() }
    }
}

/// All games, in alphabetical order of their names.
pub fn all() -> impl Iterator<Item = &'static Game> {
    table::PARTS.iter().flat_map(|part| part.iter())
}

/// The game of this name.
///
/// ```
/// assert_eq!(spectral_atari::games::find("qbert").unwrap().title, "Q*bert");
/// assert!(spectral_atari::games::find("quake").is_none());
/// ```
pub fn find(name: &str) -> Option<&'static Game> {
    all().find(|game| game.name == name)
}
