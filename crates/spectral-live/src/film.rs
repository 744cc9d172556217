//! The last minute of what was shown, kept small, and made into a film when somebody asks.

use crate::gif::GifWriter;
use crate::picture::Indexed;
use spectral_env::Picture;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Films are enlarged up to so many pixels.
const LARGE: usize = 360;
/// How much is kept.
const MINUTE: Duration = Duration::from_secs(60);
/// Bytes of compressed pictures that are kept at most.
const MOST_BYTES: usize = 24 << 20;
/// A picture that stood longer than this, because nobody watched or the game was paused, is shown for so many hundredths.
const LONGEST: f64 = 100.0;

/// Pictures of the last minute, compressed.
#[derive(Debug, Default)]
pub struct LastMinute {
    pictures: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Kept {
    at: Instant,
    agent: usize,
    width: usize,
    height: usize,
    colours: usize,
    /// Palette and pixels.
    packed: Vec<u8>,
}

impl LastMinute {
    /// Adds a picture of an agent, shown now.
    pub fn add(&mut self, agent: usize, picture: &Indexed, now: Instant) {
        if picture.pixels.is_empty() {
            return;
        }
        let plain = [picture.palette.as_slice(), &picture.pixels].concat();
        let packed = lz4_flex::block::compress_prepend_size(&plain);
        self.bytes += packed.len();
        let (width, height, colours) = (picture.width, picture.height, picture.palette.len() / 3);
        self.pictures.push_back(Kept { at: now, agent, width, height, colours, packed });
        while self.bytes > MOST_BYTES
            || self.pictures.front().is_some_and(|first| now.duration_since(first.at) > MINUTE)
        {
            let Some(first) = self.pictures.pop_front() else { break };
            self.bytes -= first.packed.len();
        }
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        *self = LastMinute::default();
    }

    /// The pictures of one agent, to be encoded elsewhere.
    pub(crate) fn of(&self, agent: usize) -> Film {
        Film(self.pictures.iter().filter(|kept| kept.agent == agent).cloned().collect())
    }
}

/// A film that is not encoded yet.
#[derive(Debug)]
pub(crate) struct Film(Vec<Kept>);

impl Film {
    /// Whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The film as a GIF, each picture for as long as it was seen.
    pub(crate) fn gif(&self) -> std::io::Result<Vec<u8>> {
        let mut gif = GifWriter::new(Vec::new());
        // Times are hundredths of a second in a GIF; what is cut off one is added to the next.
        let mut owed = 0.0;
        for (place, kept) in self.0.iter().enumerate() {
            let next = self.0.get(place + 1).map_or(kept.at + Duration::from_millis(100), |next| next.at);
            let time = (100.0 * next.duration_since(kept.at).as_secs_f64()).min(LONGEST) + owed;
            let hundredths = time.round().max(2.0);
            owed = time - hundredths;
            gif.add(&enlarged(&kept.indexed()?.picture()), hundredths as u16)?;
        }
        gif.finish()
    }
}

/// A picture of a small board is shown larger: each pixel becomes a square.
fn enlarged(picture: &Picture) -> Picture {
    let times = (LARGE / picture.width.max(picture.height).max(1)).max(1);
    let mut large = Picture::default();
    large.start(picture.width * times, picture.height * times, [0; 3]);
    for (row, line) in large.rgb.chunks_exact_mut(3 * picture.width * times).enumerate() {
        for (column, pixel) in line.chunks_exact_mut(3).enumerate() {
            pixel.copy_from_slice(&picture.pixel(column / times, row / times).unwrap_or_default());
        }
    }
    large
}

impl Kept {
    fn indexed(&self) -> std::io::Result<Indexed> {
        let mut plain =
            lz4_flex::block::decompress_size_prepended(&self.packed).map_err(std::io::Error::other)?;
        let pixels = plain.split_off(3 * self.colours);
        Ok(Indexed { width: self.width, height: self.height, palette: plain, pixels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_kept_and_no_more() {
        let mut minute = LastMinute::default();
        let (mut picture, mut indexed) = (Picture::default(), Indexed::default());
        let start = Instant::now();
        for n in 0..200u64 {
            picture.start(20, 10, [n as u8, 0, 0]);
            indexed.set(&picture);
            minute.add((n % 2) as usize, &indexed, start + Duration::from_secs(n));
        }
        assert_eq!(minute.pictures.len(), 61);
        assert_eq!(minute.bytes, minute.pictures.iter().map(|kept| kept.packed.len()).sum::<usize>());
        let film = minute.of(1);
        assert!((30..=31).contains(&film.0.len()));
        let gif = film.gif().unwrap();
        assert!(gif.starts_with(b"GIF89a") && gif.len() < 200_000);
        assert!(LastMinute::default().of(0).is_empty());
        minute.clear();
        assert!(minute.of(1).is_empty());
    }

    #[test]
    fn films_keep_the_pace_and_small_boards_are_enlarged() {
        let mut minute = LastMinute::default();
        let (mut picture, mut indexed) = (Picture::default(), Indexed::default());
        let start = Instant::now();
        for n in 0..150u32 {
            picture.start(30, 20, [n as u8, 7, 0]);
            indexed.set(&picture);
            minute.add(0, &indexed, start + Duration::from_micros(66_667) * n);
        }
        let film = minute.of(0).gif().unwrap();
        let mut reader = gif::DecodeOptions::new().read_info(film.as_slice()).unwrap();
        assert_eq!((reader.width(), reader.height()), (360, 240));
        let mut hundredths = 0;
        while let Some(frame) = reader.read_next_frame().unwrap() {
            hundredths += u32::from(frame.delay);
        }
        assert!(
            hundredths.abs_diff(1003) <= 2,
            "150 steps at 15 a second take ten seconds, not {hundredths}"
        );
    }
}
