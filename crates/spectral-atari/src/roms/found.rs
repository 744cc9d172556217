//! Looks for ROMs of known games in files, archives and folders of unknown origin.

use super::archive::{self, Problem};
use super::{RomsError, md5};
use crate::games::{self, Game};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The shortest cartridge that was ever sold. Shorter files are not even read: it spares most sums, and files of the system
/// that say that they are empty and never end.
const MIN_ROM_BYTES: u64 = 2048;
/// Every cartridge ever made is a small part of this. An archive is held in memory while it is read.
const MAX_ARCHIVE_BYTES: u64 = 512 << 20;
/// How deep folders are searched.
const MAX_DEPTH: usize = 8;

/// The ROMs seen so far, each game's once.
pub(super) struct Found {
    /// By the game's name.
    pub roms: BTreeMap<&'static str, Vec<u8>>,
    /// Files and folders that were seen, under the one name that no link is part of: links may lead to what was seen, and in
    /// circles.
    seen: BTreeSet<PathBuf>,
    known: fn(&[u8]) -> Option<&'static Game>,
}

impl Default for Found {
    fn default() -> Self {
        let known = |bytes: &[u8]| {
            let sum = md5(bytes);
            games::all().find(|game| game.md5 == sum)
        };
        Found { roms: BTreeMap::new(), seen: BTreeSet::new(), known }
    }
}

impl Found {
    /// Takes what is in `start`: a ROM, an archive, or a folder with such. In a folder, what is neither file nor folder is
    /// passed over: a pipe would keep us waiting, and a device might never end.
    pub fn look_into(&mut self, start: &Path) -> Result<(), RomsError> {
        // Nearest first, so that nothing is too deep because a link led there sooner.
        let mut waiting = VecDeque::from([(start.to_owned(), 0)]);
        while let Some((path, depth)) = waiting.pop_front() {
            let io = |error| RomsError::Io { file: path.clone(), error };
            let metadata = match fs::metadata(&path) {
                // A link that leads nowhere, or a file that has gone since its folder was read.
                Err(error) if depth > 0 && (error.kind() == ErrorKind::NotFound || path.is_symlink()) => {
                    continue;
                }
                metadata => metadata.map_err(io)?,
            };
            if !metadata.is_dir() && !metadata.is_file() {
                if depth == 0 {
                    return Err(io(no_plain_file()));
                }
            } else if !self.seen.insert(path.canonicalize().map_err(io)?) {
                continue;
            } else if metadata.is_dir() {
                for entry in fs::read_dir(&path).map_err(io)?.take_while(|_| depth < MAX_DEPTH) {
                    waiting.push_back((entry.map_err(io)?.path(), depth + 1));
                }
            } else {
                self.read(&path, metadata.len())?;
            }
        }
        Ok(())
    }

    fn read(&mut self, path: &Path, len: u64) -> Result<(), RomsError> {
        let io = |error| RomsError::Io { file: path.to_owned(), error };
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
        if extension == "zip" || extension == "whl" {
            let problem = |it: Problem| RomsError::BadArchive { file: path.to_owned(), problem: it.words() };
            if len > MAX_ARCHIVE_BYTES {
                return Err(problem(Problem::TooLarge));
            }
            // It may have grown since it was looked at.
            let bytes =
                read_up_to(path, MAX_ARCHIVE_BYTES).map_err(io)?.ok_or_else(|| problem(Problem::TooLarge))?;
            archive::for_each_small_file(&bytes, |bytes| self.keep_if_known(bytes)).map_err(problem)?;
        } else if (MIN_ROM_BYTES..=archive::MAX_FILE_BYTES as u64).contains(&len)
            && let Some(bytes) = read_up_to(path, archive::MAX_FILE_BYTES as u64).map_err(io)?
        {
            self.keep_if_known(&bytes);
        }
        Ok(())
    }

    fn keep_if_known(&mut self, bytes: &[u8]) {
        if bytes.len() as u64 >= MIN_ROM_BYTES
            && let Some(game) = (self.known)(bytes)
        {
            self.roms.entry(game.name).or_insert_with(|| bytes.to_vec());
        }
    }
}

