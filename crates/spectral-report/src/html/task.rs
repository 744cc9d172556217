//! The section of one task.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::clips::Clips;
use super::{curves, panels, tables};
use crate::analysis::{Agent, Task};
use crate::canvas::escape;
use crate::findings::run_notes;
use crate::format::thousands;
use crate::summary::TaskSummary;

pub(super) fn section(task: &Task<'_>, findings: &TaskSummary, clips: &Clips, alone: bool) -> String {
    let mut text = format!("<section class=\"task\" id=\"{}\">\n", escape(&task.slug));
    writeln!(text, "<h2>{}</h2>", escape(&task.name)).ok();
    let finished: usize = task.agents.iter().map(|agent| agent.finished.len()).sum();
    let requested: usize = task.agents.iter().map(Agent::seeds).sum();
    let protocol = if alone { String::new() } else { format!(", protocol {}", task.protocol) };
    writeln!(
        text,
        "<p class=\"sub\">{} frames per agent{}; {}, {} of {} seeds finished</p>",
        thousands(task.frames),
        escape(&protocol),
        if task.agents.len() == 1 { "1 agent".to_owned() } else { format!("{} agents", task.agents.len()) },
        finished,
        requested
    )
    .ok();
    text.push_str("<h3 class=\"first\">What this shows</h3>\n<ul class=\"shows\">\n");
    for sentence in &findings.findings {
        writeln!(text, "<li>{}</li>", escape(sentence)).ok();
    }
    text.push_str("</ul>\n");
    for note in run_notes(task) {
        writeln!(text, "<p class=\"note\">{}</p>", escape(note)).ok();
    }
    for warning in &findings.warnings {
        writeln!(text, "<p class=\"note warning\">{}</p>", escape(warning)).ok();
    }
    text.push_str(&curves::curves(task));
    text.push_str(&tables::final_table(task));
    text.push_str(&panels::comparison(task));
    text.push_str(&panels::td_error(task));
    text.push_str(&panels::diagnostics(task));
    text.push_str(&clips.section(task));
    text.push_str(&settings(task));
    text.push_str("</section>\n");
    text
}

/// Settings of all agents side by side; those in which agents differ come first.
fn settings(task: &Task<'_>) -> String {
    let sources: Vec<_> = task.agents.iter().filter_map(|agent| agent.runs().next()).collect();
    // Seeds have a row of their own: a single one would stand for all.
    let keys: BTreeSet<&String> =
        sources.iter().flat_map(|run| run.settings.keys()).filter(|key| *key != "seed").collect();
    if keys.is_empty() {
        return String::new();
    }
    let mut differing = String::new();
    let mut common = String::new();
    for key in keys {
        let values: Vec<Option<&String>> = sources.iter().map(|run| run.settings.get(key)).collect();
        let same = values.iter().all(|value| *value == values[0]);
        let (rows, class) = if same { (&mut common, " class=\"same\"") } else { (&mut differing, "") };
        write!(rows, "<tr{class}><td>{}</td>", escape(key)).ok();
        for value in values {
            write!(rows, "<td>{}</td>", value.map_or_else(|| "–".to_owned(), |value| escape(value))).ok();
        }
        rows.push_str("</tr>\n");
    }
    let mut text = String::from(
        "<details><summary>Settings of each agent</summary>\n<div class=\"scroll\"><table class=\"settings\">\n<tr><td></td>",
    );
    for run in &sources {
        write!(text, "<th>{}</th>", escape(&run.agent)).ok();
    }
    text.push_str("</tr>\n<tr><td>codec</td>");
    for run in &sources {
        write!(text, "<td>{}</td>", escape(&run.codec)).ok();
    }
    text.push_str("</tr>\n<tr><td>seeds</td>");
    for agent in &task.agents {
        let mut seeds: Vec<u64> = agent.runs().map(|run| run.seed).collect();
        seeds.sort_unstable();
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        write!(text, "<td>{}</td>", seeds.join(", ")).ok();
    }
    write!(text, "</tr>\n{differing}{common}</table></div></details>\n").ok();
    text
}
