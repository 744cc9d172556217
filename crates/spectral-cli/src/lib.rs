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
#[cfg(test)]
mod documented;
mod event_stream;
mod failure;
mod film;
mod half_blocks;
mod hint;
mod output;
mod progress;
mod signals;
mod spectrum_screen;
mod table;
mod typed;

pub use commands::report::references;
pub use spectral_train::registry::Registry;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command that the process's arguments ask for, with the tasks and codecs of this registry.
pub fn main(registry: Registry) -> ExitCode {
    signals::outlive_large_files();
    ExitCode::from(run(&registry, std::env::args_os()))
}

/// Runs one command and returns its exit code. The first argument is the program's name, as in [`std::env::args_os`].
///
/// ```
/// use spectral_cli::{Registry, run};
/// assert_eq!(run(&Registry::default(), ["spectral", "tasks"]), 0);
/// assert_eq!(run(&Registry::default(), ["spectral", "train", "--task", "pogn-mini", "--dry-run"]), 2);
/// ```
pub fn run(registry: &Registry, arguments: impl IntoIterator<Item: Into<OsString> + Clone>) -> u8 {
    let words: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    typed::remember(&words);
    if let Some(commit) = option_env!("SPECTRAL_COMMIT") {
        spectral_train::run_file::built_from(commit);
    }
    let arguments = match args::Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(message) => {
            // Help and version go to standard output and are no mistake; nobody can be told if printing fails.
            let _ = message.print();
            if let Some(hint) = hint::hint(&message, registry) {
                output::note!("\nhint: {hint}");
            }
            return u8::try_from(message.exit_code()).unwrap_or(2);
        }
    };
    match commands::run(arguments.command, registry) {
        Ok(code) => code,
        Err(failure) => {
            output::note!("error: {}", output::indented(&failure.text));
            failure.exit_code
        }
    }
}
