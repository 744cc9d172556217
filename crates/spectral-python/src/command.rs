//! The `spectral` command, started from Python.

use pyo3::prelude::*;
use spectral_cli::Registry;

/// Runs the `spectral` command and returns its exit code. The first argument is the program's name.
#[pyfunction]
pub fn run_command(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| spectral_cli::run(&Registry::default(), arguments))
}
