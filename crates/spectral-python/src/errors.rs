//! Errors of the library as exceptions.

use crate::gym::Source;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use spectral_train::error::TrainError;

/// The exception that says what an error says. If a task raised an exception, it is that one.
pub fn to_python(error: TrainError, source: Option<&Source>) -> PyErr {
    // It ended the run, however the run then put it.
    if let Some(raised) = source.and_then(Source::take_error) {
        return raised;
    }
    match error {
        TrainError::Usage(text) | TrainError::Unregistered(text) => PyValueError::new_err(text),
        TrainError::Store(error) => PyOSError::new_err(error.to_string()),
        TrainError::Data(text) => PyRuntimeError::new_err(text),
        error @ (TrainError::Device(_) | TrainError::Task(_)) => PyRuntimeError::new_err(error.to_string()),
    }
}
