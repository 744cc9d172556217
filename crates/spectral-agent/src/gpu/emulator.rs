//! The kernels in tests: on the CPU, their text compiled by the system's C++ compiler behind `emulation.h`; or, where
//! there is one and SPECTRAL_CUDA=1 asks for it, on a GPU.

use super::abi;
use super::driver::Device;
use libloading::Library;
use std::ffi::c_void;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The compiled kernels of one group.
pub(crate) struct Emulator {
    machine: Machine,
}

enum Machine {
    /// Blocks have so many threads.
    Host {
        library: Option<Library>,
        folder: PathBuf,
        threads: u32,
    },
    Gpu(Device),
}

impl Emulator {
    /// Compiles a group's text for teams of so many lanes; blocks will have so many threads. `None`, said loudly, where
    /// there is no compiler.
    pub fn new(text: &str, lanes: u32, threads: u32) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("spectral-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let (source, binary) = (folder.join("learner.cpp"), folder.join("learner.so"));
        let whole = [include_str!("emulation.h"), text, include_str!("layout.h")].concat();
        std::fs::write(&source, whole).unwrap();
        let compiler = std::env::var("CXX").unwrap_or("c++".into());
        let output = Command::new(&compiler)
            .args([
                "-std=c++17",
                "-O1",
                "-ffp-contract=off",
                "-Wall",
                "-Wno-unknown-pragmas",
                "-shared",
                "-fPIC",
            ])
            .args(["-pthread", "-DHOST_EMULATION", &format!("-DLANES={lanes}"), "-o"])
            .args([&binary, &source])
            .output();
        let Ok(output) = output else {
            let required = std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1");
            assert!(!required, "SPECTRAL_ORACLES=1 needs a C++ compiler: '{compiler}' cannot be run");
            let why = "SKIPPED: comparison of device code with the learner; there is no C++ compiler";
            let _ = writeln!(std::io::stderr(), "{why}");
            let _ = std::fs::remove_dir_all(&folder);
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: the library was compiled from the text above and has no initialisers of its own.
        let library = Some(unsafe { Library::new(&binary) }.unwrap());
        Some(Emulator { machine: Machine::Host { library, folder, threads } })
    }

    /// The same on a GPU; `None`, said loudly, unless SPECTRAL_CUDA=1.
    pub fn on_gpu(text: &str) -> Option<Self> {
        if std::env::var("SPECTRAL_CUDA").is_ok_and(|value| value == "1") {
            return Some(Emulator { machine: Machine::Gpu(Device::new(text)) });
        }
        let why = "NOT RUN: comparison on a GPU; set SPECTRAL_CUDA=1 where there is one";
        let _ = writeln!(std::io::stderr(), "{why}");
        None
    }

    /// Memory that kernels can reach, as filled as `values`. It is never given back.
    pub fn buffer<T: Copy>(&self, values: Vec<T>) -> &'static mut [T] {
        match &self.machine {
            Machine::Host { .. } => values.leak(),
            Machine::Gpu(device) => device.buffer(&values),
        }
    }

    fn symbol<T: Copy>(&self, name: &str) -> T {
        let Machine::Host { library: Some(library), .. } = &self.machine else {
            panic!("symbols are the host's")
        };
        // SAFETY: callers give the type that the symbol has in the text.
        *unsafe { library.get::<T>(name.as_bytes()) }.unwrap()
    }

    /// Runs a kernel over a grid of blocks and waits for it. The arguments are buffers.
    pub fn launch<const N: usize>(&self, kernel: &str, grid: [usize; 3], mut arguments: [*mut c_void; N]) {
        type Emulate = unsafe extern "C" fn(*mut c_void, u32, u32, u32, u32, *mut *mut c_void, u32);
        let [x, y, z] = grid.map(|n| n as u32);
        match &self.machine {
            Machine::Host { threads, .. } => {
                let (emulate, kernel) =
                    (self.symbol::<Emulate>("emulate"), self.symbol::<*mut c_void>(kernel));
                // SAFETY: callers pass buffers of the sizes that the kernel's description asks for.
                unsafe { emulate(kernel, x, y, z, *threads, arguments.as_mut_ptr(), N as u32) }
            }
            Machine::Gpu(device) => {
                let threads = match kernel {
                    "targets" | "gradients" => 512,
                    "gather" => 128,
                    _ => 256,
                };
                device.launch(kernel, [x, y, z], threads, &mut arguments);
            }
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if let Machine::Host { library, folder, .. } = &mut self.machine {
            *library = None;
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[test]
fn structures_lie_as_the_compiler_lays_them() {
    use super::source::{Shape, build};
    let observation = spectral_env::ObservationSpec::Vector { len: 3 };
    let shape = Shape { batch: 8, n_step: 3, actions: 2, observation, head_at: 0, head_in: 1, pitch: 2 };
    let text = build(&shape, &[&crate::codecs::Clipped]).unwrap().text;
    let Some(emulator) = Emulator::new(&text, 1, 1) else { return };
    let row = [abi::RowHead::OFFSETS, &[size_of::<abi::RowHead>()]].concat();
    let mut want = vec![
        size_of::<abi::Counters>(),
        size_of::<abi::Agent>(),
        size_of::<abi::Staged>(),
        abi::row_bytes(3),
        size_of::<abi::Decision>(),
    ];
    for offsets in
        [abi::Counters::OFFSETS, abi::Agent::OFFSETS, abi::Staged::OFFSETS, &row, abi::Decision::OFFSETS]
    {
        want.extend(offsets);
    }
    let layout: unsafe extern "C" fn() -> *const u64 = emulator.symbol("layout");
    // SAFETY: the list has one number for each that is wanted; a shorter one fails to compile with its fields.
    let got = unsafe { std::slice::from_raw_parts(layout(), want.len()) };
    assert!(got.iter().map(|&n| n as usize).eq(want.iter().copied()), "{got:?} {want:?}");
}
