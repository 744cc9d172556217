//! Errors of a run's files. Messages name the file and say what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use spectral_core::bytes::StateError;

/// Why a file of a run could not be written or read.
///
/// ```
/// use spectral_train::store::{Container, StoreError};
/// let error = Container::open("no/such/file".as_ref()).unwrap_err();
/// assert!(matches!(error, StoreError::NotFound { .. }));
/// assert!(error.to_string().contains("no/such/file"));
/// ```
#[derive(Debug)]
pub enum StoreError {
    /// There is no such file.
    NotFound {
        /// The missing file.
        path: PathBuf,
    },
    /// No space is left, or a quota is used up.
    DiskFull {
        /// The file that was being written.
        path: PathBuf,
    },
    /// Any other error of the operating system.
    Io {
        /// The file concerned.
        path: PathBuf,
        /// What was attempted, as a verb.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file is of another kind.
    Foreign {
        /// The file concerned.
        path: PathBuf,
    },
    /// The file was written in a format that this version does not know.
    UnknownVersion {
        /// The file concerned.
        path: PathBuf,
        /// The version that it claims.
        found: u32,
        /// The newest version that can be read.
        known: u32,
    },
    /// The file ends before its end marker.
    Truncated {
        /// The file concerned.
        path: PathBuf,
        /// What was missing.
        detail: String,
    },
    /// The file has its full length, but its bytes are not those that were written.
    Corrupt {
        /// The file concerned.
        path: PathBuf,
        /// What does not agree.
        detail: String,
    },
    /// The file is intact but lacks a section.
    MissingSection {
        /// The file concerned.
        path: PathBuf,
        /// The name of the section.
        section: String,
    },
    /// The bytes are intact but do not match what is being restored.
    Mismatch {
        /// The file or folder concerned.
        path: PathBuf,
        /// What does not fit.
        detail: String,
    },
    /// The file is not a valid model, or is the model of another kind of agent.
    Model {
        /// The file concerned.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A growing file is shorter than the checkpoint says it was.
    TooShort {
        /// The file concerned.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The length that the checkpoint recorded.
        recorded: u64,
    },
    /// The data to be written could not be obtained.
    Source {
        /// The folder that it was meant for.
        path: PathBuf,
        /// Why not.
        detail: String,
    },
    /// A row has another number of fields than the table has columns.
    Columns {
        /// The table concerned.
        path: PathBuf,
        /// How many columns it has.
        expected: usize,
        /// How many fields were given.
        found: usize,
    },
}

impl StoreError {
    /// Wraps an error of the operating system about `path` while `doing` something with it.
    pub fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => StoreError::NotFound { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull { path },
            _ => StoreError::Io { path, doing, source },
        }
    }

    /// A saved state in `path` that does not fit what is being restored.
    pub fn state(path: &Path, error: &StateError) -> Self {
        StoreError::Mismatch { path: path.to_path_buf(), detail: error.0.clone() }
    }

    /// The file or folder concerned.
    pub fn path(&self) -> &Path {
        match self {
            StoreError::NotFound { path }
            | StoreError::DiskFull { path }
            | StoreError::Io { path, .. }
            | StoreError::Foreign { path }
            | StoreError::UnknownVersion { path, .. }
            | StoreError::Truncated { path, .. }
            | StoreError::Corrupt { path, .. }
            | StoreError::MissingSection { path, .. }
            | StoreError::Mismatch { path, .. }
            | StoreError::Model { path, .. }
            | StoreError::TooShort { path, .. }
            | StoreError::Source { path, .. }
            | StoreError::Columns { path, .. } => path,
        }
    }

    /// Whether the file itself is at fault.
    pub fn is_damage(&self) -> bool {
        !matches!(
            self,
            StoreError::DiskFull { .. }
                | StoreError::Io { .. }
                | StoreError::Source { .. }
                | StoreError::Columns { .. }
        )
    }

    /// Whether an older checkpoint may be good where this one could not be read: the file is damaged, or the disk does not give it
    /// back.
    pub fn may_spare_others(&self) -> bool {
        self.is_damage() || matches!(self, StoreError::Io { .. })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path().display())?;
        match self {
            StoreError::NotFound { .. } => {
                write!(f, "no such file or folder; check the path, or restore it from a copy")
            }
            StoreError::DiskFull { .. } => write!(
                f,
                "the disk is full: this file could not be written, earlier complete files are as they were; \
                 free some space, then resume"
            ),
            // Not the system's word, but that of whoever found no plain file there.
            StoreError::Io { doing, source, .. }
                if source.kind() == io::ErrorKind::InvalidInput && source.raw_os_error().is_none() =>
            {
                write!(f, "cannot {doing} it: {source}; put the plain file or folder itself there")
            }
            StoreError::Io { doing, source, .. } => {
                write!(f, "cannot {doing} it: {source}; check the permissions and the disk")
            }
            StoreError::Foreign { .. } => {
                write!(f, "this is not a file of Spectral's (it begins with other bytes); check the path")
            }
            StoreError::UnknownVersion { found, known, .. } => write!(
                f,
                "written in format {found}, but this program reads format {known}; use the version of \
                 Spectral that wrote it"
            ),
            StoreError::Truncated { detail, .. } => {
                write!(f, "the file is cut short ({detail}); use an older checkpoint or a copy")
            }
            StoreError::Corrupt { detail, .. } => {
                write!(
                    f,
                    "the file is damaged ({detail}); use an older checkpoint or a copy, and check the disk"
                )
            }
            StoreError::MissingSection { section, .. } => write!(
                f,
                "the file is sound but has no part named '{section}'; it was written for another purpose or \
                 by another version"
            ),
            StoreError::Mismatch { detail, .. } => {
                write!(
                    f,
                    "what is saved does not fit what is being restored ({detail}); check that it is of \
                     this run"
                )
            }
            StoreError::Model { detail, .. } => write!(
                f,
                "not a valid model of this agent: {detail}; `spectral resume` on the run writes it again from the last \
                 checkpoint"
            ),
            StoreError::TooShort { found, recorded, .. } => write!(
                f,
                "{found} bytes long, but the checkpoint recorded {recorded}: rows are missing; restore the \
                 file from a copy or resume from an older checkpoint"
            ),
            StoreError::Source { detail, .. } => {
                write!(f, "no checkpoint was written: {detail}; earlier ones are as they were")
            }
            StoreError::Columns { expected, found, .. } => {
                write!(f, "a row of {found} fields does not fit the table's {expected} columns")
            }
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
