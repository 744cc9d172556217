//! `spectral status`: what runs are doing, or how they ended.

use crate::args::StatusArgs;
use crate::failure::{Failure, SUCCESS};
use crate::output::{indented, note, one_line, print};
use crate::progress::duration;
use crate::table::{Table, count, number};
use crate::typed::program;
use serde_json::{Value, json};
use spectral_core::shell::quote_path;
use spectral_train::error::TrainError;
use spectral_train::run_status::{AgentStatus, RunStatus, Standing, find_runs};

/// Scores in the line of one run; others are counted.
const NAMED: usize = 3;

/// Prints one run with its agents, or several in a line each.
pub fn run(args: &StatusArgs) -> Result<u8, Failure> {
    let mut paths = Vec::new();
    for path in &args.runs {
        for found in find_runs(path)? {
            if !paths.contains(&found) {
                paths.push(found);
            }
        }
    }
    let read = paths.iter().map(|path| RunStatus::read(path));
    let (runs, unread): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
    let runs: Vec<RunStatus> = runs.into_iter().flatten().collect();
    let unread = unread.into_iter().filter_map(Result::err);
    if args.table.json {
        let all: Vec<Value> = runs.iter().map(for_programs).collect();
        print(&serde_json::to_string_pretty(&all).expect("plain values"))?;
        return told(unread);
    }
    match runs.as_slice() {
        [] => {}
        [one] => {
            print(&one_run(one))?;
            next_step(one).iter().for_each(|step| note!("\n{}", one_line(step)));
        }
        many => lines(many).print(false)?,
    }
    told(unread)
}

/// Tells of runs that cannot be read, which hide no others.
fn told(unread: impl Iterator<Item = TrainError>) -> Result<u8, Failure> {
    let mut code = SUCCESS;
    for error in unread {
        note!("error: {}", indented(&error.to_string()));
        code = error.exit_code();
    }
    Ok(code)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", (100.0 * share).floor())
}

/// One run: a paragraph, and a line per agent.
fn one_run(run: &RunStatus) -> String {
    let head = format!(
        "{}: {}, {} of {} frames each, {}",
        run.path.display(),
        run.task,
        percent(run.share()),
        count(run.frames),
        run.standing.name()
    );
    let mut lines = vec![one_line(&head)];
    let mut saved = match &run.checkpoint {
        Some(last) => {
            format!("last checkpoint {} ago, after {} of training", duration(last.age), duration(run.seconds))
        }
        None if matches!(run.standing, Standing::Training | Standing::Unknown) => "no checkpoint yet".into(),
        None => "no checkpoint was written".into(),
    };
    if let Some(left) = run.seconds_left() {
        saved += &format!("; {} left", duration(left));
    }
    lines.push(saved);
    lines.extend(run.error.iter().map(|error| one_line(&format!("an error ended it: {error}"))));
    let mut table = Table::new(&["agent", "frames", "score", "frames/s", "left"]);
    let column = |cell: &dyn Fn(&AgentStatus) -> Option<String>| right(run.agents.iter().map(cell).collect());
    let frames = column(&|agent| Some(count(agent.frames)));
    let scores = column(&|agent| agent.score.map(number));
    let rates = column(&|agent| agent.rate.map(|rate| count(rate.round() as u64)));
    for (number, agent) in run.agents.iter().enumerate() {
        table.row(vec![
            json!(agent.id),
            json!(frames[number]),
            json!(scores[number]),
            json!(rates[number]),
            json!(left(run, agent).map(duration)),
        ]);
    }
    lines.push(String::new());
    lines.push(table.text());
    let stopped = run.agents.iter().filter_map(|agent| Some((agent, agent.stopped.as_ref()?)));
    for (agent, why) in stopped {
        let why = if why.is_empty() { "no reason was recorded" } else { why };
        lines.push(one_line(&format!("{} was stopped at frame {}: {why}", agent.id, count(agent.frames))));
    }
    lines.join("\n")
}

