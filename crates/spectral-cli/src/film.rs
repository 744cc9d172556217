//! Pictures on disk: an animated GIF or a folder of PNG files, whole or not there at all.

use crate::failure::{DATA, Failure};
use spectral_env::{Colour, Picture};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What people might expect to be written because of a name's ending, and is not.
const OTHER_FORMATS: [&str; 8] = ["png", "jpg", "jpeg", "apng", "webp", "mp4", "webm", "avi"];

/// A film in the making. Nothing is at its path before [`finish`](Film::finish); dropped before, it leaves nothing.
pub struct Film {
    path: PathBuf,
    temporary: Temporary,
    kind: Kind,
    pictures: u64,
}

enum Kind {
    Gif(Gif),
    Folder,
}

impl Film {
    /// Begins a film: a GIF if the name ends so, else a folder of PNG files. What exists is never written over.
    pub fn begin(path: &Path, fps: u32) -> Result<Self, Failure> {
        let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
        if OTHER_FORMATS.contains(&ending.as_str()) || path.file_name().is_none() {
            return Err(Failure::usage(format!(
                "--out {}: give a name that ends in .gif, or a new folder for PNG files",
                path.display()
            )));
        }
        refuse_existing(path)?;
        let failed = |e| failure(path, &e);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let temporary = Temporary::beside(path);
        let kind = if ending == "gif" {
            Kind::Gif(Gif::new(File::create_new(&temporary.0).map_err(failed)?, fps))
        } else {
            fs::create_dir(&temporary.0).map_err(failed)?;
            Kind::Folder
        };
        Ok(Film { path: path.into(), temporary, kind, pictures: 0 })
    }

    /// Adds a picture.
    pub fn add(&mut self, picture: &Picture) -> Result<(), Failure> {
        let written = match &mut self.kind {
            Kind::Gif(gif) => gif.add(picture),
            Kind::Folder => {
                write_png(&self.temporary.0.join(format!("frame-{:05}.png", self.pictures)), picture)
            }
        };
        self.pictures += 1;
        written.map_err(|e| failure(&self.path, &e))
    }

    /// Puts the film at its path and says how many pictures it has.
    pub fn finish(self) -> Result<u64, Failure> {
        let failed = |e| failure(&self.path, &e);
        if let Kind::Gif(gif) = self.kind {
            gif.finish().map_err(failed)?;
        }
        // Somebody may have written there in the meantime.
        refuse_existing(&self.path)?;
        fs::rename(&self.temporary.0, &self.path).map_err(failed)?;
        Ok(self.pictures)
    }
}

fn refuse_existing(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(Failure::usage(format!(
            "{} exists already and is left as it is; give another --out",
            path.display()
        ))),
        Err(_) => Ok(()),
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure { text: format!("cannot write {}: {error}", path.display()), exit_code: DATA }
}

/// A file or folder that goes when it is not renamed.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(path: &Path) -> Self {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".spectral-tmp-{}", std::process::id()));
        Temporary(path.with_file_name(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename nothing is there, and whatever else fails here has no one to be told.
        let _ = if self.0.is_dir() { fs::remove_dir_all(&self.0) } else { fs::remove_file(&self.0) };
    }
}

fn write_png(path: &Path, picture: &Picture) -> io::Result<()> {
    let side = |n: usize| u32::try_from(n).map_err(|e| io::Error::new(ErrorKind::InvalidInput, e));
    let file = BufWriter::new(File::create_new(path)?);
    let mut encoder = png::Encoder::new(file, side(picture.width)?, side(picture.height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&picture.rgb)?;
    Ok(writer.finish()?)
}

/// An animated GIF. Each picture is stored as the rectangle that changed, with just the colours that are in it.
struct Gif {
    /// Here until the first picture says how large all are.
    file: Option<File>,
    encoder: Option<gif::Encoder<BufWriter<File>>>,
    fps: u64,
    count: u64,
    /// The picture before.
    shown: Picture,
}

impl Gif {
    fn new(file: File, fps: u32) -> Self {
        Gif { file: Some(file), encoder: None, fps: fps.max(1).into(), count: 0, shown: Picture::default() }
    }

    fn add(&mut self, picture: &Picture) -> io::Result<()> {
        let side = |n: usize| u16::try_from(n).map_err(|e| io::Error::new(ErrorKind::InvalidInput, e));
        if let Some(file) = self.file.take() {
            let out = BufWriter::with_capacity(1 << 16, file);
            let mut encoder = gif::Encoder::new(out, side(picture.width)?, side(picture.height)?, &[])
                .map_err(io::Error::other)?;
            encoder.set_repeat(gif::Repeat::Infinite).map_err(io::Error::other)?;
            self.encoder = Some(encoder);
            self.shown.start(picture.width, picture.height, [0; 3]);
        }
        let area = if self.count == 0 {
            Area { left: 0, top: 0, width: picture.width, height: picture.height }
        } else {
            Area::changed(&self.shown, picture)
        };
        // A task whose picture changes its size is cut, or filled up with black.
        let colours = area.pixels().map(|(x, y)| picture.pixel(x, y).unwrap_or_default());
        let (palette, buffer) = indexed(colours);
        let frame = gif::Frame {
            delay: self.delay(),
            left: side(area.left)?,
            top: side(area.top)?,
            width: side(area.width)?,
            height: side(area.height)?,
            palette: Some(palette),
            buffer: buffer.into(),
            ..gif::Frame::default()
        };
        self.count += 1;
        for (x, y) in area.pixels() {
            self.shown.rectangle(x, y, 1, 1, picture.pixel(x, y).unwrap_or_default());
        }
        match &mut self.encoder {
            Some(encoder) => encoder.write_frame(&frame).map_err(io::Error::other),
            None => Err(io::Error::other("an earlier picture could not be written")),
        }
    }

    /// How long the next picture is shown, in hundredths of a second, so that all together keep the pace.
    fn delay(&self) -> u16 {
        let time = |n: u64| (n * 100 + self.fps / 2) / self.fps;
        (time(self.count + 1) - time(self.count)) as u16
    }

    fn finish(mut self) -> io::Result<()> {
        let Some(encoder) = self.encoder.take() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a film needs a picture"));
        };
        let mut out = encoder.into_inner().map_err(io::Error::other)?;
        out.flush()?;
        out.get_ref().sync_all()
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

    #[test]
    fn delays_add_up_to_the_pace() {
        let folder = tempfile::tempdir().unwrap();
        let mut gif = Gif::new(File::create_new(folder.path().join("x.gif")).unwrap(), 15);
        let mut sum = 0;
        for _ in 0..150 {
            sum += u64::from(gif.delay());
            gif.count += 1;
        }
        assert_eq!(sum, 1000, "150 pictures at 15 a second take ten seconds");
    }
}
