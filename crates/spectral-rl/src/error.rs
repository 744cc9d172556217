//! What can go wrong in a program that trains.

#[cfg(feature = "report")]
use spectral_report::ReportError;
use spectral_train::error::TrainError;
use std::fmt;

/// Why a run could not be trained, evaluated or reported. Printed, it says what was wrong, where, and what to do.
pub enum Error {
    /// Training or evaluation.
    Train(TrainError),
    /// The report.
    #[cfg(feature = "report")]
    Report(ReportError),
}

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Train(error) => error.fmt(f),
            #[cfg(feature = "report")]
            Error::Report(error) => error.fmt(f),
        }
    }
}

/// As it is displayed: this is what a `main` that returns it prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<TrainError> for Error {
    fn from(error: TrainError) -> Self {
        Error::Train(error)
    }
}

#[cfg(feature = "report")]
impl From<ReportError> for Error {
    fn from(error: ReportError) -> Self {
        Error::Report(error)
    }
}
