//! Panels of the page: profile and probabilities, TD error by score, and the codecs' own statistics.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::lead::files;
use super::{data_script, plot_attribute, rounded, share};
use crate::analysis::{Agent, Panel, Profile, Scale, Task};
use crate::canvas::{SvgCanvas, escape};
use crate::comparison_figure;
use crate::diagnostics_figure;
use crate::findings::td_of_altered_rewards;
use crate::palette::{Style, score_colour};
use crate::plot::Plot;
use crate::td_figure::{self, TdFrame};

/// Size of a TD panel in the page.
const TD_PANEL: (f64, f64) = (420.0, 250.0);

fn gradient() -> String {
    let stops: Vec<String> = (0..=4).map(|k| score_colour(f64::from(k) / 4.0).hex()).collect();
    format!("<i style=\"background:linear-gradient(90deg,{})\"></i>", stops.join(","))
}

/// The profile as a figure with its tooltip data.
pub(super) fn profile_figure(
    profile: &Profile,
    style: &dyn Fn(&str) -> Option<Style>,
    id: &str,
    meaning: &str,
) -> String {
    let size = comparison_figure::PANEL;
    let mut canvas = SvgCanvas::new(size.0, size.1, true);
    let plot = comparison_figure::profile(&mut canvas, profile, style, (0.0, 0.0), meaning);
    let lines: Vec<Value> = profile
        .lines
        .iter()
        .map(|line| {
            json!({
                "agent": line.agent,
                "name": line.agent,
                "colour": style(&line.agent).map_or_else(String::new, |style| style.colour.hex()),
                "first": 0,
                "y": line.share.iter().map(|value| share(*value)).collect::<Vec<_>>(),
                "value": line.share.iter().map(|value| rounded(100.0 * value)).collect::<Vec<_>>(),
            })
        })
        .collect();
    let places: Vec<f64> = profile.thresholds.iter().map(|at| share(plot.x.place(*at))).collect();
    let values: Vec<f64> = profile.thresholds.iter().map(|at| rounded(*at)).collect();
    let data = json!({ "kind": "all", "format": "percent", "x": places, "at": values, "unit": "above", "lines": lines });
    let source = format!("{id}-profile-data");
    let names = profile.lines.iter().filter_map(|line| {
        let colour = style(&line.agent)?.colour.hex();
        Some(format!("<b style=\"color:{colour}\">{}</b> ", escape(&line.agent)))
    });
    let key: String = names.collect();
    format!(
        "<div class=\"key\">{key}</div>\n<figure data-figure=\"profile\" data-source=\"{}\">\n{}</figure>\n{}",
        escape(&source),
        canvas.finish("Share of seeds above a score", "", &[plot_attribute(&plot)]),
        data_script(&source, &data)
    )
}

/// Performance profile and probability of improvement, side by side.
pub(super) fn comparison(task: &Task<'_>) -> String {
    let Some(profile) = &task.profile else { return String::new() };
    let mut text = String::from("<h3>How sure is the order?</h3>\n");
    text.push_str(
        "<p class=\"caption\">Performance profile: the share of seeds whose final score lies above a given score; \
         the curve further to the right is better, and where curves coincide the lower ones are wider. Probability of improvement: how likely a seed of one agent is to \
         beat a seed of another; 50% is a coin’s toss. Bands and bars are binomial intervals, which are wide enough for few seeds.</p>\n",
    );
    text.push_str("<div class=\"panels\">\n<div><h4 class=\"plain\">Share of seeds above a score</h4>\n");
    let style = |name: &str| task.agent(name).map(|agent| agent.style);
    text.push_str(&profile_figure(profile, &style, &task.slug, "final score"));
    text.push_str("</div>\n");
    if !task.improvements.is_empty() {
        let size = (comparison_figure::PANEL.0, comparison_figure::improvements_height(&task.improvements));
        let mut canvas = SvgCanvas::new(size.0, size.1, true);
        comparison_figure::improvements(&mut canvas, task, &task.improvements, (0.0, 0.0));
        let words: Vec<String> = task
            .improvements
            .iter()
            .map(|entry| {
                format!("{} over {}: {}", entry.agent, entry.other, comparison_figure::chance(entry))
            })
            .collect();
        let label = format!("Probability of improvement. {}", words.join("; "));
        writeln!(
            text,
            "<div><h4 class=\"plain\">Probability that {} improves</h4>\n<figure data-figure=\"improvement\">\n{}</figure></div>",
            escape(&task.improvements[0].agent),
            canvas.finish(&label, "", &[])
        )
        .ok();
    }
    text.push_str("</div>\n");
    text.push_str(&files(&format!("{}-comparison", task.slug), &["svg", "png"]));
    text
}

