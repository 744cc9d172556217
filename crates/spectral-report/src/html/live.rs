//! Links to the live pages of runs that are at work.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::analysis::Task;
use crate::canvas::escape;
use crate::run::RunStatus;

/// The file in a run's folder that leads to its live page, while there is one.
const LIVE_FILE: &str = "live.html";

/// A line for each run that is at work and has a live page; `out` is the report's folder.
pub(super) fn links(tasks: &[Task<'_>], out: &Path) -> String {
    let mut text = String::new();
    for run in tasks.iter().flat_map(|task| task.runs.iter().copied()) {
        let file = run.path.join(LIVE_FILE);
        if run.status == RunStatus::Running && file.is_file() {
            let (task, link) = (escape(&run.task), escape(&address(&file, out)));
            write!(
                text,
                "<p><a href=\"{link}\">See {task} learn</a>: the run’s live page, on the machine where it trains and while it \
                 does.</p>"
            )
            .ok();
        }
    }
    if text.is_empty() { text } else { format!("<div class=\"note\">{text}</div>\n") }
}

/// The way from the report's folder to a file, as an address; the whole path if there is no shorter way.
fn address(file: &Path, out: &Path) -> String {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let (file, out) = (real(file), real(out));
    let same = file.components().zip(out.components()).take_while(|(a, b)| a == b).count();
    let way: PathBuf = match same > 1 {
        true => {
            let up = out.components().skip(same).map(|_| Component::ParentDir);
            up.chain(file.components().skip(same)).collect()
        }
        false => file,
    };
    encode(&way.to_string_lossy())
}

/// Percent-encodes what an address may not hold as it is.
fn encode(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            _ => {
                write!(text, "%{byte:02X}").ok();
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_page_is_short_and_an_address() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("runs/a b?#");
        std::fs::create_dir_all(run.join("report")).unwrap();
        std::fs::write(run.join(LIVE_FILE), "").unwrap();
        assert_eq!(address(&run.join(LIVE_FILE), &run.join("report")), "../live.html");
        assert_eq!(address(&run.join(LIVE_FILE), root.path()), "runs/a%20b%3F%23/live.html");
    }
}
