//! The sentences of a report: findings, notes and warnings, all computed from the data.

use std::collections::BTreeSet;

use crate::analysis::{Agent, Task};
use crate::exploration;
use crate::format::{interval, list, number, short_count, thousands};
use crate::headline::tied_best;
use crate::learning;
use crate::run::{AgentRun, AgentStatus, RunStatus};
use crate::stats::FEW_SEEDS;
use crate::summary::Row;
use crate::td_verdict::last_errors;

/// The TD percentage error that the paper calls the cusp of playing well.
pub(crate) const CRUCIAL_PERCENT: f64 = 5.0;

fn seeds(count: usize) -> String {
    if count == 1 { "1 seed".to_owned() } else { format!("{count} seeds") }
}

/// The findings for one task.
pub(crate) fn findings(task: &Task<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    let measured: Vec<&Row> = task.rows.iter().filter(|row| row.mean.is_some()).collect();
    let Some(best) = measured.first() else {
        return vec!["No seed has finished yet, so there is nothing to compare.".to_owned()];
    };
    let mean = |row: &Row| row.mean.map_or_else(String::new, number);
    let certainty = match (best.low95, best.per_seed.len()) {
        (Some(_), _) => format!("95% interval {}", interval(best.low95, best.high95)),
        (None, 1) => "one seed, so no interval".to_owned(),
        (None, count) => format!("{count} seeds that ended alike, so no interval"),
    };
    let stopped =
        |row: &Row| stopped_words(task, &row.agent).map_or_else(String::new, |words| format!("; {words}"));
    let verb = if measured.len() > 1 { "has the highest mean score" } else { "has a mean score of" };
    let comma = if measured.len() > 1 { ", " } else { " " };
    let after = format!("After {} frames", short_count(task.trained() as f64));
    let leaders = tied_best(&measured);
    sentences.push(match leaders.len() {
        1 => format!("{after}, {} {verb}{comma}{} ({certainty}{}).", best.agent, mean(best), stopped(best)),
        _ => {
            let named = |row: &&Row| match stopped_words(task, &row.agent) {
                Some(words) => format!("{} ({words})", row.agent),
                None => row.agent.clone(),
            };
            let names: Vec<String> = leaders.iter().map(named).collect();
            format!("{after}, {} share the highest mean score, {}.", list(&names), mean(best))
        }
    });

    let row_of = |name: &str| task.rows.iter().find(|row| row.agent == name);
    let (mut above, mut below, mut level, mut almost, mut unknown) = (vec![], vec![], vec![], vec![], vec![]);
    for comparison in &task.comparisons {
        let Some(other) = row_of(&comparison.other) else { continue };
        let named = format!("{} ({}{})", other.agent, mean(other), stopped(other));
        match comparison.low95.zip(comparison.high95) {
            None => unknown.push(named),
            Some(_) if task.is_clear(&comparison.agent, &comparison.other) => above.push(named),
            Some(_) if task.is_clear(&comparison.other, &comparison.agent) => below.push(named),
            Some((low, high)) if low <= 0.0 && high >= 0.0 => level.push(named),
            Some(_) => almost.push(named),
        }
    }
    if let Some(agent) = task.comparisons.first().and_then(|comparison| row_of(&comparison.agent)) {
        let subject = format!("{} ({}{})", agent.agent, mean(agent), stopped(agent));
        if !above.is_empty() {
            sentences.push(format!("{subject} lies clearly above {}.", list(&above)));
        }
        if !below.is_empty() {
            sentences.push(format!("{subject} lies clearly below {}.", list(&below)));
        }
        if !level.is_empty() {
            sentences.push(format!(
                "{subject} cannot be told apart from {} by these seeds: the 95% interval of the difference holds zero.",
                list(&level)
            ));
        }
        if !almost.is_empty() {
            sentences.push(format!(
                "{subject} is not clearly different from {}: the 95% interval of the difference is clear of zero for a \
                 comparison that was chosen beforehand, but not where every pair of agents may be looked at.",
                list(&almost)
            ));
        }
        if !unknown.is_empty() {
            sentences.push(format!(
                "{subject} and {} cannot be compared with confidence: an interval needs three finished seeds on both sides, or \
                 two that did not end alike.",
                list(&unknown)
            ));
        }
    }
    sentences.extend(td_finding(task));
    sentences
}

