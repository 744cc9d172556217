//! Atomic file writes.

use super::disk::{self as fs, File};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::StoreError;

/// Part of the name of every temporary file, between the final name and a unique suffix.
const TEMPORARY_MARK: &str = ".spectral-tmp-";

/// Writes a file so that at every moment, even if the machine stops, `path` holds either its old content or
/// the whole new one: a temporary file in the same folder is written, synced to disk and renamed, and the
/// folder is synced. On any error the temporary file is removed and the old file is as it was.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("spectral-doc-atomic-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// use spectral_train::store::write_atomically;
/// let path = dir.join("state.toml");
/// write_atomically(&path, |out| out.write_all(b"status = \"running\"\n"))?;
/// assert_eq!(std::fs::read_to_string(&path)?, "status = \"running\"\n");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_atomically(
    path: &Path,
    bytes: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StoreError> {
    write_atomically_if(path, bytes, || Ok(()))
}

/// Like [`write_atomically`]; nothing changes unless `allowed`, which is asked last, agrees.
pub(crate) fn write_atomically_if(
    path: &Path,
    bytes: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    allowed: impl FnOnce() -> io::Result<()>,
) -> Result<(), StoreError> {
    write_and_rename_if(path, bytes, allowed)?;
    sync_folder(folder_of(path))
}

/// Like [`write_atomically`], but the new name is certain to survive a power cut only after [`sync_folder`]. For several files
/// that are committed together.
pub(crate) fn write_and_rename(
    path: &Path,
    bytes: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StoreError> {
    write_and_rename_if(path, bytes, || Ok(()))
}

/// Like [`write_and_rename`]; nothing changes unless `allowed`, which is asked last, agrees.
pub(crate) fn write_and_rename_if(
    path: &Path,
    bytes: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    allowed: impl FnOnce() -> io::Result<()>,
) -> Result<(), StoreError> {
    let temporary = Temporary::beside(path);
    let failed = |doing| move |e| StoreError::io(path, doing, e);
    let file = File::create_new(&temporary.0).map_err(failed("create"))?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    bytes(&mut out).and_then(|()| out.flush()).map_err(failed("write"))?;
    out.get_ref().sync_all().map_err(failed("sync"))?;
    allowed().map_err(failed("write"))?;
    fs::rename(&temporary.0, path).map_err(failed("rename the temporary file to"))
}

/// Makes a file that is not there yet, with its content: [`AlreadyExists`](io::ErrorKind::AlreadyExists) if it is. Of several
/// processes, on whichever machines, one succeeds. Nobody sees it half-written, unless the file system has no hard links.
pub(crate) fn create_exclusively(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let write = |mut file: File| {
        file.write_all(bytes)?;
        file.sync_all()
    };
    let temporary = Temporary::beside(path);
    write(File::create_new(&temporary.0)?)?;
    match fs::hard_link(&temporary.0, path) {
        Err(e) if !matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            write(File::create_new(path)?)
        }
        linked => linked,
    }
}

/// What time it is for whoever stamps the files in a folder: on a shared file system, its server.
pub(crate) fn folder_time(folder: &Path) -> io::Result<std::time::SystemTime> {
    let temporary = Temporary::beside(&folder.join("time"));
    let mut file = File::create_new(&temporary.0)?;
    // On a full disk the moment of creation must do.
    let _ = file.write_all(b"x").and_then(|()| file.sync_all());
    file.metadata()?.modified()
}

/// Makes the names in a folder as durable as the files themselves, where the file system offers that.
pub fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    try_sync_folder(folder).map(drop)
}

/// Why the file system of a folder does not sync folders, if it does not. Then names survive a power cut when it sees fit.
pub(crate) fn why_folders_are_not_synced(folder: &Path) -> Option<io::Error> {
    try_sync_folder(folder).ok().flatten()
}

fn try_sync_folder(folder: &Path) -> Result<Option<io::Error>, StoreError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    // Only Unix lets a folder be opened and synced. Elsewhere the rename must suffice.
    if !cfg!(unix) {
        return Ok(None);
    }
    let file = File::open(folder).map_err(|e| StoreError::io(folder, "sync", e))?;
    match file.sync_all() {
        // EINVAL and ENOTSUP, which some network and user-space file systems answer.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(Some(e)),
        synced => synced.map(|()| None).map_err(|e| StoreError::io(folder, "sync", e)),
    }
}

