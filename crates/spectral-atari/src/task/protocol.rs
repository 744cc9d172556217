//! The rules under which a game becomes a task.

use std::fmt;
use std::path::PathBuf;

/// The number of frames for which an action is repeated.
pub const FRAME_SKIP: u32 = 4;
/// The number of frames after which an episode is truncated: half an hour of play.
pub const FRAME_LIMIT: u32 = 108_000;
/// The number of random no-op frames at a reset is below this.
pub(super) const NOOP_FRAMES: usize = 30;
/// The probability with which a sticky action repeats the one before it.
pub(super) const STICKINESS: f64 = 0.25;

/// A named set of rules. Both repeat an action for 4 frames and truncate an episode after 108,000 frames.
///
/// ```
/// use spectral_atari::task::Protocol;
/// use spectral_core::settings::Setting;
/// assert_eq!(Protocol::parse("machado"), Ok(Protocol::Machado));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The paper's and Nature DQN's: the game's own actions, 0 to 29 random no-op frames at a reset, and the loss of a
    /// life signalled to the learner.
    #[default]
    Paper,
    /// Of Machado et al. (2018): all eighteen actions, each frame repeating the action before it with probability 0.25,
    /// and no signal when a life is lost.
    Machado,
}

impl Protocol {
    /// Both protocols.
    pub const ALL: [Protocol; 2] = [Protocol::Paper, Protocol::Machado];

    /// Its name in options and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Paper => "paper",
            Protocol::Machado => "machado",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The options of an Atari task.
///
/// ```
/// use spectral_atari::task::{AtariOptions, Protocol};
/// let options = AtariOptions { mode: Some(1), ..AtariOptions::default() };
/// assert_eq!(options.protocol, Protocol::Paper);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtariOptions {
    /// The rules.
    pub protocol: Protocol,
    /// The folder that holds the ROMs, if not the user's.
    pub roms: Option<PathBuf>,
    /// The game's mode, if not its first.
    pub mode: Option<u16>,
    /// The game's difficulty, if not its first.
    pub difficulty: Option<u8>,
}
