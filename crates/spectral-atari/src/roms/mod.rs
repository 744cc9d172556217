//! The user's ROMs: where they are kept, how they are installed, and how a missing one is reported.
//!
//! None are part of this project. They are identified by their MD5 sums: a file is found whatever its name, and a file with
//! the right name and other contents is rejected.

mod archive;
mod error;
mod found;
mod md5;

pub use error::RomsError;
pub use md5::md5;

use crate::games::{self, Game};
use found::{Found, read_up_to};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs, process};

/// Where the user's ROMs are: `$SPECTRAL_ROMS`, else `spectral/roms` in the user's data directory (`$XDG_DATA_HOME`, else
/// `~/.local/share`).
pub fn directory() -> Result<PathBuf, RomsError> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SPECTRAL_ROMS")
        .or_else(|| set("XDG_DATA_HOME").map(|data| data.join("spectral/roms")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/spectral/roms")))
        .ok_or(RomsError::NoDirectory)
}

/// Folders of other programs, in the order in which they are searched.
static OTHERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Adds a folder in which [`find`] looks when the user's [`directory`] does not have a ROM, for example that of an installed
/// ale-py. It is searched until the process ends.
pub fn also_search(folder: PathBuf) {
    let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    if !others.contains(&folder) {
        others.push(folder);
    }
}

/// Where [`find`] looks: in the user's [`directory`], if it is known, and in the folders that [`also_search`] added.
pub fn folders() -> Vec<PathBuf> {
    let others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    directory().into_iter().chain(others.iter().cloned()).collect()
}

/// The ROM of a game from the user's [`directory`] or, if it is not there, from a folder that [`also_search`] added, checked by
/// its sum. A wrong file in the user's directory is an error all the same, and errors are about that directory.
pub fn find(game: &Game) -> Result<Vec<u8>, RomsError> {
    let missing = match directory().and_then(|folder| find_in(&folder, game)) {
        Err(error @ (RomsError::Missing { .. } | RomsError::NoDirectory)) => error,
        found => return found,
    };
    let others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    others.iter().find_map(|folder| find_in(folder, game).ok()).ok_or(missing)
}

/// The ROM of a game from this folder, checked by its sum.
pub fn find_in(folder: &Path, game: &Game) -> Result<Vec<u8>, RomsError> {
    let file = folder.join(format!("{}.bin", game.name));
    let bytes = match read_up_to(&file, archive::MAX_FILE_BYTES as u64) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            let error =
                std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it is larger than any cartridge");
            return Err(RomsError::Io { file, error });
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(RomsError::Missing { game: game.title, file, expected: game.md5 });
        }
        Err(error) => return Err(RomsError::Io { file, error }),
    };
    match md5(&bytes) {
        found if found == game.md5 => Ok(bytes),
        found => Err(RomsError::Wrong { game: game.title, file, expected: game.md5, found }),
    }
}

/// Whether a game's ROM is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is, with the right sum.
    Good,
    /// There is no such file.
    Missing,
    /// The file has another sum.
    Wrong {
        /// The sum that it has.
        found: String,
    },
    /// The file cannot be read.
    Unreadable {
        /// Why.
        reason: String,
    },
}

/// What is in a folder: one line per game.
pub fn list(folder: &Path) -> Vec<(&'static Game, Presence)> {
    games::all()
        .map(|game| {
            let presence = match find_in(folder, game) {
                Ok(_) => Presence::Good,
                Err(RomsError::Wrong { found, .. }) => Presence::Wrong { found },
                Err(RomsError::Io { error, .. }) => Presence::Unreadable { reason: error.to_string() },
                Err(_) => Presence::Missing,
            };
            (game, presence)
        })
        .collect()
}

/// Where ROMs are to be taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The ale-py package, which the user's own pip fetches into a temporary folder.
    Pip,
    /// A folder (and what is in it: files, archives, folders), a zip archive, a wheel, or a single ROM.
    Path(PathBuf),
}

/// What [`install`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Games whose ROMs were written, in alphabetical order.
    pub written: Vec<&'static str>,
    /// Games whose ROMs were there already.
    pub kept: Vec<&'static str>,
    /// Games whose ROMs were neither there nor found.
    pub absent: Vec<&'static str>,
}

/// Takes all ROMs of known games from `source` into `folder`, which is made if need be. Each is written under a temporary
/// name and then renamed, so that a broken-off installation leaves no broken file.
pub fn install(source: &Source, folder: &Path) -> Result<Installed, RomsError> {
    let mut found = Found::default();
    let from = match source {
        Source::Path(path) => {
            found.look_into(path)?;
            path.display().to_string()
        }
        Source::Pip => {
            let scratch = Scratch::new()?;
            download(&scratch.0)?;
            found.look_into(&scratch.0)?;
            "the ale-py package".to_owned()
        }
    };
    if found.roms.is_empty() {
        return Err(RomsError::NothingFound { from });
    }
    fs::create_dir_all(folder).map_err(|error| RomsError::Io { file: folder.to_owned(), error })?;
    let mut result = Installed::default();
    let mut there = BTreeSet::new();
    for (game, presence) in list(folder) {
        if presence == Presence::Good {
            there.insert(game.name);
            result.kept.push(game.name);
        }
    }
    for (name, bytes) in &found.roms {
        if there.insert(*name) {
            write_whole(&folder.join(format!("{name}.bin")), bytes)?;
            result.written.push(*name);
        }
    }
    result.absent = games::all().map(|game| game.name).filter(|name| !there.contains(name)).collect();
    Ok(result)
}

/// Asks the user's pip for the ale-py package; nothing of it is installed or run.
fn download(folder: &Path) -> Result<(), RomsError> {
    let mut tried = Vec::new();
    for python in ["python3", "python"] {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--dest"]);
        match command.arg(folder).arg("ale-py").output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
                tried.push(format!("{python}: {}", last.trim()));
            }
            Err(error) => tried.push(format!("{python}: {error}")),
        }
    }
    Err(RomsError::Pip { said: tried.join("; ") })
}

/// A temporary folder, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, RomsError> {
        let folder = env::temp_dir().join(format!("spectral-roms-{}", process::id()));
        fs::create_dir_all(&folder).map_err(|error| RomsError::Io { file: folder.clone(), error })?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), RomsError> {
    let temporary = file.with_extension(format!("{}.tmp", process::id()));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, file));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        RomsError::Io { file: file.to_owned(), error }
    })
}
