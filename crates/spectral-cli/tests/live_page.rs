//! The live page in a real browser: first against a server with made-up data, then against the real command that trains
//! and plays.
//!
//! Needs `chromium` and `python3` on the PATH. Skipped loudly without them, unless SPECTRAL_ORACLES=1 demands them. The
//! scripts are in `crates/spectral-live/tests/page`; each can be run by hand.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Held by the test that has a browser open: several at once would only wait for each other.
static ALONE: Mutex<()> = Mutex::new(());

fn required() -> bool {
    std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1")
}

fn skip(why: &str) {
    assert!(!required(), "SPECTRAL_ORACLES=1 does not allow this: {why}");
    // Not eprintln!, whose words libtest swallows when a test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

fn works(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The folder of the scripts and the browser, if this machine has what the scripts need.
fn tools() -> Option<(PathBuf, &'static str)> {
    let Some(browser) = BROWSERS.into_iter().find(|name| works(name)) else {
        skip("no Chromium on the PATH, so the live page was not opened in a browser");
        return None;
    };
    if !works("python3") {
        skip("no python3 on the PATH, so the live page was not opened in a browser");
        return None;
    }
    Some((Path::new(env!("CARGO_MANIFEST_DIR")).join("../spectral-live/tests/page"), browser))
}

/// Runs a script and fails with what it said if it fails.
fn drive(script: &str, arguments: &[&str]) {
    let Some((folder, browser)) = tools() else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new("python3")
        .arg(folder.join(script))
        .args(arguments)
        .env("CHROMIUM", browser)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {arguments:?}: {}\n{said}\n{complained}", output.status);
    assert!(said.contains("passed"), "{script} {arguments:?} ran no test:\n{said}");
}

fn live(arguments: &[&str]) {
    drive("test_live.py", &[&[env!("CARGO_BIN_EXE_spectral")], arguments].concat());
}

#[test]
fn the_page_shows_what_a_server_says() {
    drive("test_page.py", &[]);
}

#[test]
fn a_run_that_trains_is_seen_moving() {
    live(&["training"]);
}

#[test]
fn a_model_plays_and_is_steered() {
    live(&["playing"]);
}

#[test]
fn the_keyboard_moves_the_paddle() {
    live(&["take_over"]);
}

#[test]
fn a_page_survives_its_process_and_may_belong_to_another() {
    live(&["process"]);
}

#[test]
fn a_page_without_the_key_shows_nothing() {
    live(&["key"]);
}

#[test]
fn the_page_is_readable_by_everybody_on_every_screen() {
    live(&["reading"]);
}

/// Pong with the Nature network, with the ROMs of the ale-py package.
#[test]
fn a_game_that_trains_is_seen_moving() {
    if !required() {
        skip("the live page of a real game; set SPECTRAL_ORACLES=1 to run it");
        return;
    }
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or("python3".into());
    let find = "import ale_py, pathlib; print(pathlib.Path(ale_py.__file__).parent / 'roms')";
    let found = Command::new(python).args(["-c", find]).output().expect("Python with ale-py");
    let folder = String::from_utf8(found.stdout).expect("a path");
    live(&["--roms", folder.trim(), "atari"]);
}
