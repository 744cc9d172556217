//! NVRTC for tests: the kernels' text is CUDA C that it compiles without any header, for every group of codecs.
//!
//! NVRTC needs no GPU and no driver; a CUDA toolkit has it, and PyTorch's package brings it. Skipped loudly where it is
//! not found, unless SPECTRAL_ORACLES=1 demands it.

use super::source::{MOST_ROWS, Shape, build};
use crate::codecs::{Codec, configure};
use crate::settings::AgentSettings;
use libloading::{Library, Symbol};
use spectral_env::ObservationSpec;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The newest `libnvrtc.so*` in a folder or below it.
fn find_below(folder: &Path) -> Option<PathBuf> {
    let mut found = None;
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let inner = if path.is_dir() { find_below(&path) } else { None };
        found = found.max(inner);
        if name.starts_with("libnvrtc.so") {
            found = found.max(Some(path));
        }
    }
    found
}

/// NVRTC from the oracles' packages, else from a toolkit.
pub(super) fn load() -> Option<Library> {
    let venv = match (std::env::var_os("SPECTRAL_PYTHON"), std::env::var_os("HOME")) {
        (Some(python), _) => Path::new(&python).parent()?.parent()?.to_path_buf(),
        (None, Some(home)) => Path::new(&home).join(".cache/spectral/oracles"),
        (None, None) => return None,
    };
    let mut folders = std::fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    let found = folders.find_map(|python| find_below(&python.path().join("site-packages/nvidia")));
    let names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"];
    // SAFETY: loading NVIDIA's library runs no code but its own initialisers.
    found.into_iter().chain(names.map(PathBuf::from)).find_map(|path| unsafe { Library::new(path) }.ok())
}

type Program = *mut c_void;

/// Compiles to PTX for an architecture, through to machine code if that is a real one (sm_90); the error is the
/// compiler's log.
pub(super) fn compile(nvrtc: &Library, text: &str, architecture: &str) -> Result<String, String> {
    type Create = unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const c_void,
        *const c_void,
    ) -> c_int;
    type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
    type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
    type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
    let text = CString::new(text).unwrap();
    let architecture = format!("--gpu-architecture={architecture}");
    let options = [&architecture, "--std=c++17", "--fmad=false"].map(|o| CString::new(o).unwrap());
    let options = options.each_ref().map(|o| o.as_ptr());
    // SAFETY: the signatures are those of nvrtc.h, and every pointer outlives its call.
    unsafe {
        let create: Symbol<Create> = nvrtc.get(b"nvrtcCreateProgram").unwrap();
        let compile: Symbol<Compile> = nvrtc.get(b"nvrtcCompileProgram").unwrap();
        let fetch = |size: &[u8], get: &[u8], program| {
            let size: Symbol<Size> = nvrtc.get(size).unwrap();
            let get: Symbol<Get> = nvrtc.get(get).unwrap();
            let mut len = 0;
            assert_eq!(size(program, &mut len), 0);
            let mut bytes = vec![0u8; len];
            assert_eq!(get(program, bytes.as_mut_ptr().cast()), 0);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let mut program = std::ptr::null_mut();
        let name = c"learner.cu";
        let made = create(&mut program, text.as_ptr(), name.as_ptr(), 0, std::ptr::null(), std::ptr::null());
        assert_eq!(made, 0, "nvrtcCreateProgram");
        match compile(program, options.len() as c_int, options.as_ptr()) {
            0 => Ok(fetch(b"nvrtcGetPTXSize", b"nvrtcGetPTX", program)),
            _ => Err(fetch(b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog", program)),
        }
    }
}

fn codec(text: &str) -> Arc<dyn Codec> {
    configure(text, AgentSettings::default()).unwrap().1
}

#[test]
fn every_group_of_codecs_compiles() {
    let Some(nvrtc) = load() else {
        let required = std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1");
        assert!(!required, "SPECTRAL_ORACLES=1 needs libnvrtc: tests/oracles/requirements.txt brings it");
        let _ = writeln!(std::io::stderr(), "SKIPPED: compilation by NVRTC; no libnvrtc.so was found");
        return;
    };
    let screen = ObservationSpec::Planes { channels: 1, height: 84, width: 84, stack: 4 };
    let board = ObservationSpec::Planes { channels: 3, height: 10, width: 10, stack: 1 };
    let groups: [(ObservationSpec, usize, &[&str]); 5] = [
        (screen, 32, &["clipped", "compressed", "popart", "spectral", "categorical"]),
        (screen, 32, &["spectral"]),
        (board, 7, &["popart", "spectral", "popart"]),
        (ObservationSpec::Vector { len: 5 }, 32, &["categorical targets=projection", "clipped"]),
        // Through to machine code: as much shared memory as any group can ask for.
        (board, MOST_ROWS, &["categorical atoms=4096", "popart"]),
    ];
    for (observation, batch, names) in groups {
        let codecs: Vec<_> = names.iter().map(|name| codec(name)).collect();
        let pitch = 18 * codecs.iter().map(|c| c.outputs()).max().unwrap();
        let shape = Shape { batch, n_step: 3, actions: 18, observation, head_at: 0, head_in: 512, pitch };
        let codecs: Vec<&dyn Codec> = codecs.iter().map(Arc::as_ref).collect();
        let source = build(&shape, &codecs).unwrap();
        let architecture = if batch == MOST_ROWS { "sm_90" } else { "compute_90" };
        let ptx =
            compile(&nvrtc, &source.text, architecture).unwrap_or_else(|log| panic!("{names:?}: {log}"));
        for kernel in ["enter", "record", "gather", "targets", "gradients", "choose", "refresh"] {
            assert!(ptx.contains(&format!(".entry {kernel}(")), "{names:?} lack the kernel {kernel}");
        }
    }
    assert!(compile(&nvrtc, "#include <cuda.h>", "compute_90").is_err(), "a header that is not there");
}
