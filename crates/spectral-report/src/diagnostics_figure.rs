//! A codec's own statistics over time: one panel per quantity.

use crate::analysis::{Agent, Panel, Scale, Series, Task};
use crate::axis::{Axis, Kind};
use crate::canvas::{Anchor, Canvas, Lettering, Paint, Point, Stroke};
use crate::palette::{Rgb, score_colour};
use crate::plot::{BODY, Plot, SMALL, TITLE};

/// Size of a panel, in the page and in the figure by itself.
pub(crate) const PANEL: (f64, f64) = (300.0, 222.0);
const HEADER: f64 = 66.0;
const COLUMNS: usize = 3;
/// Colours of μ and σ.
const PAIR: [Rgb; 2] = [Rgb(0x2f, 0x9b, 0xbd), Rgb(0xb5, 0x56, 0x9a)];

/// The colour of one line.
pub(crate) fn paint(panel: &Panel, series: &Series) -> Paint {
    if !panel.spectrum {
        return Paint::Colour(PAIR[series.index % PAIR.len()]);
    }
    let highest = panel.series.iter().map(|series| series.index).max().unwrap_or(0).max(1);
    Paint::Colour(score_colour(series.index as f64 / highest as f64))
}

/// The lines as they are drawn: percentages, or heights of a stack from its floor upwards.
pub(crate) fn heights(panel: &Panel) -> Vec<Vec<Option<f64>>> {
    let mut floor = vec![0.0; panel.grid.len()];
    let mut lines = Vec::new();
    for series in &panel.series {
        let drawn = series.values.iter().zip(&mut floor).map(|(value, floor)| {
            let value = (*value)?;
            Some(match panel.scale {
                Scale::LogPercent => 100.0 * value,
                Scale::Log | Scale::Symlog => value,
                Scale::Stacked => {
                    *floor += 100.0 * value;
                    *floor
                }
            })
        });
        lines.push(drawn.collect());
    }
    lines
}

fn axis(panel: &Panel, lines: &[Vec<Option<f64>>]) -> Axis {
    let values = || lines.iter().flatten().flatten().copied();
    match panel.scale {
        Scale::LogPercent => {
            let (low, _) = Axis::decades_of(values());
            Axis::percent_decades(low.clamp(-4, 1), 2)
        }
        Scale::Log => {
            let (low, high) = Axis::decades_of(values());
            Axis::decades(low, high)
        }
        Scale::Stacked => {
            let ticks = (0..=4).map(|k| (25.0 * f64::from(k), format!("{}%", 25 * k)));
            Axis { kind: Kind::Linear, min: 0.0, max: 100.0, ticks: ticks.collect() }
        }
        Scale::Symlog => {
            let low = values().fold(0.0, f64::min);
            let high = values().fold(0.0, f64::max);
            Axis::symlog(1.2 * low, 1.2 * high, 1.0)
        }
    }
}

