//! The `spectral` command: thin; the work is in the library crates.

mod args;
mod commands;
mod failure;
mod film;
mod half_blocks;
mod output;
mod progress;
mod table;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    match commands::run(arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::note!("error: {failure}");
            ExitCode::from(failure.exit_code)
        }
    }
}
