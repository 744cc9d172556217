//! The inner loops, compiled once per instruction set and chosen at run time.

#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Scalar, Simd, turn_part};

/// Rows of a tile of outputs.
pub(crate) const ROWS: usize = 8;
/// Floats that kernels may read past the end of any buffer they are given: no load is ever shortened, only stores.
pub(crate) const SLACK: usize = 128;

/// The instruction set that the arithmetic uses. Results agree between sets to rounding, not to the last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Plain Rust.
    Scalar,
    /// AVX2 with fused multiply-add and the bit instructions of the same generation.
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
            Instructions::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            }
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

/// Factors of a row of a [`Sparse`] product between two visits to its outputs: their rows of `b`, 128 columns wide,
/// fit into the first-level cache. At most 64.
const SPARSE_BLOCK: usize = 32;

/// A product `out[r][c] = Σᵢ factors[r][i] · b[i][c]` that skips factors of 0: rectifiers leave many. The sums have
/// the order of a [`Tile`]'s, so skipping changes no bit of them.
pub(crate) struct Sparse {
    pub rows: usize,
    pub factors: *const f32,
    pub factors_pitch: usize,
    /// Factors of a row.
    pub len: usize,
    pub b: *const f32,
    pub b_step: usize,
    pub out: *mut f32,
    pub out_pitch: usize,
    pub columns: usize,
    pub start: Start,
    pub end: End,
}

/// A block's first float and the distance between its rows.
pub(crate) type Source = (*const f32, usize);
/// As [`Source`], to be written.
pub(crate) type Sink = (*mut f32, usize);

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
    /// A product, without its zeros.
    pub sparse: unsafe fn(&Sparse),
    /// Transposes a block of so many rows and columns; the result is 0 where the gates, which lie as it does, are
    /// not above 0.
    pub turn: unsafe fn((usize, usize), Source, Sink, Option<*const f32>),
    /// How many of so many floats are not 0.
    pub count_nonzeros: unsafe fn(*const f32, usize) -> usize,
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
        if tile.count - first >= R && tile.columns == N * S::LANES {
            match tile.end {
                End::Store => finish::<S, R, N>(tile, first, sums, |_, sum| sum),
                // What is not a number must stay so, to be noticed.
                End::Relu => finish::<S, R, N>(tile, first, sums, |_, sum| S::max(S::splat(0.0), sum)),
                End::Add => finish::<S, R, N>(tile, first, sums, |out, sum| S::add(S::load(out), sum)),
            }
            return;
        }
        for (r, sums) in sums.into_iter().enumerate().take(tile.count - first) {
            let out = tile.outs[first + r];
            for (v, sum) in sums.into_iter().enumerate().take(tile.columns.div_ceil(S::LANES)) {
                end_part::<S>(tile.end, out.add(v * S::LANES), sum, tile.columns - v * S::LANES);
            }
        }
    }
}

/// Stores a full tile.
#[inline(always)]
unsafe fn finish<S: Simd, const R: usize, const N: usize>(
    tile: &Tile,
    first: usize,
    sums: [[S::V; N]; R],
    end: impl Fn(*mut f32, S::V) -> S::V,
) {
    for (r, sums) in sums.into_iter().enumerate() {
        for (v, sum) in sums.into_iter().enumerate() {
            unsafe {
                let out = tile.outs[first + r].add(v * S::LANES);
                S::store(out, end(out, sum));
            }
        }
    }
}

/// Ends the sums of one vector, of which at most `n` lanes count.
#[inline(always)]
unsafe fn end_part<S: Simd>(end: End, out: *mut f32, sum: S::V, n: usize) {
    unsafe {
        let value = match end {
            End::Store => sum,
            End::Relu => S::max(S::splat(0.0), sum),
            End::Add => S::add(load_up_to::<S>(out, n), sum),
        };
        store_up_to::<S>(out, value, n);
    }
}

