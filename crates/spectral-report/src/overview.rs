//! The learning curves of all tasks in one figure, like the paper's figure of its six games.

use crate::analysis::{Agent, Clock, Task};
use crate::canvas::{Anchor, Canvas, Lettering, Paint, Shifted, Stroke};
use crate::figure::{self, Format};
use crate::plot::{BODY, SMALL, TITLE};
use crate::stats::{LONGEST_MEMORY, MEMORY_PART};
use crate::text;

/// With fewer tasks than this there is no overview: the sections of the tasks are close enough together.
const MIN_TASKS: usize = 3;
const COLUMNS: usize = 3;
const HEADER: f64 = 84.0;
/// Height above each panel for its name.
const NAME: f64 = 22.0;

/// Whether there are enough tasks for an overview.
pub(crate) fn wanted(tasks: &[Task<'_>]) -> bool {
    tasks.len() >= MIN_TASKS
}

/// Every agent once, in the order of the first task that has it.
pub(crate) fn agents<'t, 'a>(tasks: &'t [Task<'a>]) -> Vec<&'t Agent<'a>> {
    let mut found: Vec<&Agent<'a>> = Vec::new();
    for agent in tasks.iter().flat_map(|task| &task.agents) {
        if found.iter().all(|other| other.name != agent.name) {
            found.push(agent);
        }
    }
    found
}

/// Size of the figure by itself.
pub(crate) fn size(tasks: &[Task<'_>]) -> (f64, f64) {
    let panel = Format::Panel.size();
    let rows = tasks.len().div_ceil(COLUMNS) as f64;
    (panel.0 * COLUMNS as f64 + 16.0, HEADER + rows * (panel.1 + NAME) + 8.0)
}

/// The figure by itself.
pub(crate) fn figure(canvas: &mut dyn Canvas, tasks: &[Task<'_>], title: &str) {
    canvas.text((8.0, 28.0), title, Lettering::new(TITLE, Paint::Ink, Anchor::Start).strong());
    let unfinished = tasks.iter().flat_map(|task| &task.agents).any(|agent| agent.provisional);
    let seeds = if unfinished {
        "finished seeds (over unfinished ones where none has finished)"
    } else {
        "finished seeds"
    };
    let caption = format!(
        "Training score: mean over {seeds}, smoothed over one in {MEMORY_PART} of the episodes, {LONGEST_MEMORY} at most; bands are 95% \
         intervals{}.",
        if tasks.iter().any(|task| !task.marks.is_empty()) { "; dotted: random and best play" } else { "" }
    );
    canvas.text((8.0, 48.0), &caption, Lettering::new(SMALL, Paint::Muted, Anchor::Start));
    let mut x = 8.0;
    for agent in agents(tasks) {
        let paint = Paint::Colour(agent.style.colour);
        canvas.line((x, 68.0), (x + 18.0, 68.0), Stroke::new(paint, 2.5).dashed(agent.style.dash));
        let lettering = Lettering::new(BODY, paint, Anchor::Start).strong();
        canvas.text((x + 24.0, 68.0 + 0.35 * BODY), &agent.name, lettering);
        x += 44.0 + text::SYSTEM_FONT_ALLOWANCE * text::width(&agent.name, BODY);
    }
    let panel = Format::Panel.size();
    for (k, task) in tasks.iter().enumerate() {
        let origin =
            (8.0 + panel.0 * (k % COLUMNS) as f64, HEADER + NAME + (panel.1 + NAME) * (k / COLUMNS) as f64);
        let mut shifted = Shifted { canvas, origin };
        shifted.text((0.0, 2.0), &task.name, Lettering::new(BODY, Paint::Ink, Anchor::Start).strong());
        figure::learning_curves(&mut shifted, task, Format::Panel, Clock::Frames);
    }
}
