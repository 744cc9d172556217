//! The report as a single HTML file that needs no network and no other files.

use serde_json::Value;

use crate::ReportOptions;
use crate::analysis::{Overall, Task};
use crate::canvas::escape;
use crate::plot::Plot;
use crate::summary::ReportSummary;

mod claims;
mod clips;
mod curves;
mod header;
mod lead;
mod live;
mod overall;
mod overview;
mod panels;
mod settings;
mod tables;
mod task;

pub(crate) use clips::Clips;

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
/// Forbids the browser to fetch anything.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The whole page.
pub(crate) fn page(
    tasks: &[Task<'_>],
    overall: Option<&Overall>,
    summary: &ReportSummary,
    clips: &Clips,
    options: &ReportOptions,
) -> String {
    let title = if options.title.trim().is_empty() { "Training report" } else { options.title.trim() };
    let mut body = format!("<main>\n<h1>{}</h1>\n", escape(title));
    body.push_str(&lead::headline(tasks, summary));
    body.push_str(&live::links(tasks, &options.out));
    body.push_str(&header::contents(tasks, summary));
    body.push_str(&lead::figure(tasks));
    body.push_str(&header::facts(tasks));
    body.push_str(&header::notes(&options.notes));
    body.push_str(&claims::section(&summary.claims));
    for (task, findings) in tasks.iter().zip(&summary.tasks) {
        let alone = tasks.iter().filter(|other| other.name == task.name).count() == 1;
        body.push_str(&task::section(task, findings, clips, alone, tasks.len() == 1));
    }
    if let Some(overall) = overall {
        body.push_str(&overall::section(overall, tasks));
    }
    body.push_str(&header::runs_table(tasks));
    body.push_str(&header::footer(tasks));
    body.push_str("</main>\n");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}<script>\n{SCRIPT}</script>\n\
         </body>\n</html>\n",
        escape(title)
    )
}

/// The position of the plot area within an SVG, for the script.
fn plot_attribute(plot: &Plot) -> (&'static str, String) {
    ("plot", format!("{} {} {} {}", plot.left, plot.top, plot.right, plot.bottom))
}

/// Five significant digits: more than a tooltip shows, and half the bytes.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// A position between 0 and 1, to a tenth of a pixel.
fn share(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// JSON inside a page. `<` is escaped, so that no value can end the element.
fn data_script(id: &str, data: &Value) -> String {
    let json = data.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{}\">{json}</script>\n", escape(id))
}
