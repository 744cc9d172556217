//! Why a benchmark could not be made: one text, one exit code.

use spectral_train::error::TrainError;

/// Something the user wrote is not right.
pub const USAGE: u8 = 2;
/// A file is missing, damaged or cannot be written.
pub const DATA: u8 = 3;
/// A device was there and failed.
pub const DEVICE: u8 = 5;

/// Why the benchmark failed.
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