/// How many of an agent's seeds its mean covers, if some were stopped: "3 of 5 seeds; 2 were stopped".
pub(crate) fn stopped_words(task: &Task<'_>, name: &str) -> Option<String> {
    let agent = task.agent(name).filter(|agent| agent.stopped() > 0)?;
    let verb = if agent.stopped() == 1 { "was" } else { "were" };
    Some(format!("{} of {} seeds; {} {verb} stopped", agent.finished.len(), agent.seeds(), agent.stopped()))
}

/// At how many of the player's scores the values of each agent's finished seeds were accurate in the end. Agents that do not learn the values of the
/// task's own rewards are left out.
fn td_finding(task: &Task<'_>) -> Option<String> {
    let mut parts = Vec::new();
    for agent in task.agents.iter().filter(|agent| agent.sees_true_rewards()) {
        let Some((lowest, highest)) = agent.td_lines.first().zip(agent.td_lines.last()) else { continue };
        let ends = last_errors(agent, [lowest.player_score, highest.player_score]);
        if !ends.is_empty() {
            let accurate = ends.iter().filter(|&&percent| percent <= CRUCIAL_PERCENT).count();
            parts.push(format!("{} at {accurate} of {}", agent.name, ends.len()));
        }
    }
    (!parts.is_empty()).then(|| {
        format!(
            "Player's scores at which the TD error ended at or below {CRUCIAL_PERCENT}% of the target, of those still met, \
             counted for each seed: {}.",
            list(&parts)
        )
    })
}

/// Names the agents whose TD errors are not of the task's own rewards, for the caption of the figure that shows them.
pub(crate) fn td_of_altered_rewards(task: &Task<'_>) -> Option<String> {
    let altered = |agent: &&Agent<'_>| !agent.sees_true_rewards() && !agent.td_lines.is_empty();
    let names: Vec<String> = task.agents.iter().filter(altered).map(|agent| agent.name.clone()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "The errors of {} are of clipped rewards, or of others that are not the task's own: do not compare them with \
             the others.",
            list(&names)
        )
    })
}

/// The notes of a task's runs. Runs that several figures share have the notes of each; a note that a longer one contains is
/// dropped.
pub(crate) fn run_notes<'t>(task: &'t Task<'_>) -> Vec<&'t str> {
    let notes: BTreeSet<&str> =
        task.runs.iter().map(|run| run.note.as_str()).filter(|note| !note.is_empty()).collect();
    let contained = |note: &str| notes.iter().any(|other| other.len() > note.len() && other.contains(note));
    notes.iter().copied().filter(|note| !contained(note)).collect()
}

