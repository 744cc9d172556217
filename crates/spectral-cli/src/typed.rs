//! The command as it was typed. Not the process's own arguments, which are an interpreter's where the command is part of a
//! package for one.

use spectral_core::shell::quote_word;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

static WORDS: Mutex<Vec<OsString>> = Mutex::new(Vec::new());

/// Keeps the arguments of the command that is about to run, the program's name first.
pub fn remember(words: &[OsString]) {
    *WORDS.lock().unwrap_or_else(PoisonError::into_inner) = words.to_vec();
}

/// The command as it was typed, for the run's record.
pub fn command_line() -> String {
    let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let words = words.iter().skip(1).map(|w| w.to_string_lossy().into_owned());
    let words = words.map(|word| quote_word(&word));
    std::iter::once(program()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The name of this program, which need not be `spectral`, as a word of a command.
pub fn program() -> String {
    let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let path = words.first().map(Path::new).and_then(Path::file_stem);
    path.map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.is_empty())
        .map_or_else(|| "spectral".into(), |name| quote_word(&name))
}
