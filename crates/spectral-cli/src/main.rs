//! The `spectral` command with the built-in tasks and codecs.

use std::process::ExitCode;

fn main() -> ExitCode {
    spectral_cli::main(spectral_cli::Registry::default())
}
