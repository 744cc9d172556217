//! Learning curves, and the dots of final scores.

use crate::analysis::{Agent, Clock, Curves, Task};
use crate::axis::{Axis, Kind, score_axis};
use crate::canvas::{Anchor, Canvas, Lettering, Paint, Point, Stroke};
use crate::exploration;
use crate::format::{list, short_count};
use crate::frozen_words;
use crate::plot::{BODY, Plot, SMALL, TITLE, spread};
use crate::reference::Mark;
use crate::run::AgentStatus;
use crate::stats::final_score;
use crate::text;

/// A score of random or of the best play is drawn if it lies no further from the curves than so many times their own span.
const FAR: f64 = 3.0;

/// Where a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// In a file of its own, with a title and labels at the ends of lines.
    File,
    /// In the page on a wide screen: labels at the ends of lines, no title.
    Wide,
    /// In the page on a phone: shortened labels at the ends of lines.
    Narrow,
    /// One of many: the figure's or the page's legend names the lines.
    Panel,
}

impl Format {
    /// Width and height of the learning-curve figure.
    pub(crate) fn size(self) -> (f64, f64) {
        match self {
            Self::File => (860.0, 480.0),
            Self::Wide => (860.0, 400.0),
            Self::Narrow => (360.0, 290.0),
            Self::Panel => (300.0, 228.0),
        }
    }
}

/// How many of a clock's ticks make one unit of its axis, and what the axis says.
pub(crate) fn unit(task: &Task<'_>, clock: Clock) -> (f64, &'static str) {
    const HOUR: f64 = 3_600_000.0;
    match clock {
        Clock::Frames => (1.0, "emulator frames"),
        Clock::Time if task.hour_grid.last().is_some_and(|last| *last as f64 >= 2.0 * HOUR) => {
            (HOUR, "hours of training")
        }
        Clock::Time => (HOUR / 60.0, "minutes of training"),
    }
}

/// Draws the learning curves of one task and returns the frame, for the page's tooltips.
pub(crate) fn learning_curves(
    canvas: &mut dyn Canvas,
    task: &Task<'_>,
    format: Format,
    clock: Clock,
) -> Plot {
    let (width, height) = format.size();
    let roomy = matches!(format, Format::File | Format::Wide);
    let lettering = LabelSize::of(format);
    let widest =
        labels_of(task, lettering).iter().map(|text| text::width(text, lettering.size())).fold(0.0, f64::max);
    let (divisor, meaning) = unit(task, clock);
    // The authors may have counted agent steps. If a step takes several frames, the axis shows both.
    let steps = if clock == Clock::Frames && task.frames_per_step > 1 { task.frames_per_step } else { 1 };
    let last = task.grid(clock).last().copied().unwrap_or(1) as f64 / divisor;
    let captions = if format == Format::File { captions(task, width - 16.0) } else { Vec::new() };
    let plot = Plot {
        left: if roomy { 52.0 } else { 44.0 },
        right: match format {
            Format::Panel => width - 18.0,
            Format::Narrow => width - 18.0 - text::SYSTEM_FONT_ALLOWANCE * widest,
            _ => width - 26.0 - text::SYSTEM_FONT_ALLOWANCE * widest,
        },
        top: if format == Format::File { 58.0 + 18.0 * captions.len().max(2) as f64 } else { 30.0 },
        bottom: height - if steps > 1 { 60.0 } else { 44.0 },
        x: Axis::linear(0.0, last, if roomy { 6 } else { 3 }),
        y: curve_axis(task, clock, if roomy { 6 } else { 5 }),
    };
    if format == Format::File {
        canvas.text((8.0, 28.0), &task.name, Lettering::new(TITLE, Paint::Ink, Anchor::Start).strong());
        for (k, caption) in captions.iter().enumerate() {
            let at = (8.0, 49.0 + 18.0 * k as f64);
            canvas.text(at, caption, Lettering::new(BODY, Paint::Muted, Anchor::Start));
        }
    }
    let score = if matches!(plot.y.kind, Kind::Symlog(_)) { "score (symmetric log scale)" } else { "score" };
    if steps > 1 {
        plot.frame(canvas, score, "");
        step_labels(canvas, &plot, steps, roomy);
    } else {
        plot.frame(canvas, score, meaning);
    }

    let drawn = task.agents.iter().any(|agent| {
        let curves = agent.curves(clock);
        !curves.mean.is_empty() || !curves.apart.is_empty()
    });
    if !drawn {
        let middle = ((plot.left + plot.right) / 2.0, (plot.top + plot.bottom) / 2.0);
        canvas.text(middle, "no finished episodes yet", Lettering::new(BODY, Paint::Muted, Anchor::Middle));
    }
    for mark in task.marks.iter().filter(|mark| plot.y.holds(mark.value)) {
        let y = plot.height_of(mark.value);
        let stroke = Stroke::new(Paint::Muted, 1.2).dashed(Some((1.5, 3.5)));
        canvas.line((plot.left, y), (plot.right, y), stroke);
    }
    // Later strokes cover earlier ones: the first agent (the baseline) is drawn last.
    for agent in task.agents.iter().rev() {
        canvas.begin_agent(&agent.name);
        curve(canvas, &|x, y| plot.at(x as f64 / divisor, y), agent, clock);
        canvas.end_agent();
    }
    if format != Format::Panel {
        end_labels(canvas, &plot, task, clock, divisor, lettering);
    }
    plot
}

