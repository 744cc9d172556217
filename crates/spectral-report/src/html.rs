//! The report as one HTML file that needs nothing else: no network, no other files.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::ReportOptions;
use crate::analysis::{Agent, Task};
use crate::axis::{Axis, Kind};
use crate::canvas::{SvgCanvas, escape};
use crate::figure::{self, Format};
use crate::palette::score_colour;
use crate::plot::Plot;
use crate::run::Run;
use crate::stats::{FINAL_EPISODES, MOMENTUM};
use crate::summary::{ReportSummary, TaskSummary, group, interval};
use crate::td_figure::{self, TdFrame};
use crate::words::{duration, list, number, short_count};

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");

/// Size of a TD panel in the page.
const PANEL: (f64, f64) = (420.0, 250.0);
/// Size of the dots in a row of the table.
const DOTS: (f64, f64) = (300.0, 28.0);

/// The whole page.
pub(crate) fn page(tasks: &[Task<'_>], summary: &ReportSummary, options: &ReportOptions) -> String {
    let title = if options.title.trim().is_empty() { "Training report" } else { options.title.trim() };
    let mut body = format!("<main>\n<h1>{}</h1>\n", escape(title));
    body.push_str(&facts(tasks));
    for (task, findings) in tasks.iter().zip(&summary.tasks) {
        let alone = tasks.iter().filter(|other| other.name == task.name).count() == 1;
        body.push_str(&section(task, findings, alone));
    }
    body.push_str(&runs_table(tasks));
    body.push_str(&footer());
    body.push_str("</main>\n");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}<script>\n{SCRIPT}</script>\n\
         </body>\n</html>\n",
        escape(title)
    )
}

fn distinct<'r>(runs: impl Iterator<Item = &'r Run>, of: impl Fn(&Run) -> String) -> String {
    let values: BTreeSet<String> = runs.map(of).filter(|text| !text.is_empty()).collect();
    if values.is_empty() {
        "not recorded".to_owned()
    } else {
        values.into_iter().collect::<Vec<_>>().join("; ")
    }
}

fn hardware(run: &Run) -> String {
    let machine = &run.hardware;
    let mut parts = Vec::new();
    if !machine.cpu.is_empty() {
        parts.push(machine.cpu.clone());
    }
    match machine.cores {
        0 => {}
        1 => parts.push("1 core".to_owned()),
        cores => parts.push(format!("{cores} cores")),
    }
    if !machine.device.is_empty() {
        parts.push(format!("trained on {}", machine.device));
    }
    parts.join(", ")
}

