//! One file per command.

mod cluster;
mod decompose;
mod demo;
mod doctor;
mod eval;
mod experiment;
mod lists;
mod notes;
mod play;
mod report;
mod reproduce;
#[cfg(feature = "atari")]
mod roms;
mod status;
mod sweep;
mod train;
mod watch;

use crate::args::{Arguments, Command};
use crate::failure::{Failure, SUCCESS};
use crate::output::print;
use clap::CommandFactory;
use spectral_train::registry::Registry;

/// Runs one command; the number is the process's exit code.
pub fn run(command: Command, registry: &Registry) -> Result<u8, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args, registry),
        Command::Train(args) => train::train(&args, registry),
        Command::Resume(args) => train::resume(&args, registry),
        Command::Status(args) => status::run(&args),
        Command::Eval(args) => eval::run(&args, registry),
        Command::Play(args) => play::run(&args, registry),
        Command::Watch(args) => watch::run(&args, registry),
        Command::Report(args) => report::run(&args, registry),
        Command::Reproduce(args) => reproduce::run(&args, registry),
        Command::Sweep(args) => sweep::run(&args, registry),
        Command::Jobs(args) => cluster::jobs(&args, registry),
        Command::Job(args) => cluster::job(&args, registry),
        Command::Tasks(args) => lists::tasks(&args, registry),
        Command::Agents(args) => lists::agents(&args, registry),
        #[cfg(feature = "atari")]
        Command::Roms(args) => roms::run(&args.action),
        Command::Decompose(args) => decompose::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "spectral", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(SUCCESS)
        }
    }
}
