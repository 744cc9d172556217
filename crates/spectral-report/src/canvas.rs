//! A small canvas with two outputs, SVG text and PNG, so that a figure is described once.

use std::fmt::Write as _;

use crate::palette::Rgb;
use crate::text;

/// What a mark is painted with. Roles follow the page's light or dark mode; colours are fixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Paint {
    /// Main text.
    Ink,
    /// Secondary text and lines.
    Muted,
    /// Grid lines.
    Rule,
    /// The background.
    Surface,
    /// A fixed colour.
    Colour(Rgb),
}

impl Paint {
    /// The colour on white paper.
    pub(crate) fn on_white(self) -> Rgb {
        match self {
            Self::Ink => Rgb(0x1c, 0x1f, 0x24),
            Self::Muted => Rgb(0x64, 0x6a, 0x73),
            Self::Rule => Rgb(0xe3, 0xe6, 0xea),
            Self::Surface => Rgb(0xff, 0xff, 0xff),
            Self::Colour(colour) => colour,
        }
    }

    fn css(self, themed: bool) -> String {
        match (themed, self) {
            (true, Self::Ink) => "var(--ink)".to_owned(),
            (true, Self::Muted) => "var(--muted)".to_owned(),
            (true, Self::Rule) => "var(--rule)".to_owned(),
            (true, Self::Surface) => "var(--surface)".to_owned(),
            _ => self.on_white().hex(),
        }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    pub paint: Paint,
    pub width: f64,
    pub dash: Option<(f64, f64)>,
    pub opacity: f64,
}

impl Stroke {
    pub(crate) fn new(paint: Paint, width: f64) -> Self {
        Self { paint, width, dash: None, opacity: 1.0 }
    }

    pub(crate) fn dashed(self, dash: Option<(f64, f64)>) -> Self {
        Self { dash, ..self }
    }

    pub(crate) fn faded(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }
}

/// Which end of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lettering {
    pub size: f64,
    pub paint: Paint,
    pub anchor: Anchor,
    pub strong: bool,
}

impl Lettering {
    pub(crate) fn new(size: f64, paint: Paint, anchor: Anchor) -> Self {
        Self { size, paint, anchor, strong: false }
    }

    pub(crate) fn strong(self) -> Self {
        Self { strong: true, ..self }
    }
}

/// A point in figure coordinates: x to the right, y downwards.
pub(crate) type Point = (f64, f64);

/// A surface for figures.
pub(crate) trait Canvas {
    fn polyline(&mut self, points: &[Point], stroke: Stroke);
    fn polygon(&mut self, points: &[Point], fill: Paint, opacity: f64);
    fn circle(&mut self, centre: Point, radius: f64, fill: Paint, outline: Option<Stroke>);
    /// `at` is on the base line of the text.
    fn text(&mut self, at: Point, text: &str, lettering: Lettering);
    /// Marks the following marks as belonging to an agent, so that a page can hide them. Groups do not nest.
    fn begin_agent(&mut self, agent: &str);
    fn end_agent(&mut self);

    fn line(&mut self, from: Point, to: Point, stroke: Stroke) {
        self.polyline(&[from, to], stroke);
    }
}

/// A canvas that draws on another one with a moved origin.
pub(crate) struct Shifted<'c> {
    pub canvas: &'c mut dyn Canvas,
    pub origin: Point,
}

impl Shifted<'_> {
    fn moved(&self, point: Point) -> Point {
        (point.0 + self.origin.0, point.1 + self.origin.1)
    }
}

impl Canvas for Shifted<'_> {
    fn polyline(&mut self, points: &[Point], stroke: Stroke) {
        let points: Vec<Point> = points.iter().map(|point| self.moved(*point)).collect();
        self.canvas.polyline(&points, stroke);
    }

    fn polygon(&mut self, points: &[Point], fill: Paint, opacity: f64) {
        let points: Vec<Point> = points.iter().map(|point| self.moved(*point)).collect();
        self.canvas.polygon(&points, fill, opacity);
    }

    fn circle(&mut self, centre: Point, radius: f64, fill: Paint, outline: Option<Stroke>) {
        self.canvas.circle(self.moved(centre), radius, fill, outline);
    }

    fn text(&mut self, at: Point, text: &str, lettering: Lettering) {
        self.canvas.text(self.moved(at), text, lettering);
    }

    fn begin_agent(&mut self, agent: &str) {
        self.canvas.begin_agent(agent);
    }

    fn end_agent(&mut self) {
        self.canvas.end_agent();
    }
}

/// Escapes text for SVG and HTML, in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in XML at all.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Writes SVG.
pub(crate) struct SvgCanvas {
    width: f64,
    height: f64,
    /// Inside the report, where roles are CSS variables; otherwise a picture on white.
    themed: bool,
    body: String,
}

