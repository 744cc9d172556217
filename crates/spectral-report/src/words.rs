//! Findings in plain words, computed from the data and from nothing else.

use std::collections::BTreeSet;

use crate::analysis::{Agent, Task};
use crate::run::{AgentRun, AgentStatus, RunStatus};
use crate::stats::{self, FEW_SEEDS};
use crate::summary::{Row, interval};

/// TD percentage error that the paper calls the cusp of playing well.
pub(crate) const CRUCIAL_PERCENT: f64 = 5.0;

/// A value with about three significant digits, thousands separated, and a proper minus sign. Small ones get four decimals:
/// an end of an interval just below zero must not read as zero.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "not finite".to_owned();
    }
    let size = value.abs();
    let text = if size >= 1e9 {
        format!("{size:.2e}")
    } else if size >= 1000.0 {
        crate::summary::group(size.round() as u64)
    } else if size >= 100.0 {
        format!("{size:.0}")
    } else if size >= 10.0 {
        format!("{size:.1}")
    } else if (5e-5..0.00995).contains(&size) {
        format!("{size:.4}")
    } else {
        format!("{size:.2}")
    };
    let zero = text.chars().all(|c| matches!(c, '0' | '.'));
    if value < 0.0 && !zero { format!("−{text}") } else { text }
}

/// Frames as an axis writes them: 150k, 2.5M.
pub(crate) fn short_count(value: f64) -> String {
    let size = value.abs();
    let (scaled, unit) = if size >= 1e9 {
        (value / 1e9, "G")
    } else if size >= 1e6 {
        (value / 1e6, "M")
    } else if size >= 1e3 {
        (value / 1e3, "k")
    } else {
        (value, "")
    };
    let digits = format!("{:.3}", scaled.abs());
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if value < 0.0 && digits != "0" { "−" } else { "" };
    format!("{sign}{digits}{unit}")
}

/// Seconds of training as people say them.
pub(crate) fn duration(seconds: f64) -> String {
    // Only checkpoints say how long training took: a run that was lost before its first does not.
    if seconds <= 0.0 {
        return "not recorded".into();
    }
    let total = seconds.round() as u64;
    match total {
        0..60 => format!("{total} s"),
        60..3600 => format!("{} min {:02} s", total / 60, total % 60),
        _ => format!("{} h {:02} min", total / 3600, total % 3600 / 60),
    }
}

/// "a", "a and b", "a, b and c".
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

fn seeds(count: usize) -> String {
    if count == 1 { "1 seed".to_owned() } else { format!("{count} seeds") }
}

/// What the data of one task show.
pub(crate) fn findings(task: &Task<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    let measured: Vec<&Row> = task.rows.iter().filter(|row| row.mean.is_some()).collect();
    let Some(best) = measured.first() else {
        return vec!["No seed has finished yet, so there is nothing to compare.".to_owned()];
    };
    let mean = |row: &Row| row.mean.map_or_else(String::new, number);
    let spread = match (best.low95, best.high95) {
        (Some(_), Some(_)) => format!(" (95% interval {})", interval(best.low95, best.high95)),
        _ => " (one seed, so no interval)".to_owned(),
    };
    let verb = if measured.len() > 1 { "has the highest mean score" } else { "has a mean score of" };
    let comma = if measured.len() > 1 { ", " } else { " " };
    sentences.push(format!(
        "After {} frames, {} {verb}{comma}{}{spread}.",
        short_count(task.trained() as f64),
        best.agent,
        mean(best),
    ));

    let row_of = |name: &str| task.rows.iter().find(|row| row.agent == name);
    let (mut above, mut below, mut level, mut unknown) = (vec![], vec![], vec![], vec![]);
    for comparison in &task.comparisons {
        let Some((agent, other)) = row_of(&comparison.agent).zip(row_of(&comparison.other)) else { continue };
        let named = format!("{} ({})", other.agent, mean(other));
        match stats::cautious_difference(&agent.per_seed, &other.per_seed, 0.95) {
            Some(interval) if interval.low > 0.0 => above.push(named),
            Some(interval) if interval.high < 0.0 => below.push(named),
            Some(_) => level.push(named),
            None => unknown.push(named),
        }
    }
    if let Some(agent) = task.comparisons.first().and_then(|comparison| row_of(&comparison.agent)) {
        let subject = format!("{} ({})", agent.agent, mean(agent));
        let clear = "and the 95% interval of the difference is clear of zero";
        if !above.is_empty() {
            sentences.push(format!("{subject} lies above {}, {clear}.", list(&above)));
        }
        if !below.is_empty() {
            sentences.push(format!("{subject} lies below {}, {clear}.", list(&below)));
        }
        if !level.is_empty() {
            sentences.push(format!(
                "{subject} cannot be told apart from {} by these seeds: the 95% interval of the difference holds zero.",
                list(&level)
            ));
        }
        if !unknown.is_empty() {
            sentences.push(format!(
                "{subject} and {} cannot be compared with confidence: an interval needs two finished seeds on both sides.",
                list(&unknown)
            ));
        }
    }
    sentences.extend(td_finding(task));
    sentences
}