/// Cells of one width, with their last letters below one another.
fn right(cells: Vec<Option<String>>) -> Vec<Option<String>> {
    let width = cells.iter().flatten().map(|cell| cell.chars().count()).max().unwrap_or(0);
    cells.into_iter().map(|cell| cell.map(|cell| format!("{cell:>width$}"))).collect()
}

/// Seconds that an agent at work has left.
fn left(run: &RunStatus, agent: &AgentStatus) -> Option<f64> {
    let rate = agent.rate.filter(|_| run.standing == Standing::Training && agent.stopped.is_none())?;
    Some(run.frames.saturating_sub(agent.frames) as f64 / rate)
}

/// What the user may do now.
fn next_step(run: &RunStatus) -> Option<String> {
    let (program, path) = (program(), quote_path(&run.path));
    let from = if run.checkpoint.is_some() { "last checkpoint" } else { "start" };
    Some(match run.standing {
        Standing::Training => format!("`{program} watch {path}` shows it"),
        Standing::Finished => format!("`{program} report {path}` draws it"),
        Standing::Interrupted => format!("`{program} resume {path}` goes on"),
        Standing::Failed => format!("`{program} resume {path}` goes on from the {from} once that is mended"),
        Standing::Killed => format!(
            "its process ended before it could save or say why, as when it is killed: `{program} resume {path}` goes on from the {from}"
        ),
        Standing::Unknown => {
            "whether a process is at work cannot be told: its lock and its claim were not copied, or are not readable".into()
        }
    })
}

/// Several runs: a line each.
fn lines(runs: &[RunStatus]) -> Table {
    let mut table = Table::new(&["run", "task", "agents", "state", "done", "left", "scores"]);
    for run in runs {
        let stopped = run.agents.iter().filter(|agent| agent.stopped.is_some()).count();
        let state = match stopped {
            0 => run.standing.name().to_string(),
            n => format!("{}, {n} stopped", run.standing.name()),
        };
        table.row(vec![
            json!(run.path.display().to_string()),
            json!(run.task),
            json!(run.agents.len()),
            json!(state),
            json!(percent(run.share())),
            json!(run.seconds_left().map(duration)),
            json!(scores(run)),
        ]);
    }
    table
}

/// The best scores, by names of agents: means over seeds.
fn scores(run: &RunStatus) -> Option<String> {
    let mut by_name: Vec<(&str, Vec<f64>)> = Vec::new();
    for agent in &run.agents {
        let Some(score) = agent.score else { continue };
        match by_name.iter_mut().find(|(name, _)| *name == agent.agent) {
            Some((_, scores)) => scores.push(score),
            None => by_name.push((&agent.agent, vec![score])),
        }
    }
    let mean = |scores: &[f64]| scores.iter().sum::<f64>() / scores.len() as f64;
    let mut means: Vec<(&str, f64)> = by_name.iter().map(|(name, scores)| (*name, mean(scores))).collect();
    means.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<String> =
        means.iter().take(NAMED).map(|(name, score)| format!("{name} {}", number(*score))).collect();
    let more = means.len().saturating_sub(NAMED);
    let rest = if more > 0 { format!(" … ({more} more)") } else { String::new() };
    (!named.is_empty()).then(|| named.join(", ") + &rest)
}

fn for_programs(run: &RunStatus) -> Value {
    let agent = |agent: &AgentStatus| {
        json!({
            "id": agent.id, "agent": agent.agent, "frames": agent.frames, "score": agent.score,
            "frames_per_second": agent.rate, "seconds_left": left(run, agent), "stopped": agent.stopped,
        })
    };
    let last = run.checkpoint.as_ref();
    json!({
        "run": run.path.display().to_string(),
        "task": run.task,
        "state": run.standing.name(),
        "error": run.error,
        "frames": run.frames,
        "done": run.share(),
        "seconds": run.seconds,
        "frames_per_second": run.rate(),
        "seconds_left": run.seconds_left(),
        "checkpoint": last.map(|last| json!({"path": last.path.display().to_string(), "seconds_ago": last.age})),
        "agents": run.agents.iter().map(agent).collect::<Vec<_>>(),
    })
}
