//! TD percentage error by the player's score, one panel per agent, as the paper's figure 4.

use crate::analysis::{Agent, Task};
use crate::axis::Axis;
use crate::canvas::{Anchor, Canvas, Lettering, Paint, Point, Stroke};
use crate::findings::CRUCIAL_PERCENT;
use crate::palette::score_colour;
use crate::plot::{BODY, Plot, SMALL, TITLE};
use crate::text;

/// The decades to which the axis is limited: beyond them an error is tiny or absurd whatever its digits.
const DECADES: (i32, i32) = (-2, 5);
/// Columns of panels in the figure by itself.
const COLUMNS: usize = 2;
const PANEL: (f64, f64) = (424.0, 250.0);
const HEADER: f64 = 66.0;

/// What all panels of a task share, so that they can be compared.
pub(crate) struct TdFrame {
    pub percent: Axis,
    pub frames: f64,
    pub lowest: i64,
    pub highest: i64,
}

impl TdFrame {
    /// `None` if the task has no player's score.
    pub(crate) fn of(task: &Task<'_>) -> Option<Self> {
        let lines = || task.agents.iter().flat_map(|agent| &agent.td_lines);
        let lowest = lines().map(|line| line.player_score).min()?;
        let highest = lines().map(|line| line.player_score).max()?;
        let values = || lines().flat_map(|line| line.values.iter().flatten().copied());
        let low = values().fold(f64::INFINITY, f64::min).min(CRUCIAL_PERCENT / 2.0);
        let high = values().fold(0.0, f64::max).max(100.0);
        let decade = |value: f64, round: fn(f64) -> f64| {
            (round(value.log10() + if value > 1.0 { -1e-9 } else { 1e-9 }) as i32).clamp(DECADES.0, DECADES.1)
        };
        let bottom = decade(low, f64::floor);
        let top = decade(high, f64::ceil).max(bottom + 1);
        Some(Self {
            percent: Axis::percent_decades(bottom, top),
            frames: task.grid.last().copied().unwrap_or(1) as f64,
            lowest,
            highest,
        })
    }

    /// The colour of a score's line.
    pub(crate) fn paint(&self, player_score: i64) -> Paint {
        let span = (self.highest - self.lowest).max(1) as f64;
        Paint::Colour(score_colour((player_score - self.lowest) as f64 / span))
    }
}

/// Draws one agent's panel at `origin`; `PANEL`-sized unless the page asks for its own size.
pub(crate) fn panel(
    canvas: &mut dyn Canvas,
    task: &Task<'_>,
    agent: &Agent<'_>,
    shared: &TdFrame,
    origin: Point,
    size: (f64, f64),
    titled: bool,
) -> Plot {
    let plot = Plot {
        left: origin.0 + 72.0,
        right: origin.0 + size.0 - 20.0,
        top: origin.1 + if titled { 30.0 } else { 12.0 },
        bottom: origin.1 + size.1 - 42.0,
        x: Axis::linear(0.0, shared.frames, 4),
        y: shared.percent.clone(),
    };
    if titled {
        let lettering = Lettering::new(BODY, Paint::Colour(agent.style.colour), Anchor::Start).strong();
        canvas.text((plot.left, plot.top - 11.0), &title(agent), lettering);
    }
    plot.frame(canvas, "", "emulator frames");
    for line in &agent.td_lines {
        let stroke = Stroke::new(shared.paint(line.player_score), 1.3);
        let mut points: Vec<Point> = Vec::new();
        for (frame, value) in task.grid.iter().zip(&line.values) {
            match value {
                Some(value) => points.push(plot.at(*frame as f64, *value)),
                None => canvas.polyline(&std::mem::take(&mut points), stroke),
            }
        }
        canvas.polyline(&points, stroke);
    }
    let y = plot.height_of(CRUCIAL_PERCENT);
    canvas.line((plot.left, y), (plot.right, y), Stroke::new(Paint::Ink, 1.0).dashed(Some((2.0, 3.0))));
    let label = format!("{CRUCIAL_PERCENT}%");
    canvas.text((plot.left - 8.0, y + 0.35 * SMALL), &label, Lettering::new(SMALL, Paint::Ink, Anchor::End));
    plot
}

/// What stands above an agent's panel: how many seeds it holds, and what must be known of them.
pub(crate) fn title(agent: &Agent<'_>) -> String {
    let seeds = if agent.full() == 1 { "1 seed".to_owned() } else { format!("{} seeds", agent.full()) };
    let unfinished = if agent.provisional { ", unfinished" } else { "" };
    let altered = if agent.sees_true_rewards() { "" } else { ", of altered rewards" };
    format!("{} ({seeds}{unfinished}{altered})", agent.name)
}

/// Agents that have TD errors.
pub(crate) fn shown<'t, 'a>(task: &'t Task<'a>) -> Vec<&'t Agent<'a>> {
    task.agents.iter().filter(|agent| !agent.td_lines.is_empty()).collect()
}

/// Size of the figure by itself.
pub(crate) fn size(task: &Task<'_>) -> (f64, f64) {
    let panels = shown(task).len();
    let columns = panels.clamp(1, COLUMNS);
    let width = (PANEL.0 * columns as f64).max(620.0);
    (width, HEADER + PANEL.1 * panels.div_ceil(columns) as f64 + 6.0)
}

/// The figure by itself: all panels, and the meaning of the colours.
pub(crate) fn figure(canvas: &mut dyn Canvas, task: &Task<'_>, shared: &TdFrame) {
    canvas.text((8.0, 28.0), &task.name, Lettering::new(TITLE, Paint::Ink, Anchor::Start).strong());
    let caption = format!(
        "TD error in % of the target, by the player's score; dotted: {CRUCIAL_PERCENT}%, the cusp of playing well."
    );
    canvas.text((8.0, 49.0), &caption, Lettering::new(BODY, Paint::Muted, Anchor::Start));
    colour_key(canvas, shared, size(task).0 - 16.0, 24.0);
    for (k, agent) in shown(task).into_iter().enumerate() {
        let origin = (PANEL.0 * (k % COLUMNS) as f64, HEADER + PANEL.1 * (k / COLUMNS) as f64);
        panel(canvas, task, agent, shared, origin, PANEL, true);
    }
}

/// A strip of colours from the lowest score to the highest, ending at `right`.
fn colour_key(canvas: &mut dyn Canvas, shared: &TdFrame, right: f64, y: f64) {
    let muted = |anchor| Lettering::new(SMALL, Paint::Muted, anchor);
    let highest = shared.highest.to_string();
    canvas.text((right, y + 0.35 * SMALL), &highest, muted(Anchor::End));
    let end = right - text::width(&highest, SMALL) - 8.0;
    let (cells, cell) = (24, 5.0);
    let start = end - f64::from(cells) * cell;
    for k in 0..cells {
        let x = start + f64::from(k) * cell;
        let colour = Paint::Colour(score_colour(f64::from(k) / f64::from(cells - 1)));
        let corners = [(x, y - 4.0), (x + cell + 0.2, y - 4.0), (x + cell + 0.2, y + 4.0), (x, y + 4.0)];
        canvas.polygon(&corners, colour, 1.0);
    }
    let label = format!("player's score  {}", shared.lowest);
    canvas.text((start - 8.0, y + 0.35 * SMALL), &label, muted(Anchor::End));
}
