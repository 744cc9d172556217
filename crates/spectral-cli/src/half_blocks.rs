//! Pictures in a terminal: every character shows two pixels, one above the other, as an upper half block in the colour
//! of the one on the colour of the other.

use crate::output::one_line;
use spectral_env::{Colour, Picture};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

/// Columns and rows where standard output is no terminal that would say them.
const USUAL: (usize, usize) = (80, 24);
/// Rows of the terminal that are kept free: for the line below the picture and the cursor.
const SPARE_ROWS: usize = 2;

/// A picture that is redrawn in place, at a steady pace.
pub struct HalfBlocks {
    pace: Duration,
    due: Instant,
    /// Columns and rows of the terminal when it was last drawn, and the lines it took.
    drawn: Option<((usize, usize), usize)>,
}

impl HalfBlocks {
    /// Ready to show this many pictures a second.
    pub fn new(fps: u32) -> Self {
        let pace = Duration::from_secs(1) / fps.max(1);
        HalfBlocks { pace, due: Instant::now(), drawn: None }
    }

    /// Shows a picture with a line of text below it, when its time has come.
    pub fn show(&mut self, picture: &Picture, caption: &str) -> io::Result<()> {
        let (columns, rows) = terminal();
        let mut lines = picture_lines(picture, (columns, rows.saturating_sub(SPARE_ROWS).max(1)));
        lines.push(one_line(caption).chars().take(columns.saturating_sub(1)).collect());
        self.show_lines(&lines, (columns, rows))
    }

    /// Shows lines, each no wider than the terminal of this size, when their time has come.
    pub fn show_lines(&mut self, lines: &[String], size: (usize, usize)) -> io::Result<()> {
        let start = match self.drawn {
            None => "\x1b[?25l".to_owned(),
            Some((before, drawn)) if before == size && drawn == lines.len() => format!("\x1b[{drawn}A\r"),
            // The lines of a window that changed its width are not where they were.
            Some(_) => "\x1b[2J\x1b[H".to_owned(),
        };
        self.drawn = Some((size, lines.len()));
        std::thread::sleep(self.due.saturating_duration_since(Instant::now()));
        self.due = Instant::now().max(self.due) + self.pace;
        let mut text = start;
        for line in lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// Columns and rows of the terminal.
pub fn terminal() -> (usize, usize) {
    terminal_size::terminal_size()
        .map_or(USUAL, |(columns, rows)| (columns.0.max(1).into(), rows.0.max(1).into()))
}

impl Drop for HalfBlocks {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            // The cursor again; a reader who has gone does not miss it.
            let mut out = io::stdout().lock();
            let _ = out.write_all(b"\x1b[0m\x1b[?25h").and_then(|()| out.flush());
        }
    }
}

/// The picture as lines of text, shrunk to fit so many columns and lines.
pub fn picture_lines(picture: &Picture, (columns, most): (usize, usize)) -> Vec<String> {
    let (width, height) = fitted(picture, columns, most * 2);
    let line = |line: usize| {
        let mut text = String::new();
        let mut before: Option<(Colour, Option<Colour>)> = None;
        for column in 0..width {
            let upper = mean(picture, (column, width), (2 * line, height));
            let lower =
                (2 * line + 1 < height).then(|| mean(picture, (column, width), (2 * line + 1, height)));
            if before != Some((upper, lower)) {
                let [red, green, blue] = upper;
                write!(text, "\x1b[38;2;{red};{green};{blue}").expect("writing to a string");
                match lower {
                    Some([red, green, blue]) => write!(text, ";48;2;{red};{green};{blue}m"),
                    None => write!(text, ";49m"),
                }
                .expect("writing to a string");
                before = Some((upper, lower));
            }
            text.push('▀');
        }
        text + "\x1b[0m"
    };
    (0..height.div_ceil(2)).map(line).collect()
}

/// The largest size of the picture's shape that fits; never larger than it is.
pub(crate) fn fitted(picture: &Picture, columns: usize, rows: usize) -> (usize, usize) {
    let (width, height) = (picture.width.max(1), picture.height.max(1));
    if width <= columns && height <= rows {
        (width, height)
    } else if width * rows > height * columns {
        (columns, (height * columns / width).max(1))
    } else {
        ((width * rows / height).max(1), rows)
    }
}

/// The mean colour of what becomes one pixel: its place and how many there are, across and down.
fn mean(picture: &Picture, (column, columns): (usize, usize), (row, rows): (usize, usize)) -> Colour {
    let range = |n: usize, of: usize, pixels: usize| {
        let start = n * pixels / of;
        start..((n + 1) * pixels / of).max(start + 1)
    };
    let (mut sums, mut count) = ([0; 3], 0);
    for y in range(row, rows, picture.height) {
        for x in range(column, columns, picture.width) {
            for (sum, part) in sums.iter_mut().zip(picture.pixel(x, y).unwrap_or_default()) {
                *sum += u64::from(part);
            }
            count += 1;
        }
    }
    sums.map(|sum| (sum / count) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_two_pixels() {
        let mut picture = Picture::default();
        picture.start(2, 3, [0; 3]);
        picture.rectangle(0, 0, 2, 1, [10, 20, 30]);
        let expected = ["\x1b[38;2;10;20;30;48;2;0;0;0m▀▀\x1b[0m", "\x1b[38;2;0;0;0;49m▀▀\x1b[0m"];
        assert_eq!(picture_lines(&picture, (80, 22)), expected);
    }

    #[test]
    fn pictures_shrink_to_the_terminal_and_keep_their_shape() {
        let mut picture = Picture::default();
        for (width, height) in [(320, 210), (180, 180), (80, 160), (1, 500), (500, 1), (8, 8)] {
            picture.start(width, height, [0; 3]);
            for (columns, rows) in [(80, 44), (40, 100), (200, 20), (1, 2)] {
                let (wide, high) = fitted(&picture, columns, rows);
                assert!((1..=columns.min(width)).contains(&wide) && (1..=rows.min(height)).contains(&high));
                assert!(wide == columns.min(width) || high == rows.min(height), "as large as may be");
            }
        }
        assert_eq!(fitted(&picture, 80, 44), (8, 8), "small ones stay as they are");
    }

    #[test]
    fn shrunken_pixels_are_means() {
        let mut picture = Picture::default();
        picture.start(4, 2, [0; 3]);
        picture.rectangle(0, 0, 1, 2, [100, 200, 50]);
        assert_eq!(mean(&picture, (0, 2), (0, 1)), [50, 100, 25]);
        assert_eq!(mean(&picture, (1, 2), (0, 1)), [0, 0, 0]);
    }
}