/// Draws one panel at `origin`.
pub(crate) fn panel(
    canvas: &mut dyn Canvas,
    task: &Task<'_>,
    panel: &Panel,
    origin: Point,
    title: Option<&str>,
) -> Plot {
    let lines = heights(panel);
    let last = task.grid.last().copied().unwrap_or(1) as f64;
    let plot = Plot {
        left: origin.0 + 54.0,
        right: origin.0 + PANEL.0 - 22.0,
        top: origin.1 + if title.is_some() { 30.0 } else { 12.0 },
        bottom: origin.1 + PANEL.1 - 42.0,
        x: Axis::linear(0.0, last, 3),
        y: axis(panel, &lines),
    };
    if let Some(title) = title {
        canvas.text(
            (origin.0 + 14.0, plot.top - 13.0),
            title,
            Lettering::new(SMALL, Paint::Ink, Anchor::Start).strong(),
        );
    }
    plot.frame(canvas, "", "emulator frames");
    let mut floor: Option<&Vec<Option<f64>>> = None;
    let mut names: Vec<(Point, &str, Paint)> = Vec::new();
    for (series, line) in panel.series.iter().zip(&lines) {
        let paint = paint(panel, series);
        let mut points: Vec<Point> = Vec::new();
        let mut under: Vec<Point> = Vec::new();
        for (k, (frame, value)) in panel.grid.iter().zip(line).enumerate() {
            let x = *frame as f64;
            if let Some(value) = value {
                points.push(plot.at(x, *value));
                let base = floor.and_then(|below| below[k]).unwrap_or(plot.y.min);
                under.push(plot.at(x, base));
            } else if panel.scale != Scale::Stacked {
                canvas.polyline(&std::mem::take(&mut points), Stroke::new(paint, 1.3));
            }
        }
        if panel.scale == Scale::Stacked {
            points.extend(under.into_iter().rev());
            if points.len() > 2 {
                canvas.polygon(&points, paint, 0.85);
            }
            floor = Some(line);
        } else {
            canvas.polyline(&points, Stroke::new(paint, 1.5));
            if let (false, Some(end)) = (panel.spectrum, points.last()) {
                names.push((*end, &series.name, paint));
            }
        }
    }
    // From the top downwards, none on top of another.
    names.sort_by(|(a, ..), (b, ..)| a.1.total_cmp(&b.1));
    let mut lowest = f64::NEG_INFINITY;
    for (end, name, paint) in names {
        lowest = end.1.max(lowest + BODY);
        let lettering = Lettering::new(BODY, paint, Anchor::Start).strong();
        canvas.text((end.0 + 6.0, lowest + 0.35 * BODY), name, lettering);
    }
    plot
}

/// Agents that have panels.
pub(crate) fn shown<'t, 'a>(task: &'t Task<'a>) -> Vec<&'t Agent<'a>> {
    task.agents.iter().filter(|agent| !agent.panels.is_empty()).collect()
}

/// The panels row by row: those of an agent together, and agents with a single panel side by side.
fn rows<'t>(task: &'t Task<'_>) -> Vec<Vec<(&'t str, &'t Panel)>> {
    let (lone, many): (Vec<&Agent<'_>>, Vec<&Agent<'_>>) =
        shown(task).into_iter().partition(|agent| agent.panels.len() == 1);
    let of = |agent: &'t Agent<'_>| agent.panels.iter().map(|panel| (agent.name.as_str(), panel)).collect();
    let many: Vec<Vec<_>> = many.into_iter().map(of).collect();
    let lone: Vec<_> = lone.into_iter().flat_map(of).collect();
    many.iter().chain([&lone]).flat_map(|panels| panels.chunks(COLUMNS)).map(<[_]>::to_vec).collect()
}

/// Size of the figure by itself.
pub(crate) fn size(task: &Task<'_>) -> (f64, f64) {
    (PANEL.0 * COLUMNS as f64, HEADER + (PANEL.1 + 10.0) * rows(task).len() as f64 + 6.0)
}

/// The figure by itself: every panel of every agent.
pub(crate) fn figure(canvas: &mut dyn Canvas, task: &Task<'_>) {
    canvas.text((8.0, 28.0), &task.name, Lettering::new(TITLE, Paint::Ink, Anchor::Start).strong());
    let caption = "Inside the codecs, mean over seeds; frequencies from low (blue) to high (red), those never active left out.";
    canvas.text((8.0, 49.0), caption, Lettering::new(BODY, Paint::Muted, Anchor::Start));
    for (r, row) in rows(task).into_iter().enumerate() {
        let top = HEADER + (PANEL.1 + 10.0) * r as f64;
        for (k, (agent, shown)) in row.into_iter().enumerate() {
            let title = format!("{agent}: {}", shown.title);
            panel(canvas, task, shown, (PANEL.0 * k as f64, top), Some(&title));
        }
    }
}
