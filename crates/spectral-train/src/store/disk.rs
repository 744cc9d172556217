//! The file operations of everything that belongs to a run: files are opened, renamed, synced and removed through here.
//!
//! Outside of this crate's unit tests these are the standard library's own types and functions, so that nothing is added and
//! nothing costs. In unit tests they are stand-ins of the same names ([`faults`]), of which any one call can be made to fail, to
//! do half of what it should, or to be the last thing that happens before a kill or a power cut.

#[cfg(test)]
pub mod faults;
#[cfg(test)]
pub mod power;

#[cfg(test)]
pub use faults::{
    File, create_dir, hard_link, metadata, open_with, read_dir, remove_file, rename, symlink_metadata,
};
#[cfg(not(test))]
pub use std::fs::{
    File, create_dir, hard_link, metadata, read_dir, remove_file, rename, symlink_metadata,
};

use std::io::{ErrorKind, Result};
use std::path::Path;

/// Opens a file as `options` say.
#[cfg(not(test))]
pub fn open_with(options: &std::fs::OpenOptions, path: &Path) -> Result<File> {
    options.open(path)
}

/// Makes a folder and those that it is in, as far as they are missing.
pub fn create_dir_all(path: &Path) -> Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
        .collect();
    for folder in missing.into_iter().rev() {
        match create_dir(folder) {
            // Another process was quicker.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made?,
        }
    }
    Ok(())
}
