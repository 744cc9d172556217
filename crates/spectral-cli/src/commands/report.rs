//! `spectral report`.

use super::notes;
use crate::args::ReportArgs;
use crate::failure::{DATA, Failure, SUCCESS};
use crate::output::{note, print};
use spectral_core::shell::quote_path;
use spectral_env::{TaskEntry, nearest};
use spectral_report::{
    Claim, ReferenceScores, ReportError, ReportOptions, ReportSummary, Run, agent_names, read_runs,
    text_table, write_report,
};
use spectral_train::experiment::{Experiment, Overrides};
use spectral_train::registry::Registry;
use std::collections::BTreeSet;
use std::io::ErrorKind;

/// Draws run directories, and judges an experiment's claims on them if one is named.
pub fn run(args: &ReportArgs, registry: &Registry) -> Result<u8, Failure> {
    let judged = args.experiment.as_deref().map(|name| Judged::find(name, registry)).transpose()?;
    let runs = read_runs(&args.runs)?;
    let mut options = ReportOptions {
        title: "Training report".into(),
        out: args.out.clone().unwrap_or_else(|| args.runs[0].join(folder_name(args.at_frames))),
        baseline: Some(args.baseline.clone().unwrap_or_else(|| "spectral".into())),
        at_frames: args.at_frames,
        references: references(registry),
        ..ReportOptions::default()
    };
    if let Some(baseline) = &args.baseline {
        check_baseline(baseline, &agent_names(&runs, &options))?;
    }
    if let Some(Judged { experiment, claims }) = judged {
        check_tasks(&runs, &experiment)?;
        let cautions = notes::on_chosen(&runs, &experiment, args.at_frames, registry);
        // The verdicts are printed, so what they must be read with is too.
        for caution in &cautions {
            note!("{caution}");
        }
        options.notes = notes::on_paper(&experiment).into_iter().chain(cautions).collect();
        options.title = experiment.title;
        options.claims = claims;
    }
    if let Some(title) = &args.title {
        options.title.clone_from(title);
    }
    let summary = write_report(&runs, &options).map_err(|error| {
        let elsewhere = args.out.is_none() && may_go_elsewhere(&error);
        let mut failure = Failure::from(error);
        if elsewhere {
            failure.text += "\n`--out FOLDER` writes the report elsewhere";
        }
        failure
    })?;
    print_summary(&summary, args.table.json)
}

/// A report of all frames is not overwritten by one of fewer.
fn folder_name(at_frames: Option<u64>) -> String {
    at_frames.map_or_else(|| "report".into(), |frames| format!("report-at-{frames}"))
}

/// Whether a report would have been written if it had gone elsewhere: runs are read by many, and written to by one.
fn may_go_elsewhere(error: &ReportError) -> bool {
    let ReportError::Io { action, source, .. } = error else { return false };
    *action != "read" && matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// What random and the best play score on the tasks that know it.
pub fn references(registry: &Registry) -> Vec<ReferenceScores> {
    let known = |task: &TaskEntry| {
        let scores = task.reference_scores()?;
        let defaults = task.schema().defaults();
        Some(ReferenceScores::new(task.name(), scores.random, scores.best, &scores.best_is, defaults.iter()))
    };
    registry.tasks().iter().filter_map(known).collect()
}

/// Refuses to compare with an agent that is not there.
fn check_baseline(baseline: &str, names: &[String]) -> Result<(), Failure> {
    let known = || names.iter().map(String::as_str);
    if known().any(|name| name == baseline) {
        return Ok(());
    }
    let hint = match nearest(baseline, known()) {
        Some(nearest) if names.len() > 1 => {
            format!("did you mean '{nearest}'? The agents are {}", names.join(", "))
        }
        _ => format!("the agents are {}", names.join(", ")),
    };
    Err(Failure::usage(format!("--baseline {baseline}: there is no such agent in these runs; {hint}")))
}

/// An experiment that has claims to judge.
struct Judged {
    experiment: Experiment,
    claims: Vec<Claim>,
}

impl Judged {
    fn find(name: &str, registry: &Registry) -> Result<Self, Failure> {
        let experiment = Experiment::find(name, &Overrides::default(), registry)?;
        if experiment.computed.is_some() {
            return Err(Failure::usage(format!(
                "{name} is computed, not trained: no run says anything about it; `spectral reproduce {}` compares it",
                quote_path(name.as_ref())
            )));
        }
        let claims = Claim::from_toml(&experiment.text, name)?;
        if claims.is_empty() {
            return Err(Failure::usage(format!(
                "{name} makes no claims that could be judged: add a [[claim]] to it, or leave out --experiment"
            )));
        }
        Ok(Judged { experiment, claims })
    }
}

/// Runs of other tasks may be drawn beside, but without any of the experiment's own there is nothing to judge.
fn check_tasks(runs: &[Run], experiment: &Experiment) -> Result<(), Failure> {
    let there: BTreeSet<&str> = runs.iter().map(|run| run.task.as_str()).collect();
    let wanted: Vec<&str> = experiment.plans.iter().map(|plan| plan.task.as_str()).collect();
    if wanted.iter().any(|task| there.contains(task)) {
        return Ok(());
    }
    let there: Vec<&str> = there.into_iter().collect();
    Err(Failure::usage(format!(
        "{} is about {}, and these runs are of {}: there is nothing to judge; give runs of those tasks, or another --experiment",
        experiment.name,
        wanted.join(", "),
        there.join(", ")
    )))
}

/// The final table and where the report lies.
pub fn print_summary(summary: &ReportSummary, json: bool) -> Result<u8, Failure> {
    if json {
        let text = serde_json::to_string_pretty(summary)
            .map_err(|e| Failure { text: e.to_string(), exit_code: DATA })?;
        print(&text)?;
    } else {
        print(&format!("\n{}\nreport: {}", text_table(summary), summary.html.display()))?;
    }
    Ok(SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_not_be_written_goes_elsewhere() {
        let error =
            |action, kind: ErrorKind| ReportError::Io { path: "run".into(), action, source: kind.into() };
        assert!(may_go_elsewhere(&error("create", ErrorKind::PermissionDenied)));
        assert!(may_go_elsewhere(&error("write", ErrorKind::ReadOnlyFilesystem)));
        assert!(!may_go_elsewhere(&error("read", ErrorKind::PermissionDenied)));
        assert!(!may_go_elsewhere(&error("write", ErrorKind::StorageFull)));
        assert_eq!(folder_name(None), "report");
        assert_eq!(folder_name(Some(1_000_000)), "report-at-1000000");
    }
}
