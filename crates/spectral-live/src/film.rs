//! The last minute of what was shown, kept small, and made into a film when somebody asks.

use crate::gif::GifWriter;
use crate::picture::Indexed;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How much is kept.
const MINUTE: Duration = Duration::from_secs(60);
/// Bytes of compressed pictures that are kept at most.
const MOST_BYTES: usize = 24 << 20;
/// A picture that stood longer than this, because nobody watched or the game was paused, is shown for so long.
const LONGEST: u16 = 100;

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

    /// The pictures of one agent, to be encoded elsewhere.
    pub(crate) fn of(&self, agent: usize) -> Film {
        Film(self.pictures.iter().filter(|kept| kept.agent == agent).cloned().collect())
    }
}

/// A film that is not encoded yet.
#[derive(Debug)]
pub(crate) struct Film(Vec<Kept>);

impl Film {
    /// The film as a GIF, each picture for as long as it was seen; `None` without pictures.
    pub(crate) fn gif(&self) -> Option<std::io::Result<Vec<u8>>> {
        (!self.0.is_empty()).then(|| {
            let mut gif = GifWriter::new(Vec::new());
            for (place, kept) in self.0.iter().enumerate() {
                let next = self.0.get(place + 1).map_or(kept.at + Duration::from_millis(100), |next| next.at);
                let hundredths = (next.duration_since(kept.at).as_millis() / 10) as u64;
                gif.add(&kept.indexed()?.picture(), hundredths.clamp(2, LONGEST.into()) as u16)?;
            }
            gif.finish()
        })
    }
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
    use spectral_env::Picture;

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
        let gif = film.gif().unwrap().unwrap();
        assert!(gif.starts_with(b"GIF89a") && gif.len() < 10_000);
        assert!(LastMinute::default().of(0).gif().is_none());
    }
}
