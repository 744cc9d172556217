//! The files of a run: atomically written files, checkpoints with checksums, replay segments, and metric files that grow
//! row by row.
//!
//! All of them follow one rule: neither a process killed at any moment nor a full disk damages the last complete files.
//! Whole files go through [`write_atomically`]. Growing files (CSV, TensorBoard) are truncated on resumption to the length
//! that the last checkpoint recorded.

mod atomic;
pub mod container;
pub mod csv;
pub(crate) mod disk;
mod error;
mod plain_file;
mod protobuf;
pub mod safetensors;
mod seal;
pub mod segments;
mod tensor_header;
pub mod tensorboard;

pub(crate) use atomic::{
    create_exclusively, create_folder, folder_time, is_temporary, why_folders_are_not_synced,
    write_and_rename_if, write_atomically_if,
};
pub use atomic::{sweep_temporaries, sync_folder, write_atomically};
pub use container::{Container, ContainerWriter};
pub use csv::{CsvWriter, Field};
pub use error::StoreError;
pub(crate) use plain_file::{is_there, open_plain_to_rewrite, read_own_text, refuse_link};
pub use plain_file::{open_or_create_plain, open_plain, read_text};
pub(crate) use protobuf::Message;
pub(crate) use seal::seal_like;
pub use seal::{check_seal, seal};
pub use segments::{Records, SEGMENT_BYTES, SegmentRef, append_segments, collect_garbage, load_segments};
pub(crate) use segments::{append_recipe, collect_garbage_if, segment_names};
pub(crate) use tensor_header::{
    counts as json_counts, integers as json_integers, quote as json_quote, strings as json_strings,
};
pub use tensorboard::EventWriter;

use disk::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

/// Opens a growing file for writing after its first `length` bytes, as a checkpoint recorded them. What a killed run wrote
/// after that is truncated, if `allowed` agrees.
///
/// Whoever takes a run over from a process that may live puts copies in the places of such files. So the question comes after the
/// file was opened: once it is answered, what is cut is the file that was there before anybody could take over.
fn reopen_at(
    path: &Path,
    length: u64,
    allowed: impl FnOnce() -> std::io::Result<()>,
) -> Result<File, StoreError> {
    let failed = |doing| move |e| StoreError::io(path, doing, e);
    let mut file = plain_file::open_plain_to_append(path).map_err(failed("open"))?;
    let found = file.metadata().map_err(failed("read the length of"))?.len();
    if found < length {
        return Err(StoreError::TooShort { path: path.into(), found, recorded: length });
    }
    allowed().map_err(failed("cut back"))?;
    file.set_len(length).map_err(failed("cut back"))?;
    file.seek(SeekFrom::End(0)).map_err(failed("seek in"))?;
    Ok(file)
}

#[cfg(test)]
pub(crate) mod testing {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder for one test, removed on drop.
    pub struct ScratchDir(PathBuf);

    impl ScratchDir {
        pub fn new() -> Self {
            static COUNTER: AtomicU32 = AtomicU32::new(0);
            let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("spectral-store-{}-{unique}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            ScratchDir(path)
        }

        pub fn path(&self) -> &Path {
            &self.0
        }

        pub fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        /// Names of everything in the folder, sorted.
        pub fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        }
    }

    impl Drop for ScratchDir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
