//! The inner loop of every dense product.

use super::kernels::{End, Start, Tile};
use super::simd::Simd;

/// Loads at most `n` lanes. What is being written must not be read past its end: another thread may own that.
///
/// # Safety
/// As [`Simd`]'s functions, for `n` lanes.
#[inline(always)]
pub(super) unsafe fn load_up_to<S: Simd>(p: *const f32, n: usize) -> S::V {
    // SAFETY: of `n` valid floats, as the caller says, no more than `n` are loaded.
    unsafe { if n >= S::LANES { S::load(p) } else { S::load_part(p, n) } }
}

/// Stores at most `n` lanes.
///
/// # Safety
/// As [`Simd`]'s functions, for `n` lanes.
#[inline(always)]
pub(super) unsafe fn store_up_to<S: Simd>(p: *mut f32, v: S::V, n: usize) {
    // SAFETY: of `n` valid floats, as the caller says, no more than `n` are written.
    unsafe { if n >= S::LANES { S::store(p, v) } else { S::store_part(p, v, n) } }
}

/// `R` rows from `first` on and `N` vectors of columns from `column` on.
///
/// # Safety
/// As for calls of [`Kernels`](super::kernels::Kernels); and the block begins within the tile.
#[inline(always)]
pub(super) unsafe fn block<S: Simd, const R: usize, const N: usize>(
    tile: &Tile,
    first: usize,
    column: usize,
) {
    // SAFETY: the caller vouches for the tile's addresses. Rows past its count repeat valid ones. Factors, biases and rows of `b`
    // are read up to `N` vectors from `column` on, so at most the slack beyond their ends; outputs are read and written
    // in whole vectors only if the block is full, and otherwise row by row and lane by lane as far as the tile goes.
    unsafe {
        let rows: [*const f32; R] = std::array::from_fn(|r| tile.rows[first + r]);
        let columns = tile.columns - column;
        let out = |r: usize, v: usize| tile.outs[first + r].add(column + v * S::LANES);
        let mut sums: [[S::V; N]; R] = match tile.start {
            Start::Zero => [[S::splat(0.0); N]; R],
            Start::Bias(bias) => [std::array::from_fn(|v| S::load(bias.add(column + v * S::LANES))); R],
            Start::Outputs => std::array::from_fn(|r| {
                std::array::from_fn(|v| load_up_to::<S>(out(r, v), columns.saturating_sub(v * S::LANES)))
            }),
        };
        let mut b = tile.b.add(column);
        for outer in 0..tile.sum.outer {
            for middle in 0..tile.sum.middle {
                let mut offset = outer * tile.sum.outer_step + middle * tile.sum.middle_step;
                for _ in 0..tile.sum.inner {
                    let across: [S::V; N] = std::array::from_fn(|v| S::load(b.add(v * S::LANES)));
                    for r in 0..R {
                        let factor = S::splat(*rows[r].add(offset));
                        for v in 0..N {
                            sums[r][v] = S::fma(factor, across[v], sums[r][v]);
                        }
                    }
                    offset += tile.sum.inner_step;
                    // After the last row this may lie beyond the slack; nothing is read there.
                    b = b.wrapping_add(tile.b_step);
                }
            }
        }
        if tile.count - first >= R && columns >= N * S::LANES {
            match tile.end {
                End::Store => finish::<S, R, N>(out, sums, |_, sum| sum),
                // What is not a number must stay so, to be noticed.
                End::Relu => finish::<S, R, N>(out, sums, |_, sum| S::max(S::splat(0.0), sum)),
                End::Add => finish::<S, R, N>(out, sums, |out, sum| S::add(S::load(out), sum)),
            }
            return;
        }
        for (r, sums) in sums.into_iter().enumerate().take(tile.count - first) {
            for (v, sum) in sums.into_iter().enumerate().take(columns.div_ceil(S::LANES)) {
                end_part::<S>(tile.end, out(r, v), sum, columns - v * S::LANES);
            }
        }
    }
}

/// Stores a full block.
///
/// # Safety
/// `out` must give addresses that are valid for a whole vector.
#[inline(always)]
unsafe fn finish<S: Simd, const R: usize, const N: usize>(
    out: impl Fn(usize, usize) -> *mut f32,
    sums: [[S::V; N]; R],
    end: impl Fn(*mut f32, S::V) -> S::V,
) {
    for (r, sums) in sums.into_iter().enumerate() {
        for (v, sum) in sums.into_iter().enumerate() {
            // SAFETY: a whole vector is valid there, as the caller says.
            unsafe { S::store(out(r, v), end(out(r, v), sum)) }
        }
    }
}

/// Ends the sums of one vector, of which at most `n` lanes count.
///
/// # Safety
/// So many floats must be valid at `out`.
#[inline(always)]
unsafe fn end_part<S: Simd>(end: End, out: *mut f32, sum: S::V, n: usize) {
    // SAFETY: no more than `n` floats are loaded or stored, which are valid, as the caller says.
    unsafe {
        let value = match end {
            End::Store => sum,
            End::Relu => S::max(S::splat(0.0), sum),
            End::Add => S::add(load_up_to::<S>(out, n), sum),
        };
        store_up_to::<S>(out, value, n);
    }
}
