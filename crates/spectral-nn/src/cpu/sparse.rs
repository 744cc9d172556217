//! Products that skip zeros.

use super::elementwise::turn;
use super::kernels::{End, SPARSE_BLOCK, Sparse, Start};
use super::simd::Simd;
use super::tile::{load_up_to, store_up_to};

/// Columns of a packed block.
const PACKED_WIDTH: usize = 128;

/// Rows of `b` copied, or transposed, to where each starts a cache line.
#[repr(C, align(64))]
struct Packed([std::mem::MaybeUninit<f32>; SPARSE_BLOCK * PACKED_WIDTH]);

/// `N` vectors of columns, from `column` on, of all rows of a [`Sparse`] product; `FULL` if none is cut short.
///
/// # Safety
/// As for calls of [`Kernels`](super::kernels::Kernels); `column` must be one of the product's.
#[inline(always)]
unsafe fn sparse_block<S: Simd, const N: usize, const FULL: bool>(
    product: &Sparse,
    column: usize,
    packed: &mut Packed,
) {
    const { assert!(SPARSE_BLOCK <= 64) };
    let columns = product.columns - column;
    let left = |v: usize| if FULL { S::LANES } else { columns.saturating_sub(v * S::LANES) };
    let width = N * S::LANES;
    let packed = packed.0.as_mut_ptr().cast::<f32>();
    let lies_well = product.b.addr().is_multiple_of(64) && product.b_step.is_multiple_of(S::LANES);
    // SAFETY: the caller vouches for the product's addresses. Rows of `b`, of factors, biases and gates are read up to `N` vectors
    // from `column` on, at most the slack beyond their ends; outputs are read and written only as far as `left` says. Of
    // the packed block, `width` ≤ `PACKED_WIDTH` floats of `block` ≤ `SPARSE_BLOCK` rows are used, and all of them are
    // written before any is read.
    unsafe {
        for from in (0..product.len).step_by(SPARSE_BLOCK) {
            let block = SPARSE_BLOCK.min(product.len - from);
            let last = from + block == product.len;
            let (b, b_step) = if product.b_turned {
                let source = product.b.add(column * product.b_step + from);
                turn::<S>((width.min(columns), block), (source, product.b_step), (packed, width), None);
                if columns < width {
                    // Nobody uses their sums, but memory that was never written must not be read.
                    for i in 0..block {
                        packed.add(i * width + columns).write_bytes(0, width - columns);
                    }
                }
                (packed.cast_const(), width)
            } else {
                let source = product.b.add(from * product.b_step + column);
                if lies_well || product.rows < 8 {
                    (source, product.b_step)
                } else {
                    for i in 0..block {
                        for v in 0..N {
                            let value = S::load(source.add(i * product.b_step + v * S::LANES));
                            S::store(packed.add(i * width + v * S::LANES), value);
                        }
                    }
                    (packed.cast_const(), width)
                }
            };
            let row_factors = |row: usize| product.factors.add(row * product.factors_pitch + from);
            let nonzeros = |row: usize| {
                let bits = |at: usize| S::nonzeros(load_up_to::<S>(row_factors(row).add(at), block - at));
                (0..block).step_by(S::LANES).fold(0u64, |open, at| open | u64::from(bits(at)) << at)
            };
            // A row's bits are made one row ahead: the sums then never wait for them.
            let mut next = nonzeros(0);
            for row in 0..product.rows {
                let factors = row_factors(row);
                let mut open = next;
                next = nonzeros((row + 1).min(product.rows - 1));
                let at = row * product.out_pitch + column;
                let out = product.out.add(at);
                let mut sums: [S::V; N] = match (from, product.start) {
                    (0, Start::Zero) => [S::splat(0.0); N],
                    (0, Start::Bias(bias)) => {
                        std::array::from_fn(|v| S::load(bias.add(column + v * S::LANES)))
                    }
                    _ => std::array::from_fn(|v| load_up_to::<S>(out.add(v * S::LANES), left(v))),
                };
                while open != 0 {
                    let i = open.trailing_zeros() as usize;
                    open &= open - 1;
                    let factor = S::splat(*factors.add(i));
                    let b = b.add(i * b_step);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = S::fma(factor, S::load(b.add(v * S::LANES)), *sum);
                    }
                }
                if let (true, Some(gates)) = (last, product.gates) {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = S::gate(S::load(gates.add(at + v * S::LANES)), *sum);
                    }
                }
                if last && matches!(product.end, End::Relu) {
                    for sum in &mut sums {
                        *sum = S::max(S::splat(0.0), *sum);
                    }
                }
                for (v, sum) in sums.into_iter().enumerate() {
                    if left(v) > 0 {
                        store_up_to::<S>(out.add(v * S::LANES), sum, left(v));
                    }
                }
            }
        }
    }
}

/// The whole product.
///
/// # Safety
/// As for calls of [`Kernels`](super::kernels::Kernels).
#[inline(always)]
pub(super) unsafe fn sparse<S: Simd>(product: &Sparse) {
    let mut packed = Packed([const { std::mem::MaybeUninit::uninit() }; SPARSE_BLOCK * PACKED_WIDTH]);
    for column in (0..product.columns).step_by(8 * S::LANES) {
        let vectors = (product.columns - column).div_ceil(S::LANES);
        let full = (product.columns - column).is_multiple_of(S::LANES);
        // SAFETY: `column` is one of the product's, and for the rest the caller vouches.
        unsafe {
            match (vectors, full) {
                (8.., true) | (9.., false) => sparse_block::<S, 8, true>(product, column, &mut packed),
                (4, true) => sparse_block::<S, 4, true>(product, column, &mut packed),
                (5.., _) => sparse_block::<S, 8, false>(product, column, &mut packed),
                (3 | 4, _) => sparse_block::<S, 4, false>(product, column, &mut packed),
                (2, _) => sparse_block::<S, 2, false>(product, column, &mut packed),
                _ => sparse_block::<S, 1, false>(product, column, &mut packed),
            }
        }
    }
}
