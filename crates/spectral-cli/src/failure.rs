//! Errors as the command reports them: one text, one exit code.

use spectral_report::ReportError;
use spectral_train::error::TrainError;

/// Everything went as asked.
pub const SUCCESS: u8 = 0;
/// Something the user wrote is not right.
pub const USAGE: u8 = 2;
/// A file is missing, damaged or cannot be written.
pub const DATA: u8 = 3;
/// The work is done, but an agent was stopped before its end.
pub const AGENT_STOPPED: u8 = 4;
/// A job of a cluster will not be tried again.
pub const GAVE_UP: u8 = 7;
/// The user interrupted; the run can be resumed.
pub const INTERRUPTED: u8 = 130;

/// Why the command failed.
#[derive(Debug)]
pub struct Failure {
    /// What to tell the user.
    pub text: String,
    /// The process's exit code.
    pub exit_code: u8,
}

impl Failure {
    /// Something the user wrote is not right.
    pub fn usage(text: impl Into<String>) -> Self {
        Failure { text: text.into(), exit_code: USAGE }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        Failure { text: error.to_string(), exit_code: error.exit_code() }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        Failure { text: error.to_string(), exit_code: DATA }
    }
}
