//! The `spectral` command, started from Python.

use crate::neighbours::announce_roms;
use pyo3::prelude::*;
use spectral_cli::Registry;
use std::ffi::OsString;
use std::io::Write;

/// Runs the `spectral` command and returns its exit code. The first argument is the program's name.
#[pyfunction]
pub fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    announce_roms(py)?;
    Ok(py.detach(|| {
        let code = spectral_cli::run(&Registry::default(), arguments);
        // A program of Rust's does this when it ends; Python knows nothing of this buffer. Nobody can be told if it fails.
        let _ = std::io::stdout().flush();
        code
    }))
}
