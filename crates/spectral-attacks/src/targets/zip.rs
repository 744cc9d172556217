//! Archives that a user was told hold ROMs.

use crate::scratch::Scratch;
use spectral_atari::roms::{Source, install};

thread_local! {
    static FOLDER: Scratch = Scratch::new();
}

pub(super) fn run(bytes: &[u8]) {
    FOLDER.with(|folder| {
        let path = folder.file("attack.zip", bytes);
        let _ = install(&Source::Path(path), &folder.path().join("roms"));
    });
}
