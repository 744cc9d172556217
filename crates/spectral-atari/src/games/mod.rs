//! The games: what their RAM says of score, lives and end, which actions they use, and which ROM they are.
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
    /// The actions that make a difference in this game.
    pub minimal: ActionSet,
    /// Lives as reported before the first frame.
    pub first_lives: i32,
    /// Lines of the picture: 210, or 250 for the European machine.
    pub height: usize,
    /// The modes that can be played; the first is the default.
    pub modes: &'static [u16],
    /// The difficulties that can be played; the first is the default.
    pub difficulties: &'static [u8],
    /// How score, lives and the end are read.
    pub reading: Reading,
    /// True if it is played with paddles, not with joysticks.
    pub paddles: bool,
    /// True if it was made for European television.
    pub pal: bool,
    /// What is done after the reset switch to get the game going: actions and for how many frames.
    pub start: &'static [(Action, u16)],
}

impl Game {
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
