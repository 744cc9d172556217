//! Performance profiles, and probabilities of improvement.

use crate::analysis::{Profile, Task};
use crate::axis::{Axis, Kind, score_axis};
use crate::canvas::{Anchor, Canvas, Lettering, Paint, Point, Stroke};
use crate::palette::Style;
use crate::plot::{BODY, Plot, SMALL, TITLE};
use crate::summary::Improvement;
use crate::text;

/// Size of a panel, in the page and in the figure by itself.
pub(crate) const PANEL: (f64, f64) = (420.0, 264.0);
const HEADER: f64 = 66.0;
/// Height of one row of the probabilities.
const ROW: f64 = 30.0;

/// Draws the share of seeds above each score at `origin`; `style` gives an agent's colour.
pub(crate) fn profile(
    canvas: &mut dyn Canvas,
    profile: &Profile,
    style: &dyn Fn(&str) -> Option<Style>,
    origin: Point,
    meaning: &str,
) -> Plot {
    let low = profile.thresholds.first().copied().unwrap_or(0.0);
    let high = profile.thresholds.last().copied().unwrap_or(1.0);
    let half = |line: &crate::analysis::ProfileLine| {
        // The score that half of the seeds reach stands for the agent when the scale is chosen.
        let at = line.share.iter().rposition(|share| *share >= 0.5).unwrap_or(0);
        profile.thresholds[at].abs()
    };
    let peaks: Vec<f64> = profile.lines.iter().map(half).collect();
    let x = score_axis(low, high, &peaks, 4);
    let symlog = matches!(x.kind, Kind::Symlog(_));
    let ticks = (0..=4).map(|k| (f64::from(k) / 4.0, format!("{}%", 25 * k)));
    let plot = Plot {
        left: origin.0 + 52.0,
        right: origin.0 + PANEL.0 - 20.0,
        top: origin.1 + 16.0,
        bottom: origin.1 + PANEL.1 - 44.0,
        x,
        y: Axis { kind: Kind::Linear, min: 0.0, max: 1.0, ticks: ticks.collect() },
    };
    let words = if symlog { format!("{meaning} (symmetric log scale)") } else { meaning.to_owned() };
    plot.frame(canvas, "", &words);
    for (k, line) in profile.lines.iter().enumerate().rev() {
        let Some(style) = style(&line.agent) else { continue };
        let paint = Paint::Colour(style.colour);
        canvas.begin_agent(&line.agent);
        let upper: Vec<f64> = line.band.iter().map(|band| band.high).collect();
        let lower: Vec<f64> = line.band.iter().map(|band| band.low).collect();
        if !upper.is_empty() {
            let mut band = steps(&plot, &profile.thresholds, &upper);
            band.extend(steps(&plot, &profile.thresholds, &lower).into_iter().rev());
            canvas.polygon(&band, paint, 0.07);
        }
        let points = steps(&plot, &profile.thresholds, &line.share);
        // What is drawn later would hide a curve that is the same: the one below shows on both sides of it.
        let above = profile.lines[..k].iter().filter(|other| other.share == line.share).count();
        canvas.polyline(&points, Stroke::new(paint, 2.0 + 3.0 * above as f64).dashed(style.dash));
        canvas.end_agent();
    }
    plot
}

/// A profile holds its value from one threshold to the next; below the first, every seed lies above.
fn steps(plot: &Plot, thresholds: &[f64], values: &[f64]) -> Vec<Point> {
    let mut points = vec![plot.at(plot.x.min, 1.0)];
    let mut last = 1.0;
    for (threshold, value) in thresholds.iter().zip(values) {
        points.push(plot.at(*threshold, last));
        points.push(plot.at(*threshold, *value));
        last = *value;
    }
    points.push(plot.at(plot.x.max, last));
    points
}

