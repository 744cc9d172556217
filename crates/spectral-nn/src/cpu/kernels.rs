//! The inner loops, compiled once per instruction set and chosen at run time.

#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Scalar, Simd};

/// Rows of a tile of outputs.
pub(crate) const ROWS: usize = 8;
/// Floats that kernels may read past the end of any buffer they are given: no load is ever shortened, only stores.
pub(crate) const SLACK: usize = 128;

/// The instruction set that the arithmetic uses. Results agree between sets to rounding, not to the last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Plain Rust.
    Scalar,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 F.
    Avx512,
}

impl Instructions {
    /// The best set that this machine has.
    pub fn detect() -> Instructions {
        [Instructions::Avx512, Instructions::Avx2]
            .into_iter()
            .find(|i| i.available())
            .unwrap_or(Instructions::Scalar)
    }

    /// Whether this machine has the set.
    pub fn available(self) -> bool {
        match self {
            Instructions::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => is_x86_feature_detected!("avx512f") && Instructions::Avx2.available(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

/// Where a tile's sums start.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    Zero,
    /// From one value per column.
    Bias(*const f32),
    /// From what the outputs hold.
    Outputs,
}

/// What happens to a tile's sums.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Store,
    /// Stored, negative ones as 0.
    Relu,
    /// Added to what the outputs hold, row by row: rows may overlap.
    Add,
}

/// The index set that a tile sums over, as three nested loops over offsets from each row's start.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub outer: usize,
    pub outer_step: usize,
    pub middle: usize,
    pub middle_step: usize,
    pub inner: usize,
    pub inner_step: usize,
}

impl Sum {
    /// A single loop.
    pub fn line(inner: usize, inner_step: usize) -> Sum {
        Sum { outer: 1, outer_step: 0, middle: 1, middle_step: 0, inner, inner_step }
    }
}

/// One tile of a product: `out[r][c] = Σᵢ rows[r][offset(i)] · b[i · b_step + c]`.
///
/// This one shape serves every product of the crate: a convolution's patches, and their transposes, are row starts
/// plus offsets, so patches are never written out.
pub(crate) struct Tile {
    /// Where each row's factors start. Rows past `count` repeat a valid one.
    pub rows: [*const f32; ROWS],
    /// Where each row's outputs start.
    pub outs: [*mut f32; ROWS],
    /// Rows that are stored.
    pub count: usize,
    pub sum: Sum,
    pub b: *const f32,
    pub b_step: usize,
    /// Columns that are stored, at most the kernel's width.
    pub columns: usize,
    pub start: Start,
    pub end: End,
}

/// What Adam needs to know for one agent's step.
#[derive(Clone, Copy)]
pub(crate) struct AdamStep {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// Learning rate over the first moment's bias correction.
    pub rate: f32,
    /// One over the root of the second moment's bias correction.
    pub root: f32,
}

/// The kernels of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Kernels {
    /// Columns of a tile of 8 rows.
    pub width: usize,
    /// A tile of up to 8 rows and `width` columns.
    pub tile: unsafe fn(&Tile),
    /// Columns of a tile of one row.
    pub row_width: usize,
    /// A tile of one row and `row_width` columns.
    pub row: unsafe fn(&Tile),
    /// Adam on `len` parameters: parameters, first and second moments, gradients.
    pub adam: unsafe fn(&AdamStep, usize, *mut f32, *mut f32, *mut f32, *const f32),
    /// Sums of each of `columns` columns over `rows` rows that lie `pitch` apart.
    pub column_sums: unsafe fn(*const f32, usize, usize, usize, *mut f32),
    /// `values[i] = 0` where `gates[i]` is not above 0.
    pub gate: unsafe fn(*const f32, *mut f32, usize),
}

impl Kernels {
    pub fn new(instructions: Instructions) -> Kernels {
        assert!(instructions.available(), "{instructions:?} is not available on this machine");
        match instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => avx2::KERNELS,
            _ => scalar::KERNELS,
        }
    }
}

/// Loads at most `n` lanes. What is being written must not be read past its end: another thread may own that.
#[inline(always)]
unsafe fn load_up_to<S: Simd>(p: *const f32, n: usize) -> S::V {
    unsafe { if n >= S::LANES { S::load(p) } else { S::load_part(p, n) } }
}

/// Stores at most `n` lanes.
#[inline(always)]
unsafe fn store_up_to<S: Simd>(p: *mut f32, v: S::V, n: usize) {
    unsafe { if n >= S::LANES { S::store(p, v) } else { S::store_part(p, v, n) } }
}

