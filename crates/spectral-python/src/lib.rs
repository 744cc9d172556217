//! The native half of the Python package `spectral_rl`. Its Python half is in `python/spectral_rl`.

mod command;
mod data;
mod errors;
mod gym;
mod maths;
mod neighbours;
mod observer;
mod policy;
mod tasks;
mod training;

use pyo3::prelude::*;

/// What `spectral_rl._native` holds.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::data::{read_run, read_table, write_report};
    #[pymodule_export]
    use crate::gym::GymTask;
    #[pymodule_export]
    use crate::maths::{compress, decompose, decompress, recompose};
    #[pymodule_export]
    use crate::neighbours::compile_cuda;
    #[pymodule_export]
    use crate::policy::Policy;
    #[pymodule_export]
    use crate::tasks::{TaskBatch, add_rom_folder, list_tasks};
    #[pymodule_export]
    use crate::training::Training;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::neighbours::announce_compilers(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
