//! The final score against a setting that was varied.

use std::path::Path;

use crate::axis::{Axis, Kind, score_axis};
use crate::canvas::{Anchor, Canvas, Lettering, Paint, Stroke};
use crate::error::ReportError;
use crate::output::write_figure;
use crate::palette::Palette;
use crate::plot::{BODY, Plot, SMALL, TITLE, spread};
use crate::stats;
use crate::text;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// The axis is logarithmic if the largest value is at least so many times the smallest.
const WIDE: f64 = 8.0;
/// More lines than this are no figure.
const MOST_LINES: usize = 12;

/// The scores at one value of the setting.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// The value.
    pub value: f64,
    /// Final scores of the finished seeds.
    pub per_seed: Vec<f64>,
}

/// An agent over the values of the setting; everything else about it stays the same.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepLine {
    /// What the line is called: the agent and the values of other settings that were varied.
    pub name: String,
    /// One entry per value, in order of value.
    pub points: Vec<SweepPoint>,
}

/// A figure of one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepFigure {
    /// The heading, such as the task's name.
    pub title: String,
    /// The setting that was varied.
    pub setting: String,
    /// The lines.
    pub lines: Vec<SweepLine>,
}

impl SweepFigure {
    /// Whether there is something to see: two values with scores, and not too many lines.
    pub fn is_worth_drawing(&self) -> bool {
        let scored = |line: &SweepLine| line.points.iter().filter(|p| !p.per_seed.is_empty()).count() > 1;
        self.lines.len() <= MOST_LINES && self.lines.iter().any(scored)
    }

    /// Writes it as SVG and PNG under this name, atomically.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(), ReportError> {
        let label = format!("Final score against {} on {}", self.setting, self.title);
        write_figure(folder, name, (WIDTH, HEIGHT), &label, &|canvas| self.draw(canvas))
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let palette = Palette::new(&names);
        let widest = names.iter().map(|name| text::width(name, BODY)).fold(0.0, f64::max);
        let y = self.score_axis();
        let words = if matches!(y.kind, Kind::Symlog(_)) { "score (symmetric log scale)" } else { "score" };
        let plot = Plot {
            left: 60.0,
            right: WIDTH - 30.0 - text::SYSTEM_FONT_ALLOWANCE * widest,
            top: 84.0,
            bottom: HEIGHT - 52.0,
            x: self.value_axis(WIDTH - 90.0 - text::SYSTEM_FONT_ALLOWANCE * widest),
            y,
        };
        canvas.text((8.0, 28.0), &self.title, Lettering::new(TITLE, Paint::Ink, Anchor::Start).strong());
        let caption = format!("Final score by {}: seeds (dots), mean (line).", self.setting);
        canvas.text((8.0, 49.0), &caption, Lettering::new(BODY, Paint::Muted, Anchor::Start));
        let scale = if plot.x.kind == Kind::Log { " (log scale)" } else { "" };
        plot.frame(canvas, words, &format!("{}{scale}", self.setting));
        let mut ends = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            let style = palette.style(&line.name);
            let paint = Paint::Colour(style.colour);
            canvas.begin_agent(&line.name);
            // Lines side by side, so that the dots of one do not hide those of another.
            let aside = 5.0 * (number as f64 - (self.lines.len() - 1) as f64 / 2.0);
            let at = |value: f64, score: f64| {
                let (x, y) = plot.at(value, score);
                (x + aside, y)
            };
            let mean = |point: &SweepPoint| stats::mean(&point.per_seed).map(|mean| at(point.value, mean));
            let means: Vec<_> = line.points.iter().filter_map(mean).collect();
            canvas.polyline(&means, Stroke::new(paint, 2.2).dashed(style.dash));
            for point in &line.points {
                for score in &point.per_seed {
                    canvas.circle(
                        at(point.value, *score),
                        3.0,
                        paint,
                        Some(Stroke::new(Paint::Surface, 0.8)),
                    );
                }
            }
            for &(x, y) in &means {
                canvas.line((x - 6.0, y), (x + 6.0, y), Stroke::new(paint, 2.2));
            }
            canvas.end_agent();
            ends.extend(means.last().map(|end| (number, end.1)));
        }
        let heights: Vec<f64> = ends.iter().map(|(_, y)| *y).collect();
        let heights = spread(&heights, BODY + 3.0, plot.top, plot.bottom);
        for ((number, _), y) in ends.iter().zip(heights) {
            let name = &self.lines[*number].name;
            let paint = Paint::Colour(palette.style(name).colour);
            canvas.begin_agent(name);
            let lettering = Lettering::new(BODY, paint, Anchor::Start).strong();
            canvas.text((plot.right + 18.0, y + 0.35 * BODY), name, lettering);
            canvas.end_agent();
        }
    }

    fn score_axis(&self) -> Axis {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let scores = || points().flat_map(|point| point.per_seed.iter().copied());
        let (low, high) =
            (scores().fold(f64::INFINITY, f64::min), scores().fold(f64::NEG_INFINITY, f64::max));
        let peaks: Vec<f64> =
            points().filter_map(|point| stats::mean(&point.per_seed)).map(f64::abs).collect();
        score_axis(low, high, &peaks, 5)
    }

    /// An axis whose ticks are the values themselves, as far as their labels have room in so many units.
    fn value_axis(&self, length: f64) -> Axis {
        let mut values: Vec<f64> =
            self.lines.iter().flat_map(|line| &line.points).map(|point| point.value).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (first, last) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0));
        let log = first > 0.0 && last >= WIDE * first;
        // Room at both ends for dots that stand aside.
        let (kind, min, max) = if log {
            let room = (last / first).powf(0.06);
            (Kind::Log, first / room, last * room)
        } else {
            let room = 0.06 * (last - first).max(f64::MIN_POSITIVE);
            (Kind::Linear, first - room, last + room)
        };
        let mut axis = Axis { kind, min, max, ticks: Vec::new() };
        let mut free_from = f64::NEG_INFINITY;
        for value in values {
            let label = label(value);
            let (middle, half) = (length * axis.place(value), text::width(&label, SMALL) / 2.0);
            if middle - half > free_from {
                free_from = middle + half + 8.0;
                axis.ticks.push((value, label));
            }
        }
        axis
    }
}