/// The lines below the title of the figure by itself.
fn captions(task: &Task<'_>, width: f64) -> Vec<String> {
    let score = format!("{}, mean over {};", task.smoothed_score(), task.averaged_seeds());
    let rest = format!("bands are 95% intervals{}.", exploration::short(task));
    let whole = format!("{score} {rest}");
    let fits = text::SYSTEM_FONT_ALLOWANCE * text::width(&whole, BODY) <= width;
    let mut lines = if fits { vec![whole] } else { vec![score, rest] };
    lines.extend(frozen_words::curve_note(task));
    lines
}

/// A second row of labels below the frames: the same positions in agent steps.
fn step_labels(canvas: &mut dyn Canvas, plot: &Plot, frames_per_step: u64, roomy: bool) {
    let muted = Lettering::new(SMALL - 1.0, Paint::Muted, Anchor::Middle);
    for (value, _) in &plot.x.ticks {
        let (x, _) = plot.at(*value, plot.y.min);
        canvas.text((x, plot.bottom + 31.0), &short_count(value / frames_per_step as f64), muted);
    }
    let words = if roomy {
        format!("emulator frames; below, agent steps of {frames_per_step} frames")
    } else {
        "frames; below, agent steps".to_owned()
    };
    let middle = (plot.left + plot.right) / 2.0;
    canvas.text((middle, plot.bottom + 49.0), &words, Lettering::new(SMALL, Paint::Muted, Anchor::Middle));
}

fn curve_axis(task: &Task<'_>, clock: Clock, ticks: usize) -> Axis {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut peaks = Vec::new();
    for agent in &task.agents {
        let curves = agent.curves(clock);
        for point in &curves.mean {
            low = low.min(point.low);
            high = high.max(point.high);
        }
        for (_, value) in curves.apart.iter().flat_map(|curve| &curve.points) {
            low = low.min(*value);
            high = high.max(*value);
        }
        let frozen = agent.frozen.curve(clock).iter().map(|(_, value)| *value);
        for value in frozen.clone() {
            low = low.min(value);
            high = high.max(value);
        }
        let means = curves.mean.iter().map(|point| point.mean).chain(frozen);
        peaks.push(means.map(f64::abs).fold(0.0, f64::max));
    }
    if low > high {
        return Axis::linear(0.0, 1.0, ticks);
    }
    // A score far from all curves would squeeze them: it is left out and said to be beyond the axis.
    let span = high - low;
    let (mut lowest, mut highest) = (low, high);
    for mark in &task.marks {
        if mark.value > low - FAR * span && mark.value < high + FAR * span {
            (lowest, highest) = (lowest.min(mark.value), highest.max(mark.value));
        }
    }
    score_axis(lowest, highest, &peaks, ticks)
}

