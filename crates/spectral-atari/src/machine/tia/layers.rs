//! What is painted over what in a stretch of a line, and the painting of it.

use super::masks::{self, Mask};
use super::{Pixels, WIDTH};

/// Which pixels the things that can be painted cover: the six objects, and the two below.
pub(super) type Masks = [Mask; 8];
/// The left half of the playfield.
pub(super) const LEFT: usize = 6;
/// What HMOVE blanks.
pub(super) const BLANKED: usize = 7;

/// A background and what lies before it.
pub(super) struct Layers<'a> {
    masks: &'a Masks,
    background: u8,
    /// Places in the masks and colours, the hindmost first.
    layers: [(u8, u8); 8],
    count: usize,
}

impl<'a> Layers<'a> {
    #[inline]
    pub(super) fn new(masks: &'a Masks, background: u8) -> Self {
        Layers { masks, background, layers: [(0, 0); 8], count: 0 }
    }

    /// Puts something before all others; there is room for eight.
    #[inline]
    pub(super) fn put(&mut self, thing: usize, colour: u8) {
        self.layers[self.count] = (thing as u8, colour);
        self.count += 1;
    }

    /// Puts an object before all others if it is among those enabled.
    #[inline]
    pub(super) fn put_if(&mut self, enabled: u8, object: u8, colour: u8) {
        if enabled & object != 0 {
            self.put(object.trailing_zeros() as usize, colour);
        }
    }

    #[inline]
    fn each(&self) -> impl Iterator<Item = (&Mask, u8)> {
        self.layers[..self.count].iter().map(|&(thing, colour)| (&self.masks[usize::from(thing & 7)], colour))
    }

    /// Paints the pixels `from..to` of a line.
    #[inline]
    pub(super) fn paint(&self, row: &mut [u8; WIDTH], from: usize, to: usize) {
        #[cfg(target_arch = "x86_64")]
        if x86::available() {
            return x86::paint(self, row, masks::window(from, to));
        }
        self.paint_portably(row, from, to);
    }

    fn paint_portably(&self, row: &mut [u8; WIDTH], from: usize, to: usize) {
        row[from..to].fill(self.background);
        let window = masks::window(from, to);
        for (mask, colour) in self.each() {
            let colour = u64::from(colour) * 0x0101_0101_0101_0101;
            for word in 0..3 {
                let mut bits = mask[word] & window[word];
                while bits != 0 {
                    // Eight pixels at a time.
                    let first = bits.trailing_zeros() & !7;
                    let lit = masks::WIDENED[(bits >> first & 0xFF) as usize];
                    bits &= !(0xFF << first);
                    let at = word * 64 + first as usize;
                    if let Some(pixels) = row[at..].first_chunk_mut::<8>() {
                        *pixels = (u64::from_le_bytes(*pixels) & !lit | colour & lit).to_le_bytes();
                    }
                }
            }
        }
    }
}

/// The pixels of one line of the picture.
#[inline]
pub(super) fn row(pixels: &mut Pixels, line: usize) -> &mut [u8; WIDTH] {
    (&mut pixels[line * WIDTH..(line + 1) * WIDTH]).try_into().expect("a whole line")
}

/// Paints so many lines like this one below it.
pub(super) fn repeat_line(pixels: &mut Pixels, line: usize, times: usize) {
    let (line, below) = pixels[line * WIDTH..].split_at_mut(WIDTH);
    let below = below.as_chunks_mut::<WIDTH>().0;
    let times = times.min(below.len());
    let below = &mut below[..times];
    let Some(line) = line.first_chunk::<WIDTH>() else { return };
    #[cfg(target_arch = "x86_64")]
    if x86::available() {
        return x86::repeat(line, below);
    }
    below.fill(*line);
}

/// Painting with AVX-512, whose masks are those of the objects: a line is two vectors and a half.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use super::{Layers, Mask, WIDTH};
    use std::arch::x86_64::*;

    #[inline]
    pub(super) fn available() -> bool {
        is_x86_feature_detected!("avx512bw")
    }

    #[inline]
    pub(super) fn paint(layers: &Layers, row: &mut [u8; WIDTH], window: Mask) {
        assert!(available());
        // SAFETY: AVX-512 BW, which was just asserted, is all that the function needs.
        unsafe { paint_with_them(layers, row, window) }
    }

    #[target_feature(enable = "avx512bw")]
    fn paint_with_them(layers: &Layers, row: &mut [u8; WIDTH], window: Mask) {
        let mut pixels = [_mm512_set1_epi8(layers.background as i8); 3];
        for (mask, colour) in layers.each() {
            let colour = _mm512_set1_epi8(colour as i8);
            for (pixels, mask) in pixels.iter_mut().zip(mask) {
                *pixels = _mm512_mask_mov_epi8(*pixels, *mask, colour);
            }
        }
        // SAFETY: the accesses are to bytes 0..64, 64..128 and 128..160 of a row of 160.
        unsafe {
            let at = row.as_mut_ptr();
            if window != super::masks::window(0, WIDTH) {
                let last = _mm512_castsi256_si512(_mm256_loadu_si256(at.add(128).cast()));
                let before = [_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(64).cast()), last];
                for ((pixels, mask), before) in pixels.iter_mut().zip(window).zip(before) {
                    *pixels = _mm512_mask_mov_epi8(before, mask, *pixels);
                }
            }
            _mm512_storeu_si512(at.cast(), pixels[0]);
            _mm512_storeu_si512(at.add(64).cast(), pixels[1]);
            _mm256_storeu_si256(at.add(128).cast(), _mm512_castsi512_si256(pixels[2]));
        }
    }

    /// Copies a line to all of `below`.
    #[inline]
    pub(super) fn repeat(line: &[u8; WIDTH], below: &mut [[u8; WIDTH]]) {
        assert!(available());
        // SAFETY: AVX-512 BW, which was just asserted, is all that the function needs.
        unsafe { repeat_with_them(line, below) }
    }

    #[target_feature(enable = "avx512bw")]
    fn repeat_with_them(line: &[u8; WIDTH], below: &mut [[u8; WIDTH]]) {
        // SAFETY: as above, the accesses are to the three parts of rows of 160.
        unsafe {
            let at = line.as_ptr();
            let whole = [_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(64).cast())];
            let half = _mm256_loadu_si256(at.add(128).cast());
            for row in below {
                let at = row.as_mut_ptr();
                _mm512_storeu_si512(at.cast(), whole[0]);
                _mm512_storeu_si512(at.add(64).cast(), whole[1]);
                _mm256_storeu_si256(at.add(128).cast(), half);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn vectors_paint_what_bytes_do(
                background: u8,
                masks: [[u64; 3]; 8],
                things in prop::collection::vec((0usize..8, any::<u8>()), 0..8),
                (from, to) in (0usize..=WIDTH, 0usize..=WIDTH),
            ) {
                if !available() {
                    return Ok(());
                }
                let masks = masks.map(|mask| [mask[0], mask[1], mask[2] & 0xFFFF_FFFF]);
                let mut layers = Layers::new(&masks, background);
                things.iter().for_each(|&(thing, colour)| layers.put(thing, colour));
                let (from, to) = (from.min(to), from.max(to));
                let before: [u8; WIDTH] = std::array::from_fn(|x| x as u8);
                let (mut with, mut without) = (before, before);
                paint(&layers, &mut with, super::super::masks::window(from, to));
                layers.paint_portably(&mut without, from, to);
                prop_assert_eq!(with, without);
            }
        }
    }
}
