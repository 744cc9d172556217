//! Settings of the agents side by side: first those in which they differ.

use std::fmt::Write as _;

use crate::analysis::Task;
use crate::canvas::escape;
use crate::settings::{Row, Settings};

/// The section of the page.
pub(super) fn section(task: &Task<'_>) -> String {
    let settings = Settings::of(task);
    if settings.differing.len() + settings.own.len() + settings.common.len() == 0 {
        return String::new();
    }
    let mut text = String::from("<h3>Settings</h3>\n");
    if settings.agents.len() > 1 {
        let words = match settings.differing.len() {
            0 => "The agents differ in no setting that two of them have.",
            _ => "What differs between the agents.",
        };
        writeln!(text, "<p class=\"caption\">{words}</p>").ok();
    }
    if !settings.differing.is_empty() {
        text.push_str("<div class=\"scroll\"><table class=\"settings\">\n");
        text.push_str(&head(&settings));
        text.push_str(&rows(&settings.differing));
        text.push_str("</table></div>\n");
    }
    let rest = settings.own.len() + settings.common.len();
    let summary = match settings.agents.len() {
        1 => format!("All {rest} settings, and the seeds"),
        _ => format!("The other {rest} settings, and the seeds"),
    };
    write!(
        text,
        "<details><summary>{summary}</summary>\n<div class=\"scroll\"><table class=\"settings\">\n{}{}",
        head(&settings),
        seeds(task)
    )
    .ok();
    if settings.agents.len() > 1 && !settings.own.is_empty() {
        let columns = settings.agents.len() + 1;
        writeln!(text, "<tr class=\"group\"><td colspan=\"{columns}\">of some agents only</td></tr>").ok();
        text.push_str(&rows(&settings.own));
        if !settings.common.is_empty() {
            writeln!(text, "<tr class=\"group\"><td colspan=\"{columns}\">the same for all</td></tr>").ok();
        }
    } else {
        text.push_str(&rows(&settings.own));
    }
    text.push_str(&rows(&settings.common));
    text.push_str("</table></div></details>\n");
    text
}

fn head(settings: &Settings<'_>) -> String {
    let names: String = settings.agents.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    format!("<tr><td></td>{names}</tr>\n")
}

fn rows(rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    for row in rows {
        write!(text, "<tr><td>{}</td>", escape(row.key)).ok();
        for value in &row.values {
            write!(text, "<td>{}</td>", value.map_or_else(|| "–".to_owned(), escape)).ok();
        }
        text.push_str("</tr>\n");
    }
    text
}

fn seeds(task: &Task<'_>) -> String {
    let mut text = String::from("<tr><td>seeds</td>");
    for agent in &task.agents {
        let mut seeds: Vec<u64> = agent.runs().map(|run| run.seed).collect();
        seeds.sort_unstable();
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        write!(text, "<td>{}</td>", seeds.join(", ")).ok();
    }
    text.push_str("</tr>\n");
    text
}
