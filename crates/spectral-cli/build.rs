//! Tells the command which commit it is built from, so that runs can record it. Without a repository it does not know.

use std::path::Path;
use std::process::Command;

/// Letters of a commit's name that are kept.
const SHORT: usize = 12;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(commit) = packaged().or_else(checked_out) {
        println!("cargo:rustc-env=SPECTRAL_COMMIT={commit}");
    }
}

/// What `cargo package` has written into a package.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    shortened(rest.split('"').nth(1)?)
}

/// The commit of the repository that this package lies in. Git, not this script, knows where it keeps such things.
fn checked_out() -> Option<String> {
    // A package that is built below another project's repository is not of that project's commit.
    if !Path::new("../../crates/spectral-cli/build.rs").exists() {
        return None;
    }
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        // A file that is not there would have this script run for every build.
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    shortened(&git(&["rev-parse", "HEAD"])?)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn shortened(commit: &str) -> Option<String> {
    let hexadecimal = commit.len() >= SHORT && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal.then(|| commit[..SHORT].to_owned())
}