/// A value as short as it can be written.
fn label(value: f64) -> String {
    let (decimal, scientific) = (format!("{value}"), format!("{value:e}"));
    let long = value.fract() != 0.0 || value.abs() >= 1e6;
    let label = if long && scientific.len() < decimal.len() { scientific } else { decimal };
    label.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::SvgCanvas;

    fn figure(values: &[f64]) -> SweepFigure {
        let line = |name: &str, shift: f64| SweepLine {
            name: name.into(),
            points: values
                .iter()
                .map(|&value| SweepPoint {
                    value,
                    per_seed: vec![value.ln() + shift, value.ln() + shift + 1.0],
                })
                .collect(),
        };
        SweepFigure {
            title: "pong-mini".into(),
            setting: "learning_rate".into(),
            lines: vec![line("spectral", 3.0), line("popart", -2.0)],
        }
    }

    #[test]
    fn values_far_apart_get_a_logarithmic_axis_with_ticks_at_themselves() {
        let axis = figure(&[1e-4, 2e-4, 4e-4, 1e-3]).value_axis(600.0);
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!((axis.kind, labels), (Kind::Log, vec!["1e−4", "2e−4", "4e−4", "1e−3"]));
        assert_eq!(figure(&[16.0, 32.0]).value_axis(600.0).kind, Kind::Linear);
        let crowded: Vec<f64> = (1..200).map(f64::from).collect();
        assert!(figure(&crowded).value_axis(600.0).ticks.len() < 40);
    }

    #[test]
    fn every_seed_is_a_dot_and_every_agent_a_line() {
        let figure = figure(&[1e-4, 1e-3, 1e-2]);
        assert!(figure.is_worth_drawing());
        let mut canvas = SvgCanvas::new(WIDTH, HEIGHT, false);
        figure.draw(&mut canvas);
        let svg = canvas.finish("x", "", &[]);
        assert_eq!(svg.matches("<circle").count(), 12);
        for word in ["spectral", "popart", "learning_rate (log scale)"] {
            assert!(svg.contains(word), "{word}");
        }
    }

    #[test]
    fn one_value_or_a_crowd_is_no_figure() {
        assert!(!figure(&[1.0]).is_worth_drawing());
        let mut crowd = figure(&[1.0, 2.0]);
        crowd.lines = vec![crowd.lines[0].clone(); MOST_LINES + 1];
        assert!(!crowd.is_worth_drawing());
    }
}
