//! From CUDA C to kernels: NVRTC at run time, with what it made kept on disk.

use super::compiler::compiler;
use super::device::{CudaError, Device, Kernel, doing};
use cudarc::driver::CudaModule;
use cudarc::nvrtc::{Ptx, result, sys};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// Kernels compiled together.
#[derive(Clone, Debug)]
pub struct Module {
    module: Arc<CudaModule>,
}

impl Module {
    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Result<Kernel, CudaError> {
        let function = self.module.load_function(name).map_err(doing(format_args!("find kernel {name}")))?;
        Ok(Kernel { function, name: name.into() })
    }
}

impl Device {
    /// Compiles CUDA C for this device, or takes what an earlier run compiled from the same text. `name` is for messages.
    /// With `fuse`, products and sums are contracted; without, rounding is that of the CPU.
    pub fn compile(&self, name: &str, source: &str, fuse: bool) -> Result<Module, CudaError> {
        let (major, minor) = self.info().capability;
        // What only this very architecture can do has to be asked for.
        let own = if self.info().has_warpgroups() { "a" } else { "" };
        let mut options = options(&format!("sm_{major}{minor}{own}"));
        options.push(format!("--fmad={fuse}"));
        let path = cached(source, &options);
        let load = |image: Vec<u8>| {
            let loading = doing(format!("load the kernels of {name}"));
            Ok(Module { module: self.context.load_module(Ptx::from_binary(image)).map_err(loading)? })
        };
        self.bind()?;
        // What an earlier run left may be cut short or from another compiler: then it is made anew.
        let known = path.as_ref().and_then(|path| std::fs::read(path).ok());
        if let Some(module) = known.and_then(|image| load(image).ok()) {
            return Ok(module);
        }
        let image = compile(name, source, &options)?;
        if let Some(path) = &path {
            keep(path, &image);
        }
        load(image)
    }
}

fn options(architecture: &str) -> Vec<String> {
    [&format!("--gpu-architecture={architecture}"), "--std=c++17", "--extra-device-vectorization"]
        .map(String::from)
        .to_vec()
}

/// Compiles CUDA C for an architecture such as `sm_90`. Needs no GPU, only NVRTC.
pub fn check(name: &str, source: &str, architecture: &str) -> Result<Vec<u8>, CudaError> {
    compile(name, source, &options(architecture))
}

/// Whether NVRTC was found.
pub fn has_compiler() -> bool {
    compiler().is_some()
}

fn compile(name: &str, source: &str, options: &[String]) -> Result<Vec<u8>, CudaError> {
    if !has_compiler() {
        return Err(CudaError(
            "CUDA's run-time compiler (libnvrtc) was not found; install the CUDA toolkit's NVRTC package, or add its folder \
             to LD_LIBRARY_PATH"
                .into(),
        ));
    }
    let failed = |e| CudaError(format!("CUDA's run-time compiler failed on {name}: {e:?}"));
    let text = CString::new(source).map_err(|_| CudaError(format!("{name} holds a zero byte")))?;
    let label = CString::new(format!("{name}.cu")).unwrap_or_default();
    let program = result::create_program(&text, Some(&label)).map_err(failed)?;
    // SAFETY: the program was just made and is destroyed only below.
    let compiled = unsafe { result::compile_program(program, options) };
    // SAFETY: the program is still there, and it was compiled.
    let image = compiled.map_err(failed).and_then(|()| unsafe { binary(program) }.map_err(failed));
    let image = image.map_err(|e| {
        // SAFETY: the program is still there.
        let log = unsafe { result::get_program_log(program) }.unwrap_or_default();
        // Characters of C have a sign on some machines and none on others.
        let log: Vec<u8> = log.into_iter().flat_map(|c| c.to_ne_bytes()).take_while(|&c| c != 0).collect();
        CudaError(format!("{e}\n{}", String::from_utf8_lossy(&log)))
    });
    // SAFETY: made above, destroyed once, and nothing refers to it any more: image and log are copies.
    let _ = unsafe { result::destroy_program(program) };
    image
}

/// What a program was compiled to.
///
/// # Safety
/// The program must be there, and have been compiled.
unsafe fn binary(program: sys::nvrtcProgram) -> Result<Vec<u8>, cudarc::nvrtc::result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the caller vouches for the program; the size goes to a place for it.
    unsafe { sys::nvrtcGetCUBINSize(program, &mut size) }.result()?;
    let mut image = vec![0u8; size];
    // SAFETY: as before; the image is as long as NVRTC has just said.
    unsafe { sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) }.result()?;
    Ok(image)
}

/// Where the kernels of this text are kept, if there is such a place.
fn cached(source: &str, options: &[String]) -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    let whole = options.iter().fold(source.to_string(), |all, option| all + "\n" + option);
    let [a, b] = [0xcbf2_9ce4_8422_2325, 0x6c62_272e_07bb_0142].map(|start| fnv(whole.as_bytes(), start));
    let name = format!("{}-{a:016x}{b:016x}.cubin", env!("CARGO_PKG_VERSION"));
    Some(base.join("spectral").join("kernels").join(name))
}

fn fnv(bytes: &[u8], start: u64) -> u64 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Keeps an image for the next run. Only time is lost if that fails; a rename makes sure that no half of it is ever read.
fn keep(path: &std::path::Path, image: &[u8]) {
    let Some(folder) = path.parent() else { return };
    let own = (std::process::id(), std::thread::current().id());
    let temporary = path.with_extension(format!("{}-{:?}.tmp", own.0, own.1));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&temporary, image))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
}
