//! Letters as outlines from an embedded typeface, for machines that have no fonts.

use std::sync::OnceLock;

use ab_glyph::{Font, FontRef, OutlineCurve};

use crate::canvas::Point;

fn typeface() -> Option<&'static FontRef<'static>> {
    static FACE: OnceLock<Option<FontRef<'static>>> = OnceLock::new();
    FACE.get_or_init(|| FontRef::try_from_slice(epaint_default_fonts::UBUNTU_LIGHT).ok()).as_ref()
}

/// How much wider than the embedded typeface the fonts of a browser may run: margins that hold text allow for it.
pub(crate) const SYSTEM_FONT_ALLOWANCE: f64 = 1.26;

/// Advance of a text in figure units, in the embedded typeface.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let Some(face) = typeface() else { return 0.55 * size * text.chars().count() as f64 };
    let scale = size / units(face);
    text.chars().map(|c| f64::from(face.h_advance_unscaled(face.glyph_id(c))) * scale).sum()
}

fn units(face: &FontRef<'_>) -> f64 {
    f64::from(face.units_per_em().unwrap_or(1000.0))
}

/// The outline of a text whose base line starts at `origin`; `None` if it has no ink.
pub(crate) fn outline(text: &str, size: f64, origin: Point) -> Option<tiny_skia::Path> {
    let face = typeface()?;
    let scale = (size / units(face)) as f32;
    let mut builder = tiny_skia::PathBuilder::new();
    let (mut pen, base) = (origin.0 as f32, origin.1 as f32);
    for c in text.chars() {
        let glyph = face.glyph_id(c);
        if let Some(shape) = face.outline(glyph) {
            trace(&mut builder, &shape.curves, |p| (pen + p.x * scale, base - p.y * scale));
        }
        pen += face.h_advance_unscaled(glyph) * scale;
    }
    builder.finish()
}

fn trace(
    builder: &mut tiny_skia::PathBuilder,
    curves: &[OutlineCurve],
    place: impl Fn(ab_glyph::Point) -> (f32, f32),
) {
    let mut at: Option<(f32, f32)> = None;
    for curve in curves {
        let (from, to) = match curve {
            OutlineCurve::Line(a, b) => (place(*a), place(*b)),
            OutlineCurve::Quad(a, _, b) => (place(*a), place(*b)),
            OutlineCurve::Cubic(a, _, _, b) => (place(*a), place(*b)),
        };
        // A curve that does not start where the last one ended begins the letter's next contour.
        if at != Some(from) {
            if at.is_some() {
                builder.close();
            }
            builder.move_to(from.0, from.1);
        }
        match curve {
            OutlineCurve::Line(..) => builder.line_to(to.0, to.1),
            OutlineCurve::Quad(_, c, _) => {
                let c = place(*c);
                builder.quad_to(c.0, c.1, to.0, to.1);
            }
            OutlineCurve::Cubic(_, c, d, _) => {
                let (c, d) = (place(*c), place(*d));
                builder.cubic_to(c.0, c.1, d.0, d.1, to.0, to.1);
            }
        }
        at = Some(to);
    }
    if at.is_some() {
        builder.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typeface_has_every_sign_that_figures_use() {
        let face = typeface().expect("the embedded typeface is readable");
        for c in "0123456789.,%+−–kMG ×·≥<>(){}[]-_/μσ".chars() {
            assert_ne!(face.glyph_id(c).0, 0, "no glyph for {c:?}");
        }
    }

    #[test]
    fn width_grows_with_text_and_size() {
        assert!((width("ab", 20.0) - 2.0 * width("ab", 10.0)).abs() < 1e-6);
        assert!(width("spectral", 12.0) > width("pop", 12.0));
        assert!(outline("   ", 12.0, (0.0, 0.0)).is_none());
    }
}