fn curve(canvas: &mut dyn Canvas, at: &dyn Fn(u64, f64) -> Point, agent: &Agent<'_>, clock: Clock) {
    let paint = Paint::Colour(agent.style.colour);
    let Curves { mean, apart, .. } = agent.curves(clock);
    let upper = mean.iter().map(|point| at(point.frame, point.high));
    let lower = mean.iter().rev().map(|point| at(point.frame, point.low));
    if mean.iter().any(|point| point.high > point.low) {
        let band: Vec<Point> = upper.chain(lower).collect();
        canvas.polygon(&band, paint, 0.16);
    }
    for seed in apart {
        let points: Vec<Point> = seed.points.iter().map(|(frame, value)| at(*frame, *value)).collect();
        let stroke = Stroke::new(paint, 1.1).dashed(Some((3.0, 3.0))).faded(0.85);
        canvas.polyline(&points, stroke);
        if let Some(end) = points.last() {
            end_mark(canvas, *end, paint, seed.run.status);
        }
    }
    // Solid where the curve holds all of its seeds; dashed where it holds fewer, or only unfinished ones.
    let whole = |k: usize| !agent.provisional && mean[k].seeds == agent.full();
    let mut start = 0;
    while start + 1 < mean.len() {
        let mut end = start + 1;
        while end + 1 < mean.len() && whole(end + 1) == whole(start + 1) {
            end += 1;
        }
        let points: Vec<Point> = mean[start..=end].iter().map(|point| at(point.frame, point.mean)).collect();
        let dash = if whole(start + 1) { agent.style.dash } else { Some((4.0, 3.0)) };
        canvas.polyline(&points, Stroke::new(paint, 2.0).dashed(dash));
        start = end;
    }
    frozen_curve(canvas, at, agent.frozen.curve(clock), paint);
    if let ([.., last], true) = (mean.as_slice(), agent.provisional) {
        let stopped = agent.unfinished.iter().all(|run| run.status == AgentStatus::Stopped);
        let status = if stopped { AgentStatus::Stopped } else { AgentStatus::Running };
        end_mark(canvas, at(last.frame, last.mean), paint, status);
    }
}

/// Frozen games: a dot for each evaluation, and dashes between them.
fn frozen_curve(canvas: &mut dyn Canvas, at: &dyn Fn(u64, f64) -> Point, curve: &[(u64, f64)], paint: Paint) {
    let points: Vec<Point> = curve.iter().map(|(frame, value)| at(*frame, *value)).collect();
    if points.is_empty() {
        return;
    }
    canvas.polyline(&points, Stroke::new(paint, 1.3).dashed(Some((5.0, 3.0))));
    for point in points {
        canvas.circle(point, 2.6, paint, Some(Stroke::new(Paint::Surface, 0.8)));
    }
}

/// A cross for a seed that was stopped, an open ring for one that may continue.
fn end_mark(canvas: &mut dyn Canvas, at: Point, paint: Paint, status: AgentStatus) {
    let stroke = Stroke::new(paint, 1.6);
    if status == AgentStatus::Stopped {
        let arm = 3.6;
        canvas.line((at.0 - arm, at.1 - arm), (at.0 + arm, at.1 + arm), stroke);
        canvas.line((at.0 - arm, at.1 + arm), (at.0 + arm, at.1 - arm), stroke);
    } else {
        canvas.circle(at, 3.2, Paint::Surface, Some(stroke));
    }
}

/// How the names at the ends of lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelSize {
    /// With how many seeds have finished.
    Whole,
    /// The name alone, and that cut where it is long.
    Short,
}

/// The most letters of a short label.
const SHORT: usize = 12;

impl LabelSize {
    fn of(format: Format) -> Self {
        if format == Format::Narrow { Self::Short } else { Self::Whole }
    }

