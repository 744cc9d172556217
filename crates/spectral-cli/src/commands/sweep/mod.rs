//! `spectral sweep`: every combination of some settings, trained and compared.

mod outcome;

use super::cluster;
use super::experiment::{Made, Making, REPORT_ONLY, exit_code, remove_temporaries};
use super::notes;
use super::report::references;
use super::train::configuration;
use crate::args::SweepArgs;
use crate::failure::{DATA, Failure, INTERRUPTED, SUCCESS};
use crate::output::print;
use outcome::Outcome;
use spectral_cluster::Kind;
use spectral_report::{ReportOptions, write_report};
use spectral_train::experiment::{Experiment, Limits, RunIndex, Sweep, Vary};
use spectral_train::machine::available_memory;
use spectral_train::registry::Registry;
use std::path::{Path, PathBuf};

/// Variants that a dry run names.
const NAMED: usize = 40;
/// How names of figures begin, so that those of an earlier sweep are found.
const FIGURE: &str = "sweep-";

/// Plans, trains what is missing, and says which variant does best.
pub fn run(args: &SweepArgs, registry: &Registry) -> Result<u8, Failure> {
    let named =
        [("task", &args.task), ("agents", &args.agents), ("seeds", &args.seeds), ("device", &args.device)];
    let named = named.into_iter().chain(args.game.settings());
    let config = configuration(args.config.as_deref(), named, args.frames, &args.set)?;
    let vary = args.vary.iter().map(|text| Vary::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let sweep = Experiment::sweep(&config, &vary, registry)?;
    let task = &sweep.experiment.plans[0].task;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("sweeps").join(task.replace('/', "-")));
    let making = Making {
        what: "sweep",
        out: &out,
        limits: Limits { memory: available_memory(), ..Limits::default() },
        calibrate: args.calibrate,
        dry_run: args.dry_run,
        live: &args.live,
        table: &args.table,
        without_runs: REPORT_ONLY,
    };
    making.check()?;
    if args.report_only {
        report(&making, &sweep, &RunIndex::scan(&making.runs(), registry)?, registry)?;
        return Ok(SUCCESS);
    }
    if let Some(on) = args.cluster.on {
        let experiment = Experiment { text: sweep.to_toml(), ..sweep.experiment.clone() };
        return cluster::submit(Kind::Sweep, &experiment, &making, on, &args.cluster, registry);
    }
    match making.make(&sweep.experiment, registry)? {
        Made::Planned if args.table.json => Ok(SUCCESS),
        Made::Planned => {
            print(&names(&sweep))?;
            Ok(SUCCESS)
        }
        Made::Interrupted => Ok(INTERRUPTED),
        Made::Trained { index, stopped } => {
            report(&making, &sweep, &index, registry)?;
            Ok(exit_code(stopped))
        }
    }
}

/// Writes the report of a sweep whose jobs were planned, from what is there.
pub fn report_frozen(
    making: &Making<'_>,
    experiment: Experiment,
    registry: &Registry,
) -> Result<u8, Failure> {
    let sweep = Sweep::from_toml(experiment)?;
    report(making, &sweep, &RunIndex::scan(&making.runs(), registry)?, registry)?;
    Ok(SUCCESS)
}

/// The variants of a plan, a line each.
fn names(sweep: &Sweep) -> String {
    let mut lines = vec![format!("  variants   {}", sweep.variants.len())];
    lines.extend(sweep.variants.iter().take(NAMED).map(|variant| format!("    {}", variant.name)));
    if sweep.variants.len() > NAMED {
        lines.push(format!("    … and {} more", sweep.variants.len() - NAMED));
    }
    lines.join("\n")
}

/// Writes the report with the table and figures of the sweep beside it, and prints the table.
fn report(making: &Making<'_>, sweep: &Sweep, index: &RunIndex, registry: &Registry) -> Result<(), Failure> {
    let runs = making.read(&sweep.experiment, index)?;
    let folder = making.out.join("report");
    remove_temporaries(&folder);
    let options = ReportOptions {
        title: format!("Sweep of {}", sweep.experiment.title),
        out: folder.clone(),
        notes: outcome::caution(sweep.variants.len())
            .into_iter()
            .chain(notes::on_missing(&sweep.experiment, index))
            .collect(),
        references: references(registry),
        ..ReportOptions::default()
    };
    let summary = write_report(&runs, &options)?;
    let outcome = Outcome::of(sweep, &summary);
    remove_figures(&folder);
    let mut figures = Vec::new();
    for (name, figure) in outcome.figures() {
        let name = format!("{FIGURE}{name}");
        figure.write(&folder, &name)?;
        figures.push(folder.join(format!("{name}.svg")));
    }
    write(&folder.join("sweep.csv"), &outcome.csv())?;
    if making.table.json {
        return print(&outcome.json(&summary.html, &figures));
    }
    let drawn = figures.iter().map(|path| format!("\nfigure: {}", path.display())).collect::<String>();
    print(&format!("{}{drawn}\nreport: {}", outcome.text(), summary.html.display()))
}

/// Removes the figures of an earlier report, which may be of other settings.
fn remove_figures(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(FIGURE) && (name.ends_with(".svg") || name.ends_with(".png")) {
            // One that cannot be removed is written over, or stays beside the others.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    spectral_train::store::write_atomically(path, |file| file.write_all(text.as_bytes())).map_err(|error| {
        Failure { text: format!("cannot write {}: {error}", path.display()), exit_code: DATA }
    })
}
