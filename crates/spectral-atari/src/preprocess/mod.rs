//! Turns the machine's pictures into observations: grey, the pixelwise maximum of the last two frames, 84 × 84.
//!
//! ```
//! use spectral_atari::preprocess::Pooler;
//! let grey = std::array::from_fn(|colour| colour as u8);
//! let mut pooler = Pooler::new(210, grey);
//! let mut seen = [0; 84 * 84];
//! pooler.pool(&[10; 210 * 160], &[200; 210 * 160], &mut seen);
//! assert!(seen.iter().all(|&pixel| pixel == 200));
//! ```

mod area;
mod instructions;
mod lines;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use area::{Area, MAX_HEIGHT, SIDE, WIDTH};

/// Pools two frames of palette indices into one observation.
#[derive(Clone, Debug)]
pub struct Pooler {
    area: Area,
    grey: [u8; 256],
}

impl Pooler {
    /// For pictures of this many lines, whose colours are as bright as `grey` says.
    ///
    /// # Panics
    /// If the height is not between 84 and [`MAX_HEIGHT`].
    pub fn new(height: usize, grey: [u8; 256]) -> Self {
        Pooler { area: Area::new(height), grey }
    }

    /// Lines of the pictures that it takes.
    pub fn height(&self) -> usize {
        self.area.height()
    }

    /// The brighter of two pictures at each pixel, shrunk into `out` (84 rows of 84).
    ///
    /// # Panics
    /// If a slice has the wrong length.
    pub fn pool(&mut self, first: &[u8], second: &[u8], out: &mut [u8]) {
        self.area.pool(first, second, &self.grey, out);
    }

    /// One picture alone, shrunk: where there is no frame before it.
    ///
    /// # Panics
    /// If a slice has the wrong length.
    pub fn single(&mut self, picture: &[u8], out: &mut [u8]) {
        self.pool(picture, picture, out);
    }
}

#[cfg(test)]
mod tests;
