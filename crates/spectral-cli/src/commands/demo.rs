//! `spectral demo`: two tasks, four agents, one report.

use super::report::print_summary;
use super::train::{announce, command_line, work};
use crate::args::DemoArgs;
use crate::failure::{Failure, INTERRUPTED};
use spectral_report::{ReportOptions, read_runs, write_report};
use spectral_train::config::Configuration;
use spectral_train::presets::EXPERIMENTS;
use spectral_train::trainer::Trainer;
use spectral_train::workshop::Workshop;

/// Trains, draws and prints.
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
    let occupied = std::fs::read_dir(&args.out).is_ok_and(|mut entries| entries.next().is_some());
    if occupied {
        return Err(Failure::usage(format!(
            "{0} exists already and is left as it is; give another --out, redraw it with `spectral report {0}`, or remove it",
            args.out.display()
        )));
    }
    let mut paths = Vec::new();
    for plan in plans {
        announce(&plan, &workshop)?;
        let path = args.out.join(&plan.task);
        let mut trainer = Trainer::create(&path, plan, &workshop, &command_line())?;
        let code = work(&mut trainer)?;
        if code == INTERRUPTED {
            return Ok(code);
        }
        paths.push(path);
    }
    let options = ReportOptions {
        title: "Spectral DQN and its rivals where rewards grow".into(),
        out: args.out.join("report"),
        baseline: Some("spectral".into()),
    };
    let summary = write_report(&read_runs(&paths)?, &options)?;
    print_summary(&summary, args.table.json)
}
