//! Packages next to this one that bring what the library looks for: ale-py brings ROMs, NVIDIA's packages bring NVRTC.

use pyo3::prelude::*;
use std::path::PathBuf;

/// Where NVIDIA's packages of version 13 and their forerunners keep their libraries.
#[cfg(feature = "cuda")]
const COMPILER: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// The folders on Python's path. Whatever else is there has no packages; the working folder (an empty name) may be anybody's.
#[cfg(any(feature = "atari", feature = "cuda"))]
fn path(py: Python<'_>) -> PyResult<Vec<PathBuf>> {
    let path: Vec<Bound<'_, PyAny>> = py.import("sys")?.getattr("path")?.extract()?;
    let folders = path.iter().filter_map(|entry| entry.extract::<PathBuf>().ok());
    Ok(folders.filter(|folder| folder.is_absolute()).collect())
}

/// Tells the library where NVRTC may be, for agents and for the command. Nothing is looked into before it is needed, so this
/// costs the start of the command nothing.
pub fn announce_compilers(py: Python<'_>) -> PyResult<()> {
    #[cfg(feature = "cuda")]
    for folder in path(py)? {
        COMPILER.iter().for_each(|part| spectral_nn::cuda::also_search(folder.join(part)));
    }
    #[cfg(not(feature = "cuda"))]
    let _ = py;
    Ok(())
}

/// Tells the library where ale-py's ROMs are, for the command. Agents and tasks ask Python's own import system instead, which
/// takes longer (`_roms.py`).
pub fn announce_roms(py: Python<'_>) -> PyResult<()> {
    #[cfg(feature = "atari")]
    for folder in path(py)?.iter().map(|folder| folder.join("ale_py/roms")).filter(|folder| folder.is_dir()) {
        spectral_atari::roms::also_search(folder);
    }
    #[cfg(not(feature = "atari"))]
    let _ = py;
    Ok(())
}

/// Compiles CUDA C for an architecture such as `sm_90` and returns the binary. Needs no GPU, only NVRTC: it shows that the
/// compiler is found and works.
#[pyfunction]
pub fn compile_cuda(source: &str, architecture: &str) -> PyResult<std::borrow::Cow<'static, [u8]>> {
    use pyo3::exceptions::PyRuntimeError;
    #[cfg(feature = "cuda")]
    return spectral_nn::cuda::check("source", source, architecture)
        .map(Into::into)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()));
    #[cfg(not(feature = "cuda"))]
    Err(PyRuntimeError::new_err(format!("built without CUDA: {} bytes for {architecture}", source.len())))
}
