//! Shrinking a grey picture to 84 × 84 by area interpolation, equal to OpenCV's `INTER_AREA` in every byte.
//!
//! Each result is a weighted mean of up to 3 × 4 pixels, the weights being the shares of the result's area that fall on
//! them: whole numbers over a common denominator. So the mean is computed in integers, where the order of summation does
//! not matter and SIMD applies. OpenCV sums in single precision, whose error is far smaller than the distance of such a
//! mean to the nearest half, *unless* it is a half (or, for unusual heights, within a few parts of the denominator of
//! one): there OpenCV's rounding depends on its order of summation, and only for those rare pixels that sum is repeated.

/// Rows and columns of the result.
pub const SIDE: usize = 84;
/// Columns of the source: a line of the Atari's picture.
pub const WIDTH: usize = 160;
/// Most lines that a source may have: with more, sums of a column would not fit 16 bits.
pub const MAX_HEIGHT: usize = 256;

/// Columns of the source that one column of the result can touch.
const ACROSS: usize = 3;
/// Rows of the source that one row of the result can touch.
const DOWN: usize = 5;
/// A line with room for the taps of the last result that are never used.
const PADDED: usize = WIDTH + ACROSS - 1;

/// What one row or column of the result takes from the source.
#[derive(Clone, Copy, Debug)]
struct Taps<const N: usize> {
    first: usize,
    used: usize,
    /// Shares as whole numbers; unused ones are 0.
    whole: [u16; N],
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

/// Shrinks pictures of one height.
#[derive(Clone, Debug)]
pub struct Area {
    height: usize,
    rows: Box<[Taps<DOWN>; SIDE]>,
    columns: Box<[Taps<ACROSS>; SIDE]>,
    /// The sum of all shares of a result.
    denominator: u32,
    /// ⌈2⁴⁰ / denominator⌉, for division by multiplication.
    reciprocal: u64,
    /// Means this near to a half (in parts of the denominator) are summed again in OpenCV's order.
    doubtful: u32,
}

impl Area {
    /// For pictures of 160 columns and this many rows.
    ///
    /// # Panics
    /// If the height is not between 84 and [`MAX_HEIGHT`].
    pub fn new(height: usize) -> Self {
        assert!((SIDE..=MAX_HEIGHT).contains(&height), "a picture of {height} lines");
        let (rows, down) = taps(height);
        let (columns, across) = taps(WIDTH);
        let denominator = down * across;
        Area {
            height,
            rows: Box::new(rows),
            columns: Box::new(columns),
            denominator,
            reciprocal: (1u64 << 40).div_ceil(denominator.into()),
            // Single precision errs by less than 1/4000 of a grey level.
            doubtful: denominator / 4_000,
        }
    }

    /// Rows of the pictures that it takes.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Shrinks `source` (`height` rows of 160) into `out` (84 rows of 84).
    ///
    /// # Panics
    /// If a slice has another length.
    pub fn shrink(&self, source: &[u8], out: &mut [u8]) {
        assert_eq!(source.len(), self.height * WIDTH, "a picture of {} lines", self.height);
        assert_eq!(out.len(), SIDE * SIDE, "a result of {SIDE} × {SIDE}");
        let mut sums = [[0u16; PADDED]; 2];
        let mut doubt = true;
        for (y, taps) in self.rows.iter().enumerate() {
            let [now, before] = &mut sums;
            add_rows(&source[taps.first * WIDTH..], taps, now);
            // Much of a picture is the same from line to line, and so is its result, but for doubtful means: there
            // OpenCV's weights differ from row to row.
            let (done, rest) = out.split_at_mut(y * SIDE);
            if !doubt && now == before {
                rest[..SIDE].copy_from_slice(&done[(y - 1) * SIDE..]);
            } else {
                doubt = self.shrink_line(source, y, now, &mut rest[..SIDE]);
            }
            sums.swap(0, 1);
        }
    }

    /// Writes one line of the result; true if some mean was doubtful.
    fn shrink_line(&self, source: &[u8], y: usize, sums: &[u16; PADDED], line: &mut [u8]) -> bool {
        let mut doubts = 0u32;
        for (x, value) in line.iter_mut().enumerate() {
            let taps = &self.columns[x];
            let pixels: &[u16; ACROSS] = sums[taps.first..taps.first + ACROSS].try_into().unwrap();
            let numerator: u32 =
                pixels.iter().zip(&taps.whole).map(|(&sum, &share)| u32::from(sum) * u32::from(share)).sum();
            let raised = numerator + self.denominator / 2;
            let mean = ((u64::from(raised) * self.reciprocal) >> 40) as u32;
            let beyond = raised - mean * self.denominator;
            *value = mean as u8;
            if beyond <= self.doubtful || beyond + self.doubtful >= self.denominator {
                doubts += 1;
                *value = self.in_single_precision(source, y, x);
            }
        }
        doubts > 0
    }

    /// OpenCV's sum: across each row first, then down, each product rounded and added in turn; halves go to even.
    #[cold]
    fn in_single_precision(&self, source: &[u8], y: usize, x: usize) -> u8 {
        let (rows, columns) = (&self.rows[y], &self.columns[x]);
        let mut total = 0.0f32;
        for (row, weight) in (rows.first..).zip(&rows.single[..rows.used]) {
            let pixels = &source[row * WIDTH + columns.first..];
            let across = pixels
                .iter()
                .zip(&columns.single[..columns.used])
                .fold(0.0f32, |sum, (&pixel, weight)| sum + f32::from(pixel) * weight);
            total += weight * across;
        }
        total.round_ties_even() as u8
    }
}

/// The weighted sum of the rows that a row of the result touches; `source` begins at the first of them.
fn add_rows(source: &[u8], taps: &Taps<DOWN>, sums: &mut [u16; PADDED]) {
    let row = |k: usize| -> &[u8; WIDTH] { source[k * WIDTH..(k + 1) * WIDTH].try_into().unwrap() };
    if taps.used == 3 {
        let (a, b, c) = (row(0), row(1), row(2));
        let [wa, wb, wc, ..] = taps.whole;
        for x in 0..WIDTH {
            sums[x] = u16::from(a[x]) * wa + u16::from(b[x]) * wb + u16::from(c[x]) * wc;
        }
    } else {
        sums.fill(0);
        for k in 0..taps.used {
            let (pixels, weight) = (row(k), taps.whole[k]);
            for x in 0..WIDTH {
                sums[x] += u16::from(pixels[x]) * weight;
            }
        }
    }
}