    fn size(self) -> f64 {
        if self == Self::Short { SMALL } else { BODY }
    }

    fn agent(self, agent: &Agent<'_>) -> String {
        match self {
            Self::Short if agent.name.chars().count() > SHORT => {
                agent.name.chars().take(SHORT - 1).chain(['…']).collect()
            }
            Self::Short => agent.name.clone(),
            Self::Whole if agent.provisional => format!("{} (unfinished)", agent.name),
            Self::Whole if agent.unfinished.is_empty() => agent.name.clone(),
            Self::Whole => format!("{} ({} of {})", agent.name, agent.finished.len(), agent.seeds()),
        }
    }

    fn mark(self, mark: &Mark) -> &'static str {
        match (self, mark.label.split_once(' ')) {
            (Self::Short, Some((first, _))) => first,
            _ => mark.label,
        }
    }
}

/// Every label of a task.
fn labels_of(task: &Task<'_>, size: LabelSize) -> Vec<String> {
    let marks = task.marks.iter().map(|mark| size.mark(mark).to_owned());
    task.agents.iter().map(|agent| size.agent(agent)).chain(marks).collect()
}

/// A name to be written at the right edge.
struct EndLabel<'t> {
    text: String,
    /// Whose it is; none of a score that is no agent's.
    agent: Option<&'t Agent<'t>>,
    height: f64,
}

impl EndLabel<'_> {
    fn paint(&self) -> Paint {
        self.agent.map_or(Paint::Muted, |agent| Paint::Colour(agent.style.colour))
    }

    fn write(&self, canvas: &mut dyn Canvas, at: Point, size: f64) {
        let lettering = Lettering::new(size, self.paint(), Anchor::Start);
        let lettering = if self.agent.is_some() { lettering.strong() } else { lettering };
        canvas.text((at.0, at.1 + 0.35 * size), &self.text, lettering);
    }
}

