//! First pass over the lines of a picture: grey conversion, pooling with the frame before, and horizontal shrinking.

use super::area::{ACROSS, SIDE, Taps, WIDTH};
use super::instructions::Instructions;

/// A line with room for loads that begin in it and end beyond.
pub(super) const PADDED: usize = WIDTH + 16;
/// A line of results with room for stores that begin in it and end beyond.
pub(super) const WIDE: usize = 96;
/// Results that are made from one load of 16 pixels; three such groups are a period of the weights.
pub(super) const GROUP: usize = 7;
/// Groups after which the weights repeat: 21 results take 40 pixels.
pub(super) const PERIOD: usize = 3;

/// The lines that differ from the one above them. Most lines of most pictures repeat it, and comparing is much cheaper
/// than looking colours up.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// Grey pixels of the different lines.
    pub(super) grey: Vec<[u8; PADDED]>,
    /// Weighted sums of these pixels, one for each column of the result.
    pub(super) across: Vec<[u16; WIDE]>,
    /// Which of the different lines each line of the picture is.
    pub(super) of: Vec<u16>,
}

impl Lines {
    pub(super) fn new(height: usize) -> Self {
        Lines { grey: vec![[0; PADDED]; height], across: vec![[0; WIDE]; height], of: vec![0; height] }
    }

    /// Takes two pictures of palette indices, and the brighter of the two at each pixel.
    pub(super) fn take(
        &mut self,
        instructions: Instructions,
        weights: &Weights,
        table: &[u8; 256],
        first: &[u8],
        second: &[u8],
    ) {
        assert_eq!(first.len(), self.of.len() * WIDTH, "the first picture");
        assert_eq!(second.len(), self.of.len() * WIDTH, "the second picture");
        match instructions {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only `Instructions::available` makes this value, where it has found AVX2 and AVX-512 BW, VL and VBMI.
            Instructions::Avx512 => unsafe { super::x86::take_avx512(self, weights, table, first, second) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only `Instructions::available` makes this value, where it has found AVX2.
            Instructions::Avx2 => unsafe { super::x86::take_avx2(self, weights, table, first, second) },
            Instructions::Portable => self.take_portable(weights, table, first, second),
        }
    }

    fn take_portable(&mut self, weights: &Weights, table: &[u8; 256], first: &[u8], second: &[u8]) {
        let mut count = 0;
        let mut above: Option<(&[u8], &[u8])> = None;
        for (y, (a, b)) in first.chunks_exact(WIDTH).zip(second.chunks_exact(WIDTH)).enumerate() {
            if above != Some((a, b)) {
                for ((pixel, &a), &b) in self.grey[count].iter_mut().zip(a).zip(b) {
                    *pixel = table[usize::from(a)].max(table[usize::from(b)]);
                }
                for (sum, taps) in self.across[count].iter_mut().zip(&*weights.columns) {
                    let pixels: &[u8; ACROSS] =
                        self.grey[count][taps.first..taps.first + ACROSS].try_into().unwrap();
                    *sum =
                        pixels.iter().zip(&taps.whole).map(|(&pixel, &share)| u16::from(pixel) * share).sum();
                }
                count += 1;
            }
            self.of[y] = count as u16 - 1;
            above = Some((a, b));
        }
    }
}

/// The weights across, one by one and as the byte shuffles that apply a group of them.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    pub(super) columns: Box<[Taps<ACROSS>; SIDE]>,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) groups: [ShuffleGroup; PERIOD],
}

/// The byte shuffle that turns sixteen pixels into seven sums: for each pair of bytes, which pixel it is and its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShuffleGroup {
    pub(super) pixels: [[u8; 16]; 2],
    pub(super) shares: [[u8; 16]; 2],
}

impl Weights {
    pub(super) fn new(columns: Box<[Taps<ACROSS>; SIDE]>) -> Self {
        const NONE: u8 = 0x80;
        let groups = std::array::from_fn(|group| {
            let mut made = ShuffleGroup { pixels: [[NONE; 16]; 2], shares: [[0; 16]; 2] };
            for (lane, taps) in columns[group * GROUP..][..GROUP].iter().enumerate() {
                let from = taps.first - first_pixel(group);
                for (tap, &share) in taps.whole.iter().enumerate().filter(|(_, share)| **share > 0) {
                    made.pixels[tap / 2][2 * lane + tap % 2] = (from + tap) as u8;
                    made.shares[tap / 2][2 * lane + tap % 2] = share as u8;
                }
            }
            made
        });
        Weights { columns, groups }
    }
}

/// The first pixel of a group of results.
pub(super) const fn first_pixel(group: usize) -> usize {
    group * GROUP * WIDTH / SIDE
}