impl SvgCanvas {
    pub(crate) fn new(width: f64, height: f64, themed: bool) -> Self {
        Self { width, height, themed, body: String::new() }
    }

    /// The finished element; `class` and `data` go on it, `label` is read by screen readers.
    pub(crate) fn finish(self, label: &str, class: &str, data: &[(&str, String)]) -> String {
        let (w, h) = (short(self.width), short(self.height));
        let mut attributes = String::new();
        if self.themed {
            write!(attributes, " class=\"{}\"", escape(class)).ok();
        } else {
            write!(attributes, " xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\"").ok();
        }
        for (name, value) in data {
            write!(attributes, " data-{name}=\"{}\"", escape(value)).ok();
        }
        let background = if self.themed {
            String::new()
        } else {
            format!("<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n")
        };
        format!(
            "<svg{attributes} viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{}\" font-family=\"{FONTS}\">\n\
             {background}{}</svg>\n",
            escape(label),
            self.body
        )
    }

    fn points(&mut self, points: &[Point]) {
        for (k, (x, y)) in points.iter().enumerate() {
            let gap = if k == 0 { "" } else { " " };
            write!(self.body, "{gap}{},{}", short(*x), short(*y)).ok();
        }
    }

    fn stroke(&self, stroke: Stroke) -> String {
        let mut text =
            format!("stroke=\"{}\" stroke-width=\"{}\"", stroke.paint.css(self.themed), short(stroke.width));
        if let Some((on, off)) = stroke.dash {
            write!(text, " stroke-dasharray=\"{} {}\"", short(on), short(off)).ok();
        }
        if stroke.opacity < 1.0 {
            write!(text, " stroke-opacity=\"{}\"", short(stroke.opacity)).ok();
        }
        text
    }
}

const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, Ubuntu, 'Helvetica Neue', sans-serif";

/// Two decimals at most: a hundredth of a pixel cannot be seen, and the files stay small.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

impl Canvas for SvgCanvas {
    fn polyline(&mut self, points: &[Point], stroke: Stroke) {
        if points.len() < 2 {
            return;
        }
        self.body.push_str("<polyline points=\"");
        self.points(points);
        let stroke = self.stroke(stroke);
        writeln!(self.body, "\" fill=\"none\" stroke-linejoin=\"round\" {stroke}/>").ok();
    }

    fn polygon(&mut self, points: &[Point], fill: Paint, opacity: f64) {
        self.body.push_str("<polygon points=\"");
        self.points(points);
        let fill = fill.css(self.themed);
        writeln!(self.body, "\" fill=\"{fill}\" fill-opacity=\"{}\"/>", short(opacity)).ok();
    }

    fn circle(&mut self, centre: Point, radius: f64, fill: Paint, outline: Option<Stroke>) {
        let outline = outline.map_or_else(String::new, |stroke| format!(" {}", self.stroke(stroke)));
        let (x, y, r) = (short(centre.0), short(centre.1), short(radius));
        let fill = fill.css(self.themed);
        writeln!(self.body, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" fill=\"{fill}\"{outline}/>").ok();
    }

    fn text(&mut self, at: Point, text: &str, lettering: Lettering) {
        let anchor = match lettering.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if lettering.strong { " font-weight=\"600\"" } else { "" };
        writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{anchor}{weight}>{}</text>",
            short(at.0),
            short(at.1),
            short(lettering.size),
            lettering.paint.css(self.themed),
            escape(text)
        )
        .ok();
    }

    fn begin_agent(&mut self, agent: &str) {
        writeln!(self.body, "<g data-agent=\"{}\">", escape(agent)).ok();
    }

    fn end_agent(&mut self) {
        self.body.push_str("</g>\n");
    }
}

/// Draws pixels.
pub(crate) struct PngCanvas {
    pixels: tiny_skia::Pixmap,
    scale: f32,
}

impl PngCanvas {
    /// A white picture of `width` by `height` figure units, each `scale` pixels wide; `None` if that is not a valid size.
    pub(crate) fn new(width: f64, height: f64, scale: f64) -> Option<Self> {
        let mut pixels =
            tiny_skia::Pixmap::new((width * scale).round() as u32, (height * scale).round() as u32)?;
        pixels.fill(tiny_skia::Color::WHITE);
        Some(Self { pixels, scale: scale as f32 })
    }

    /// The encoded file.
    pub(crate) fn finish(self) -> Result<Vec<u8>, String> {
        self.pixels.encode_png().map_err(|error| error.to_string())
    }

    fn transform(&self) -> tiny_skia::Transform {
        tiny_skia::Transform::from_scale(self.scale, self.scale)
    }

