//! Errors of reading runs and writing reports. Messages name the file to fix.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why runs could not be read or a report could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReportError {
    /// A path holds neither a run directory nor folders that are run directories.
    NoRuns {
        /// The path that was searched.
        path: PathBuf,
    },
    /// A path that was given as a run leads nowhere, or to a file.
    NotThere {
        /// The path.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The operating system refused to read or write a file.
    Io {
        /// The file or folder concerned.
        path: PathBuf,
        /// What was being done, as in "read" or "write".
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file exists but does not hold what the run directory promises.
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line of the file, from 1, where one can be named.
        line: Option<usize>,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// Two run directories hold the same agent with the same seed on the same task.
    Duplicate {
        /// The task.
        task: String,
        /// The agent's name.
        agent: String,
        /// The seed.
        seed: u64,
        /// The directories, in the order in which they were given.
        directories: [PathBuf; 2],
    },
    /// Runs that would be averaged differ in more than their seeds.
    UnlikeRuns(Box<Difference>),
    /// There are no runs to report on.
    Empty,
    /// A figure or file could not be encoded.
    Encoding {
        /// What the drawing or encoding library said.
        problem: String,
    },
}

/// A setting in which two runs of one experiment differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The task.
    pub task: String,
    /// The agent whose settings differ; empty if a setting of the whole run differs.
    pub agent: String,
    /// The setting.
    pub key: String,
    /// Its values in the two directories.
    pub values: [String; 2],
    /// The directories.
    pub directories: [PathBuf; 2],
}

impl ReportError {
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn malformed(path: &Path, line: Option<usize>, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), line, problem: problem.into() }
    }
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuns { path } => write!(
                f,
                "{}: no run directory here: neither this folder nor a folder inside it has a run.toml",
                path.display()
            ),
            Self::NotThere { path, source } => {
                write!(f, "{}: no run directory here: {source}", path.display())
            }
            Self::Io { path, action, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Self::Malformed { path, line: Some(line), problem } => {
                write!(f, "{}, line {line}: {problem}", path.display())
            }
            Self::Malformed { path, line: None, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Duplicate { task, agent, seed, directories: [first, second] } => write!(
                f,
                "{agent} with seed {seed} on {task} is in two run directories, {} and {}: \
                 a seed counts once, so leave one of them out, or train the other with a seed of its own (--seeds)",
                first.display(),
                second.display()
            ),
            Self::UnlikeRuns(difference) => {
                let Difference { task, agent, key, values: [first, second], directories: [one, two] } =
                    &**difference;
                let whose = if agent.is_empty() { String::new() } else { format!("{agent} on ") };
                write!(
                    f,
                    "{whose}{task} was not run alike: `{key}` is {first} in {} and {second} in {}; seeds may only be \
                     averaged if nothing else differs, so report the two apart (`spectral report` with one of them at a time)",
                    one.display(),
                    two.display()
                )
            }
            Self::Empty => write!(f, "there are no runs to report on: give at least one run directory"),
            Self::Encoding { problem } => write!(f, "the report could not be encoded: {problem}"),
        }
    }
}

impl std::error::Error for ReportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::NotThere { source, .. } => Some(source),
            _ => None,
        }
    }
}
