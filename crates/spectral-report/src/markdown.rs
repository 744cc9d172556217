//! The report as Markdown, for a repository's pages: the findings, the verdicts and the tables, with links to the
//! pictures that lie beside it.

use std::fmt::Write as _;

use crate::ReportOptions;
use crate::analysis::Task;
use crate::claims::{judged_and_not_run, missing};
use crate::exploration;
use crate::findings::run_notes;
use crate::format::{interval, list, number, thousands, training_time};
use crate::frozen_words;
use crate::reference;
use crate::settings::Settings;
use crate::summary::{OverallSummary, ReportSummary};

/// The whole page.
pub(crate) fn page(tasks: &[Task<'_>], summary: &ReportSummary, options: &ReportOptions) -> String {
    let title = if options.title.trim().is_empty() { "Training report" } else { options.title.trim() };
    let mut text = format!("# {}\n\n", line(title));
    writeln!(text, "**{}**\n", line(&summary.headline)).ok();
    text.push_str(&sources(tasks, summary));
    let lead = match tasks {
        [task] => Some(curves(task)),
        tasks if crate::overview::wanted(tasks) => {
            Some("![Learning curves on all tasks](overview.png)\n\n".to_owned())
        }
        _ => None,
    };
    text.push_str(&lead.unwrap_or_default());
    text.push_str(&facts(tasks));
    for note in &options.notes {
        writeln!(text, "> {}\n", line(note)).ok();
    }
    let (judged, not_run) = judged_and_not_run(&summary.claims);
    if !judged.is_empty() {
        let explanation = judged.iter().find_map(|judged| judged.explanation());
        text.push_str(
            "## The paper beside our data\n\n| verdict | the paper | our data | why |\n|---|---|---|---|\n",
        );
        for judged in judged {
            let claim = &judged.claim;
            let source = if claim.source.is_empty() {
                format!(" ({})", claim.task)
            } else {
                format!(" ({}; {})", claim.task, claim.source)
            };
            writeln!(
                text,
                "| **{}** | {}{} | {} | {} |",
                judged.verdict.word(),
                cell(&claim.text),
                cell(&source),
                cell(&judged.ours),
                cell(&judged.reason)
            )
            .ok();
        }
        text.push('\n');
        if let Some(words) = explanation {
            writeln!(text, "{words}\n").ok();
        }
    }
    if !not_run.is_empty() {
        writeln!(text, "{}\n", line(&missing(&not_run))).ok();
    }
    for (task, found) in tasks.iter().zip(&summary.tasks) {
        writeln!(
            text,
            "## {}\n\n{} frames per agent, protocol {}.\n",
            line(&task.name),
            thousands(task.frames),
            line(&task.protocol)
        )
        .ok();
        for sentence in &found.findings {
            writeln!(text, "- {}", line(sentence)).ok();
        }
        for note in run_notes(task) {
            writeln!(text, "- {}", line(note)).ok();
        }
        for warning in &found.warnings {
            writeln!(text, "- *{}*", line(warning)).ok();
        }
        text.push('\n');
        if tasks.len() > 1 {
            text.push_str(&curves(task));
        }
        text.push_str(&final_table(task));
        if task.profile.is_some() {
            writeln!(
                text,
                "![Performance profile and probability of improvement]({}-comparison.png)\n",
                task.slug
            )
            .ok();
        }
        if task.agents.iter().any(|agent| !agent.td_lines.is_empty()) {
            writeln!(text, "![TD error by the player's score]({}-td-error.png)\n", task.slug).ok();
        }
        if task.agents.iter().any(|agent| !agent.panels.is_empty()) {
            writeln!(text, "![Inside the codecs]({}-inside.png)\n", task.slug).ok();
        }
        text.push_str(&differences(task));
    }
    if let Some(overall) = &summary.overall {
        text.push_str(&overall_table(overall));
    }
    let scores = frozen_words::scores_note(tasks);
    text.push_str(scores.as_deref().unwrap_or("Scores are of training episodes, exploration included."));
    text.push_str(
        " Intervals and bands are at 95%, over seeds: those of means and of differences, on which every verdict rests, the wider of \
         the bootstrap’s and Student’s or Welch’s t interval; those of probabilities binomial ones; the others the \
         bootstrap’s alone. “Clearly” in the result and in the findings is at 95% for all pairs of agents on a task together \
         (Holm’s method). `report.html` beside this file has the same with interactive figures.\n",
    );
    text
}

/// The curves of a task, with what their scores are.
fn curves(task: &Task<'_>) -> String {
    let dotted = reference::words(&task.marks).map_or_else(String::new, |words| format!(" {words}"));
    format!(
        "![Learning curves on {}]({}-curves.png)\n\nBands are 95% intervals of the mean over seeds.{} {}\n\n",
        line(&task.name),
        task.slug,
        line(&dotted),
        line(&exploration::sentence(task))
    )
}

/// Links to the data, and the command.
fn sources(tasks: &[Task<'_>], summary: &ReportSummary) -> String {
    let mut files = vec!["final.csv", "seeds.csv", "improvement.csv", "summary.json"];
    if !summary.claims.is_empty() {
        files.push("claims.csv");
    }
    let links: Vec<String> = files.iter().map(|file| format!("[{file}]({file})")).collect();
    let curves: Vec<String> = tasks
        .iter()
        .map(|task| format!("[curves of {}]({}-curves.csv)", line(&task.name), task.slug))
        .collect();
    let mut text = format!("Data: {}, {}.\n", links.join(", "), curves.join(", "));
    let mut commands: Vec<&str> =
        tasks.iter().flat_map(|task| &task.runs).map(|run| run.command.as_str()).collect();
    commands.retain(|command| !command.is_empty());
    commands.sort_unstable();
    commands.dedup();
    if let Some(first) = commands.first() {
        let more = match commands.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        writeln!(text, "Command: {}{more}.", line(first)).ok();
    }
    text.push('\n');
    text
}

/// The settings in which agents differ.
fn differences(task: &Task<'_>) -> String {
    let settings = Settings::of(task);
    if settings.differing.is_empty() {
        return String::new();
    }
    let names: Vec<String> = settings.agents.iter().map(|name| cell(name)).collect();
    let mut text = format!(
        "What differs between the agents:\n\n| | {} |\n|{}\n",
        names.join(" | "),
        "---|".repeat(names.len() + 1)
    );
    for row in &settings.differing {
        let values: Vec<String> =
            row.values.iter().map(|value| value.map_or_else(|| "–".to_owned(), cell)).collect();
        writeln!(text, "| {} | {} |", cell(row.key), values.join(" | ")).ok();
    }
    text.push('\n');
    text
}

fn facts(tasks: &[Task<'_>]) -> String {
    let runs = || tasks.iter().flat_map(|task| task.runs.iter());
    let members = || tasks.iter().flat_map(|task| &task.agents);
    let finished: usize = members().map(|agent| agent.finished.len()).sum();
    let requested: usize = members().map(|agent| agent.seeds()).sum();
    let distinct = |values: Vec<String>| {
        let mut kept: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
        kept.sort();
        kept.dedup();
        if kept.is_empty() { "not recorded".to_owned() } else { list(&kept) }
    };
    let machines = runs().map(|run| format!("{} on {}", run.hardware.cpu, run.hardware.device)).collect();
    format!(
        "{finished} of {requested} seeds finished; training time {}; version {}; {}.\n\n",
        training_time(runs().map(|run| run.seconds).sum()),
        line(&distinct(runs().map(|run| run.code()).collect())),
        line(&distinct(machines))
    )
}

fn final_table(task: &Task<'_>) -> String {
    let human = task.rows.iter().any(|row| row.human_normalised.is_some());
    let frozen = frozen_words::columns(task.rows.iter());
    let mut text = String::from("| agent | seeds | mean | 95% interval | IQM | 95% interval |");
    for column in &frozen {
        write!(text, " {} |", column.name).ok();
    }
    text.push_str(if human { " human |" } else { "" });
    let columns = 6 + frozen.len() + usize::from(human);
    writeln!(text, "\n|{}", "---|".repeat(columns)).ok();
    let dash = || "–".to_owned();
    for row in &task.rows {
        let seeds = if row.finished == row.seeds {
            row.seeds.to_string()
        } else {
            format!("{} of {}", row.finished, row.seeds)
        };
        write!(
            text,
            "| {} | {seeds} | {} | {} | {} | {} |",
            cell(&row.agent),
            row.mean.map_or_else(dash, number),
            interval(row.low95, row.high95),
            row.iqm.map_or_else(dash, number),
            interval(row.iqm_low95, row.iqm_high95)
        )
        .ok();
        for column in &frozen {
            write!(text, " {} |", (column.value)(row).map_or_else(dash, number)).ok();
        }
        if human {
            let share = row.human_normalised.map_or_else(dash, |share| format!("{}%", number(100.0 * share)));
            write!(text, " {share} |").ok();
        }
        text.push('\n');
    }
    text.push('\n');
    let games = task.frozen_games.as_ref();
    if let Some(note) = games.and_then(|games| frozen_words::table_note(&task.rows, games, task.both_models))
    {
        writeln!(text, "{}\n", line(&note)).ok();
    }
    if let Some(first) = task.improvements.first() {
        let each: Vec<String> = task
            .improvements
            .iter()
            .map(|entry| {
                let range = match (entry.low95, entry.high95) {
                    (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
                    _ => String::new(),
                };
                format!("over {} {:.2}{range}", entry.other, entry.probability)
            })
            .collect();
        writeln!(text, "Probability of improvement of {}: {}.\n", line(&first.agent), line(&each.join("; ")))
            .ok();
    }
    text
}

fn overall_table(overall: &OverallSummary) -> String {
    let mut text = format!(
        "## All games together\n\nHuman-normalised final scores over {}.\n\n| agent | IQM | median | mean | optimality gap |\n\
         |---|---|---|---|---|\n",
        line(&list(&overall.tasks))
    );
    for row in &overall.rows {
        write!(text, "| {} |", cell(&row.agent)).ok();
        for value in [row.iqm, row.median, row.mean, row.optimality_gap] {
            write!(text, " {} ({}) |", number(value.value), interval(value.low95, value.high95)).ok();
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// One line of text, in which nothing is taken for markup.
fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '\\' | '*' | '_' | '`' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// The same within a table, where a bar would end the cell.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}
