//! Learning curves in the page: against frames and against time, with the values for tooltips.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{data_script, plot_attribute, rounded, share};
use crate::analysis::{Agent, Clock, Task};
use crate::canvas::{SvgCanvas, escape};
use crate::figure::{self, Format};
use crate::frozen_words;
use crate::plot::Plot;

pub(super) fn curves(task: &Task<'_>) -> String {
    let mut text = String::from("<h3>Learning curves</h3>\n");
    let frozen =
        frozen_words::curve_note(task).map_or_else(String::new, |note| format!(" {}", escape(&note)));
    writeln!(
        text,
        "<p class=\"caption\">Smoothed training score, mean over {}; bands are one bootstrapped \
         standard deviation of that mean.{frozen} Click an agent to hide it.</p>",
        task.averaged_seeds()
    )
    .ok();
    let timed = !task.hour_grid.is_empty();
    text.push_str("<div class=\"controls\">\n");
    text.push_str(&legend(&task.agents.iter().collect::<Vec<_>>()));
    if timed {
        text.push_str(
            "<div class=\"switch\" role=\"group\" aria-label=\"Horizontal axis\">\
             <button type=\"button\" data-view=\"frames\" aria-pressed=\"true\">frames</button>\
             <button type=\"button\" data-view=\"time\" aria-pressed=\"false\">time</button></div>\n",
        );
    }
    text.push_str("</div>\n");
    text.push_str(&view(task, Clock::Frames));
    if timed {
        text.push_str(&view(task, Clock::Time));
    }
    text
}

/// Buttons that switch agents on and off.
pub(super) fn legend(agents: &[&Agent<'_>]) -> String {
    let mut text = String::from("<div class=\"legend\">\n");
    for agent in agents {
        writeln!(
            text,
            "<button type=\"button\" aria-pressed=\"true\" data-agent=\"{0}\" style=\"--agent:{1}\"><i{2}></i>{0}</button>",
            escape(&agent.name),
            agent.style.colour.hex(),
            if agent.style.dash.is_some() { " class=\"dashed\"" } else { "" }
        )
        .ok();
    }
    text.push_str("</div>\n");
    text
}

/// The id of the element with the values of the curves.
pub(super) fn source(task: &Task<'_>, clock: Clock) -> String {
    let kind = if clock == Clock::Frames { "frames" } else { "time" };
    format!("{}-curves-{kind}-data", task.slug)
}

fn view(task: &Task<'_>, clock: Clock) -> String {
    let (kind, name, hidden) = match clock {
        Clock::Frames => ("curves", "frames", ""),
        Clock::Time => ("curves-time", "time", " hidden"),
    };
    let source = source(task, clock);
    let mut text = format!(
        "<figure data-figure=\"{kind}\" data-view=\"{name}\" data-source=\"{}\"{hidden}>\n",
        escape(&source)
    );
    let mut places = Value::Null;
    for (format, class) in [(Format::Wide, "wide"), (Format::Narrow, "narrow")] {
        let (width, height) = format.size();
        let mut canvas = SvgCanvas::new(width, height, true);
        let plot = figure::learning_curves(&mut canvas, task, format, clock);
        let (_, meaning) = figure::unit(task, clock);
        let label = format!("Learning curves on {} by {meaning}", task.name);
        text.push_str(&canvas.finish(&label, class, &[plot_attribute(&plot)]));
        places = curve_data(task, &plot, clock);
    }
    writeln!(text, "</figure>\n{}", data_script(&source, &places)).ok();
    text
}

/// Values for the tooltip. Heights are given as shares of the plot, so that the page need not know about scales.
fn curve_data(task: &Task<'_>, plot: &Plot, clock: Clock) -> Value {
    let grid = task.grid(clock);
    let (divisor, meaning) = figure::unit(task, clock);
    let mut lines = Vec::new();
    for agent in &task.agents {
        let curve = &agent.curves(clock).mean;
        let Some(start) = curve.first() else { continue };
        let first = grid.iter().position(|at| *at == start.frame).unwrap_or(0);
        let mark = if agent.provisional { " (unfinished)" } else { "" };
        lines.push(json!({
            "agent": agent.name,
            "name": format!("{}{mark}", agent.name),
            "colour": agent.style.colour.hex(),
            "first": first,
            "y": curve.iter().map(|p| share(plot.y.place(p.mean))).collect::<Vec<_>>(),
            "value": curve.iter().map(|p| rounded(p.mean)).collect::<Vec<_>>(),
            "spread": curve.iter().map(|p| rounded(p.high - p.mean)).collect::<Vec<_>>(),
            "seeds": curve.iter().map(|p| p.seeds).collect::<Vec<_>>(),
        }));
    }
    let places: Vec<f64> = grid.iter().map(|at| share(plot.x.place(*at as f64 / divisor))).collect();
    let values: Vec<Value> = match clock {
        Clock::Frames => grid.iter().map(|frame| json!(frame)).collect(),
        Clock::Time => grid.iter().map(|at| json!(rounded(*at as f64 / divisor))).collect(),
    };
    let unit = if clock == Clock::Frames { "frames" } else { meaning };
    let steps = if clock == Clock::Frames { task.frames_per_step } else { 1 };
    json!({ "kind": "all", "x": places, "at": values, "unit": unit, "steps": steps, "lines": lines })
}