pub(super) fn td_error(task: &Task<'_>) -> String {
    let Some(shared) = TdFrame::of(task) else { return String::new() };
    let mut text = String::from("<h3>TD error by the player’s score</h3>\n");
    text.push_str(
        "<p class=\"caption\">Mean |prediction − target| as a percentage of mean |target|, in true reward units, over \
         sampled states with the given score of the player. Both means are over seeds too, so a seed with larger targets \
         weighs more. A line that runs level is of a score that is not sampled any more. Dotted: 5%, which the paper \
         calls the cusp of playing well.",
    );
    if let Some(words) = td_of_altered_rewards(task) {
        write!(text, " {}", escape(&words)).ok();
    }
    text.push_str("</p>\n");
    writeln!(
        text,
        "<div class=\"key\">player’s score {} {} {}</div>",
        shared.lowest,
        gradient(),
        shared.highest
    )
    .ok();
    text.push_str("<div class=\"panels\">\n");
    for (k, agent) in td_figure::shown(task).into_iter().enumerate() {
        let mut canvas = SvgCanvas::new(TD_PANEL.0, TD_PANEL.1, true);
        let plot = td_figure::panel(&mut canvas, task, agent, &shared, (0.0, 0.0), TD_PANEL, false);
        let source = format!("{}-td-{k}-data", task.slug);
        writeln!(
            text,
            "<div class=\"td\" data-agent=\"{0}\" style=\"--agent:{1}\"><h4>{3}</h4>\n\
             <figure data-figure=\"td-error\" data-source=\"{2}\">",
            escape(&agent.name),
            agent.style.colour.hex(),
            escape(&source),
            escape(&td_figure::title(agent))
        )
        .ok();
        let label = format!("TD percentage error of {} by player's score", agent.name);
        text.push_str(&canvas.finish(&label, "", &[plot_attribute(&plot)]));
        writeln!(text, "</figure>\n{}</div>", data_script(&source, &td_data(task, agent, &shared, &plot)))
            .ok();
    }
    text.push_str("</div>\n");
    text.push_str(&files(&format!("{}-td-error", task.slug), &["csv", "svg", "png"]));
    text
}

fn td_data(task: &Task<'_>, agent: &Agent<'_>, shared: &TdFrame, plot: &Plot) -> Value {
    let mut lines = Vec::new();
    for line in &agent.td_lines {
        let first = line.values.iter().position(Option::is_some).unwrap_or(0);
        let present = &line.values[first..];
        lines.push(json!({
            "agent": agent.name,
            "name": format!("score {}", line.player_score),
            "colour": shared.paint(line.player_score).on_white().hex(),
            "first": first,
            "y": present.iter().map(|v| v.map(|v| share(plot.y.place(v)))).collect::<Vec<_>>(),
            "value": present.iter().map(|v| v.map(rounded)).collect::<Vec<_>>(),
        }));
    }
    let places: Vec<f64> = task.grid.iter().map(|frame| share(plot.x.place(*frame as f64))).collect();
    json!({
        "kind": "nearest", "format": "percent", "x": places, "at": task.grid, "unit": "frames", "lines": lines,
    })
}

