//! Learning curves in the page: against frames and against time, with the values for tooltips.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::lead::curve_files;
use super::{data_script, plot_attribute, rounded, share};
use crate::analysis::{Agent, Clock, Task};
use crate::canvas::{SvgCanvas, escape};
use crate::exploration;
use crate::figure::{self, Format};
use crate::plot::Plot;
use crate::reference;

/// More seeds than this have no button each.
const MOST_SEED_BUTTONS: usize = 30;
/// Parts of the height of the plot in which the curves of single seeds are given.
const SEED_STEPS: f64 = 1000.0;

pub(super) fn curves(task: &Task<'_>) -> String {
    let mut text = String::from("<h3>Learning curves</h3>\n");
    let spaced =
        |words: Option<String>| words.map_or_else(String::new, |words| format!(" {}", escape(&words)));
    writeln!(
        text,
        "<p class=\"caption\">{}, mean over {}; bands are intervals of that mean. A smoothed curve lags behind a rise.{}{} {} Click an agent to hide \
         it.</p>",
        task.smoothed_score(),
        task.averaged_seeds(),
        spaced(reference::words(&task.marks)),
        spaced(figure::beyond_the_axis(task)),
        escape(&exploration::sentence(task))
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
    text.push_str(&seed_buttons(task));
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

/// Buttons that draw single seeds. Only the script can do that, so they are hidden until it runs.
fn seed_buttons(task: &Task<'_>) -> String {
    let seeds: BTreeSet<u64> = task.agents.iter().flat_map(Agent::runs).map(|run| run.seed).collect();
    if seeds.len() < 2 {
        return String::new();
    }
    let mut text = String::from(
        "<div class=\"single\" role=\"group\" aria-label=\"Single seeds\" hidden><span>single seeds</span>\n\
         <button type=\"button\" data-seed=\"all\" aria-pressed=\"false\">all</button>\n",
    );
    for seed in seeds.iter().take(MOST_SEED_BUTTONS) {
        writeln!(text, "<button type=\"button\" data-seed=\"{seed}\" aria-pressed=\"false\">{seed}</button>")
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
    writeln!(text, "{}</figure>\n{}", curve_files(task, clock), data_script(&source, &places)).ok();
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
            "low": curve.iter().map(|p| rounded(p.low)).collect::<Vec<_>>(),
            "high": curve.iter().map(|p| rounded(p.high)).collect::<Vec<_>>(),
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
    let seeds = seed_data(task, plot, clock);
    json!({ "kind": "all", "x": places, "at": values, "unit": unit, "steps": steps, "lines": lines, "seeds": seeds })
}

/// The curve of every seed behind a mean: heights alone, which is what the script needs to draw it.
fn seed_data(task: &Task<'_>, plot: &Plot, clock: Clock) -> Vec<Value> {
    let grid = task.grid(clock);
    let mut seeds = Vec::new();
    for agent in &task.agents {
        // A mean of one seed is that seed's curve.
        let curves = agent.curves(clock);
        for seed in curves.seeds.iter().filter(|_| curves.seeds.len() > 1) {
            let Some((start, _)) = seed.points.first() else { continue };
            let height = |value: f64| (SEED_STEPS * plot.y.place(value)).round() as u32;
            seeds.push(json!({
                "agent": agent.name,
                "seed": seed.run.seed.to_string(),
                "colour": agent.style.colour.hex(),
                "first": grid.iter().position(|at| at == start).unwrap_or(0),
                "y": seed.points.iter().map(|(_, value)| height(*value)).collect::<Vec<_>>(),
            }));
        }
    }
    seeds
}
