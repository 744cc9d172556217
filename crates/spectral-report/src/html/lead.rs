//! The top of the page: the result in a sentence, one figure, and where the data, the code and the command are.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{curves, overview};
use crate::analysis::{Clock, Task};
use crate::canvas::escape;
use crate::summary::ReportSummary;

/// The sentence, and what is said once for the whole page.
pub(super) fn headline(tasks: &[Task<'_>], summary: &ReportSummary) -> String {
    format!(
        "<p class=\"headline\">{}</p>\n<p class=\"caption\">Final scores, means over seeds. Every interval, bar and band on this \
         page is at 95%. “Clearly” holds at 95% for all pairs of agents on a task together.</p>\n{}",
        escape(&summary.headline),
        sources(tasks, summary)
    )
}

/// Data, code and command, in a line each.
fn sources(tasks: &[Task<'_>], summary: &ReportSummary) -> String {
    let mut files = vec![("final scores", "final.csv"), ("every seed", "seeds.csv")];
    if !tasks.iter().all(|task| task.improvements.is_empty()) {
        files.push(("every pair of agents", "improvement.csv"));
    }
    if !summary.claims.is_empty() {
        files.push(("verdicts", "claims.csv"));
    }
    files.extend([("all numbers", "summary.json"), ("this page as text", "report.md")]);
    let files: Vec<String> =
        files.iter().map(|(name, file)| format!("<a href=\"{file}\">{name}</a>")).collect();
    let mut text = format!(
        "<dl class=\"sources\">\n<div><dt>Data</dt><dd>{}; those of a figure are linked below it</dd></div>\n",
        files.join(", ")
    );
    let runs = || tasks.iter().flat_map(|task| task.runs.iter());
    let code: BTreeSet<String> = runs().map(|run| run.code()).filter(|code| !code.is_empty()).collect();
    if !code.is_empty() {
        let code: Vec<String> = code.iter().map(|code| escape(code)).collect();
        writeln!(text, "<div><dt>Code</dt><dd>version {}</dd></div>", code.join("; ")).ok();
    }
    let commands: BTreeSet<&str> = runs().map(|run| run.command.as_str()).filter(|c| !c.is_empty()).collect();
    if let Some(first) = commands.first() {
        let more = match commands.len() - 1 {
            0 => String::new(),
            more => format!(" and <a href=\"#runs\">{more} more</a>"),
        };
        writeln!(text, "<div><dt>Command</dt><dd><code>{}</code>{more}</dd></div>", escape(first)).ok();
    }
    text.push_str("</dl>\n");
    text
}

/// The figure that says most: the curves of the only task, or those of all tasks.
pub(super) fn figure(tasks: &[Task<'_>]) -> String {
    match tasks {
        [task] => format!("<section class=\"task lead\">\n{}</section>\n", curves::curves(task)),
        tasks => overview::section(tasks),
    }
}

/// Links to the files of a figure, which lie beside the page.
pub(super) fn files(name: &str, kinds: &[&str]) -> String {
    let links: Vec<String> = kinds
        .iter()
        .map(|kind| format!("<a href=\"{}.{kind}\">{}</a>", escape(name), kind.to_uppercase()))
        .collect();
    format!("<p class=\"files\">{}</p>\n", links.join(" "))
}

/// The files of the learning curves against one clock.
pub(super) fn curve_files(task: &Task<'_>, clock: Clock) -> String {
    let name = if clock == Clock::Frames { "curves" } else { "curves-hours" };
    files(&format!("{}-{name}", task.slug), &["csv", "svg", "png"])
}
