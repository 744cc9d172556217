//! `spectral reproduce`: a figure of the paper from one command.

mod clips;
mod computed;
mod list;

use super::cluster;
use super::experiment::{Made, Making, REPORT_ONLY, exit_code, remove_temporaries};
use super::notes;
use super::report::{print_summary, references};
use crate::args::ReproduceArgs;
use crate::failure::{DATA, Failure, INTERRUPTED, SUCCESS};
use spectral_cluster::Kind;
use spectral_report::{Claim, ReportOptions, Run, write_report};
use spectral_train::experiment::{Experiment, Limits, Overrides, RunIndex};
use spectral_train::machine::available_memory;
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use std::path::Path;

/// Plans, trains what is missing, and reports.
pub fn run(args: &ReproduceArgs, registry: &Registry) -> Result<u8, Failure> {
    let Some(name) = &args.figure else { return list::run(args.table.json, registry) };
    let making = Making {
        what: "figure",
        out: &args.out,
        limits: Limits { memory: available_memory(), ..Limits::default() },
        calibrate: args.calibrate,
        dry_run: args.dry_run,
        live: &args.live,
        table: &args.table,
        without_runs: REPORT_ONLY,
    };
    making.check()?;
    let overrides = Overrides {
        frames: args.frames,
        seeds: args.seeds.clone(),
        agents: args.agents.clone(),
        tasks: args.tasks.clone(),
        set: args.set.iter().cloned().chain(args.device.iter().map(|d| format!("device={d}"))).collect(),
    };
    let experiment = Experiment::find(name, &overrides, registry)?;
    if let Some(table) = &experiment.computed {
        return computed::run(&experiment, table, &args.out, args.table.json);
    }
    let claims = Claim::from_toml(&experiment.text, name)?;
    if args.report_only {
        let index = RunIndex::scan(&making.runs(), registry)?;
        return draw(&making, &experiment, claims, &index, making.read(&experiment, &index)?, registry);
    }
    if let Some(on) = args.cluster.on {
        return cluster::submit(Kind::Reproduce, &experiment, &making, on, &args.cluster, registry);
    }
    match making.make(&experiment, registry)? {
        Made::Planned => Ok(SUCCESS),
        Made::Interrupted => Ok(INTERRUPTED),
        Made::Trained { index, stopped } => {
            let mut runs = making.read(&experiment, &index)?;
            clips::record(&mut runs, registry)?;
            draw(&making, &experiment, claims, &index, runs, registry)?;
            Ok(exit_code(stopped))
        }
    }
}

/// Writes the report of an experiment from what is there.
pub fn report(making: &Making<'_>, experiment: &Experiment, registry: &Registry) -> Result<u8, Failure> {
    let claims = Claim::from_toml(&experiment.text, &experiment.name)?;
    let index = RunIndex::scan(&making.runs(), registry)?;
    let mut runs = making.read(experiment, &index)?;
    clips::record(&mut runs, registry)?;
    draw(making, experiment, claims, &index, runs, registry)
}

/// Writes the report from the runs that belong to the experiment, and prints what it found.
fn draw(
    making: &Making<'_>,
    experiment: &Experiment,
    claims: Vec<Claim>,
    index: &RunIndex,
    runs: Vec<Run>,
    registry: &Registry,
) -> Result<u8, Failure> {
    let out = making.out.join(&experiment.name);
    remove_temporaries(&out);
    let options = ReportOptions {
        title: experiment.title.clone(),
        out,
        baseline: Some("spectral".into()),
        claims,
        notes: notes(experiment, registry)?.into_iter().chain(notes::on_missing(experiment, index)).collect(),
        references: references(registry),
        ..ReportOptions::default()
    };
    print_summary(&write_report(&runs, &options)?, making.table.json)
}

/// What the reader of a report should know of the experiment: what it is in the paper, whether the user made it shorter or
/// longer, and which of its tasks were left out.
fn notes(experiment: &Experiment, registry: &Registry) -> Result<Vec<String>, Failure> {
    // A run that was not made for a figure is whole as it is.
    if experiment.text.is_empty() {
        return Ok(Vec::new());
    }
    let whole = Experiment::read(&experiment.name, &experiment.text, &Overrides::default(), registry)?;
    let asked_for = |plan: &&Plan| experiment.plans.iter().any(|asked| asked.task == plan.task);
    let (kept, left_out): (Vec<&Plan>, Vec<&Plan>) = whole.plans.iter().partition(asked_for);
    let lengths = experiment.plans.iter().zip(kept);
    let lengths = lengths.filter_map(|(asked, whole)| notes::on_length(asked.run.frames, whole));
    let left_out: Vec<&str> = left_out.iter().map(|plan| plan.task.as_str()).collect();
    let part = (!left_out.is_empty()).then(|| format!("Left out of this figure: {}.", left_out.join(", ")));
    Ok(notes::on_paper(experiment).into_iter().chain(lengths).chain(part).collect())
}

/// The failure to write a file.
fn cannot_write(path: &Path, error: &impl std::fmt::Display) -> Failure {
    Failure { text: format!("cannot write {}: {error}", path.display()), exit_code: DATA }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spectral_report::Rule;
    use spectral_train::presets::FIGURES;

    #[test]
    fn notes_on_a_part_of_a_figure_are_about_that_part() {
        let registry = Registry::default();
        let noted = |tasks: &str, frames: Option<u64>| {
            let wish = Overrides { tasks: Some(tasks.to_string()), frames, ..Overrides::default() };
            notes(&Experiment::find("mini-fig3", &wish, &registry).unwrap(), &registry).unwrap().join(" ")
        };
        let whole = noted("ponglantis-mini", None);
        assert!(!whole.contains("frames per agent"), "{whole}");
        assert!(whole.contains("Left out of this figure: exponential-pong-mini."), "{whole}");
        let short = noted("ponglantis-mini", Some(1000));
        assert!(
            short.contains("Shorter") && short.contains("frames per agent on ponglantis-mini"),
            "{short}"
        );
        assert!(!noted("exponential-pong-mini, ponglantis-mini", None).contains("Left out"));
    }

    #[test]
    fn every_claim_is_about_tasks_and_agents_of_its_figure() {
        for figure in FIGURES {
            let experiment =
                Experiment::find(figure.name, &Overrides::default(), &Registry::default()).unwrap();
            let claims = Claim::from_toml(figure.text, figure.name).unwrap();
            assert_eq!(claims.is_empty(), experiment.computed.is_some(), "{}", figure.name);
            for claim in &claims {
                let mut tasks = vec![&claim.task];
                if let Rule::HigherOnTask { than, .. } = &claim.rule {
                    tasks.extend(than);
                }
                for task in tasks {
                    let plan = experiment.plans.iter().find(|plan| plan.task == *task);
                    let plan = plan.unwrap_or_else(|| panic!("{}: no task {task}", figure.name));
                    for agent in claim.agents() {
                        assert!(plan.agents.iter().any(|a| a.agent == agent), "{}: {agent}", figure.name);
                    }
                }
                // A flat curve that ends early decides nothing: at the paper's settings below half the paper's length,
                // elsewhere below the figure's own.
                let plan = experiment.plans.iter().find(|plan| plan.task == claim.task).unwrap();
                let least = if plan.run.protocol == "paper" { 100_000_000 } else { plan.run.frames };
                assert_eq!(claim.min_frames, least, "{}: {}", figure.name, claim.text);
            }
        }
    }
}
