//! The table of final scores.

use std::fmt::Write as _;

use super::lead::files;
use crate::analysis::Task;
use crate::axis::{Axis, Kind};
use crate::canvas::{SvgCanvas, escape};
use crate::figure;
use crate::format::{interval, list, number};
use crate::frozen_words;
use crate::plot::Plot;
use crate::stats::{self, LEVEL};

/// Size of the dots in a row of the table.
const DOTS: (f64, f64) = (300.0, 28.0);

pub(super) fn final_table(task: &Task<'_>) -> String {
    let axis = figure::final_axis(task, 4);
    let symlog =
        if matches!(axis.kind, Kind::Symlog(_)) { " The scale is symmetric logarithmic." } else { "" };
    let plot = Plot {
        left: 14.0,
        right: DOTS.0 - 14.0,
        top: 0.0,
        bottom: DOTS.1,
        x: axis,
        y: Axis { kind: Kind::Linear, min: 0.0, max: 1.0, ticks: Vec::new() },
    };
    let normalised = task.rows.iter().any(|row| row.human_normalised.is_some());
    let frozen = frozen_words::columns(task.rows.iter());
    let games = task.frozen_games.as_ref();
    let note = games.and_then(|games| frozen_words::table_note(&task.rows, games, task.both_models));
    let mut text = String::from("<h3>Final scores</h3>\n");
    writeln!(
        text,
        "<p class=\"caption\">Mean of the episodes that end in the last tenth of each seed’s frames, then over \
         seeds. Dots are seeds, the stroke is the mean, the bar its interval{}; rings are unfinished \
         seeds where they stand. IQM is the interquartile mean over seeds.{}{}{symlog}</p>",
        if figure::beyond_the_final_axis(task, &plot.x) { ", an arrow where it goes on beyond the axis" } else { "" },
        note.map_or_else(String::new, |note| format!(" {}", escape(&note))),
        if normalised { " Human: 0% is random play, 100% a professional human tester." } else { "" }
    )
    .ok();
    text.push_str(
        "<table class=\"final\">\n<thead><tr><th>agent</th><th>seeds</th><th>mean</th><th>interval</th><th>IQM</th>",
    );
    for column in &frozen {
        write!(text, "<th>{}</th>", column.name).ok();
    }
    if normalised {
        text.push_str("<th>human</th>");
    }
    text.push_str("<th class=\"dots\"></th></tr></thead>\n<tbody>\n");
    for row in &task.rows {
        let Some(agent) = task.agent(&row.agent) else { continue };
        let mut canvas = SvgCanvas::new(DOTS.0, DOTS.1, true);
        figure::zero_line(&mut canvas, &plot);
        figure::final_dots(&mut canvas, task, agent, &plot, DOTS.1 / 2.0);
        let values: Vec<String> = row.per_seed.iter().map(|value| number(*value)).collect();
        let label = format!("Final scores of {} by seed: {}", row.agent, list(&values));
        let (seeds, partial) = if row.finished == row.seeds {
            (row.seeds.to_string(), "")
        } else {
            (format!("{} of {}", row.finished, row.seeds), " partial")
        };
        let dash = || "–".to_owned();
        write!(
            text,
            "<tr data-agent=\"{0}\" style=\"--agent:{1}\"><td>{0}</td><td class=\"seeds{partial}\" data-name=\"seeds\">\
             {seeds}</td><td class=\"mean\" data-name=\"mean\">{2}</td><td class=\"i95\" data-name=\"interval\">{3}</td>\
             <td class=\"iqm\" data-name=\"IQM\" title=\"interval {4}\">{5}</td>",
            escape(&row.agent),
            agent.style.colour.hex(),
            row.mean.map_or_else(dash, number),
            interval(row.low95, row.high95),
            interval(row.iqm_low95, row.iqm_high95),
            row.iqm.map_or_else(dash, number),
        )
        .ok();
        for column in &frozen {
            let value = (column.value)(row).map_or_else(dash, number);
            write!(text, "<td class=\"iqm\" data-name=\"{}\">{value}</td>", column.name).ok();
        }
        if normalised {
            let share = row.human_normalised.map_or_else(dash, |share| format!("{}%", number(100.0 * share)));
            write!(text, "<td class=\"human\" data-name=\"human\">{share}</td>").ok();
        }
        writeln!(
            text,
            "<td class=\"dots\" title=\"{}\">{}</td></tr>",
            escape(&values.join(", ")),
            canvas.finish(&label, "dots", &[])
        )
        .ok();
    }
    let mut scale = SvgCanvas::new(DOTS.0, 22.0, true);
    figure::final_scale(&mut scale, &plot);
    writeln!(
        text,
        "<tr class=\"scale\"><td colspan=\"{}\"></td><td class=\"dots\">{}</td></tr>",
        5 + frozen.len() + usize::from(normalised),
        scale.finish("Scale of the final scores", "dots", &[])
    )
    .ok();
    text.push_str("</tbody>\n</table>\n");
    text.push_str(&comparisons(task));
    text.push_str(&files(&format!("{}-final", task.slug), &["svg", "png"]));
    text
}

fn comparisons(task: &Task<'_>) -> String {
    let Some(first) = task.comparisons.first() else { return String::new() };
    let mut parts = Vec::new();
    for comparison in &task.comparisons {
        let sign = if comparison.difference > 0.0 { "+" } else { "" };
        let scores = |name: &str| task.row(name).map_or(&[][..], |row| &row.per_seed);
        let (own, other) = (scores(&comparison.agent), scores(&comparison.other));
        let range = stats::cautious_difference(own, other, LEVEL)
            .map_or_else(String::new, |range| format!(" ({})", interval(Some(range.low), Some(range.high))));
        parts.push(format!("{} {sign}{}{range}", comparison.other, number(comparison.difference)));
    }
    format!(
        "<p class=\"caption\" style=\"margin-top:10px\">Difference of means, {} minus each: {}. Intervals are the wider of \
         the bootstrap’s and Welch’s, each for one comparison by itself.</p>\n",
        escape(&first.agent),
        escape(&parts.join("; "))
    )
}
