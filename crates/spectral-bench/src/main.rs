//! `spectral-bench`: how fast updates, tasks and whole training runs are on this machine.
//!
//! ```text
//! cargo run --release -p spectral-rl-bench            # training steps and tasks on the CPU
//! cargo run --release -p spectral-rl-bench -- gpu     # populations on a GPU
//! ```

mod args;
mod cpu;
mod end_to_end;
mod failure;
mod floor;
mod gpu;
mod group_times;
mod output;
mod updates;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = args::Arguments::parse();
    let done = match &arguments.what {
        Some(args::Benchmark::Gpu(args)) => gpu::run(args),
        None => cpu::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note!("error: {failure}");
            ExitCode::from(failure.exit_code)
        }
    }
}
