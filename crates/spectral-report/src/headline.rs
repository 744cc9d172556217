//! The result in one sentence, for the top of a report.

use crate::analysis::Task;
use crate::findings::{Learning, learning};
use crate::format::{interval, list, number, short_count};
use crate::stats::{self, LEVEL};
use crate::summary::Row;

/// More tasks than this are counted, not named.
const MOST_NAMED: usize = 4;

/// The sentence.
pub(crate) fn sentence(tasks: &[Task<'_>]) -> String {
    match tasks {
        [task] => of_one(task),
        tasks => of_several(tasks),
    }
}

/// The agents with a mean, best first.
fn measured<'t>(task: &'t Task<'_>) -> Vec<&'t Row> {
    task.rows.iter().filter(|row| row.mean.is_some()).collect()
}

fn name_of(task: &Task<'_>, twice: bool) -> String {
    if twice {
        format!("{} ({} frames)", task.name, short_count(task.frames as f64))
    } else {
        task.name.clone()
    }
}

fn of_one(task: &Task<'_>) -> String {
    let rows = measured(task);
    let Some((best, others)) = rows.split_first() else {
        return format!("No seed has finished on {} yet, so there is no result.", task.name);
    };
    let after = format!("After {} frames of {}", short_count(task.trained() as f64), task.name);
    let score = best.mean.map_or_else(String::new, number);
    let range = match (best.low95, best.high95) {
        (Some(_), Some(_)) => format!("{score} ({})", interval(best.low95, best.high95)),
        _ => format!("{score} (one seed)"),
    };
    if learning(task) == Learning::NotSeen {
        return format!("{after}, no agent was seen to learn; {} ends highest, at {range}.", best.agent);
    }
    if others.is_empty() {
        return format!("{after}, {} scores {range}.", best.agent);
    }
    let beaten = |other: &&&Row| clearly_above(best, other);
    let below: Vec<String> = others.iter().filter(beaten).map(|row| row.agent.clone()).collect();
    let level: Vec<String> = others.iter().filter(|row| !beaten(row)).map(|row| row.agent.clone()).collect();
    let head = format!("{after}, {} scores highest, {range}", best.agent);
    match (below.len(), level.len()) {
        (_, 0) if below.len() == 1 => format!("{head}, clearly above {}.", below[0]),
        (_, 0) => format!("{head}, clearly above the other {} agents.", below.len()),
        (0, 1) => format!("{head}, but these seeds do not tell it from {}.", level[0]),
        (0, _) => format!("{head}, but these seeds do not tell it from any of the others."),
        _ => format!(
            "{head}, clearly above {}; these seeds do not tell it from {}.",
            list(&below),
            list(&level)
        ),
    }
}

/// Whether the interval of the difference is clear of zero.
fn clearly_above(best: &Row, other: &Row) -> bool {
    stats::cautious_difference(&best.per_seed, &other.per_seed, LEVEL).is_some_and(|range| range.low > 0.0)
}

/// The winners of several tasks: by name where there are few tasks, by number where there are many.
fn of_several(tasks: &[Task<'_>]) -> String {
    let mut winners: Vec<(&str, Vec<String>)> = Vec::new();
    let mut silent = 0;
    let (mut contested, mut all_clear) = (false, true);
    for task in tasks {
        let rows = measured(task);
        let Some((best, others)) = rows.split_first() else {
            silent += 1;
            continue;
        };
        let twice = tasks.iter().filter(|other| other.name == task.name).count() > 1;
        let unclear = others.iter().any(|other| !clearly_above(best, other));
        contested |= !others.is_empty();
        all_clear &= !unclear;
        let score = best.mean.map_or_else(String::new, number);
        let doubt = match learning(task) {
            Learning::NotSeen => ", no learning seen",
            _ if unclear => ", not clearly",
            _ => "",
        };
        let won = format!("{} ({score}{doubt})", name_of(task, twice));
        match winners.iter_mut().find(|(name, _)| *name == best.agent) {
            Some((_, tasks)) => tasks.push(won),
            None => winners.push((&best.agent, vec![won])),
        }
    }
    winners.sort_by_key(|(_, tasks)| std::cmp::Reverse(tasks.len()));
    let unfinished = match silent {
        0 => String::new(),
        1 => "; on one task no seed has finished".to_owned(),
        count => format!("; on {count} tasks no seed has finished"),
    };
    if winners.is_empty() {
        return format!(
            "No seed has finished on any of the {} tasks yet, so there is no result.",
            tasks.len()
        );
    }
    let named = tasks.len() <= MOST_NAMED;
    let each: Vec<String> = winners
        .iter()
        .map(|(agent, won)| match named {
            true => format!("{agent} on {}", list(won)),
            false => format!("{agent} on {}", won.len()),
        })
        .collect();
    let clearly = if contested && all_clear { ", clearly above all others" } else { "" };
    match named {
        true => format!("Highest mean score: {}{clearly}{unfinished}.", list(&each)),
        false => {
            format!("Highest mean score, of {} tasks: {}{clearly}{unfinished}.", tasks.len(), list(&each))
        }
    }
}
