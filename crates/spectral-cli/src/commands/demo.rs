//! `spectral demo`: two tasks, four agents, one report.

use super::report::print_summary;
use super::train::{announce, command_line, work};
use crate::args::DemoArgs;
use crate::failure::{AGENT_STOPPED, Failure, INTERRUPTED};
use crate::output::note;
use spectral_report::{ReportOptions, read_runs, write_report};
use spectral_train::config::Configuration;
use spectral_train::plan::Plan;
use spectral_train::presets::EXPERIMENTS;
use spectral_train::run_dir::RunDir;
use spectral_train::trainer::Trainer;
use spectral_train::workshop::Workshop;
use std::path::{Path, PathBuf};

/// Trains, draws and prints. A demo that was interrupted goes on where it stopped.
pub fn run(args: &DemoArgs) -> Result<u8, Failure> {
    let workshop = Workshop::default();
    let mut plans = Vec::new();
    for experiment in EXPERIMENTS.iter().filter(|e| e.name.starts_with("demo-")) {
        let mut config = Configuration::default();
        config.toml(experiment.text, experiment.name)?;
        config.add("seeds", args.seeds.clone())?;
        if let Some(frames) = args.frames {
            config.add("frames", frames.to_string())?;
        }
        for pair in &args.set {
            config.set(pair)?;
        }
        plans.push(config.plan()?);
    }
    let halves = halves(&args.out, plans)?;
    let mut paths = Vec::new();
    let mut stopped = false;
    for (path, plan, half) in halves {
        if half != Half::Finished {
            announce(&plan, &workshop)?;
            let mut trainer = match half {
                Half::New => Trainer::create(&path, plan, &workshop, &command_line())?,
                _ => Trainer::resume(&path, &workshop, None, plan.threads, None)?,
            };
            match work(&mut trainer)? {
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
fn halves(out: &Path, plans: Vec<Plan>) -> Result<Vec<(PathBuf, Plan, Half)>, Failure> {
    let occupied = std::fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    let refused = || {
        Failure::usage(format!(
            "{0} exists already and is left as it is; give another --out, redraw it with `spectral report {0}`, or remove it \
             (the same command as before would go on with a demo that was interrupted)",
            out.display()
        ))
    };
    let mut halves = Vec::new();
    for plan in plans {
        let path = out.join(&plan.task);
        let half = match RunDir::open(&path) {
            Ok((dir, found)) if found == (Plan { threads: 0, ..plan.clone() }) => {
                if dir.finished() {
                    Half::Finished
                } else {
                    Half::Begun
                }
            }
            Ok(_) => return Err(refused()),
            Err(_) => Half::New,
        };
        halves.push((path, plan, half));
    }
    if occupied && halves.iter().all(|(_, _, half)| *half == Half::New) {
        return Err(refused());
    }
    Ok(halves)
}
