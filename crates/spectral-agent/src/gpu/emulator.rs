//! The kernels on the CPU, for tests: their text compiled by the system's C++ compiler behind `emulation.h`.

use super::abi;
use libloading::Library;
use std::ffi::c_void;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The compiled kernels of one group.
pub(crate) struct Emulator {
    library: Option<Library>,
    folder: PathBuf,
    /// Threads of a block.
    threads: u32,
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
        Some(Emulator { library, folder, threads })
    }

    fn symbol<T: Copy>(&self, name: &str) -> T {
        let library = self.library.as_ref().unwrap();
        // SAFETY: callers give the type that the symbol has in the text.
        *unsafe { library.get::<T>(name.as_bytes()) }.unwrap()
    }

    /// Runs a kernel over a grid of blocks.
    pub fn launch<const N: usize>(&self, kernel: &str, grid: [usize; 3], mut arguments: [*mut c_void; N]) {
        type Emulate = unsafe extern "C" fn(*mut c_void, u32, u32, u32, u32, *mut *mut c_void, u32);
        let [x, y, z] = grid.map(|n| n as u32);
        let (emulate, kernel) = (self.symbol::<Emulate>("emulate"), self.symbol::<*mut c_void>(kernel));
        // SAFETY: callers pass buffers of the sizes that the kernel's description asks for.
        unsafe { emulate(kernel, x, y, z, self.threads, arguments.as_mut_ptr(), N as u32) }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.library = None;
        let _ = std::fs::remove_dir_all(&self.folder);
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