fn end_labels(
    canvas: &mut dyn Canvas,
    plot: &Plot,
    task: &Task<'_>,
    clock: Clock,
    divisor: f64,
    size: LabelSize,
) {
    let marks = task.marks.iter().filter(|mark| plot.y.holds(mark.value));
    let mut at_the_edge: Vec<EndLabel<'_>> = marks
        .map(|mark| EndLabel {
            text: size.mark(mark).to_owned(),
            agent: None,
            height: plot.height_of(mark.value),
        })
        .collect();
    let mut early: Vec<(f64, EndLabel<'_>)> = Vec::new();
    for agent in &task.agents {
        let Some(last) = agent.curves(clock).mean.last() else { continue };
        let end = plot.at(last.frame as f64 / divisor, last.mean);
        let label = EndLabel { text: size.agent(agent), agent: Some(agent), height: end.1 };
        if end.0 < plot.right - 20.0 {
            early.push((end.0, label));
        } else {
            at_the_edge.push(label);
        }
    }
    early_labels(canvas, plot, early, size);
    let heights: Vec<f64> = at_the_edge.iter().map(|label| label.height).collect();
    let placed = spread(&heights, size.size() + 3.5, plot.top, plot.bottom);
    let (leader, gap) = if size == LabelSize::Short { (6.0, 9.0) } else { (11.0, 15.0) };
    for (label, height) in at_the_edge.iter().zip(placed) {
        if let Some(agent) = label.agent {
            canvas.begin_agent(&agent.name);
        }
        // A short leader keeps label and line together where labels had to move.
        let stroke = Stroke::new(label.paint(), 1.0).faded(0.5);
        canvas.polyline(&[(plot.right + 2.0, label.height), (plot.right + leader, height)], stroke);
        label.write(canvas, (plot.right + gap, height), size.size());
        if label.agent.is_some() {
            canvas.end_agent();
        }
    }
}

/// Curves that end early have their names where they end: names that would stand side by side are moved apart.
fn early_labels(canvas: &mut dyn Canvas, plot: &Plot, mut early: Vec<(f64, EndLabel<'_>)>, size: LabelSize) {
    early.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut first = 0;
    while first < early.len() {
        let (mut end, mut right) = (first, f64::NEG_INFINITY);
        while end < early.len() && (end == first || early[end].0 < right) {
            let length = text::SYSTEM_FONT_ALLOWANCE * text::width(&early[end].1.text, size.size());
            right = right.max(early[end].0 + 15.0 + length);
            end += 1;
        }
        let group = &early[first..end];
        let heights: Vec<f64> = group.iter().map(|(_, label)| label.height).collect();
        let placed = spread(&heights, size.size() + 3.5, plot.top, plot.bottom);
        for ((x, label), height) in group.iter().zip(placed) {
            let Some(agent) = label.agent else { continue };
            canvas.begin_agent(&agent.name);
            let stroke = Stroke::new(label.paint(), 1.0).faded(0.5);
            canvas.polyline(&[(x + 4.0, label.height), (x + 11.0, height)], stroke);
            label.write(canvas, (x + 13.0, height), size.size());
            canvas.end_agent();
        }
        first = end;
    }
}

/// Which scores of random and of the best play lie beyond the axis, for the caption.
pub(crate) fn beyond_the_axis(task: &Task<'_>) -> Option<String> {
    let axis = curve_axis(task, Clock::Frames, 6);
    let beyond = task.marks.iter().filter(|mark| !axis.holds(mark.value));
    let beyond: Vec<String> = beyond.map(|mark| mark.label.to_owned()).collect();
    (!beyond.is_empty()).then(|| format!("Beyond the axis: {}.", list(&beyond)))
}

/// The axis that all final scores of a task share.
pub(crate) fn final_axis(task: &Task<'_>, ticks: usize) -> Axis {
    let mut values: Vec<f64> = task.rows.iter().flat_map(|row| row.per_seed.iter().copied()).collect();
    for agent in &task.agents {
        values.extend(agent.unfinished.iter().filter_map(|run| final_score(&run.episodes, run.frames)));
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // With two or three seeds an interval may be far wider than all scores together, which it would squeeze to one dot.
    let reach = FAR * (high - low);
    let ends = || task.rows.iter().filter_map(|row| row.low95.zip(row.high95));
    let (low, high) = (
        ends().map(|(end, _)| end.max(low - reach)).fold(low, f64::min),
        ends().map(|(_, end)| end.min(high + reach)).fold(high, f64::max),
    );
    let peaks: Vec<f64> = task.rows.iter().filter_map(|row| Some(row.mean?.abs())).collect();
    if low > high { Axis::linear(0.0, 1.0, ticks) } else { score_axis(low, high, &peaks, ticks) }
}

/// Whether some interval goes on beyond the axis of final scores.
pub(crate) fn beyond_the_final_axis(task: &Task<'_>, axis: &Axis) -> bool {
    let mut ends = task.rows.iter().flat_map(|row| [row.low95, row.high95]).flatten();
    ends.any(|end| !axis.holds(end))
}

/// One agent's final scores on a horizontal line at height `y`: a dot per finished seed, a ring per unfinished one,
/// a bar for the 95% interval and a stroke for the mean.
pub(crate) fn final_dots(canvas: &mut dyn Canvas, task: &Task<'_>, agent: &Agent<'_>, plot: &Plot, y: f64) {
    let Some(row) = task.rows.iter().find(|row| row.agent == agent.name) else { return };
    let paint = Paint::Colour(agent.style.colour);
    let x = |value: f64| plot.at(value, plot.y.min).0;
    canvas.line((plot.left, y), (plot.right, y), Stroke::new(Paint::Rule, 1.0));
    if let (Some(low), Some(high)) = (row.low95, row.high95) {
        canvas.line((x(low), y), (x(high), y), Stroke::new(paint, 7.0).faded(0.28));
        // An arrow where the interval goes on beyond the axis.
        for (value, edge, inwards) in [(low, plot.left, 9.0), (high, plot.right, -9.0)] {
            if !plot.x.holds(value) {
                let base = edge + inwards;
                canvas.polygon(&[(edge, y), (base, y - 6.0), (base, y + 6.0)], paint, 0.7);
            }
        }
    }
    for run in &agent.unfinished {
        if let Some(value) = final_score(&run.episodes, run.frames) {
            // Below the line, so that it cannot be mistaken for one of the dots that count.
            canvas.circle((x(value), y + 8.0), 2.8, Paint::Surface, Some(Stroke::new(paint, 1.4)));
        }
    }
    for value in &row.per_seed {
        canvas.circle((x(*value), y), 3.4, paint, Some(Stroke::new(Paint::Surface, 1.0)));
    }
    if let Some(mean) = row.mean {
        canvas.line((x(mean), y - 8.0), (x(mean), y + 8.0), Stroke::new(paint, 2.0));
    }
}

/// Size of the figure of final scores as a file by itself.
pub(crate) fn final_size(task: &Task<'_>) -> (f64, f64) {
    (680.0, 76.0 + 34.0 * task.rows.len() as f64 + 52.0)
}

/// The figure of final scores by itself.
pub(crate) fn final_figure(canvas: &mut dyn Canvas, task: &Task<'_>) {
    let (width, height) = final_size(task);
    let widest = task.rows.iter().map(|row| text::width(&row.agent, BODY)).fold(0.0, f64::max);
    let axis = final_axis(task, 6);
    let symlog = matches!(axis.kind, Kind::Symlog(_));
    let plot = Plot {
        left: 24.0 + text::SYSTEM_FONT_ALLOWANCE * widest,
        right: width - 24.0,
        top: 70.0,
        bottom: height - 48.0,
        x: axis,
        y: Axis { kind: Kind::Linear, min: 0.0, max: 1.0, ticks: Vec::new() },
    };
    canvas.text((8.0, 28.0), &task.name, Lettering::new(TITLE, Paint::Ink, Anchor::Start).strong());
    let caption = format!(
        "Final score after {} frames: seeds (dots), mean (stroke), 95% interval (bar{}).",
        short_count(task.trained() as f64),
        if beyond_the_final_axis(task, &plot.x) { "; arrow: it goes on" } else { "" }
    );
    canvas.text((8.0, 49.0), &caption, Lettering::new(BODY, Paint::Muted, Anchor::Start));
    plot.frame(canvas, "", if symlog { "score (symmetric log scale)" } else { "score" });
    zero_line(canvas, &plot);
    for (k, row) in task.rows.iter().enumerate() {
        let y = plot.top + 18.0 + 34.0 * k as f64;
        let Some(agent) = task.agents.iter().find(|agent| agent.name == row.agent) else { continue };
        let lettering = Lettering::new(BODY, Paint::Colour(agent.style.colour), Anchor::End).strong();
        canvas.text((plot.left - 14.0, y + 0.35 * BODY), &row.agent, lettering);
        final_dots(canvas, task, agent, &plot, y);
    }
}

/// The vertical line at zero of a horizontal score axis.
pub(crate) fn zero_line(canvas: &mut dyn Canvas, plot: &Plot) {
    if plot.x.min < 0.0 && plot.x.max > 0.0 {
        let (x, _) = plot.at(0.0, 0.0);
        canvas.line((x, plot.top), (x, plot.bottom), Stroke::new(Paint::Muted, 1.0).faded(0.45));
    }
}

/// The axis below the dots that stand in the rows of the page's table.
pub(crate) fn final_scale(canvas: &mut dyn Canvas, plot: &Plot) {
    canvas.line((plot.left, 1.0), (plot.right, 1.0), Stroke::new(Paint::Muted, 1.0).faded(0.5));
    for (value, label) in &plot.x.ticks {
        let (x, _) = plot.at(*value, 0.0);
        canvas.line((x, 1.0), (x, 5.0), Stroke::new(Paint::Muted, 1.0).faded(0.5));
        canvas.text((x, 17.0), label, Lettering::new(SMALL, Paint::Muted, Anchor::Middle));
    }
}
