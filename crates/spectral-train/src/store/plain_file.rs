//! Files that others may have put into a run's folder: only plain ones are opened, and no more is read than there should be.
//!
//! A named pipe would keep its reader waiting for ever, a device might never end, and writing through a link would reach a file
//! somewhere else.

use super::disk::{self, File};
use std::fs::{FileType, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Bytes of the longest text that is read whole.
const LONGEST_TEXT: u64 = 64 << 20;

/// Opens a plain file for reading.
///
/// ```
/// use spectral_train::store::open_plain;
/// assert!(open_plain(std::path::Path::new("/")).is_err());
/// ```
pub fn open_plain(path: &Path) -> Result<File> {
    checked(OpenOptions::new().read(true), path)
}

/// Opens a plain file for reading and writing, or makes it; neither cuts it nor follows a link.
pub fn open_or_create_plain(path: &Path) -> Result<File> {
    refuse_link(path)?;
    checked(OpenOptions::new().read(true).write(true).create(true), path)
}

/// Opens a plain file that is there, to write over what it holds; neither cuts it nor follows a link.
pub(crate) fn open_plain_to_rewrite(path: &Path) -> Result<File> {
    refuse_link(path)?;
    checked(OpenOptions::new().write(true), path)
}

/// Opens a plain file that is there, for reading and writing; neither cuts it nor follows a link.
pub(crate) fn open_plain_to_append(path: &Path) -> Result<File> {
    refuse_link(path)?;
    checked(OpenOptions::new().read(true).write(true), path)
}

/// Makes an empty plain file, of one that is there too; follows no link.
pub(crate) fn create_plain(path: &Path) -> Result<File> {
    refuse_link(path)?;
    // What is no plain file is known as such only once it is open, and must not have been cut by then.
    let file = checked(OpenOptions::new().write(true).create(true).truncate(false), path)?;
    file.set_len(0)?;
    Ok(file)
}

/// Refuses a link, whatever it leads to. What is written or removed through one is somewhere else and may be somebody else's.
pub(crate) fn refuse_link(path: &Path) -> Result<()> {
    match disk::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            Err(Error::new(ErrorKind::InvalidInput, "it is a link, which is not followed"))
        }
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The text in a plain file.
pub fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    open_plain(path)?.take(LONGEST_TEXT + 1).read_to_string(&mut text)?;
    match text.len() as u64 <= LONGEST_TEXT {
        true => Ok(text),
        false => Err(Error::new(ErrorKind::InvalidData, "it is far longer than it should be")),
    }
}

/// The text in a plain file, and in nothing that leads to one: what says which run a folder holds is in that folder.
pub(crate) fn read_own_text(path: &Path) -> Result<String> {
    refuse_link(path)?;
    read_text(path)
}

/// Whether something of this name is there, a link that leads nowhere included.
pub(crate) fn is_there(path: &Path) -> bool {
    disk::symlink_metadata(path).is_ok()
}

/// What is no plain file, in words.
fn kind(file: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file.is_fifo() {
            return "a named pipe";
        } else if file.is_char_device() || file.is_block_device() {
            return "a device";
        }
    }
    if file.is_dir() { "a folder" } else { "something else" }
}

fn checked(options: &mut OpenOptions, path: &Path) -> Result<File> {
    // Without waiting for whoever should be at the other end of a pipe.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let file = disk::open_with(options, path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(file),
        false => {
            let what = format!("it is {}, not a plain file", kind(metadata.file_type()));
            Err(Error::new(ErrorKind::InvalidInput, what))
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_folders_and_links_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let zero = folder.path().join("zero");
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        for path in [pipe.as_path(), &zero, folder.path()] {
            assert!(open_plain(path).is_err() && read_text(path).is_err(), "{}", path.display());
            assert!(open_or_create_plain(path).is_err(), "{}", path.display());
        }
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "kept").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        assert!(open_or_create_plain(&link).is_err());
        open_or_create_plain(&precious).unwrap();
        assert_eq!(
            read_text(&link).unwrap(),
            "kept",
            "a link to a plain file may be read, and nothing was cut"
        );
    }
}