pub(super) fn diagnostics(task: &Task<'_>) -> String {
    let shown = diagnostics_figure::shown(task);
    if shown.is_empty() {
        return String::new();
    }
    let mut text = String::from("<h3>Inside the codecs</h3>\n");
    text.push_str("<p class=\"caption\">Mean over seeds of what each codec keeps about its targets.");
    let spectral: Vec<&Panel> =
        shown.iter().flat_map(|agent| &agent.panels).filter(|panel| panel.spectrum).collect();
    if !spectral.is_empty() {
        text.push_str(
            " A frequency’s activity is the share of sampled n-step returns that are not zero there; frequencies that \
             never were active are left out. Every reward moves the low frequencies, large rewards alone the high \
             ones.",
        );
    }
    text.push_str("</p>\n");
    if let Some(highest) = spectral.iter().flat_map(|panel| &panel.series).map(|series| series.index).max() {
        writeln!(text, "<div class=\"key\">frequency 0 {} {highest}</div>", gradient()).ok();
    }
    let (lone, many): (Vec<_>, Vec<_>) =
        shown.into_iter().enumerate().partition(|(_, agent)| agent.panels.len() == 1);
    for (a, agent) in many {
        text.push_str(&inside(agent));
        text.push_str("<div class=\"trio\">");
        for panel in &agent.panels {
            write!(
                text,
                "<div><h5>{}</h5>{}</div>",
                escape(panel.title),
                inside_figure(task, a, agent, panel)
            )
            .ok();
        }
        text.push_str("</div></div>\n");
    }
    // Agents with a single panel share a row, with what the panel shows beside them.
    if let Some((_, first)) = lone.first() {
        let meaning = first.panels.first().map_or("", |panel| panel.meaning);
        text.push_str("<div class=\"trio lone\">");
        for (a, agent) in &lone {
            for panel in &agent.panels {
                let figure = inside_figure(task, *a, agent, panel);
                write!(text, "{}<h5>{}</h5>{figure}</div>", inside(agent), escape(panel.title)).ok();
            }
        }
        writeln!(text, "<p class=\"caption\">{}</p></div>", escape(meaning)).ok();
    }
    text.push_str(&files(&format!("{}-inside", task.slug), &["csv", "svg", "png"]));
    text
}

/// The beginning of an agent's part, with its name.
fn inside(agent: &Agent<'_>) -> String {
    format!(
        "<div class=\"inside\" data-agent=\"{0}\" style=\"--agent:{1}\"><h4>{0}</h4>\n",
        escape(&agent.name),
        agent.style.colour.hex()
    )
}

/// A panel of the agent with this number, and its values.
fn inside_figure(task: &Task<'_>, number: usize, agent: &Agent<'_>, panel: &Panel) -> String {
    let size = diagnostics_figure::PANEL;
    let mut canvas = SvgCanvas::new(size.0, size.1, true);
    let plot = diagnostics_figure::panel(&mut canvas, task, panel, (0.0, 0.0), None);
    let source = format!("{}-inside-{number}-{}-data", task.slug, panel.key);
    format!(
        "<figure data-figure=\"inside-{}\" data-source=\"{}\">\n{}</figure>\n{}",
        panel.key,
        escape(&source),
        canvas.finish(&format!("{}: {}", agent.name, panel.title), "", &[plot_attribute(&plot)]),
        data_script(&source, &panel_data(agent, panel, &plot))
    )
}

fn panel_data(agent: &Agent<'_>, panel: &Panel, plot: &Plot) -> Value {
    let percent = matches!(panel.scale, Scale::LogPercent | Scale::Stacked);
    let factor = if percent { 100.0 } else { 1.0 };
    let mut lines = Vec::new();
    for (series, heights) in panel.series.iter().zip(diagnostics_figure::heights(panel)) {
        let middle = |k: usize| {
            let top = heights[k]?;
            // In a stack the pointer is nearest to the middle of the band it is in.
            let drop = if panel.scale == Scale::Stacked { 50.0 * series.values[k]? } else { 0.0 };
            Some(share(plot.y.place(top - drop)))
        };
        lines.push(json!({
            "agent": agent.name,
            "name": series.name,
            "colour": diagnostics_figure::paint(panel, series).on_white().hex(),
            "first": 0,
            "y": (0..heights.len()).map(middle).collect::<Vec<_>>(),
            "value": series.values.iter().map(|v| v.map(|v| rounded(factor * v))).collect::<Vec<_>>(),
        }));
    }
    let places: Vec<f64> = panel.grid.iter().map(|frame| share(plot.x.place(*frame as f64))).collect();
    json!({
        "kind": if panel.spectrum { "nearest" } else { "all" },
        "format": if percent { "percent" } else { "number" },
        "x": places, "at": panel.grid, "unit": "frames", "lines": lines,
    })
}
