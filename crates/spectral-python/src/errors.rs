//! Errors of the library as exceptions.

use crate::gym::Source;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use spectral_train::error::TrainError;
use spectral_train::store::StoreError;

/// The exception that says what an error says.
pub fn raise(error: TrainError) -> PyErr {
    let text = error.to_string();
    match error {
        TrainError::Store(StoreError::NotFound { .. }) => PyFileNotFoundError::new_err(text),
        TrainError::Store(StoreError::Io { .. } | StoreError::DiskFull { .. }) => PyOSError::new_err(text),
        TrainError::Device(_) | TrainError::Task(_) | TrainError::Busy(_) => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The exception that a task raised, if one did, and otherwise [`raise`].
pub fn raise_for(error: TrainError, source: Option<&Source>) -> PyErr {
    // It ended the run, however the run then put it.
    source.and_then(Source::take_error).unwrap_or_else(|| raise(error))
}