/// Makes a folder and those that it is in, and their names durable; its own name also if somebody else made it.
pub(crate) fn create_folder(path: &Path) -> Result<(), StoreError> {
    let missing = path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
    let missing = missing.count();
    fs::create_dir_all(path).map_err(|e| StoreError::io(path, "create", e))?;
    for folder in path.ancestors().take(missing.max(1)).filter_map(Path::parent) {
        match sync_folder(folder) {
            // Somebody made ours in a folder that we may not read.
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Removes temporary files that a killed process left in `folder`, and returns their number.
///
/// No other process may be writing to the folder, but for those that find out who may: their files may go at any moment, by either
/// hand.
pub fn sweep_temporaries(folder: &Path) -> Result<usize, StoreError> {
    let mut swept = 0;
    for name in file_names(folder)? {
        swept += usize::from(is_temporary(&name) && remove_temporary(&folder.join(name))?);
    }
    Ok(swept)
}

/// Removes a temporary file; false if it was gone already.
pub(super) fn remove_temporary(path: &Path) -> Result<bool, StoreError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true).map_err(|e| StoreError::io(path, "remove", e)),
    }
}

/// Whether this is the name of a temporary file.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.contains(TEMPORARY_MARK)
}

/// Names of the plain files in a folder, in no particular order.
pub(super) fn file_names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |e| StoreError::io(folder, "list", e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            // Names that are not Unicode are not ours.
            names.extend(entry.file_name().into_string().ok());
        }
    }
    Ok(names)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A temporary file, removed on drop. After the rename there is nothing left to remove.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(path: &Path) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        // The time distinguishes it from the file of a dead process with the same id (containers reuse small ids).
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!("{TEMPORARY_MARK}{}-{now}-{unique}", std::process::id()));
        Temporary(folder_of(path).join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ScratchDir;
    use super::*;
    use std::fs;

    #[test]
    fn replaces_the_whole_file_and_leaves_nothing_else() {
        let dir = ScratchDir::new();
        let path = dir.join("a.bin");
        for content in [&b"a long first content"[..], b"short", b""] {
            write_atomically(&path, |out| out.write_all(content)).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert_eq!(dir.names(), ["a.bin"]);
    }

    #[test]
    fn an_error_halfway_keeps_the_old_file_and_removes_the_temporary_one() {
        let dir = ScratchDir::new();
        let path = dir.join("a.bin");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let error = write_atomically(&path, |out| {
            out.write_all(&vec![7; 1 << 20])?;
            assert_eq!(dir.names().len(), 2, "the temporary file lies in the same folder");
            Err(io::Error::from(io::ErrorKind::StorageFull))
        })
        .unwrap_err();
        assert!(matches!(error, StoreError::DiskFull { .. }));
        let text = error.to_string();
        assert!(text.contains("a.bin") && text.contains("the disk is full: "), "{text}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(dir.names(), ["a.bin"]);
    }

    #[test]
    fn a_rename_that_fails_removes_the_temporary_file() {
        let dir = ScratchDir::new();
        fs::create_dir(dir.join("taken")).unwrap();
        fs::write(dir.join("taken").join("x"), b"").unwrap();
        let error = write_atomically(&dir.join("taken"), |out| out.write_all(b"x")).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        assert_eq!(dir.names(), ["taken"]);
    }

    #[test]
    fn a_panic_in_the_writer_removes_the_temporary_file() {
        let dir = ScratchDir::new();
        let path = dir.join("a.bin");
        let result = std::panic::catch_unwind(|| write_atomically(&path, |_| panic!("on purpose")));
        assert!(result.is_err());
        assert!(dir.names().is_empty());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let dir = ScratchDir::new();
        let error = write_atomically(&dir.join("none").join("a.bin"), |_| Ok(())).unwrap_err();
        assert!(matches!(&error, StoreError::NotFound { path } if path.ends_with("none/a.bin")), "{error}");
    }

    #[test]
    fn sweeping_removes_temporaries_only() {
        let dir = ScratchDir::new();
        let kept = ["a.bin", ".hidden", "notes.spectral-tmp-1"];
        for name in kept {
            fs::write(dir.join(name), b"x").unwrap();
        }
        let left_over = Temporary::beside(&dir.join("a.bin"));
        fs::write(&left_over.0, b"half").unwrap();
        assert_eq!(sweep_temporaries(dir.path()).unwrap(), 1);
        assert_eq!(dir.names(), [".hidden", "a.bin", "notes.spectral-tmp-1"]);
    }
}
