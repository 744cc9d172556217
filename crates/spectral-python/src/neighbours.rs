//! Packages next to this one that bring what the library looks for: ale-py brings ROMs, NVIDIA's packages bring NVRTC.

use pyo3::prelude::*;
use std::path::PathBuf;

/// Where NVIDIA's packages of version 13 and their forerunners keep their libraries.
#[cfg(feature = "cuda")]
const COMPILER: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// Tells the library of the folders that packages on Python's path may have. They are looked into only when something is
/// wanted from them, so this costs the start of the command nothing.
pub fn announce(py: Python<'_>) -> PyResult<()> {
    let Ok(path) = py.import("sys")?.getattr("path")?.extract::<Vec<Bound<'_, PyAny>>>() else {
        return Ok(());
    };
    // Whatever else is on the path is no folder of packages; the working folder (an empty name) may be anybody's.
    for folder in path.iter().filter_map(|entry| entry.extract::<PathBuf>().ok()).filter(|p| p.is_absolute())
    {
        #[cfg(feature = "cuda")]
        COMPILER.iter().for_each(|part| spectral_nn::cuda::also_search(folder.join(part)));
        #[cfg(feature = "atari")]
        if folder.join("ale_py/roms").is_dir() {
            spectral_atari::roms::also_search(folder.join("ale_py/roms"));
        }
        #[cfg(not(any(feature = "atari", feature = "cuda")))]
        drop(folder);
    }
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
