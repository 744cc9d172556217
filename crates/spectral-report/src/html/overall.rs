//! All Atari games of the report together.

use std::fmt::Write as _;

use super::panels::profile_figure;
use crate::analysis::{Overall, Task};
use crate::canvas::escape;
use crate::format::{interval, list};
use crate::summary::Aggregate;

pub(super) fn section(overall: &Overall, tasks: &[Task<'_>]) -> String {
    let summary = &overall.summary;
    let mut text = String::from("<section class=\"task\" id=\"overall\">\n<h2>All games together</h2>\n");
    writeln!(
        text,
        "<p class=\"sub\">Human-normalised final scores over {}: 0 is random play, 1 a professional human tester.</p>",
        escape(&list(&summary.tasks))
    )
    .ok();
    if !summary.left_out.is_empty() {
        writeln!(
            text,
            "<p class=\"note warning\">Left out for want of a finished seed on every game: {}.</p>",
            escape(&list(&summary.left_out))
        )
        .ok();
    }
    text.push_str(
        "<div class=\"scroll\"><table class=\"overall\">\n<thead><tr><th>agent</th><th>interquartile mean</th><th>median</th>\
         <th>mean</th><th>optimality gap</th></tr></thead>\n<tbody>\n",
    );
    let style = |name: &str| tasks.iter().find_map(|task| task.agent(name)).map(|agent| agent.style);
    for row in &summary.rows {
        let colour = style(&row.agent).map_or_else(String::new, |style| style.colour.hex());
        write!(text, "<tr data-agent=\"{0}\" style=\"--agent:{colour}\"><td>{0}</td>", escape(&row.agent))
            .ok();
        for value in [row.iqm, row.median, row.mean, row.optimality_gap] {
            write!(text, "<td>{}</td>", cell(value)).ok();
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text.push_str(
        "<p class=\"caption\" style=\"margin-top:10px\">95% stratified bootstrap intervals. The optimality gap is how \
         far scores fall short of the human’s on average; less is better.</p>\n",
    );
    if let Some(profile) = &overall.profile {
        text.push_str("<h3>Performance profile</h3>\n<div class=\"panels\"><div>\n");
        text.push_str(&profile_figure(profile, &style, "overall", "human-normalised score"));
        text.push_str("</div></div>\n");
    }
    text.push_str("</section>\n");
    text
}

fn cell(value: Aggregate) -> String {
    let range = match value.low95 {
        Some(_) => format!(" <span class=\"less\">{}</span>", interval(value.low95, value.high95)),
        None => String::new(),
    };
    format!("<b>{:.2}</b>{range}", value.value).replace('-', "−")
}
