//! The frame of a plot: a rectangle with two axes, its grid and its labels.

use crate::axis::{Axis, Kind};
use crate::canvas::{Anchor, Canvas, Lettering, Paint, Point, Stroke};

/// Size of tick labels.
pub(crate) const SMALL: f64 = 11.5;
/// Size of other text in figures.
pub(crate) const BODY: f64 = 12.5;
/// Size of a figure's own title.
pub(crate) const TITLE: f64 = 16.0;

/// A rectangle with two axes.
pub(crate) struct Plot {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
    pub x: Axis,
    pub y: Axis,
}

impl Plot {
    /// The point at which a pair of values is drawn.
    pub(crate) fn at(&self, x: f64, y: f64) -> Point {
        (self.left + self.x.place(x) * (self.right - self.left), self.height_of(y))
    }

    /// The height at which a value of the vertical axis is drawn.
    pub(crate) fn height_of(&self, y: f64) -> f64 {
        self.bottom - self.y.place(y) * (self.bottom - self.top)
    }

    /// Draws horizontal grid lines, a stronger zero line, tick labels and axis titles, but no box around the data.
    pub(crate) fn frame(&self, canvas: &mut dyn Canvas, y_meaning: &str, x_meaning: &str) {
        for (value, label) in &self.y.ticks {
            let y = self.height_of(*value);
            let zero = *value == 0.0 && self.y.kind != Kind::Log;
            let stroke =
                if zero { Stroke::new(Paint::Muted, 1.0).faded(0.65) } else { Stroke::new(Paint::Rule, 1.0) };
            canvas.line((self.left, y), (self.right, y), stroke);
            let lettering = Lettering::new(SMALL, Paint::Muted, Anchor::End);
            canvas.text((self.left - 8.0, y + 0.35 * SMALL), label, lettering);
        }
        canvas.line(
            (self.left, self.bottom),
            (self.right, self.bottom),
            Stroke::new(Paint::Muted, 1.0).faded(0.5),
        );
        for (value, label) in &self.x.ticks {
            let (x, _) = self.at(*value, self.y.min);
            canvas.line((x, self.bottom), (x, self.bottom + 4.0), Stroke::new(Paint::Muted, 1.0).faded(0.5));
            let lettering = Lettering::new(SMALL, Paint::Muted, Anchor::Middle);
            canvas.text((x, self.bottom + 17.0), label, lettering);
        }
        let muted = |anchor| Lettering::new(SMALL, Paint::Muted, anchor);
        if !y_meaning.is_empty() {
            canvas.text((0.0_f64.max(self.left - 44.0), self.top - 12.0), y_meaning, muted(Anchor::Start));
        }
        if !x_meaning.is_empty() {
            let middle = (self.left + self.right) / 2.0;
            canvas.text((middle, self.bottom + 34.0), x_meaning, muted(Anchor::Middle));
        }
    }
}

/// Moves label positions apart so that neighbours are at least `gap` away and all stay within `top..=bottom`
/// (as far as there is room); the order of the input is kept in the output.
pub(crate) fn spread(positions: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by(|a, b| positions[*a].total_cmp(&positions[*b]));
    let mut placed = positions.to_vec();
    let mut floor = top;
    for &k in &order {
        placed[k] = placed[k].max(floor);
        floor = placed[k] + gap;
    }
    let mut ceiling = bottom;
    for &k in order.iter().rev() {
        placed[k] = placed[k].min(ceiling);
        ceiling = placed[k] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_stay_inside() {
        let placed = spread(&[50.0, 51.0, 49.0, 99.0], 14.0, 0.0, 100.0);
        let mut sorted = placed.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 14.0 - 1e-9), "{placed:?}");
        assert!(sorted[0] >= 0.0 && sorted[3] <= 100.0);
        assert!(placed[2] < placed[0] && placed[0] < placed[1], "the order of heights is kept");
        assert_eq!(spread(&[10.0, 90.0], 14.0, 0.0, 100.0), [10.0, 90.0]);
    }
}