/// Draws a dot and a 95% interval per comparison at `origin`.
pub(crate) fn improvements(
    canvas: &mut dyn Canvas,
    task: &Task<'_>,
    improvements: &[Improvement],
    origin: Point,
) {
    let Some(first) = improvements.first() else { return };
    let name = |entry: &Improvement| format!("over {}", entry.other);
    let widest = improvements.iter().map(|entry| text::width(&name(entry), BODY)).fold(0.0, f64::max);
    let ticks = (0..=2).map(|k| (f64::from(k) / 2.0, format!("{}%", 50 * k)));
    let plot = Plot {
        left: origin.0 + 16.0 + text::SYSTEM_FONT_ALLOWANCE * widest,
        right: origin.0 + PANEL.0 - 134.0,
        top: origin.1 + 16.0,
        bottom: origin.1 + 16.0 + ROW * improvements.len() as f64,
        x: Axis { kind: Kind::Linear, min: 0.0, max: 1.0, ticks: ticks.collect() },
        y: Axis { kind: Kind::Linear, min: 0.0, max: 1.0, ticks: Vec::new() },
    };
    plot.frame(canvas, "", &format!("probability that a seed of {} ends higher", first.agent));
    let (middle, _) = plot.at(0.5, 0.0);
    canvas.line((middle, plot.top), (middle, plot.bottom), Stroke::new(Paint::Muted, 1.0).faded(0.6));
    for (k, entry) in improvements.iter().enumerate() {
        let y = plot.top + ROW * (k as f64 + 0.5);
        let Some(other) = task.agent(&entry.other) else { continue };
        let paint = Paint::Colour(other.style.colour);
        canvas.begin_agent(&entry.other);
        let lettering = Lettering::new(BODY, paint, Anchor::End).strong();
        canvas.text((plot.left - 10.0, y + 0.35 * BODY), &name(entry), lettering);
        canvas.line((plot.left, y), (plot.right, y), Stroke::new(Paint::Rule, 1.0));
        let x = |share: f64| plot.at(share, 0.0).0;
        if let (Some(low), Some(high)) = (entry.low95, entry.high95) {
            canvas.line((x(low), y), (x(high), y), Stroke::new(paint, 7.0).faded(0.28));
        }
        canvas.circle((x(entry.probability), y), 4.2, paint, Some(Stroke::new(Paint::Surface, 1.0)));
        canvas.text(
            (plot.right + 12.0, y + 0.35 * SMALL),
            &chance(entry),
            Lettering::new(SMALL, Paint::Muted, Anchor::Start),
        );
        canvas.end_agent();
    }
}

/// A probability with its interval.
pub(crate) fn chance(entry: &Improvement) -> String {
    let point = format!("{:.0}%", 100.0 * entry.probability);
    match (entry.low95, entry.high95) {
        (Some(low), Some(high)) => format!("{point} ({:.0} to {:.0}%)", 100.0 * low, 100.0 * high),
        _ => point,
    }
}

/// Height that the probabilities need.
pub(crate) fn improvements_height(improvements: &[Improvement]) -> f64 {
    16.0 + ROW * improvements.len() as f64 + 46.0
}

const WIDTH: f64 = 2.0 * PANEL.0 + 20.0;
/// Height of one row of the names below the caption.
const NAMES: f64 = 19.0;

/// The names of the agents of a profile, in rows, each with where it begins.
fn legend(profile: &Profile) -> Vec<Vec<(f64, &str)>> {
    let mut rows: Vec<Vec<(f64, &str)>> = vec![Vec::new()];
    let mut x = 8.0;
    for line in &profile.lines {
        let width = 24.0 + text::SYSTEM_FONT_ALLOWANCE * text::width(&line.agent, BODY);
        if x + width > WIDTH - 8.0 && x > 8.0 {
            rows.push(Vec::new());
            x = 8.0;
        }
        rows.last_mut().expect("there is a first row").push((x, &line.agent));
        x += width + 20.0;
    }
    rows
}

fn header(profile: Option<&Profile>) -> f64 {
    HEADER + NAMES * profile.map_or(0, |profile| legend(profile).len()) as f64
}

/// Size of the figure by itself.
pub(crate) fn size(task: &Task<'_>) -> (f64, f64) {
    let header = header(task.profile.as_ref());
    (WIDTH, header + PANEL.1.max(improvements_height(&task.improvements)) + 6.0)
}

/// The figure by itself: the profile to the left, the probabilities to the right.
pub(crate) fn figure(canvas: &mut dyn Canvas, task: &Task<'_>, shown: &Profile) {
    canvas.text((8.0, 28.0), &task.name, Lettering::new(TITLE, Paint::Ink, Anchor::Start).strong());
    let caption = "Final scores: share of seeds above a score (left), probability of improvement (right); binomial 95% \
                   intervals.";
    canvas.text((8.0, 49.0), caption, Lettering::new(BODY, Paint::Muted, Anchor::Start));
    let style = |name: &str| task.agent(name).map(|agent| agent.style);
    for (k, row) in legend(shown).into_iter().enumerate() {
        let y = 70.0 + NAMES * k as f64;
        for (x, name) in row {
            let Some(style) = style(name) else { continue };
            let paint = Paint::Colour(style.colour);
            canvas.line((x, y), (x + 18.0, y), Stroke::new(paint, 2.5).dashed(style.dash));
            let lettering = Lettering::new(BODY, paint, Anchor::Start).strong();
            canvas.text((x + 24.0, y + 0.35 * BODY), name, lettering);
        }
    }
    let header = header(Some(shown));
    profile(canvas, shown, &style, (0.0, header), "final score");
    let origin = (PANEL.0 + 20.0, header);
    if let Some(agent) = task.improvements.first().and_then(|entry| task.agent(&entry.agent)) {
        let lettering = Lettering::new(BODY, Paint::Colour(agent.style.colour), Anchor::Start).strong();
        canvas.text((origin.0 + 16.0, origin.1 + 4.0), &format!("{} improves", agent.name), lettering);
    }
    improvements(canvas, task, &task.improvements, origin);
}