    fn paint(paint: Paint, opacity: f64) -> tiny_skia::Paint<'static> {
        let Rgb(r, g, b) = paint.on_white();
        let mut skia = tiny_skia::Paint { anti_alias: true, ..Default::default() };
        skia.set_color_rgba8(r, g, b, (opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
        skia
    }

    fn fill(&mut self, path: &tiny_skia::Path, paint: Paint, opacity: f64) {
        let transform = self.transform();
        self.pixels.fill_path(
            path,
            &Self::paint(paint, opacity),
            tiny_skia::FillRule::Winding,
            transform,
            None,
        );
    }

    fn outline(&mut self, path: &tiny_skia::Path, stroke: Stroke) {
        let dash =
            stroke.dash.and_then(|(on, off)| tiny_skia::StrokeDash::new(vec![on as f32, off as f32], 0.0));
        let skia = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_join: tiny_skia::LineJoin::Round,
            dash,
            ..Default::default()
        };
        let transform = self.transform();
        self.pixels.stroke_path(path, &Self::paint(stroke.paint, stroke.opacity), &skia, transform, None);
    }
}

fn path_of(points: &[Point], close: bool) -> Option<tiny_skia::Path> {
    let mut builder = tiny_skia::PathBuilder::new();
    for (k, (x, y)) in points.iter().enumerate() {
        if k == 0 {
            builder.move_to(*x as f32, *y as f32);
        } else {
            builder.line_to(*x as f32, *y as f32);
        }
    }
    if close {
        builder.close();
    }
    builder.finish()
}

impl Canvas for PngCanvas {
    fn polyline(&mut self, points: &[Point], stroke: Stroke) {
        if let Some(path) = path_of(points, false) {
            self.outline(&path, stroke);
        }
    }

    fn polygon(&mut self, points: &[Point], fill: Paint, opacity: f64) {
        if let Some(path) = path_of(points, true) {
            self.fill(&path, fill, opacity);
        }
    }

    fn circle(&mut self, centre: Point, radius: f64, fill: Paint, outline: Option<Stroke>) {
        let path = tiny_skia::PathBuilder::from_circle(centre.0 as f32, centre.1 as f32, radius as f32);
        if let Some(path) = path {
            self.fill(&path, fill, 1.0);
            if let Some(stroke) = outline {
                self.outline(&path, stroke);
            }
        }
    }

    fn text(&mut self, at: Point, text: &str, lettering: Lettering) {
        let start = match lettering.anchor {
            Anchor::Start => at.0,
            Anchor::Middle => at.0 - text::width(text, lettering.size) / 2.0,
            Anchor::End => at.0 - text::width(text, lettering.size),
        };
        if let Some(path) = text::outline(text, lettering.size, (start, at.1)) {
            self.fill(&path, lettering.paint, 1.0);
            // The embedded typeface is a light one: a hairline around the letters gives it a book's weight.
            let weight = if lettering.strong { 0.055 } else { 0.022 } * lettering.size;
            self.outline(&path, Stroke::new(lettering.paint, weight));
        }
    }

    fn begin_agent(&mut self, _agent: &str) {}

    fn end_agent(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svg_text_is_escaped_and_numbers_are_short() {
        let mut canvas = SvgCanvas::new(100.0, 50.0, false);
        canvas.text((1.0 / 3.0, -0.001), "a<b & \"c\"", Lettering::new(12.0, Paint::Ink, Anchor::End));
        let svg = canvas.finish("x > y", "", &[]);
        assert!(svg.contains("x=\"0.33\" y=\"0\""), "{svg}");
        assert!(svg.contains("a&lt;b &amp; &quot;c&quot;"));
        assert!(svg.contains("aria-label=\"x &gt; y\""));
        assert!(!svg.contains("var("), "a picture by itself has no page whose variables it could use");
    }

    #[test]
    fn png_holds_what_was_drawn() {
        let mut canvas = PngCanvas::new(40.0, 20.0, 1.0).unwrap();
        canvas.polygon(
            &[(0.0, 0.0), (20.0, 0.0), (20.0, 20.0), (0.0, 20.0)],
            Paint::Colour(Rgb(255, 0, 0)),
            1.0,
        );
        canvas.text((22.0, 16.0), "M", Lettering::new(16.0, Paint::Ink, Anchor::Start));
        let red = canvas.pixels.pixel(10, 10).unwrap();
        assert_eq!((red.red(), red.green()), (255, 0));
        let dark = (20..40).flat_map(|x| (0..20).map(move |y| (x, y)));
        let dark = dark.filter(|&(x, y)| canvas.pixels.pixel(x, y).unwrap().red() < 128).count();
        assert!(dark > 15, "a letter has ink: {dark} dark pixels");
        assert_eq!(&canvas.finish().unwrap()[1..4], b"PNG");
    }
}
