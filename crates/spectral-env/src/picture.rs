//! Pictures of a task's state for people: colours, rectangles and numbers are all that boards need.

/// Red, green, blue.
pub type Colour = [u8; 3];

/// A picture in colour, row by row from the top. One is made once and drawn into again and again: only the first
/// drawing of a size allocates.
///
/// ```
/// use spectral_env::Picture;
/// let mut picture = Picture::default();
/// picture.start(40, 20, [0, 0, 0]);
/// picture.rectangle(4, 4, 8, 8, [255, 200, 0]);
/// picture.number(20, 4, 2, 17, [255, 255, 255]);
/// assert_eq!(picture.pixel(4, 4), Some([255, 200, 0]));
/// assert_eq!(picture.rgb.len(), 40 * 20 * 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Three bytes a pixel: red, green, blue.
    pub rgb: Vec<u8>,
}

/// Columns of a digit, the gap to the next one included, at scale 1.
const DIGIT_PITCH: usize = 4;
/// Rows of a digit at scale 1.
const DIGIT_ROWS: usize = 5;

/// Each digit in rows of three bits, the leftmost the highest.
const DIGITS: [[u8; DIGIT_ROWS]; 10] = [
    [0b111, 0b101, 0b101, 0b101, 0b111],
    [0b010, 0b110, 0b010, 0b010, 0b111],
    [0b111, 0b001, 0b111, 0b100, 0b111],
    [0b111, 0b001, 0b011, 0b001, 0b111],
    [0b101, 0b101, 0b111, 0b001, 0b001],
    [0b111, 0b100, 0b111, 0b001, 0b111],
    [0b111, 0b100, 0b111, 0b101, 0b111],
    [0b111, 0b001, 0b010, 0b010, 0b010],
    [0b111, 0b101, 0b111, 0b101, 0b111],
    [0b111, 0b101, 0b111, 0b001, 0b111],
];

impl Picture {
    /// Makes it a picture of this size and colour.
    pub fn start(&mut self, width: usize, height: usize, colour: Colour) {
        (self.width, self.height) = (width, height);
        self.rgb.resize(width * height * 3, 0);
        for pixel in self.rgb.chunks_exact_mut(3) {
            pixel.copy_from_slice(&colour);
        }
    }

    /// Fills a rectangle; what would lie outside is left out.
    pub fn rectangle(&mut self, left: usize, top: usize, width: usize, height: usize, colour: Colour) {
        let (left, right) = (left.min(self.width), (left + width).min(self.width));
        for row in top.min(self.height)..(top + height).min(self.height) {
            let start = row * self.width;
            for pixel in self.rgb[(start + left) * 3..(start + right) * 3].chunks_exact_mut(3) {
                pixel.copy_from_slice(&colour);
            }
        }
    }

    /// Writes a number in small digits, each `3 × scale` by `5 × scale` pixels.
    pub fn number(&mut self, left: usize, top: usize, scale: usize, number: u64, colour: Colour) {
        let count = digits(number);
        let mut rest = number;
        for place in (0..count).rev() {
            let shape = DIGITS[(rest % 10) as usize];
            rest /= 10;
            let left = left + place * DIGIT_PITCH * scale;
            for (row, bits) in shape.into_iter().enumerate() {
                for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
                    self.rectangle(left + column * scale, top + row * scale, scale, scale, colour);
                }
            }
        }
    }

    /// Writes a number with its middle in the middle of a rectangle, twice as large if it fits so.
    pub(crate) fn centred_number(
        &mut self,
        (left, top, width, height): (usize, usize, usize, usize),
        number: u64,
        colour: Colour,
    ) {
        let size = |scale: usize| (digits(number) * DIGIT_PITCH * scale - scale, DIGIT_ROWS * scale);
        let scale = if size(2).0 + 4 <= width { 2 } else { 1 };
        let (wide, high) = size(scale);
        let left = left + width.saturating_sub(wide) / 2;
        self.number(left, top + height.saturating_sub(high) / 2, scale, number, colour);
    }

    /// The colour of one pixel; `None` outside of the picture.
    pub fn pixel(&self, x: usize, y: usize) -> Option<Colour> {
        let at = (y * self.width + x) * 3;
        let inside = x < self.width && y < self.height;
        inside.then(|| self.rgb.get(at..at + 3)?.try_into().ok()).flatten()
    }
}

/// How many digits a number has.
fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |n| n as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_left_out() {
        let mut picture = Picture::default();
        picture.start(4, 3, [1, 2, 3]);
        picture.rectangle(3, 2, 100, 100, [9, 9, 9]);
        picture.rectangle(50, 50, 2, 2, [7, 7, 7]);
        picture.number(2, 2, 3, u64::MAX, [1, 2, 3]);
        assert_eq!(picture.pixel(2, 2), Some([1, 2, 3]));
        assert_eq!((picture.pixel(4, 0), picture.pixel(0, 3)), (None, None));
        let lit = |p: &Picture| p.rgb.chunks_exact(3).filter(|&c| c == [9, 9, 9]).count();
        picture.start(4, 3, [1, 2, 3]);
        picture.rectangle(3, 2, 100, 100, [9, 9, 9]);
        assert_eq!(lit(&picture), 1);
    }

    #[test]
    fn numbers_differ_and_stay_in_their_box() {
        let mut seen = std::collections::HashSet::new();
        for n in (0..10).chain([10, 99, 100, 2048]) {
            let mut picture = Picture::default();
            picture.start(40, 40, [0; 3]);
            picture.centred_number((4, 10, 32, 20), n, [255; 3]);
            for y in 0..40 {
                for x in 0..40 {
                    let lit = picture.pixel(x, y) == Some([255; 3]);
                    assert!(!lit || ((4..36).contains(&x) && (10..30).contains(&y)), "{n} at {x}, {y}");
                }
            }
            assert!(seen.insert(picture.rgb), "{n} looks like another number");
        }
    }
}