/// The header: what was run, on what, for how long, and how much of it has finished.
fn facts(tasks: &[Task<'_>]) -> String {
    let runs = || tasks.iter().flat_map(|task| task.runs.iter().copied());
    let requested: usize = tasks.iter().flat_map(|task| &task.agents).map(Agent::seeds).sum();
    let finished: usize = tasks.iter().flat_map(|task| &task.agents).map(|agent| agent.finished.len()).sum();
    let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let seconds: f64 = runs().map(|run| run.seconds).sum();
    let per_agent: BTreeSet<u64> = tasks.iter().map(|task| task.frames).collect();
    let per_agent: Vec<String> = per_agent.into_iter().map(group).collect();
    let entries = [
        (if tasks.len() == 1 { "Task" } else { "Tasks" }, list(&names)),
        ("Protocol", distinct(runs(), |run| run.protocol.clone())),
        ("Frames per agent", list(&per_agent)),
        ("Agents × seeds", format!("{finished} of {requested} finished")),
        ("Wall-clock training time", duration(seconds)),
        ("Version", distinct(runs(), |run| run.version.clone())),
        ("Hardware", distinct(runs(), hardware)),
    ];
    let mut text = String::from("<dl class=\"facts\">\n");
    for (name, value) in entries {
        // Long values get two columns.
        let class = if value.chars().count() > 24 { " class=\"broad\"" } else { "" };
        // A name with hyphens is easier to read in one piece.
        let whole = |word: &str| match word.contains('-') {
            true => format!("<span>{}</span>", escape(word)),
            false => escape(word),
        };
        let words: Vec<String> = value.split(' ').map(whole).collect();
        writeln!(text, "<div{class}><dt>{name}</dt><dd>{}</dd></div>", words.join(" ")).ok();
    }
    text.push_str("</dl>\n");
    text
}

fn section(task: &Task<'_>, findings: &TaskSummary, alone: bool) -> String {
    let mut text = format!("<section class=\"task\" id=\"{}\">\n", escape(&task.slug));
    writeln!(text, "<h2>{}</h2>", escape(&task.name)).ok();
    let finished: usize = task.agents.iter().map(|agent| agent.finished.len()).sum();
    let requested: usize = task.agents.iter().map(Agent::seeds).sum();
    let protocol = if alone { String::new() } else { format!(", protocol {}", task.protocol) };
    writeln!(
        text,
        "<p class=\"sub\">{} frames per agent{}; {}, {} of {} seeds finished</p>",
        group(task.frames),
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
    let notes: BTreeSet<&str> =
        task.runs.iter().map(|run| run.note.as_str()).filter(|n| !n.is_empty()).collect();
    for note in notes {
        writeln!(text, "<p class=\"note\">{}</p>", escape(note)).ok();
    }
    for warning in &findings.warnings {
        writeln!(text, "<p class=\"note warning\">{}</p>", escape(warning)).ok();
    }
    text.push_str(&curves(task));
    text.push_str(&final_table(task));
    text.push_str(&td_panels(task));
    text.push_str(&settings(task));
    text.push_str("</section>\n");
    text
}

fn plot_attribute(plot: &Plot) -> (&'static str, String) {
    ("plot", format!("{} {} {} {}", plot.left, plot.top, plot.right, plot.bottom))
}

fn curves(task: &Task<'_>) -> String {
    let mut text = String::from("<h3>Learning curves</h3>\n");
    text.push_str(
        "<p class=\"caption\">Smoothed training score, mean over finished seeds; bands are one bootstrapped \
         standard deviation of that mean. Click an agent to hide it.</p>\n",
    );
    text.push_str("<div class=\"legend\">\n");
    for agent in &task.agents {
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
    let source = format!("{}-curves-data", task.slug);
    writeln!(text, "<figure data-figure=\"curves\" data-source=\"{}\">", escape(&source)).ok();
    let mut places = Value::Null;
    for (format, class) in [(Format::Wide, "wide"), (Format::Narrow, "narrow")] {
        let (width, height) = format.size();
        let mut canvas = SvgCanvas::new(width, height, true);
        let plot = figure::learning_curves(&mut canvas, task, format);
        let label = format!("Learning curves on {}", task.name);
        text.push_str(&canvas.finish(&label, class, &[plot_attribute(&plot)]));
        places = curve_data(task, &plot);
    }
    writeln!(text, "</figure>\n{}", data_script(&source, &places)).ok();
    text
}

/// Values for the tooltip. Heights are given as shares of the plot, so that the page need not know about scales.
fn curve_data(task: &Task<'_>, plot: &Plot) -> Value {
    let mut lines = Vec::new();
    for agent in task.agents.iter().filter(|agent| !agent.curve.is_empty()) {
        let first = task.grid.iter().position(|frame| *frame == agent.curve[0].frame).unwrap_or(0);
        let mark = if agent.provisional { " (unfinished)" } else { "" };
        lines.push(json!({
            "agent": agent.name,
            "name": format!("{}{mark}", agent.name),
            "colour": agent.style.colour.hex(),
            "first": first,
            "y": agent.curve.iter().map(|p| share(plot.y.place(p.mean))).collect::<Vec<_>>(),
            "value": agent.curve.iter().map(|p| rounded(p.mean)).collect::<Vec<_>>(),
            "spread": agent.curve.iter().map(|p| rounded(p.high - p.mean)).collect::<Vec<_>>(),
            "seeds": agent.curve.iter().map(|p| p.seeds).collect::<Vec<_>>(),
        }));
    }
    json!({ "kind": "all", "x": shares(task, plot), "frames": task.grid, "lines": lines })
}

fn shares(task: &Task<'_>, plot: &Plot) -> Vec<f64> {
    task.grid.iter().map(|frame| share(plot.x.place(*frame as f64))).collect()
}

/// Five significant digits: more than a tooltip shows, and half the bytes.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// A place between 0 and 1, to a tenth of a pixel.
fn share(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// JSON inside a page: `<` is escaped, so that no value can end the element.
fn data_script(id: &str, data: &Value) -> String {
    let json = data.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{}\">{json}</script>\n", escape(id))
}

fn final_table(task: &Task<'_>) -> String {
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
    let mut text = String::from("<h3>Final scores</h3>\n");
    writeln!(
        text,
        "<p class=\"caption\">Mean of the last tenth of each seed’s episodes (at least {FINAL_EPISODES}), then over \
         seeds. Dots are seeds, the stroke is the mean, the bar its 90% interval; rings are unfinished \
         seeds where they stand.{symlog}</p>"
    )
    .ok();
    text.push_str(
        "<table class=\"final\">\n<thead><tr><th>agent</th><th>seeds</th><th>mean</th><th>90% interval</th>\
         <th>95% interval</th><th class=\"dots\"></th></tr></thead>\n<tbody>\n",
    );
    for row in &task.rows {
        let Some(agent) = task.agents.iter().find(|agent| agent.name == row.agent) else { continue };
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
        writeln!(
            text,
            "<tr data-agent=\"{0}\" style=\"--agent:{1}\"><td>{0}</td><td class=\"seeds{partial}\" data-name=\"seeds\">\
             {seeds}</td><td class=\"mean\">{2}</td><td class=\"i90\" data-name=\"90%\">{3}</td>\
             <td class=\"i95\">{4}</td><td class=\"dots\" title=\"{5}\">{6}</td></tr>",
            escape(&row.agent),
            agent.style.colour.hex(),
            row.mean.map_or_else(|| "–".to_owned(), number),
            interval(row.low90, row.high90),
            interval(row.low95, row.high95),
            escape(&values.join(", ")),
            canvas.finish(&label, "dots", &[]),
        )
        .ok();
    }
    let mut scale = SvgCanvas::new(DOTS.0, 22.0, true);
    figure::final_scale(&mut scale, &plot);
    writeln!(
        text,
        "<tr class=\"scale\"><td colspan=\"5\"></td><td class=\"dots\">{}</td></tr>",
        scale.finish("Scale of the final scores", "dots", &[])
    )
    .ok();
    text.push_str("</tbody>\n</table>\n");
    text.push_str(&comparisons(task));
    text
}

fn comparisons(task: &Task<'_>) -> String {
    let Some(first) = task.comparisons.first() else { return String::new() };
    let mut parts = Vec::new();
    for comparison in &task.comparisons {
        let sign = if comparison.difference > 0.0 { "+" } else { "" };
        let range = match (comparison.low90, comparison.high90) {
            (Some(_), Some(_)) => format!(" (90%: {})", interval(comparison.low90, comparison.high90)),
            _ => String::new(),
        };
        parts.push(format!("{} {sign}{}{range}", comparison.other, number(comparison.difference)));
    }
    format!(
        "<p class=\"caption\" style=\"margin-top:10px\">Difference of means, {} minus each: {}.</p>\n",
        escape(&first.agent),
        escape(&parts.join("; "))
    )
}

fn td_panels(task: &Task<'_>) -> String {
    let Some(shared) = TdFrame::of(task) else { return String::new() };
    let mut text = String::from("<h3>TD error by the player’s score</h3>\n");
    text.push_str(
        "<p class=\"caption\">Mean |prediction − target| as a percentage of mean |target|, in true reward units, over \
         sampled states with the given score of the player. Dotted: 5%, which the paper calls the cusp of playing \
         well.</p>\n",
    );
    let stops: Vec<String> = (0..=4).map(|k| score_colour(f64::from(k) / 4.0).hex()).collect();
    writeln!(
        text,
        "<div class=\"key\">player’s score {} <i style=\"background:linear-gradient(90deg,{})\"></i> {}</div>",
        shared.lowest,
        stops.join(","),
        shared.highest
    )
    .ok();
    text.push_str("<div class=\"panels\">\n");
    for (k, agent) in td_figure::shown(task).into_iter().enumerate() {
        let mut canvas = SvgCanvas::new(PANEL.0, PANEL.1, true);
        let plot = td_figure::panel(&mut canvas, task, agent, &shared, (0.0, 0.0), PANEL, false);
        let source = format!("{}-td-{k}-data", task.slug);
        let mark = if agent.provisional { " (unfinished)" } else { "" };
        writeln!(
            text,
            "<div class=\"td\" data-agent=\"{0}\" style=\"--agent:{1}\"><h4>{0}{mark}</h4>\n\
             <figure data-figure=\"td-error\" data-source=\"{2}\">",
            escape(&agent.name),
            agent.style.colour.hex(),
            escape(&source)
        )
        .ok();
        let label = format!("TD percentage error of {} by player's score", agent.name);
        text.push_str(&canvas.finish(&label, "", &[plot_attribute(&plot)]));
        writeln!(text, "</figure>\n{}</div>", data_script(&source, &td_data(task, agent, &shared, &plot)))
            .ok();
    }
    text.push_str("</div>\n");
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
    json!({ "kind": "nearest", "x": shares(task, plot), "frames": task.grid, "lines": lines })
}

/// Settings of all agents side by side; those in which agents differ come first.
fn settings(task: &Task<'_>) -> String {
    let sources: Vec<_> = task.agents.iter().filter_map(|agent| agent.settings_source()).collect();
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
        let mut seeds: Vec<u64> =
            agent.finished.iter().chain(&agent.unfinished).map(|run| run.seed).collect();
        seeds.sort_unstable();
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        write!(text, "<td>{}</td>", seeds.join(", ")).ok();
    }
    write!(text, "</tr>\n{differing}{common}</table></div></details>\n").ok();
    text
}

fn runs_table(tasks: &[Task<'_>]) -> String {
    let mut text = String::from(
        "<details style=\"margin-top:48px\"><summary>Runs behind this report</summary>\n<div class=\"scroll\">\
         <table class=\"settings runs\">\n<tr><th>folder</th><th>task</th><th>created</th><th>version</th><th>status</th>\
         <th>training time</th><th>frames</th><th>command</th></tr>\n",
    );
    for run in tasks.iter().flat_map(|task| &task.runs) {
        writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            escape(&run.path.display().to_string()),
            escape(&run.task),
            escape(&run.created),
            escape(&run.version),
            format!("{:?}", run.status).to_lowercase(),
            duration(run.seconds),
            short_count(run.frames as f64),
            escape(&run.command)
        )
        .ok();
    }
    text.push_str("</table></div></details>\n");
    text
}

fn footer() -> String {
    format!(
        "<footer>\n<p>Scores are of training episodes, exploration included; there is no separate evaluation. Frames are \
         emulator frames, counted per agent. Curves: bias-corrected exponential moving average of episode scores \
         (momentum {MOMENTUM}), read on a common grid of frames, then averaged over seeds; dashed where a curve does not \
         hold all of its seeds.</p>\n<p>Intervals: percentile bootstrap over seeds, 20,000 resamples with a fixed \
         generator, so the same runs give the same digits. Seeds that were stopped or have not finished are drawn \
         for themselves and enter no mean: a cross marks the end of one that was stopped, a ring one that may go \
         on.</p>\n</footer>\n"
    )
}