/// At how many of the player's scores each agent's values were accurate in the end. Values of clipped rewards are not
/// those of the task, so agents that clip are left out.
fn td_finding(task: &Task<'_>) -> Option<String> {
    let mut parts = Vec::new();
    for agent in task.agents.iter().filter(|agent| !agent.clips_rewards()) {
        let ends: Vec<f64> =
            agent.td_lines.iter().filter_map(|line| line.values.iter().rev().find_map(|v| *v)).collect();
        if !ends.is_empty() {
            let accurate = ends.iter().filter(|&&percent| percent <= CRUCIAL_PERCENT).count();
            parts.push(format!("{} at {accurate} of the {} it met", agent.name, ends.len()));
        }
    }
    (!parts.is_empty()).then(|| {
        format!(
            "Player's scores at which the TD error ended at or below {CRUCIAL_PERCENT}% of the target: {}.",
            list(&parts)
        )
    })
}

/// Whose TD errors are of clipped rewards, for the caption of the figure that shows them.
pub(crate) fn td_of_clipped_rewards(task: &Task<'_>) -> Option<String> {
    let clipping = |agent: &&Agent<'_>| agent.clips_rewards() && !agent.td_lines.is_empty();
    let names: Vec<String> = task.agents.iter().filter(clipping).map(|agent| agent.name.clone()).collect();
    (!names.is_empty()).then(|| {
        format!("The errors of {} are of clipped rewards: do not compare them with the others.", list(&names))
    })
}

/// What the experiments say about a task's runs. Runs that several figures share have the notes of each: what a longer
/// one says as well is said once.
pub(crate) fn run_notes<'t>(task: &'t Task<'_>) -> Vec<&'t str> {
    let notes: BTreeSet<&str> =
        task.runs.iter().map(|run| run.note.as_str()).filter(|note| !note.is_empty()).collect();
    let said = |note: &str| notes.iter().any(|other| other.len() > note.len() && other.contains(note));
    notes.iter().copied().filter(|note| !said(note)).collect()
}

