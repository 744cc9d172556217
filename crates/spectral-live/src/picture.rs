//! Pictures on their way to a page: one byte per pixel where a picture has few colours, as games do.

use spectral_env::{Colour, Picture};

/// A picture as a page gets it: a palette and a place in it for each pixel; or, with more than 256 colours, an empty palette and
/// three bytes per pixel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Red, green, blue of each colour; empty if there are too many.
    pub palette: Vec<u8>,
    /// Row by row from the top.
    pub pixels: Vec<u8>,
}

/// Places in the table that finds a colour's number; a power of two, several times the colours that a palette may have.
const TABLE: usize = 2048;

impl Indexed {
    /// Takes over a picture, in memory that is used again.
    ///
    /// ```
    /// use spectral_env::Picture;
    /// use spectral_live::picture::Indexed;
    /// let mut picture = Picture::default();
    /// picture.start(2, 1, [9, 8, 7]);
    /// let mut indexed = Indexed::default();
    /// indexed.set(&picture);
    /// assert_eq!((indexed.palette, indexed.pixels), (vec![9, 8, 7], vec![0, 0]));
    /// ```
    pub fn set(&mut self, picture: &Picture) {
        (self.width, self.height) = (picture.width, picture.height);
        self.palette.clear();
        self.pixels.clear();
        self.pixels.reserve(picture.width * picture.height);
        // For each place: 0, or the colour's number plus one and the colour.
        let mut table = [(0u16, [0u8; 3]); TABLE];
        let (mut last, mut last_index) = (None, 0u8);
        for pixel in picture.rgb.chunks_exact(3) {
            let colour: Colour = [pixel[0], pixel[1], pixel[2]];
            // Neighbours mostly have the same colour.
            if last != Some(colour) {
                match self.place(&mut table, colour) {
                    Some(index) => (last, last_index) = (Some(colour), index),
                    None => {
                        self.palette.clear();
                        self.pixels.clear();
                        self.pixels.extend_from_slice(&picture.rgb);
                        return;
                    }
                }
            }
            self.pixels.push(last_index);
        }
    }

    fn place(&mut self, table: &mut [(u16, Colour); TABLE], colour: Colour) -> Option<u8> {
        let [red, green, blue] = colour.map(usize::from);
        let mut at = (red * 31 + green * 7 + blue * 131) % TABLE;
        loop {
            match table[at] {
                (0, _) => {
                    let index = self.palette.len() / 3;
                    if index == 256 {
                        return None;
                    }
                    self.palette.extend(colour);
                    table[at] = (index as u16 + 1, colour);
                    return Some(index as u8);
                }
                (number, known) if known == colour => return Some((number - 1) as u8),
                _ => at = (at + 1) % TABLE,
            }
        }
    }

    /// The picture again.
    pub fn picture(&self) -> Picture {
        let rgb = match self.palette.is_empty() {
            true => self.pixels.clone(),
            false => self.pixels.iter().flat_map(|&place| self.colour(place)).collect(),
        };
        Picture { width: self.width, height: self.height, rgb }
    }

    fn colour(&self, place: u8) -> Colour {
        let at = usize::from(place) * 3;
        self.palette.get(at..at + 3).and_then(|colour| colour.try_into().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_come_back_whatever_their_colours() {
        for colours in [1usize, 2, 255, 256, 257, 3000] {
            let mut picture = Picture::default();
            picture.start(100, 40, [0; 3]);
            for (n, pixel) in picture.rgb.chunks_exact_mut(3).enumerate() {
                let n = n % colours;
                pixel.copy_from_slice(&[n as u8, (n / 256) as u8, 200]);
            }
            let mut indexed = Indexed::default();
            indexed.set(&picture);
            assert_eq!(indexed.picture(), picture, "{colours} colours");
            assert_eq!(indexed.palette.len(), if colours > 256 { 0 } else { 3 * colours });
        }
    }
}
