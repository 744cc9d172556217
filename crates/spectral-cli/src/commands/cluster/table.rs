//! `spectral jobs`: how far the jobs of a plan are.

use super::{alone, submit_to_slurm};
use crate::args::JobsArgs;
use crate::failure::{Failure, GAVE_UP, SUCCESS};
use crate::output::{indented, note, one_line};
use crate::progress::duration;
use crate::table::Table;
use serde_json::{Value, json};
use spectral_cluster::survey::{Row, Standing, survey};
use spectral_cluster::{JobPlan, JobStatus};
use spectral_core::shell::quote_path;
use spectral_train::registry::Registry;

/// Prints the table; with `--retry` submits what nobody works on.
pub fn jobs(args: &JobsArgs, registry: &Registry) -> Result<u8, Failure> {
    let plan = JobPlan::open(&args.plan)?;
    // From the look at the queue until what was submitted is written down.
    let _alone = args.retry.then(|| alone(&plan.out)).transpose()?;
    let (rows, unknown) = survey(&plan, registry);
    if args.retry {
        return retry(&plan, &rows, unknown.as_deref());
    }
    let json = args.table.json;
    let mut table = Table::new(&[
        "job",
        "task",
        "agents",
        "state",
        "done",
        "frames_per_second",
        "left",
        "attempts",
        "where",
        "why",
    ]);
    for row in &rows {
        table.row(line(row, json));
    }
    table.print(json)?;
    unknown.iter().for_each(|what| note!("{}", indented(what)));
    if !json {
        note!("\n{}", summary(&plan, &rows, unknown.is_none()));
    }
    let given_up = rows.iter().any(|row| row.standing == Standing::GaveUp);
    Ok(if given_up { GAVE_UP } else { SUCCESS })
}

fn line(row: &Row, for_programs: bool) -> Vec<Value> {
    let left = row.seconds_left();
    let agents = &row.entry.agents;
    let shown = match agents.as_slice() {
        [one] => one.clone(),
        [first, .., last] => format!("{first} … {last} ({})", agents.len()),
        [] => String::new(),
    };
    vec![
        json!(row.entry.index),
        json!(row.entry.task),
        if for_programs { json!(agents) } else { json!(shown) },
        json!(row.standing.name()),
        if for_programs {
            json!(row.share())
        } else {
            json!(format!("{:.0}%", (100.0 * row.share()).floor()))
        },
        if for_programs { json!(row.rate) } else { row.rate.map_or(json!(null), |rate| json!(rate.round())) },
        if for_programs { json!(left) } else { left.map_or(json!(null), |s| json!(duration(s))) },
        json!(row.attempts),
        json!(row.place),
        json!(row.why),
    ]
}

/// All jobs in a sentence, and what to do. What the queue has is not always known.
fn summary(plan: &JobPlan, rows: &[Row], queue_known: bool) -> String {
    let all = [
        Standing::Finished,
        Standing::Running,
        Standing::Waiting,
        Standing::Changing,
        Standing::Stopped,
        Standing::Failed,
        Standing::GaveUp,
        Standing::NotBegun,
    ];
    let of = |standing: Standing| rows.iter().filter(|row| row.standing == standing).count();
    let words = all.into_iter().filter(|&s| of(s) > 0).map(|s| format!("{} {}", of(s), s.name()));
    let mut text = format!("{}: {}", one_line(&plan.name), words.collect::<Vec<_>>().join(", "));
    // The slowest of those at work; what waits has no rate.
    let left = rows.iter().filter_map(Row::seconds_left).fold(0.0, f64::max);
    if left > 0.0 {
        text += &format!("; those at work have {} left", duration(left));
    }
    let folder = quote_path(plan.folder());
    if queue_known && rows.iter().any(|row| row.standing.needs_retry()) {
        text += &match is_for_slurm(plan) {
            true => {
                format!(
                    "\n`spectral jobs {folder} --retry` submits those that nobody works on and no queue has"
                )
            }
            // Nobody knows what Ray still has to do.
            false => format!(
                "\nwhile {}/ray_driver.py runs, those that nobody works on wait for Ray; if it has ended, start it again{}",
                plan.folder().display(),
                if rows.iter().any(|row| row.standing == Standing::GaveUp) {
                    format!(" after `spectral jobs {folder} --retry`, which forgets that some were given up")
                } else {
                    String::new()
                }
            ),
        };
    }
    if rows.iter().any(|row| row.standing == Standing::Finished) {
        text += &format!("\n`spectral job report {folder}` draws what is there");
    }
    text
}

fn is_for_slurm(plan: &JobPlan) -> bool {
    plan.folder().join("job.sbatch").is_file()
}

fn retry(plan: &JobPlan, rows: &[Row], unknown: Option<&str>) -> Result<u8, Failure> {
    // A queue that does not answer may have them all.
    if let Some(unknown) = unknown {
        return Err(Failure::usage(format!("nothing is submitted: {unknown}")));
    }
    let again: Vec<usize> =
        rows.iter().filter(|row| row.standing.needs_retry()).map(|row| row.entry.index).collect();
    if again.is_empty() {
        note!("there is nothing to submit: every job is finished, at work or in the queue");
        return Ok(SUCCESS);
    }
    for &index in &again {
        JobStatus::forget(plan, index)?;
    }
    if is_for_slurm(plan) {
        return submit_to_slurm(plan, &again);
    }
    note!(
        "jobs {} may be tried again: start {}/ray_driver.py once more",
        again.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        plan.folder().display()
    );
    Ok(SUCCESS)
}