/// What a reader must know before relying on the numbers of one task.
pub(crate) fn warnings(task: &Task<'_>, all: &[Task<'_>]) -> Vec<String> {
    let mut notes = task.merge_notes.clone();
    let others: Vec<String> = all
        .iter()
        .filter(|other| other.name == task.name && other.slug != task.slug)
        .map(|other| format!("{} frames under protocol {}", short_count(other.frames as f64), other.protocol))
        .collect();
    if !others.is_empty() {
        notes.push(format!(
            "{} was also run for {}: runs of another length or protocol are shown apart and never averaged.",
            task.name,
            list(&others)
        ));
    }
    notes.extend(learning::warning(task));
    notes.extend(exploration::warning(task));
    for agent in &task.agents {
        notes.extend(unfinished_note(task, agent));
        let silent = agent.finished.iter().filter(|run| run.episodes.is_empty()).count();
        if silent > 0 {
            notes.push(format!(
                "{}: {} finished without completing an episode and {} no score to count.",
                agent.name,
                seeds(silent),
                if silent == 1 { "has" } else { "have" }
            ));
        }
        let saturated: Vec<String> = (agent.finished.iter().chain(&agent.unfinished))
            .filter(|run| run.saturated > 0)
            .map(|run| format!("{} with seed {}", thousands(run.saturated), run.seed))
            .collect();
        if !saturated.is_empty() {
            notes.push(format!(
                "{}: rewards beyond the codec's capacity were cut off: {}.",
                agent.name,
                list(&saturated)
            ));
        }
    }
    let few: Vec<String> = task
        .rows
        .iter()
        .filter(|row| row.mean.is_some() && row.per_seed.len() < FEW_SEEDS)
        .map(|row| format!("{} ({})", row.agent, row.per_seed.len()))
        .collect();
    if !few.is_empty() {
        notes.push(format!(
            "Fewer than {FEW_SEEDS} finished seeds: {}. The bands of curves and the intervals of the IQM, which are the \
             bootstrap's alone, are too narrow with so few: read them as a rough guide.",
            list(&few)
        ));
    }
    let lengths = || task.agents.iter().flat_map(|agent| &agent.finished).map(|run| run.frames);
    if let (Some(shortest), Some(longest)) = (lengths().min(), lengths().max())
        && longest - shortest > longest / 100
    {
        notes.push(format!(
            "Finished seeds trained for different lengths, {} to {} frames: final scores are taken at each seed's own end.",
            short_count(shortest as f64),
            short_count(longest as f64)
        ));
    }
    let versions: BTreeSet<&str> = task.runs.iter().map(|run| run.version.as_str()).collect();
    if versions.len() > 1 {
        let versions: Vec<String> = versions.into_iter().map(str::to_owned).collect();
        notes.push(format!("These runs come from different versions of spectral: {}.", list(&versions)));
    }
    notes
}

fn unfinished_note(task: &Task<'_>, agent: &Agent<'_>) -> Option<String> {
    if agent.unfinished.is_empty() {
        return None;
    }
    let each: Vec<String> = agent.unfinished.iter().map(|run| standing(task, run)).collect();
    // Frozen games are dashed too.
    let dots = if task.frozen_games.is_some() { " without dots" } else { "" };
    let consequence = if agent.finished.is_empty() {
        format!(
            "None of its seeds has finished: its curve of training scores, dashed{dots}, is provisional and the table gives it \
             no mean"
        )
    } else {
        let apart = if agent.unfinished.len() == 1 { "this one is" } else { "these are" };
        format!(
            "Its mean covers the {} that finished; {apart} drawn thin and dashed{dots}",
            seeds(agent.finished.len())
        )
    };
    Some(format!("{}: {}. {consequence}.", agent.name, list(&each)))
}

/// The state of an unfinished seed.
fn standing(task: &Task<'_>, run: &AgentRun) -> String {
    let at = short_count(run.frames as f64);
    if run.status == AgentStatus::Stopped {
        let reason = run.reason.trim().trim_end_matches('.');
        let why = if reason.is_empty() { "no reason was recorded" } else { reason };
        return format!("seed {} was stopped at {at} frames ({why})", run.seed);
    }
    let owner = task.runs.iter().find(|owner| owner.agents.iter().any(|agent| std::ptr::eq(agent, run)));
    let frames = short_count(task.frames as f64);
    match owner.map(|owner| owner.status) {
        Some(RunStatus::Interrupted) => {
            format!("seed {} was interrupted at {at} of {frames} frames", run.seed)
        }
        Some(RunStatus::Finished) => {
            format!(
                "seed {} ended as planned at {at} frames, short of the {frames} at which runs are read",
                run.seed
            )
        }
        _ => format!("seed {} is unfinished at {at} of {frames} frames", run.seed),
    }
}
