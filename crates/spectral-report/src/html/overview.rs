//! All tasks at a glance, where there are many.

use std::fmt::Write as _;

use super::curves::{legend, source};
use super::lead::files;
use super::plot_attribute;
use crate::analysis::{Clock, Task};
use crate::canvas::{SvgCanvas, escape};
use crate::figure::{self, Format};
use crate::overview::{agents, wanted};
use crate::reference;
use crate::stats::{LONGEST_MEMORY, MEMORY_PART};

pub(super) fn section(tasks: &[Task<'_>]) -> String {
    let mut text =
        String::from("<section class=\"overview lead\" id=\"overview\">\n<h2>All tasks at a glance</h2>\n");
    let dotted = match tasks.iter().any(|task| reference::words(&task.marks).is_some()) {
        true => " Dotted: random play and the best play, where they are known and near.",
        false => "",
    };
    writeln!(
        text,
        "<p class=\"caption\">Training score, mean over seeds, smoothed over one in {MEMORY_PART} of a seed’s episodes, {LONGEST_MEMORY} at most.{dotted} Click an agent to hide it.</p>\n<div class=\"controls\">"
    )
    .ok();
    text.push_str(&legend(&agents(tasks)));
    let few = if tasks.len() == 2 { " pair" } else { "" };
    writeln!(text, "</div>\n<div class=\"trio{few}\">").ok();
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
    text.push_str("</div>\n");
    if wanted(tasks) {
        text.push_str(&files("overview", &["svg", "png"]));
    }
    text.push_str("</section>\n");
    text
}
