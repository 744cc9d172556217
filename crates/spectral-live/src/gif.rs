//! Animated GIFs.

use spectral_env::{Colour, Picture};
use std::collections::HashMap;
use std::io::{self, BufWriter, ErrorKind, Write};

/// An animated GIF in the making. Each picture is stored as the rectangle that changed, with just the colours that are in it.
///
/// ```
/// use spectral_env::Picture;
/// use spectral_live::gif::GifWriter;
/// let mut picture = Picture::default();
/// picture.start(4, 4, [0, 80, 0]);
/// let mut gif = GifWriter::new(Vec::new());
/// gif.add(&picture, 10)?;
/// assert!(gif.finish()?.starts_with(b"GIF89a"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct GifWriter<W: Write> {
    /// Here until the first picture says how large all are.
    out: Option<W>,
    encoder: Option<gif::Encoder<BufWriter<W>>>,
    /// The picture before.
    shown: Picture,
}

impl<W: Write> GifWriter<W> {
    /// Nothing is written before the first picture.
    pub fn new(out: W) -> Self {
        GifWriter { out: Some(out), encoder: None, shown: Picture::default() }
    }

    /// Adds a picture that is shown for so many hundredths of a second.
    pub fn add(&mut self, picture: &Picture, hundredths: u16) -> io::Result<()> {
        let side = |n: usize| u16::try_from(n).map_err(|e| io::Error::new(ErrorKind::InvalidInput, e));
        let mut area = None;
        if let Some(out) = self.out.take() {
            let out = BufWriter::with_capacity(1 << 16, out);
            let mut encoder = gif::Encoder::new(out, side(picture.width)?, side(picture.height)?, &[])
                .map_err(io::Error::other)?;
            encoder.set_repeat(gif::Repeat::Infinite).map_err(io::Error::other)?;
            self.encoder = Some(encoder);
            self.shown.start(picture.width, picture.height, [0; 3]);
            area = Some(Area { left: 0, top: 0, width: picture.width, height: picture.height });
        }
        let area = area.unwrap_or_else(|| Area::changed(&self.shown, picture));
        // A task whose picture changes its size is cut, or filled up with black.
        let colours = area.pixels().map(|(x, y)| picture.pixel(x, y).unwrap_or_default());
        let (palette, buffer) = indexed(colours);
        let frame = gif::Frame {
            delay: hundredths,
            left: side(area.left)?,
            top: side(area.top)?,
            width: side(area.width)?,
            height: side(area.height)?,
            palette: Some(palette),
            buffer: buffer.into(),
            ..gif::Frame::default()
        };
        for (x, y) in area.pixels() {
            self.shown.rectangle(x, y, 1, 1, picture.pixel(x, y).unwrap_or_default());
        }
        match &mut self.encoder {
            Some(encoder) => encoder.write_frame(&frame).map_err(io::Error::other),
            None => Err(io::Error::other("an earlier picture could not be written")),
        }
    }

    /// Writes the rest.
    pub fn finish(mut self) -> io::Result<W> {
        let Some(encoder) = self.encoder.take() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a film needs a picture"));
        };
        let out = encoder.into_inner().map_err(io::Error::other)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Area {
    /// The smallest part of `shown` outside of which `next` is the same; one pixel if nothing changed.
    fn changed(shown: &Picture, next: &Picture) -> Self {
        let (mut left, mut top, mut right, mut bottom) = (shown.width, shown.height, 0, 0);
        for y in 0..shown.height {
            for x in 0..shown.width {
                if shown.pixel(x, y) != Some(next.pixel(x, y).unwrap_or_default()) {
                    (left, right) = (left.min(x), right.max(x + 1));
                    (top, bottom) = (top.min(y), y + 1);
                }
            }
        }
        if right == 0 {
            return Area { left: 0, top: 0, width: 1, height: 1 };
        }
        Area { left, top, width: right - left, height: bottom - top }
    }

    fn pixels(self) -> impl Iterator<Item = (usize, usize)> + Clone {
        let columns = self.left..self.left + self.width;
        (self.top..self.top + self.height).flat_map(move |y| columns.clone().map(move |x| (x, y)))
    }
}

/// Levels of red, green and blue where a picture has more colours than a GIF can.
const LEVELS: [usize; 3] = [6, 7, 6];

/// A palette and, for each pixel, a place in it: exact with up to 256 colours, else each colour's nearest in a cube of
/// 6 × 7 × 6.
fn indexed(colours: impl Iterator<Item = Colour> + Clone) -> (Vec<u8>, Vec<u8>) {
    let mut places: HashMap<Colour, u8> = HashMap::new();
    let (mut palette, mut indices) = (Vec::new(), Vec::new());
    // Neighbours mostly have the same colour, and looking one up is the slow part.
    let mut last = None;
    for colour in colours.clone() {
        let place = match last {
            Some((before, place)) if before == colour => place,
            _ => match (places.get(&colour), u8::try_from(places.len())) {
                (Some(&place), _) => place,
                (None, Ok(next)) => {
                    places.insert(colour, next);
                    palette.extend(colour);
                    next
                }
                (None, Err(_)) => return in_cube(colours),
            },
        };
        last = Some((colour, place));
        indices.push(place);
    }
    (palette, indices)
}

fn in_cube(colours: impl Iterator<Item = Colour>) -> (Vec<u8>, Vec<u8>) {
    let [reds, greens, blues] = LEVELS;
    let value = |level: usize, levels: usize| (level * 255 / (levels - 1)) as u8;
    let mut palette = Vec::with_capacity(reds * greens * blues * 3);
    for place in 0..reds * greens * blues {
        let (red, green, blue) = (place / (greens * blues), place / blues % greens, place % blues);
        palette.extend([value(red, reds), value(green, greens), value(blue, blues)]);
    }
    let level = |value: u8, levels: usize| (usize::from(value) * (levels - 1) + 127) / 255;
    let place = |[red, green, blue]: Colour| {
        ((level(red, reds) * greens + level(green, greens)) * blues + level(blue, blues)) as u8
    };
    (palette, colours.map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colour(palette: &[u8], place: u8) -> Colour {
        let at = usize::from(place) * 3;
        palette[at..at + 3].try_into().unwrap()
    }

    #[test]
    fn few_colours_stay_as_they_are_and_many_come_close() {
        for (count, allowed) in [(1, 0), (2, 0), (256, 0), (257, 26), (4000, 26)] {
            let colours: Vec<Colour> =
                (0..count).map(|n: u32| [n as u8, (n / 16) as u8, (255 - n % 256) as u8]).collect();
            let (palette, indices) = indexed(colours.iter().copied());
            assert!(palette.len() <= 768 && indices.len() == colours.len());
            for (&wanted, &place) in colours.iter().zip(&indices) {
                let found = colour(&palette, place);
                let off = wanted.iter().zip(found).map(|(a, b)| a.abs_diff(b)).max().unwrap();
                assert!(off <= allowed, "{wanted:?} became {found:?} among {count} colours");
            }
        }
    }

    #[test]
    fn only_what_changed_is_stored() {
        let mut shown = Picture::default();
        shown.start(20, 10, [1, 2, 3]);
        let mut next = shown.clone();
        assert_eq!(Area::changed(&shown, &next), Area { left: 0, top: 0, width: 1, height: 1 });
        next.rectangle(4, 2, 3, 5, [9, 9, 9]);
        next.rectangle(12, 8, 1, 1, [9, 9, 9]);
        assert_eq!(Area::changed(&shown, &next), Area { left: 4, top: 2, width: 9, height: 7 });
    }
}
