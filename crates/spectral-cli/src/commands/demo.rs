//! `spectral demo`: two tasks, five agents, one report.

use super::report::{print_summary, references};
use super::train::{How, announce, work};
use crate::args::DemoArgs;
use crate::failure::{AGENT_STOPPED, Failure, INTERRUPTED};
use crate::output::note;
use crate::typed::command_line;
use spectral_core::shell::quote_path;
use spectral_report::{ReportOptions, read_runs, write_report};
use spectral_train::config::Configuration;
use spectral_train::presets::EXPERIMENTS;
use spectral_train::registry::Registry;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::RunDir;
use spectral_train::trainer::{Resumption, Trainer};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Trains, draws and prints. A demo that was interrupted goes on where it stopped.
pub fn run(args: &DemoArgs, registry: &Registry) -> Result<u8, Failure> {
    let mut runs = Vec::new();
    for experiment in EXPERIMENTS.iter().filter(|e| e.name.starts_with("demo-")) {
        let mut config = Configuration::default();
        config.toml(experiment.text, experiment.name)?;
        config.add("seeds", args.seeds.clone());
        if let Some(frames) = args.frames {
            config.add("frames", frames.to_string());
        }
        for pair in &args.set {
            config.set(pair)?;
        }
        runs.push(registry.resolve(&config)?);
    }
    let halves = halves(&args.out, runs, registry)?;
    let mut paths = Vec::new();
    let mut stopped = false;
    for (path, run, half) in halves {
        if half != Half::Finished {
            announce(&run)?;
            let threads = run.plan.run.threads;
            let mut trainer = match half {
                Half::New => Trainer::create(&path, run, registry, &command_line())?,
                _ => Trainer::resume(&path, registry, Resumption { threads, ..Resumption::default() })?,
            };
            match work(&mut trainer, &args.live, How::default())? {
                INTERRUPTED => {
                    note!("`{}` once more goes on with the whole demo from here", command_line());
                    return Ok(INTERRUPTED);
                }
                code => stopped |= code == AGENT_STOPPED,
            }
        }
        paths.push(path);
    }
    let options = ReportOptions {
        title: "Spectral DQN and its rivals where rewards grow".into(),
        out: args.out.join("report"),
        baseline: Some("spectral".into()),
        references: references(registry),
        ..ReportOptions::default()
    };
    let summary = write_report(&read_runs(&paths)?, &options)?;
    let code = print_summary(&summary, args.table.json)?;
    Ok(if stopped { AGENT_STOPPED } else { code })
}

/// How far one of the demo's two runs has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    New,
    Begun,
    Finished,
}

/// Where the runs lie and how far each has come. A folder that holds anything but this very demo is refused.
fn halves(
    out: &Path,
    runs: Vec<ResolvedRun>,
    registry: &Registry,
) -> Result<Vec<(PathBuf, ResolvedRun, Half)>, Failure> {
    let refused = || {
        Failure::usage(format!(
            "{} exists already and is left as it is; give another --out, redraw it with `spectral report {}`, or remove it \
             (the same command as before would go on with a demo that was interrupted)",
            out.display(),
            quote_path(out)
        ))
    };
    let mut halves = Vec::new();
    for run in runs {
        let path = out.join(&run.plan.task);
        let half = match RunDir::open(&path, registry) {
            Ok((dir, found)) if found.plan == run.plan.with(|run| run.threads = 0) => {
                if dir.finished() {
                    Half::Finished
                } else {
                    Half::Begun
                }
            }
            Ok(_) => return Err(refused()),
            // A demo that was killed before its half had a `run.toml` left nothing of worth.
            Err(_) if RunDir::is_free(&path).unwrap_or(false) => Half::New,
            Err(_) => return Err(refused()),
        };
        halves.push((path, run, half));
    }
    let is_half = |name: &OsStr| halves.iter().any(|(path, _, _)| path.file_name() == Some(name));
    let foreign = match std::fs::read_dir(out) {
        Err(e) => e.kind() != ErrorKind::NotFound,
        Ok(entries) => entries.flatten().any(|entry| !is_half(&entry.file_name())),
    };
    if foreign && halves.iter().all(|(_, _, half)| *half == Half::New) {
        return Err(refused());
    }
    Ok(halves)
}