/// What a plain file holds; `None` if that is more than `most` bytes.
pub(super) fn read_up_to(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    if !fs::metadata(path)?.is_file() {
        return Err(no_plain_file());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

fn no_plain_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a plain file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static ASKED: Cell<usize> = const { Cell::new(0) };
    }

    /// Takes a file of threes for Pong.
    fn found() -> Found {
        ASKED.set(0);
        let known = |bytes: &[u8]| {
            ASKED.set(ASKED.get() + 1);
            (bytes[0] == 3).then(|| games::find("pong").expect("a game"))
        };
        Found { known, ..Found::default() }
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("spectral-found-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A pipe that nobody writes into keeps its reader waiting for ever.
    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_are_passed_over_and_refused_by_name() {
        use std::os::unix::fs::symlink;
        use std::sync::mpsc::channel;
        use std::time::Duration;
        let folder = Folder::new("pipes");
        folder.file("rom", &[3; 4096]);
        for pipe in ["pipe", "pipe.zip", "pong.bin"] {
            let made = std::process::Command::new("mkfifo").arg(folder.0.join(pipe)).status().unwrap();
            assert!(made.success());
        }
        symlink("/dev/zero", folder.0.join("endless.bin")).unwrap();
        symlink("/dev/zero", folder.0.join("endless.zip")).unwrap();
        let (done, wait) = channel();
        let place = folder.0.clone();
        std::thread::spawn(move || {
            let mut here = found();
            here.look_into(&place).unwrap();
            let by_name = ["pipe", "pipe.zip", "endless.bin", "endless.zip"]
                .map(|name| found().look_into(&place.join(name)).unwrap_err().to_string());
            let own = super::super::find_in(&place, games::find("pong").unwrap()).unwrap_err().to_string();
            done.send((here.roms.len(), by_name, own)).unwrap();
        });
        let (roms, by_name, own) = wait.recv_timeout(Duration::from_secs(120)).expect("it waits for ever");
        assert_eq!(roms, 1);
        for text in by_name.iter().chain([&own]) {
            assert!(text.ends_with("it is not a plain file"), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_in_circles_and_to_what_was_seen_are_followed_once() {
        use std::os::unix::fs::symlink;
        let folder = Folder::new("links");
        let rom = folder.file("a/b/rom", &[3; 4096]);
        folder.file("a/other", &[4; 4096]);
        for number in 0..3 {
            symlink(&folder.0, folder.0.join(format!("own-{number}"))).unwrap();
            symlink("..", folder.0.join(format!("a/b/above-{number}"))).unwrap();
            symlink(&rom, folder.0.join(format!("a/same-{number}"))).unwrap();
        }
        let mut here = found();
        here.look_into(&folder.0).unwrap();
        assert_eq!((here.roms.len(), ASKED.get()), (1, 2), "each file is read once");
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_nowhere_are_passed_over_and_refused_by_name() {
        use std::os::unix::fs::symlink;
        let folder = Folder::new("dangling");
        folder.file("rom", &[3; 4096]);
        let [nowhere, itself] = ["nowhere.bin", "itself.bin"].map(|name| folder.0.join(name));
        symlink(folder.0.join("gone"), &nowhere).unwrap();
        symlink(&itself, &itself).unwrap();
        let mut here = found();
        here.look_into(&folder.0).unwrap();
        assert_eq!(here.roms.len(), 1);
        for link in [nowhere, itself] {
            assert!(found().look_into(&link).is_err());
        }
    }

    #[test]
    fn folders_are_searched_to_a_depth() {
        let folder = Folder::new("deep");
        folder.file("1/2/3/4/5/6/7/rom", &[3; 4096]);
        folder.file("1/2/3/4/5/6/7/8/rom", &[3; 4096]);
        found().look_into(&folder.0).unwrap();
        assert_eq!(ASKED.get(), 1);
    }

    #[test]
    fn copies_of_a_game_are_kept_once_and_what_is_no_cartridge_is_not_read() {
        let folder = Folder::new("copies");
        for number in 0..5 {
            folder.file(&format!("copy-{number}"), &[3; 4096]);
        }
        let files: Vec<_> = (0..200).map(|_| ("rom", &[3u8; 4096][..], true)).collect();
        folder.file("many.zip", &archive::tests::zipped(&files, b""));
        folder.file("short", &[3; 2047]);
        folder.file("long", &[3; archive::MAX_FILE_BYTES + 1]);
        let mut here = found();
        here.look_into(&folder.0).unwrap();
        assert_eq!((here.roms.len(), ASKED.get()), (1, 205));
        assert_eq!(here.roms["pong"], [3; 4096]);
    }

    #[test]
    fn an_archive_that_is_too_large_to_be_held_is_refused() {
        let folder = Folder::new("large");
        let file = folder.file("large.zip", b"");
        // A file with a hole, which takes no room on most disks.
        fs::File::options().write(true).open(&file).unwrap().set_len(MAX_ARCHIVE_BYTES * 64).unwrap();
        assert!(read_up_to(&file, 1 << 16).unwrap().is_none());
        let text = found().look_into(&file).unwrap_err().to_string();
        assert!(text.contains("large.zip") && text.contains("512 MiB"), "{text}");
    }
}
