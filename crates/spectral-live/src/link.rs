//! A file that leads its owner's browser to a page, while there is one: in the run's folder, or wherever a browser is opened from.
//!
//! The address holds the token, so nobody else may read the file, and it is not put on a command line, which every user of a
//! machine can see.

use spectral_train::run_dir::LIVE_FILE;
use spectral_train::store::read_text;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file; it goes when this does.
#[derive(Debug)]
pub struct Link {
    path: PathBuf,
    text: String,
}

impl Link {
    /// Writes a file that leads a browser to this address, and that nobody but its owner can read. One that is there is
    /// replaced, never written through.
    pub fn create(path: PathBuf, url: &str) -> std::io::Result<Self> {
        let _ = std::fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let text = format!(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Live page</title>\n\
             <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n\
             <p><a href=\"{url}\">The live page of this run</a>, while it is served on this machine.\n"
        );
        options.open(&path)?.write_all(text.as_bytes())?;
        Ok(Link { path, text })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // By now it may be that of another process, which has taken the run over.
        if read_text(&self.path).is_ok_and(|text| text == self.text) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The file that leads to the live page of a run, if a process said that it serves one.
pub fn live_file(run: &Path) -> Option<PathBuf> {
    let path = run.join(LIVE_FILE);
    path.is_file().then_some(path)
}
