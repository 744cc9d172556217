//! All Atari games of a report together, on human-normalised scores.

use super::{Profile, Task, profile};
use crate::stats::{self, Interval, LEVEL};
use crate::summary::{Aggregate, OverallRow, OverallSummary};

/// Results over several games.
pub(crate) struct Overall {
    pub summary: OverallSummary,
    pub profile: Option<Profile>,
}

/// `None` unless two tasks or more have human scores.
pub(crate) fn overall(tasks: &[Task<'_>]) -> Option<Overall> {
    let games: Vec<&Task<'_>> = tasks.iter().filter(|task| task.human.is_some()).collect();
    // The same game twice, at two lengths, would count twice.
    let distinct = games.iter().map(|task| &task.name).collect::<std::collections::BTreeSet<_>>().len();
    if distinct < 2 || distinct < games.len() {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for agent in games.iter().flat_map(|task| &task.agents) {
        if !names.contains(&agent.name.as_str()) {
            names.push(&agent.name);
        }
    }
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    let mut measured = Vec::new();
    for name in names {
        let scores: Vec<Vec<f64>> = games.iter().map(|task| normalised(task, name)).collect();
        if scores.iter().any(Vec::is_empty) {
            left_out.push(name.to_owned());
            continue;
        }
        rows.push(OverallRow {
            agent: name.to_owned(),
            iqm: aggregate(&scores, stats::interquartile_mean),
            median: aggregate(&scores, stats::aggregate_median),
            mean: aggregate(&scores, stats::aggregate_mean),
            optimality_gap: aggregate(&scores, |tasks| stats::optimality_gap(tasks, 1.0)),
        });
        measured.push((name.to_owned(), scores));
    }
    rows.sort_by(|a, b| b.iqm.value.total_cmp(&a.iqm.value));
    let tasks = games.iter().map(|task| task.name.clone()).collect();
    Some(Overall { summary: OverallSummary { tasks, rows, left_out }, profile: profile(measured) })
}

fn normalised(task: &Task<'_>, agent: &str) -> Vec<f64> {
    let scores = task.row(agent).map_or(&[][..], |row| &row.per_seed);
    let Some(human) = task.human else { return Vec::new() };
    scores.iter().map(|score| human.normalise(*score)).collect()
}

fn aggregate(scores: &[Vec<f64>], statistic: impl Fn(&[Vec<f64>]) -> Option<f64>) -> Aggregate {
    let interval: Option<Interval> = stats::stratified_interval(scores, &statistic, LEVEL);
    Aggregate {
        value: statistic(scores).unwrap_or(f64::NAN),
        low95: interval.map(|interval| interval.low),
        high95: interval.map(|interval| interval.high),
    }
}
