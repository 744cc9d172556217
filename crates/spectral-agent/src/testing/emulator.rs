//! A group's kernels on the CPU: their text, compiled by the system's C++ compiler behind `emulation.h`; or on a GPU.

use super::Unavailable;
use libloading::Library;
use std::ffi::c_void;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The compiled kernels of one group.
pub(crate) struct Emulator {
    machine: Machine,
}

enum Machine {
    Host(Host),
    #[cfg(feature = "cuda")]
    Gpu(gpu::Gpu),
}

/// A library of kernels, in a folder that goes with it. Blocks have so many threads.
struct Host {
    library: Option<Library>,
    folder: PathBuf,
    threads: u32,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.library = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Host {
    fn new(text: &str, lanes: u32, threads: u32) -> Result<Self, Unavailable> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("spectral-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mut host = Host { library: None, folder: std::env::temp_dir().join(name), threads };
        let (source, binary) = (host.folder.join("learner.cpp"), host.folder.join("learner.so"));
        let whole = [include_str!("emulation.h"), text].concat();
        std::fs::create_dir_all(&host.folder)
            .and_then(|()| std::fs::write(&source, whole))
            .map_err(|e| format!("{}: {e}", host.folder.display()))?;
        let compiler = std::env::var("CXX").unwrap_or("c++".into());
        let output = Command::new(&compiler)
            .args(["-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Wno-unknown-pragmas", "-shared"])
            .args(["-fPIC", "-pthread", "-DHOST_EMULATION", &format!("-DLANES={lanes}"), "-o"])
            .args([&binary, &source])
            .output();
        let Ok(output) = output else {
            if std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1") {
                let why = format!("SPECTRAL_ORACLES=1 needs a C++ compiler: '{compiler}' cannot be run");
                return Err(Unavailable::Failed(why));
            }
            let why = "SKIPPED: comparison of device code with the learner; there is no C++ compiler";
            return Err(Unavailable::Skipped(why.into()));
        };
        if !output.status.success() {
            return Err(Unavailable::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        // SAFETY: the library was compiled from the text above and has no initialisers of its own.
        host.library = Some(unsafe { Library::new(&binary) }.map_err(|e| e.to_string())?);
        Ok(host)
    }

    fn launch(&self, kernel: &str, grid: [usize; 3], arguments: &mut [*mut c_void]) -> Result<(), String> {
        type Emulate = unsafe extern "C" fn(*mut c_void, u32, u32, u32, u32, *mut *mut c_void, u32);
        let library = self.library.as_ref().ok_or("the kernels were not compiled")?;
        let [x, y, z] = grid.map(|n| n as u32);
        let missing = |e| format!("the kernel {kernel}: {e}");
        // SAFETY: the symbols have these types in the text, and callers pass buffers of the sizes that the kernel's
        // description asks for.
        unsafe {
            let emulate = library.get::<Emulate>(b"emulate").map_err(missing)?;
            let kernel = library.get::<*mut c_void>(kernel.as_bytes()).map_err(missing)?;
            emulate(*kernel, x, y, z, self.threads, arguments.as_mut_ptr(), arguments.len() as u32);
        }
        Ok(())
    }
}

impl Emulator {
    /// Compiles a group's text for the CPU, for teams of so many lanes; blocks will have so many threads.
    pub fn on_host(text: &str, lanes: u32, threads: u32) -> Result<Self, Unavailable> {
        Ok(Emulator { machine: Machine::Host(Host::new(text, lanes, threads)?) })
    }

    /// The same on the first GPU.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(text: &str) -> Result<Self, Unavailable> {
        if std::env::var("SPECTRAL_CUDA").is_ok_and(|value| value == "1") {
            let gpu = gpu::Gpu::new(text).map_err(|e| Unavailable::Failed(e.0))?;
            return Ok(Emulator { machine: Machine::Gpu(gpu) });
        }
        let why = "NOT RUN: comparison on a GPU; set SPECTRAL_CUDA=1 where there is one";
        Err(Unavailable::Skipped(why.into()))
    }

    /// Memory that kernels can reach, as filled as `values`. It is never given back: a comparison runs once, in a test.
    ///
    /// # Panics
    /// If a GPU has no memory left.
    pub fn buffer<T: Copy>(&self, values: Vec<T>) -> &'static mut [T] {
        match &self.machine {
            Machine::Host(_) => values.leak(),
            #[cfg(feature = "cuda")]
            Machine::Gpu(gpu) => gpu.buffer(&values),
        }
    }

    /// Runs a kernel over a grid of blocks and waits for it. The arguments are buffers.
    pub fn launch<const N: usize>(
        &self,
        kernel: &str,
        grid: [usize; 3],
        mut arguments: [*mut c_void; N],
    ) -> Result<(), String> {
        match &self.machine {
            Machine::Host(host) => host.launch(kernel, grid, &mut arguments),
            #[cfg(feature = "cuda")]
            Machine::Gpu(gpu) => gpu.launch(kernel, grid, &arguments).map_err(|e| e.0),
        }
    }
}

#[cfg(feature = "cuda")]
mod gpu {
    use crate::gpu::abi::{AGENT_THREADS, BATCH_THREADS, ROW_THREADS};
    use spectral_nn::cuda::{Arg, CudaError, Device, Module, Shape, Stream};
    use std::ffi::c_void;

    /// One group's kernels on the first GPU.
    pub struct Gpu {
        device: Device,
        module: Module,
        stream: Stream,
    }

    impl Gpu {
        /// Compiles and loads a group's text.
        pub fn new(text: &str) -> Result<Self, CudaError> {
            let device = Device::open(0)?;
            let (module, stream) = (device.compile("learner", text, false)?, device.stream()?);
            Ok(Gpu { device, module, stream })
        }

        /// Memory of the host that kernels reach under the same address.
        pub fn buffer<T: Copy>(&self, values: &[T]) -> &'static mut [T] {
            let memory = self.device.pinned(size_of_val(values)).expect("memory for a test");
            let at = memory.host_pointer().cast::<T>();
            std::mem::forget(memory);
            // SAFETY: so many bytes, aligned to a page, which nobody else has and nobody frees; they are filled before
            // they are a slice.
            unsafe {
                std::ptr::copy_nonoverlapping(values.as_ptr(), at, values.len());
                std::slice::from_raw_parts_mut(at, values.len())
            }
        }

        pub fn launch(
            &self,
            kernel: &str,
            grid: [usize; 3],
            arguments: &[*mut c_void],
        ) -> Result<(), CudaError> {
            let threads = match kernel {
                "targets" | "gradients" | "draw" | "reprioritise" => BATCH_THREADS,
                "gather" => ROW_THREADS,
                _ => AGENT_THREADS,
            };
            let arguments: Vec<Arg> = arguments.iter().map(|&at| Arg::At(at as u64)).collect();
            let kernel = self.module.kernel(kernel)?;
            // SAFETY: callers pass buffers of the sizes that the kernel's description asks for, which are never freed.
            unsafe { self.stream.launch(&kernel, Shape::new(grid, threads), &arguments) }?;
            self.stream.synchronise()
        }
    }
}
