//! `spectral reproduce`: a figure of the paper from one command.

mod clips;
mod computed;
mod list;
mod outline;

use super::cluster;
use super::notes;
use super::report::print_summary;
use super::train::{announce, interrupt, work};
use crate::args::{LiveArgs, ReproduceArgs};
use crate::failure::{AGENT_STOPPED, DATA, Failure, INTERRUPTED, SUCCESS};
use crate::output::{note, print};
use crate::typed::command_line;
use outline::{Outline, sweep_trials};
use spectral_cluster::Kind;
use spectral_report::{Claim, ReportOptions, read_runs, write_report};
use spectral_train::config::RunSettings;
use spectral_train::experiment::{Experiment, Job, Limits, Overrides, RunIndex, Work};
use spectral_train::machine::available_memory;
use spectral_train::plan::Plan;
use spectral_train::registry::Registry;
use spectral_train::trainer::{Resumption, Trainer};
use std::path::Path;

/// The longest trial that makes sense.
const LONGEST_TRIAL: f64 = 3600.0;

/// Plans, trains what is missing, and reports.
pub fn run(args: &ReproduceArgs, registry: &Registry) -> Result<u8, Failure> {
    let Some(name) = &args.figure else { return list::run(args.table.json, registry) };
    if !(0.0..=LONGEST_TRIAL).contains(&args.calibrate) {
        return Err(Failure::usage(format!("--calibrate must be from 0 to {LONGEST_TRIAL} seconds")));
    }
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
    let folder = args.out.join("runs");
    let to = Destination { out: &args.out, json: args.table.json };
    if args.report_only {
        return draw(to, &experiment, claims, &RunIndex::scan(&folder, registry)?, registry);
    }
    if let Some(on) = args.cluster.on {
        if args.live.live.is_some() {
            return Err(live_elsewhere());
        }
        let Destination { out, json } = to;
        let work = cluster::Work {
            kind: Kind::Reproduce,
            experiment: &experiment,
            out,
            dry_run: args.dry_run,
            json,
        };
        return cluster::submit(&work, on, &args.cluster, registry);
    }
    sweep_trials(&args.out);
    let index = RunIndex::scan(&folder, registry)?;
    let jobs =
        index.jobs(&experiment, registry, &Limits { memory: available_memory(), ..Limits::default() })?;
    if args.dry_run || !jobs.is_empty() {
        let mut outline = Outline::of(&experiment, &index, &jobs);
        outline.measure(&jobs, registry, &args.out, args.calibrate)?;
        if interrupt().is_cancelled() {
            return Ok(interrupted());
        }
        let text = if args.table.json { outline.json() } else { outline.text() };
        if args.dry_run {
            print(&text)?;
            return Ok(SUCCESS);
        }
        note!("{}\n", outline.text());
    }
    let mut stopped = false;
    let populations = jobs.len();
    for (number, job) in jobs.into_iter().enumerate() {
        if populations > 1 {
            note!("population {} of {populations}", number + 1);
        }
        match train(job, registry, &args.live)? {
            INTERRUPTED => return Ok(interrupted()),
            code => stopped |= code == AGENT_STOPPED,
        }
    }
    let index = RunIndex::scan(&folder, registry)?;
    clips::record(&experiment, &index, registry)?;
    let code = draw(to, &experiment, claims, &index, registry)?;
    Ok(if stopped { AGENT_STOPPED } else { code })
}

fn interrupted() -> u8 {
    note!("`{}` once more goes on with the whole figure from here", command_line());
    INTERRUPTED
}

/// Trains one population to its end.
fn train(job: Job, registry: &Registry, live: &LiveArgs) -> Result<u8, Failure> {
    announce(&job.run)?;
    let RunSettings { threads, device, .. } = job.run.plan.run;
    let go_on = |frames| {
        let how = Resumption { frames, threads, device: Some(device), ..Resumption::default() };
        Trainer::resume(&job.path, registry, how)
    };
    let mut trainer = match job.work {
        Work::Begin => Trainer::create(&job.path, job.run, registry, &command_line())?,
        Work::Resume => go_on(None)?,
        Work::Extend(frames) => go_on(Some(frames))?,
    };
    work(&mut trainer, live, None)
}

/// Where reports go, and how their summary is printed.
#[derive(Clone, Copy)]
struct Destination<'a> {
    out: &'a Path,
    json: bool,
}

/// Writes the report of an experiment whose runs lie in `out`, from what is there.
pub fn report(experiment: &Experiment, out: &Path, json: bool, registry: &Registry) -> Result<u8, Failure> {
    let claims = Claim::from_toml(&experiment.text, &experiment.name)?;
    let index = RunIndex::scan(&out.join("runs"), registry)?;
    clips::record(experiment, &index, registry)?;
    draw(Destination { out, json }, experiment, claims, &index, registry)
}

/// The failure to show live what is done elsewhere.
pub fn live_elsewhere() -> Failure {
    Failure::usage("--live shows what trains here; see the runs of a cluster with `spectral watch`")
}

/// Writes the report from the runs that belong to the experiment, and prints what it found.
fn draw(
    to: Destination<'_>,
    experiment: &Experiment,
    claims: Vec<Claim>,
    index: &RunIndex,
    registry: &Registry,
) -> Result<u8, Failure> {
    let used = index.used(experiment);
    if used.is_empty() {
        return Err(Failure::usage(format!(
            "{} holds no run of {}: `spectral reproduce {1}` without --report-only trains them",
            to.out.join("runs").display(),
            experiment.name,
        )));
    }
    let paths: Vec<_> = used.keys().cloned().collect();
    let mut runs = read_runs(&paths)?;
    for run in &mut runs {
        // A population may hold agents that only other figures ask for.
        let wanted = used.get(&run.path).map(Vec::as_slice).unwrap_or_default();
        run.agents.retain(|agent| wanted.contains(&agent.id));
        // Its note is that of the figure for which it was trained; this figure has its own.
        let holds = |plan: &&Plan| {
            plan.agents.iter().any(|agent| index.run_of(plan, agent) == Some(run.path.as_path()))
        };
        run.note = experiment.plans.iter().find(holds).map(|plan| plan.run.note.clone()).unwrap_or_default();
    }
    let out = to.out.join(&experiment.name);
    sweep(&out);
    let options = ReportOptions {
        title: experiment.title.clone(),
        out,
        baseline: Some("spectral".into()),
        claims,
        notes: notes(experiment, registry)?.into_iter().chain(missing(experiment, index)).collect(),
        ..ReportOptions::default()
    };
    print_summary(&write_report(&runs, &options)?, to.json)
}

/// Runs that the experiment asks for and of which nothing is there, in a sentence.
fn missing(experiment: &Experiment, index: &RunIndex) -> Option<String> {
    let mut parts = Vec::new();
    for plan in &experiment.plans {
        let absent = plan.agents.iter().filter(|agent| index.run_of(plan, agent).is_none());
        let ids: Vec<&str> = absent.map(|agent| agent.id.as_str()).collect();
        if !ids.is_empty() {
            parts.push(format!(
                "{} ({} of {}) on {}",
                ids.join(", "),
                ids.len(),
                plan.agents.len(),
                plan.task
            ));
        }
    }
    (!parts.is_empty()).then(|| format!("Not there yet: {}.", parts.join("; ")))
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

/// Removes what a report that was killed left half-written.
fn sweep(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(".tmp") {
            // In nobody's way: not worth failing for.
            let _ = std::fs::remove_file(entry.path());
        }
    }
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
