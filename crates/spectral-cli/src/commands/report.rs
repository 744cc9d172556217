//! `spectral report`.

use super::notes;
use crate::args::ReportArgs;
use crate::failure::{DATA, Failure, SUCCESS};
use crate::output::{note, print};
use spectral_env::nearest;
use spectral_report::{
    Claim, ReportOptions, ReportSummary, Run, agent_names, read_runs, text_table, write_report,
};
use spectral_train::experiment::{Experiment, Overrides};
use spectral_train::registry::Registry;
use std::collections::BTreeSet;

/// Draws run directories, and judges an experiment's claims on them if one is named.
pub fn run(args: &ReportArgs, registry: &Registry) -> Result<u8, Failure> {
    let judged = args.experiment.as_deref().map(|name| Judged::find(name, registry)).transpose()?;
    let runs = read_runs(&args.runs)?;
    let mut options = ReportOptions {
        title: "Training report".into(),
        out: args.out.clone().unwrap_or_else(|| args.runs[0].join("report")),
        baseline: Some(args.baseline.clone().unwrap_or_else(|| "spectral".into())),
        at_frames: args.at_frames,
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
    print_summary(&write_report(&runs, &options)?, args.table.json)
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
                "{name} is computed, not trained: no run says anything about it; `spectral reproduce {name}` compares it"
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
