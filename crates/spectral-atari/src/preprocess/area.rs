//! Shrinking a grey picture to 84 × 84 by area interpolation, equal to OpenCV's `INTER_AREA` in every byte.
//!
//! Each result is a weighted mean of up to 3 × 4 pixels, the weights being the shares of the result's area that fall on
//! them: whole numbers over a common denominator. So the mean is computed in integers, where the order of summation does
//! not matter and SIMD applies: first across each line that differs from the one above, then down. OpenCV sums in single precision, whose error is far smaller than the distance of such a
//! mean to the nearest half, *unless* it is a half (or, for unusual heights, within a few parts of the denominator of
//! one): there OpenCV's rounding depends on its order of summation, and only for those rare pixels that sum is repeated.

use super::instructions::Instructions;
use super::lines::{Lines, WIDE, Weights};

/// Rows and columns of the result.
pub const SIDE: usize = 84;
/// Columns of the source: a line of the Atari's picture.
pub const WIDTH: usize = 160;
/// Most lines that a source may have.
pub const MAX_HEIGHT: usize = 256;

/// Columns of the source that one column of the result can touch.
pub(super) const ACROSS: usize = 3;
/// Rows of the source that one row of the result can touch.
const DOWN: usize = 5;

/// What one row or column of the result takes from the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taps<const N: usize> {
    pub(super) first: usize,
    used: usize,
    /// Shares as whole numbers; unused ones are 0.
    pub(super) whole: [u16; N],
    /// The same divided by their sum, as OpenCV rounds them to single precision.
    single: [f32; N],
}

/// The taps of all 84 results along one axis, and the sum of their whole shares.
fn taps<const N: usize>(source: usize) -> ([Taps<N>; SIDE], u32) {
    let common = gcd(source, SIDE);
    let mut all = [Taps { first: 0, used: 0, whole: [0; N], single: [0.0; N] }; SIDE];
    let scale = source as f64 / SIDE as f64;
    for (result, taps) in all.iter_mut().enumerate() {
        // In units of 1/84 of a source pixel this result covers [from, to).
        let (from, to) = (result * source, (result + 1) * source);
        taps.first = from / SIDE;
        taps.used = to.div_ceil(SIDE) - taps.first;
        assert!(taps.used <= N);
        let (begin, end) = (result as f64 * scale, result as f64 * scale + scale);
        let cell = scale.min(source as f64 - begin);
        for k in 0..taps.used {
            let pixel = taps.first + k;
            let covered = ((pixel + 1) * SIDE).min(to) - (pixel * SIDE).max(from);
            taps.whole[k] = (covered / common) as u16;
            // OpenCV's own sequence of roundings: the part before the first whole pixel, whole pixels, the part after.
            taps.single[k] = if pixel * SIDE < from {
                (((pixel + 1) as f64 - begin) / cell) as f32
            } else if (pixel + 1) * SIDE <= to {
                (1.0 / cell) as f32
            } else {
                ((end - pixel as f64).min(1.0).min(cell) / cell) as f32
            };
        }
    }
    (all, (source / common) as u32)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Division of 16-bit numbers by a constant: a shift, the upper half of a product, a shift.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) struct Division {
    pub(super) before: u8,
    pub(super) factor: u16,
    pub(super) after: u8,
}

impl Division {
    /// Exact for every number up to `most`.
    fn exact(divisor: u32, most: u32) -> Option<Division> {
        let before = divisor.trailing_zeros();
        let (odd, most) = (divisor >> before, most >> before);
        (0..16).find_map(|after| {
            let power = 1u64 << (16 + after);
            let factor = power.div_ceil(odd.into());
            let error = factor * u64::from(odd) - power;
            let fits = factor < 1 << 16 && error * u64::from(most) < power;
            fits.then_some(Division { before: before as u8, factor: factor as u16, after })
        })
    }
}

/// Shrinks pictures of one height.
///
/// ```
/// use spectral_atari::preprocess::Area;
/// let mut seen = [0; 84 * 84];
/// Area::new(210).shrink(&[7; 210 * 160], &mut seen);
/// assert!(seen.iter().all(|&pixel| pixel == 7));
/// ```
#[derive(Clone, Debug)]
pub struct Area {
    instructions: Instructions,
    rows: Box<[Taps<DOWN>; SIDE]>,
    weights: Weights,
    lines: Lines,
    /// The sum of all shares of a result.
    pub(super) denominator: u32,
    /// ⌈2⁴⁰ / denominator⌉, for division by multiplication.
    reciprocal: u64,
    /// The same for 16 bits, where they hold the sums of a result and no mean is doubtful but a half.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) division: Option<Division>,
    /// Means this near to a half (in parts of the denominator) are summed again in OpenCV's order.
    doubtful: u32,
}