/// What a reader must know before believing the numbers of one task.
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
    notes.extend(unlearned_note(task));
    for agent in &task.agents {
        notes.extend(unfinished_note(task, agent));
        let silent = agent.finished.iter().filter(|run| run.episodes.is_empty()).count();
        if silent > 0 {
            notes.push(format!(
                "{}: {} finished without completing an episode and has no score to count.",
                agent.name,
                seeds(silent)
            ));
        }
        let saturated: Vec<String> = (agent.finished.iter().chain(&agent.unfinished))
            .filter(|run| run.saturated > 0)
            .map(|run| format!("{} with seed {}", crate::summary::group(run.saturated), run.seed))
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
            "Fewer than {FEW_SEEDS} finished seeds: {}. Bootstrap intervals from so few seeds are too narrow: \
             read them as a rough guide.",
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

/// Where nobody ends above the play it began with, final scores do not compare what was learned.
fn unlearned_note(task: &Task<'_>) -> Option<String> {
    let mut changes = Vec::new();
    for agent in task.agents.iter().filter(|agent| !agent.finished.is_empty()) {
        let row = task.row(&agent.name)?;
        let first: Option<Vec<f64>> =
            agent.finished.iter().map(|run| stats::first_score(&run.episodes)).collect();
        let first = first?;
        if stats::cautious_difference(&row.per_seed, &first, 0.95)?.low > 0.0 {
            return None;
        }
        changes.push(format!(
            "{} from {} to {}",
            agent.name,
            number(stats::mean(&first)?),
            number(row.mean?)
        ));
    }
    (!changes.is_empty()).then(|| {
        format!(
            "No agent was seen to learn: none ends clearly above its own first twentieth of episodes ({}). \
             Comparisons of these final scores, and verdicts that rest on them, say little.",
            list(&changes)
        )
    })
}

fn unfinished_note(task: &Task<'_>, agent: &Agent<'_>) -> Option<String> {
    if agent.unfinished.is_empty() {
        return None;
    }
    let each: Vec<String> = agent.unfinished.iter().map(|run| standing(task, run)).collect();
    let consequence = if agent.finished.is_empty() {
        "None of its seeds has finished: the dashed curve is provisional and the table gives it no mean"
            .to_owned()
    } else {
        let apart = if agent.unfinished.len() == 1 { "this one is" } else { "these are" };
        format!(
            "Its mean covers the {} that finished; {apart} drawn thin and dashed",
            seeds(agent.finished.len())
        )
    };
    Some(format!("{}: {}. {consequence}.", agent.name, list(&each)))
}

/// Where an unfinished seed stands.
fn standing(task: &Task<'_>, run: &AgentRun) -> String {
    let at = short_count(run.frames as f64);
    if run.status == AgentStatus::Stopped {
        let reason = run.reason.trim().trim_end_matches('.');
        let why = if reason.is_empty() { "no reason was recorded" } else { reason };
        return format!("seed {} was stopped at {at} frames ({why})", run.seed);
    }
    let owner = task.runs.iter().find(|owner| owner.agents.iter().any(|agent| std::ptr::eq(agent, run)));
    let state = match owner.map(|owner| owner.status) {
        Some(RunStatus::Interrupted) => "was interrupted",
        _ => "is unfinished",
    };
    format!("seed {} {state} at {at} of {} frames", run.seed, short_count(task.frames as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        let cases = [
            (0.0, "not recorded"),
            (0.2, "0 s"),
            (59.4, "59 s"),
            (61.0, "1 min 01 s"),
            (7_325.0, "2 h 02 min"),
        ];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        let cases = [
            (20_027.6, "20,028"),
            (-1_234_567.0, "−1,234,567"),
            (123.4, "123"),
            (20.15, "20.1"),
            (-7.084, "−7.08"),
            (-0.00004, "0.00"),
            (-0.0012, "−0.0012"),
            (0.00996, "0.01"),
            (0.0, "0.00"),
            (2.5e12, "2.50e12"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "not finite");
        let counts = [0.0, 950.0, 1000.0, 86_000.0, 2.5e6, 2e8, 3e9, -250_000.0].map(short_count);
        assert_eq!(counts, ["0", "950", "1k", "86k", "2.5M", "200M", "3G", "−250k"]);
        let times = [0.4, 59.0, 93.1, 3_599.0, 7_260.0].map(duration);
        assert_eq!(times, ["0 s", "59 s", "1 min 33 s", "59 min 59 s", "2 h 01 min"]);
    }

    #[test]
    fn lists_end_with_and() {
        let items: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(
            [list(&items[..0]), list(&items[..1]), list(&items[..2]), list(&items)],
            ["", "a", "a and b", "a, b and c"]
        );
    }
}
