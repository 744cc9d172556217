//! Files of one process, in memory where the system has a place for that.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

/// A folder that goes with its value. Values that live until the process ends are swept away by [`sweep`].
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

const PREFIX: &str = "spectral-attack-";

impl Scratch {
    pub fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = root().join(format!("{PREFIX}{}-{unique}", process::id()));
        fs::create_dir_all(&path).expect("a folder for scratch files");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it, with this content.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a scratch file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn root() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { env::temp_dir() }
}

/// Removes what this process has left.
pub(crate) fn sweep() {
    let own = format!("{PREFIX}{}-", process::id());
    for entry in fs::read_dir(root()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&own) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
