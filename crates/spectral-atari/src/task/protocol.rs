//! The rules under which a game becomes a task.

use super::error::AtariError;
use spectral_env::nearest;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
/// assert_eq!("machado".parse::<Protocol>().unwrap(), Protocol::Machado);
/// assert!("machao".parse::<Protocol>().unwrap_err().to_string().contains("`machado`"));
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

impl FromStr for Protocol {
    type Err = AtariError;

    fn from_str(word: &str) -> Result<Self, AtariError> {
        let known = Protocol::ALL.into_iter().find(|protocol| protocol.name() == word);
        known.ok_or_else(|| AtariError::BadValue {
            key: "protocol".into(),
            value: word.into(),
            expected: "`paper` or `machado`".into(),
        })
    }
}

/// The options of an Atari task.
///
/// ```
/// use spectral_atari::task::{AtariOptions, Protocol};
/// let mut options = AtariOptions::default();
/// options.set("protocol", "machado")?;
/// assert_eq!(options.protocol, Protocol::Machado);
/// assert!(options.set("protokol", "paper").unwrap_err().to_string().contains("`protocol`"));
/// # Ok::<(), spectral_atari::task::AtariError>(())
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

impl AtariOptions {
    /// The keys that [`set`](AtariOptions::set) knows.
    pub const KEYS: [&'static str; 4] = ["protocol", "roms", "mode", "difficulty"];

    /// Sets one option from text.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), AtariError> {
        let number = || AtariError::BadValue {
            key: key.into(),
            value: value.into(),
            expected: "a whole number".into(),
        };
        match key {
            "protocol" => self.protocol = value.parse()?,
            "roms" => self.roms = Some(value.into()),
            "mode" => self.mode = Some(value.parse().map_err(|_| number())?),
            "difficulty" => self.difficulty = Some(value.parse().map_err(|_| number())?),
            _ => {
                let nearest = nearest(key, AtariOptions::KEYS).map(str::to_owned);
                return Err(AtariError::UnknownOption { key: key.into(), nearest });
            }
        }
        Ok(())
    }
}