/// `R` rows from `first` on, `N` vectors wide.
#[inline(always)]
unsafe fn block<S: Simd, const R: usize, const N: usize>(tile: &Tile, first: usize) {
    unsafe {
        let rows: [*const f32; R] = std::array::from_fn(|r| tile.rows[first + r]);
        let mut sums: [[S::V; N]; R] = match tile.start {
            Start::Zero => [[S::splat(0.0); N]; R],
            Start::Bias(bias) => [std::array::from_fn(|v| S::load(bias.add(v * S::LANES))); R],
            Start::Outputs => std::array::from_fn(|r| {
                std::array::from_fn(|v| {
                    load_up_to::<S>(
                        tile.outs[first + r].add(v * S::LANES),
                        tile.columns.saturating_sub(v * S::LANES),
                    )
                })
            }),
        };
        let mut b = tile.b;
        for outer in 0..tile.sum.outer {
            for middle in 0..tile.sum.middle {
                let mut offset = outer * tile.sum.outer_step + middle * tile.sum.middle_step;
                for _ in 0..tile.sum.inner {
                    let columns: [S::V; N] = std::array::from_fn(|v| S::load(b.add(v * S::LANES)));
                    for r in 0..R {
                        let factor = S::splat(*rows[r].add(offset));
                        for v in 0..N {
                            sums[r][v] = S::fma(factor, columns[v], sums[r][v]);
                        }
                    }
                    offset += tile.sum.inner_step;
                    b = b.add(tile.b_step);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate().take(tile.count - first) {
            let out = tile.outs[first + r];
            for (v, sum) in sums.into_iter().enumerate().take(tile.columns.div_ceil(S::LANES)) {
                let at = v * S::LANES;
                let value = match tile.end {
                    End::Store => sum,
                    // What is not a number must stay so, to be noticed.
                    End::Relu => S::max(S::splat(0.0), sum),
                    End::Add => S::add(load_up_to::<S>(out.add(at), tile.columns - at), sum),
                };
                store_up_to::<S>(out.add(at), value, tile.columns - at);
            }
        }
    }
}

#[inline(always)]
unsafe fn adam<S: Simd>(
    step: &AdamStep,
    len: usize,
    parameters: *mut f32,
    first: *mut f32,
    second: *mut f32,
    gradients: *const f32,
) {
    unsafe {
        let [beta1, beta2] = [step.beta1, step.beta2].map(|beta| S::splat(beta));
        let [fresh1, fresh2] = [step.beta1, step.beta2].map(|beta| S::splat(1.0 - beta));
        let [root, epsilon, rate] = [step.root, step.epsilon, -step.rate].map(|x| S::splat(x));
        let mut at = 0;
        while at < len {
            let left = len - at;
            let g = S::load(gradients.add(at));
            let m = S::fma(beta1, load_up_to::<S>(first.add(at), left), S::mul(fresh1, g));
            let v = S::fma(beta2, load_up_to::<S>(second.add(at), left), S::mul(fresh2, S::mul(g, g)));
            let move_by = S::div(S::mul(rate, m), S::fma(S::sqrt(v), root, epsilon));
            let p = S::add(load_up_to::<S>(parameters.add(at), left), move_by);
            store_up_to::<S>(first.add(at), m, left);
            store_up_to::<S>(second.add(at), v, left);
            store_up_to::<S>(parameters.add(at), p, left);
            at += S::LANES;
        }
    }
}

#[inline(always)]
unsafe fn column_sums<S: Simd>(from: *const f32, rows: usize, pitch: usize, columns: usize, out: *mut f32) {
    unsafe {
        let mut at = 0;
        while at < columns {
            let mut sums = [S::splat(0.0); 4];
            let mut row = 0;
            while row + 4 <= rows {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = S::add(*sum, S::load(from.add((row + i) * pitch + at)));
                }
                row += 4;
            }
            while row < rows {
                sums[0] = S::add(sums[0], S::load(from.add(row * pitch + at)));
                row += 1;
            }
            let sum = S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3]));
            S::store_part(out.add(at), sum, S::LANES.min(columns - at));
            at += S::LANES;
        }
    }
}

#[inline(always)]
unsafe fn gate<S: Simd>(gates: *const f32, values: *mut f32, len: usize) {
    unsafe {
        let mut at = 0;
        while at < len {
            let value = S::gate(S::load(gates.add(at)), load_up_to::<S>(values.add(at), len - at));
            store_up_to::<S>(values.add(at), value, len - at);
            at += S::LANES;
        }
    }
}

/// Instantiates every kernel for one instruction set. `$r` rows are held in registers at a time.
macro_rules! kernels {
    ($module:ident, $simd:ident, $r:literal, $(#[$feature:meta])?) => {
        mod $module {
            use super::*;

            pub const KERNELS: Kernels = Kernels {
                width: 2 * $simd::LANES,
                tile,
                row_width: 8 * $simd::LANES,
                row,
                adam,
                column_sums,
                gate,
            };

            $(#[$feature])?
            unsafe fn tile(tile: &Tile) {
                for first in (0..ROWS).step_by($r).take_while(|first| *first < tile.count) {
                    if tile.columns > $simd::LANES {
                        unsafe { super::block::<$simd, $r, 2>(tile, first) }
                    } else {
                        unsafe { super::block::<$simd, $r, 1>(tile, first) }
                    }
                }
            }

            $(#[$feature])?
            unsafe fn row(tile: &Tile) {
                unsafe { super::block::<$simd, 1, 8>(tile, 0) }
            }

            $(#[$feature])?
            unsafe fn adam(s: &AdamStep, len: usize, p: *mut f32, m: *mut f32, v: *mut f32, g: *const f32) {
                unsafe { super::adam::<$simd>(s, len, p, m, v, g) }
            }

            $(#[$feature])?
            unsafe fn column_sums(from: *const f32, rows: usize, pitch: usize, columns: usize, out: *mut f32) {
                unsafe { super::column_sums::<$simd>(from, rows, pitch, columns, out) }
            }

            $(#[$feature])?
            unsafe fn gate(gates: *const f32, values: *mut f32, len: usize) {
                unsafe { super::gate::<$simd>(gates, values, len) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels!(avx512, Avx512, 8, #[target_feature(enable = "avx512f,avx2,fma")]);
#[cfg(target_arch = "x86_64")]
kernels!(avx2, Avx2, 4, #[target_feature(enable = "avx2,fma")]);
kernels!(scalar, Scalar, 4,);
