//! The section of one task.

use std::fmt::Write as _;

use super::clips::Clips;
use super::{curves, panels, settings, tables};
use crate::analysis::{Agent, Task};
use crate::canvas::escape;
use crate::findings::run_notes;
use crate::format::thousands;
use crate::summary::TaskSummary;

/// `curves_above`: whether the page began with this task's curves.
pub(super) fn section(
    task: &Task<'_>,
    findings: &TaskSummary,
    clips: &Clips,
    alone: bool,
    curves_above: bool,
) -> String {
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
    if !curves_above {
        text.push_str(&curves::curves(task));
    }
    text.push_str(&tables::final_table(task));
    text.push_str(&panels::comparison(task));
    text.push_str(&panels::td_error(task));
    text.push_str(&panels::diagnostics(task));
    text.push_str(&clips.section(task));
    text.push_str(&settings::section(task));
    text.push_str("</section>\n");
    text
}
