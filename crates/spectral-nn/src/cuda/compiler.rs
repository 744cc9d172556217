//! Where CUDA's run-time compiler is.

use cudarc::nvrtc::sys;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fmt, fs};

/// Where NVRTC was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The system's loader finds it.
    System,
    /// It is this file, in a folder that [`also_search`] added.
    File(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::System => write!(f, "found by the system's loader"),
            Place::File(file) => write!(f, "{}", file.display()),
        }
    }
}

/// Folders that were added, and the file that was opened in one of them.
struct Others {
    folders: Vec<PathBuf>,
    opened: Option<PathBuf>,
}

static OTHERS: Mutex<Others> = Mutex::new(Others { folders: Vec::new(), opened: None });

/// Adds a folder in which NVRTC is looked for when the system's loader does not find it, for example that of NVIDIA's package
/// for Python. Nothing is opened before the compiler is needed.
pub fn also_search(folder: PathBuf) {
    let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    if !others.folders.contains(&folder) {
        others.folders.push(folder);
    }
}

/// Where NVRTC is, if it was found.
pub fn compiler() -> Option<Place> {
    let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = &others.opened {
        return Some(Place::File(file.clone()));
    }
    // SAFETY: asks the loader for NVRTC by its name, whose initialisers are those of a library that the system trusts.
    if unsafe { sys::is_culib_present() } {
        return Some(Place::System);
    }
    let file = others.folders.iter().flat_map(|folder| candidates(folder)).find(|file| open(file))?;
    others.opened = Some(file.clone());
    Some(Place::File(file))
}

/// The files of this folder that are NVRTC by their names, the newest version first.
fn candidates(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so")))
        .collect();
    files.sort_unstable_by(|a, b| b.cmp(a));
    files
}

/// Opens a library for good, and says whether it is then found by its name alone, which is how everybody else asks for it:
/// a loader takes a library that is open already.
fn open(file: &Path) -> bool {
    // SAFETY: the initialisers of a file with NVRTC's name in a folder that the program named as NVRTC's: as trustworthy as the
    // program itself.
    let Ok(library) = (unsafe { libloading::Library::new(file) }) else {
        return false;
    };
    // SAFETY: as in `compiler`; the loader takes the library that was just opened.
    let found = unsafe { sys::is_culib_present() };
    if found {
        std::mem::forget(library);
    }
    found
}