impl Area {
    /// For pictures of 160 columns and this many rows.
    ///
    /// # Panics
    /// If the height is not between 84 and [`MAX_HEIGHT`].
    pub fn new(height: usize) -> Self {
        Area::with(height, Instructions::detect())
    }

    pub(super) fn with(height: usize, instructions: Instructions) -> Self {
        assert!((SIDE..=MAX_HEIGHT).contains(&height), "a picture of {height} lines");
        let (rows, down) = taps(height);
        let (columns, across) = taps(WIDTH);
        let denominator = down * across;
        // Single precision errs by less than 1/4000 of a grey level.
        let doubtful = denominator / 4_000;
        let most = 255 * denominator + denominator / 2;
        let narrow = most < 1 << 16 && doubtful == 0 && rows.iter().all(|taps| taps.used <= 3);
        Area {
            instructions,
            rows: Box::new(rows),
            weights: Weights::new(Box::new(columns)),
            lines: Lines::new(height),
            denominator,
            reciprocal: (1u64 << 40).div_ceil(denominator.into()),
            division: if narrow { Division::exact(denominator, most) } else { None },
            doubtful,
        }
    }

    /// Rows of the pictures that it takes.
    pub fn height(&self) -> usize {
        self.lines.of.len()
    }

    /// Shrinks `source` (`height` rows of 160) into `out` (84 rows of 84).
    ///
    /// # Panics
    /// If a slice has another length.
    pub fn shrink(&mut self, source: &[u8], out: &mut [u8]) {
        self.pool(source, source, &std::array::from_fn(|value| value as u8), out);
    }

    /// Shrinks the brighter of two pictures of palette indices, which are as bright as `grey` says.
    pub(super) fn pool(&mut self, first: &[u8], second: &[u8], grey: &[u8; 256], out: &mut [u8]) {
        assert_eq!(out.len(), SIDE * SIDE, "a result of {SIDE} × {SIDE}");
        self.lines.take(self.instructions, &self.weights, grey, first, second);
        for (y, line) in out.chunks_exact_mut(SIDE).enumerate() {
            self.shrink_line(y, line);
        }
    }

    #[inline]
    fn shrink_line(&self, y: usize, line: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(division) = &self.division
            && self.instructions != Instructions::Portable
        {
            let taps = &self.rows[y];
            // Where a row takes but two lines, the third share is 0, whatever line it is of.
            let sums = [0, 1, 2].map(|k: usize| self.across(taps.first + k.min(taps.used - 1)));
            let shares = [taps.whole[0], taps.whole[1], taps.whole[2]];
            let mut wide = [0; WIDE];
            // SAFETY: only `Instructions::available` makes a value that is not `Portable`, and only where it has found AVX2.
            let mut halves = unsafe {
                super::x86::shrink_down(sums, shares, self.denominator as u16, division, &mut wide)
            };
            line.copy_from_slice(&wide[..SIDE]);
            while halves != 0 {
                let x = halves.trailing_zeros() as usize;
                line[x] = self.in_single_precision(y, x);
                halves &= halves - 1;
            }
            return;
        }
        self.shrink_line_portable(y, line);
    }

    fn shrink_line_portable(&self, y: usize, line: &mut [u8]) {
        let taps = &self.rows[y];
        let mut raised = [self.denominator / 2; SIDE];
        for (row, &share) in (taps.first..).zip(&taps.whole[..taps.used]) {
            for (raised, &sum) in raised.iter_mut().zip(self.across(row)) {
                *raised += u32::from(sum) * u32::from(share);
            }
        }
        for (x, (value, raised)) in line.iter_mut().zip(raised).enumerate() {
            let mean = ((u64::from(raised) * self.reciprocal) >> 40) as u32;
            let beyond = raised - mean * self.denominator;
            *value = mean as u8;
            if beyond <= self.doubtful || beyond + self.doubtful >= self.denominator {
                *value = self.in_single_precision(y, x);
            }
        }
    }

    /// The sums across of a line of the picture.
    fn across(&self, row: usize) -> &[u16; WIDE] {
        &self.lines.across[usize::from(self.lines.of[row])]
    }

    /// OpenCV's sum: across each row first, then down, each product rounded and added in turn; halves go to even.
    #[cold]
    fn in_single_precision(&self, y: usize, x: usize) -> u8 {
        let (rows, columns) = (&self.rows[y], &self.weights.columns[x]);
        let mut total = 0.0f32;
        for (row, weight) in (rows.first..).zip(&rows.single[..rows.used]) {
            let pixels = &self.lines.grey[usize::from(self.lines.of[row])][columns.first..];
            let across = pixels
                .iter()
                .zip(&columns.single[..columns.used])
                .fold(0.0f32, |sum, (&pixel, weight)| sum + f32::from(pixel) * weight);
            total += weight * across;
        }
        total.round_ties_even() as u8
    }
}
