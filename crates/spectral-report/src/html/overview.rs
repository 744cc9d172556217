//! All tasks at a glance, where there are many.

use std::fmt::Write as _;

use super::curves::{legend, source};
use super::plot_attribute;
use crate::analysis::{Clock, Task};
use crate::canvas::{SvgCanvas, escape};
use crate::figure::{self, Format};
use crate::overview::{agents, wanted};

pub(super) fn section(tasks: &[Task<'_>]) -> String {
    if !wanted(tasks) {
        return String::new();
    }
    let mut text = String::from(
        "<section class=\"overview\" id=\"overview\">\n<h2>All tasks at a glance</h2>\n<div class=\"controls\">\n",
    );
    text.push_str(&legend(&agents(tasks)));
    text.push_str("</div>\n<div class=\"trio\">\n");
    for task in tasks {
        let (width, height) = Format::Panel.size();
        let mut canvas = SvgCanvas::new(width, height, true);
        let plot = figure::learning_curves(&mut canvas, task, Format::Panel, Clock::Frames);
        let label = format!("Learning curves on {}", task.name);
        writeln!(
            text,
            "<div><h4><a href=\"#{}\">{}</a></h4><figure data-figure=\"overview\" data-source=\"{}\">\n{}</figure></div>",
            escape(&task.slug),
            escape(&task.name),
            // The same values, at the same places between the axes' ends.
            escape(&source(task, Clock::Frames)),
            canvas.finish(&label, "", &[plot_attribute(&plot)])
        )
        .ok();
    }
    text.push_str("</div>\n</section>\n");
    text
}
