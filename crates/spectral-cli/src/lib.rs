//! The `spectral` command as a library, so that a program can offer it for tasks and codecs of its own.
//!
//! ```no_run
//! use spectral_cli::Registry;
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     // Registry::default().with_task(…)?.with_codec(…)?
//!     spectral_cli::main(Registry::default())
//! }
//! ```

mod args;
mod commands;
mod failure;
mod film;
mod half_blocks;
mod output;
mod progress;
mod table;

pub use spectral_train::registry::Registry;

use clap::Parser;
use std::process::ExitCode;

/// Runs the command that the process's arguments ask for, with the tasks and codecs of this registry.
pub fn main(registry: Registry) -> ExitCode {
    let arguments = args::Arguments::parse();
    match commands::run(arguments.command, &registry) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::note!("error: {failure}");
            ExitCode::from(failure.exit_code)
        }
    }
}
