//! How much agents explored, and how they were evaluated: what a reader of their scores must know.

use crate::analysis::{Agent, Task};
use crate::format::list;
use crate::frozen_words;

/// From this share of random actions on, training scores say little of what was learned.
const MUCH: f64 = 0.2;

/// The share of random actions at the end of an agent's training; `None` if its runs do not say.
fn final_epsilon(agent: &Agent<'_>) -> Option<f64> {
    let runs = if agent.finished.is_empty() { &agent.unfinished } else { &agent.finished };
    runs.iter().filter_map(|run| run.metrics.last("epsilon")).reduce(f64::max)
}

/// ε with at most three digits behind the point.
fn epsilon(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}

/// Each value of ε at the end, rising, with the agents that have it.
fn groups<'t>(task: &'t Task<'_>) -> Vec<(String, Vec<&'t str>)> {
    let mut ends: Vec<(f64, &str)> =
        task.agents.iter().filter_map(|agent| Some((final_epsilon(agent)?, agent.name.as_str()))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (value, name) in ends {
        let text = epsilon(value);
        match groups.last_mut() {
            Some((last, names)) if *last == text => names.push(name),
            _ => groups.push((text, vec![name])),
        }
    }
    groups
}

/// Whether any of a task's agents has reached its end.
fn at_the_end(task: &Task<'_>) -> &'static str {
    if task.agents.iter().all(|agent| agent.provisional) { "so far" } else { "at the end" }
}

/// The exploration and the evaluation behind the scores of a task, for the caption of its curves.
pub(crate) fn sentence(task: &Task<'_>) -> String {
    let groups = groups(task);
    let when = at_the_end(task);
    let explored = match groups.as_slice() {
        [] => "Agents explored while they trained; the runs do not record ε.".to_owned(),
        [(value, _)] => {
            format!("Agents explored while they trained: {when} ε, the share of random actions, was {value}.")
        }
        several => {
            let each: Vec<String> =
                several.iter().map(|(value, names)| format!("{value} ({})", names.join(", "))).collect();
            format!(
                "Agents explored while they trained: {when} ε, the share of random actions, was {}.",
                list(&each)
            )
        }
    };
    match frozen_words::curve_note(task) {
        Some(frozen) => format!("{explored} {frozen}"),
        None => format!("{explored} There was no separate evaluation."),
    }
}

/// The same in a few words, for the caption of a figure by itself; empty if it is not known.
pub(crate) fn short(task: &Task<'_>) -> String {
    let groups = groups(task);
    let when = at_the_end(task);
    match (groups.first(), groups.last()) {
        (Some((low, _)), Some((high, _))) if low == high => format!("; ε {low} {when}"),
        (Some((low, _)), Some((high, _))) => format!("; ε {low} to {high} {when}"),
        _ => String::new(),
    }
}

/// The agents that acted largely at random to the end.
fn largely_random<'t, 'a>(task: &'t Task<'a>) -> Vec<&'t Agent<'a>> {
    let much = |agent: &&Agent<'_>| {
        !agent.finished.is_empty() && final_epsilon(agent).is_some_and(|epsilon| epsilon >= MUCH)
    };
    task.agents.iter().filter(much).collect()
}

/// The highest ε at the end, if agents acted largely at random to the end.
pub(crate) fn much(task: &Task<'_>) -> Option<String> {
    largely_random(task).into_iter().filter_map(final_epsilon).reduce(f64::max).map(epsilon)
}

/// A warning if agents acted largely at random to the end: what they learned does not show in their training scores.
pub(crate) fn warning(task: &Task<'_>) -> Option<String> {
    let highest = much(task)?;
    let named = largely_random(task);
    let who = match named.len() == task.agents.len() {
        true => String::new(),
        false => {
            let names: Vec<String> = named.iter().map(|agent| agent.name.clone()).collect();
            format!(" of {}", list(&names))
        }
    };
    Some(format!(
        "At the end ε{who} was still {highest}: so many of the actions were random, and training scores hide what was learned. \
         Train for longer, or see how the models play without exploration (spectral eval)."
    ))
}
