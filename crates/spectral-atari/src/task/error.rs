//! Why an Atari task could not be made.

use crate::machine::RomError;
use crate::roms::RomsError;
use std::fmt;

/// Why an Atari task could not be made.
#[derive(Debug)]
pub enum AtariError {
    /// No Atari task has this name.
    UnknownTask {
        /// The name that was given.
        name: String,
        /// The valid name nearest to it.
        nearest: Option<String>,
    },
    /// The option cannot have this value.
    BadValue {
        /// The option.
        key: String,
        /// The value that was given.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// The game's ROM is missing or wrong.
    Roms(RomsError),
    /// The ROM cannot be plugged in.
    Rom(RomError),
}

impl fmt::Display for AtariError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtariError::UnknownTask { name, nearest: Some(nearest) } => {
                write!(f, "no Atari task is called `{name}`; did you mean `{nearest}`?")
            }
            AtariError::UnknownTask { name, nearest: None } => {
                write!(f, "no Atari task is called `{name}`; `spectral tasks` lists them")
            }
            AtariError::BadValue { key, value, expected } => {
                write!(f, "`{value}` is no value for the task option `{key}`; it takes {expected}")
            }
            AtariError::Roms(error) => error.fmt(f),
            AtariError::Rom(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AtariError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AtariError::Roms(error) => Some(error),
            AtariError::Rom(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RomsError> for AtariError {
    fn from(error: RomsError) -> Self {
        AtariError::Roms(error)
    }
}

impl From<RomError> for AtariError {
    fn from(error: RomError) -> Self {
        AtariError::Rom(error)
    }
}
