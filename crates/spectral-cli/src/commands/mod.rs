//! One file per command.

mod decompose;
mod demo;
mod doctor;
mod eval;
mod lists;
mod notes;
mod play;
mod report;
mod reproduce;
mod roms;
mod train;

use crate::args::{Arguments, Command};
use crate::failure::{Failure, SUCCESS};
use crate::output::print;
use clap::CommandFactory;

/// Runs one command; the number is the process's exit code.
pub fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Train(args) => train::train(&args),
        Command::Resume(args) => train::resume(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Play(args) => play::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Tasks(args) => lists::tasks(&args),
        Command::Agents(args) => lists::agents(&args),
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