/// `N` vectors of columns, from `column` on, of all rows of a [`Sparse`] product.
#[inline(always)]
unsafe fn sparse_block<S: Simd, const N: usize>(product: &Sparse, column: usize) {
    let columns = product.columns - column;
    let left = |v: usize| columns.saturating_sub(v * S::LANES);
    unsafe {
        for from in (0..product.len).step_by(SPARSE_BLOCK) {
            let block = SPARSE_BLOCK.min(product.len - from);
            let last = from + block == product.len;
            let b = product.b.add(from * product.b_step + column);
            for row in 0..product.rows {
                let factors = product.factors.add(row * product.factors_pitch + from);
                let out = product.out.add(row * product.out_pitch + column);
                let mut sums: [S::V; N] = match (from, product.start) {
                    (0, Start::Zero) => [S::splat(0.0); N],
                    (0, Start::Bias(bias)) => {
                        std::array::from_fn(|v| S::load(bias.add(column + v * S::LANES)))
                    }
                    _ => std::array::from_fn(|v| load_up_to::<S>(out.add(v * S::LANES), left(v))),
                };
                let mut open = 0u64;
                for at in (0..block).step_by(S::LANES) {
                    open |= u64::from(S::nonzeros(load_up_to::<S>(factors.add(at), block - at))) << at;
                }
                while open != 0 {
                    let i = open.trailing_zeros() as usize;
                    open &= open - 1;
                    let factor = S::splat(*factors.add(i));
                    let b = b.add(i * product.b_step);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = S::fma(factor, S::load(b.add(v * S::LANES)), *sum);
                    }
                }
                let end = if last { product.end } else { End::Store };
                for (v, sum) in sums.into_iter().enumerate() {
                    if left(v) > 0 {
                        end_part::<S>(end, out.add(v * S::LANES), sum, left(v));
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn sparse<S: Simd>(product: &Sparse) {
    for column in (0..product.columns).step_by(8 * S::LANES) {
        unsafe {
            match (product.columns - column).div_ceil(S::LANES) {
                1 => sparse_block::<S, 1>(product, column),
                2 => sparse_block::<S, 2>(product, column),
                3 | 4 => sparse_block::<S, 4>(product, column),
                _ => sparse_block::<S, 8>(product, column),
            }
        }
    }
}

#[inline(always)]
unsafe fn turn<S: Simd>(
    (rows, columns): (usize, usize),
    (from, from_pitch): Source,
    (to, to_pitch): Sink,
    gates: Option<*const f32>,
) {
    for i in (0..rows).step_by(8) {
        for j in (0..columns).step_by(8) {
            unsafe {
                let (from, to) = (from.add(i * from_pitch + j), to.add(j * to_pitch + i));
                let gates = gates.map(|gates| gates.add(j * to_pitch + i));
                if rows - i >= 8 && columns - j >= 8 {
                    S::turn(from, from_pitch, to, to_pitch, gates);
                } else {
                    turn_part(
                        (8.min(rows - i), 8.min(columns - j)),
                        (from, from_pitch),
                        (to, to_pitch),
                        gates,
                    );
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn count_nonzeros<S: Simd>(from: *const f32, len: usize) -> usize {
    let count = |at| unsafe { S::nonzeros(load_up_to::<S>(from.add(at), len - at)).count_ones() as usize };
    (0..len).step_by(S::LANES).map(count).sum()
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
                sparse,
                turn,
                count_nonzeros,
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
            unsafe fn sparse(product: &Sparse) {
                unsafe { super::sparse::<$simd>(product) }
            }

            $(#[$feature])?
            unsafe fn turn(size: (usize, usize), from: Source, to: Sink, gates: Option<*const f32>) {
                unsafe { super::turn::<$simd>(size, from, to, gates) }
            }

            $(#[$feature])?
            unsafe fn count_nonzeros(from: *const f32, len: usize) -> usize {
                unsafe { super::count_nonzeros::<$simd>(from, len) }
            }

            $(#[$feature])?
            unsafe fn gate(gates: *const f32, values: *mut f32, len: usize) {
                unsafe { super::gate::<$simd>(gates, values, len) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels!(avx512, Avx512, 8, #[target_feature(enable = "avx512f,avx2,fma,popcnt,bmi1,bmi2")]);
#[cfg(target_arch = "x86_64")]
kernels!(avx2, Avx2, 4, #[target_feature(enable = "avx2,fma,popcnt,bmi1,bmi2")]);
kernels!(scalar, Scalar, 4,);
