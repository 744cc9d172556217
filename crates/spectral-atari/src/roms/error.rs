//! Errors about ROMs. Messages say how to fix them.

use std::fmt;
use std::path::PathBuf;

/// The command that installs the ROMs.
const INSTALL: &str = "`spectral roms install`";

/// Why a ROM could not be obtained.
#[derive(Debug)]
pub enum RomsError {
    /// The user's data directory is unknown.
    NoDirectory,
    /// The game's ROM is not there.
    Missing {
        /// The game's title.
        game: &'static str,
        /// Where the file was expected.
        file: PathBuf,
        /// The MD5 sum that it must have.
        expected: &'static str,
    },
    /// The file is there, but holds something else.
    Wrong {
        /// The game's title.
        game: &'static str,
        /// The file.
        file: PathBuf,
        /// The MD5 sum that it must have.
        expected: &'static str,
        /// The MD5 sum that it has.
        found: String,
    },
    /// No ROM of a known game was found where ROMs were to be taken from.
    NothingFound {
        /// Where that was.
        from: String,
    },
    /// The file has the name of a zip archive and cannot be read as one.
    BadArchive {
        /// The file.
        file: PathBuf,
        /// Why not, and what to do.
        problem: &'static str,
    },
    /// The user's pip did not bring the package.
    Pip {
        /// What was tried and what it said.
        said: String,
    },
    /// A file could not be read or written.
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl fmt::Display for RomsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RomsError::NoDirectory => {
                write!(f, "no directory for ROMs: set SPECTRAL_ROMS to a folder, or HOME to yours")
            }
            RomsError::Missing { game, file, expected } => write!(
                f,
                "the ROM of {game} is missing: {} does not exist (MD5 {expected} is wanted); {INSTALL} fetches it, or \
                 `spectral roms install --from` a folder, zip or wheel that has it",
                file.display()
            ),
            RomsError::Wrong { game, file, expected, found } => write!(
                f,
                "{} is not the ROM of {game} that the field uses: its MD5 is {found}, expected {expected}; {INSTALL} \
                 replaces it",
                file.display()
            ),
            RomsError::NothingFound { from } => write!(
                f,
                "no ROM of a known game in {from}; {INSTALL} without `--from` takes them from the ale-py package"
            ),
            RomsError::BadArchive { file, problem } => write!(f, "{} {problem}", file.display()),
            RomsError::Pip { said } => write!(
                f,
                "pip could not download the ale-py package ({said}); download its wheel by other means and give it to \
                 `spectral roms install --from`"
            ),
            RomsError::Io { file, error } => write!(f, "{}: {error}", file.display()),
        }
    }
}

impl std::error::Error for RomsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RomsError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
