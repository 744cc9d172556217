//! Kernels other than products. Whoever calls one promises what [`Kernels`](super::kernels::Kernels) asks for.

use super::kernels::{AdamStep, Sink, Source};
use super::simd::{Simd, turn_part};
use super::tile::{load_up_to, store_up_to};

#[inline(always)]
pub(super) unsafe fn turn<S: Simd>(
    (rows, columns): (usize, usize),
    (from, from_pitch): Source,
    (to, to_pitch): Sink,
    gates: Option<*const f32>,
) {
    for i in (0..rows).step_by(8) {
        for j in (0..columns).step_by(8) {
            // SAFETY: row `i` and column `j` begin a block within the caller's, of eight rows and columns where so many are
            // left; where not, it is turned float by float, as far as it goes.
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
pub(super) unsafe fn count_nonzeros<S: Simd>(from: *const f32, len: usize) -> usize {
    // SAFETY: `at` is below `len`, and no more than the rest is loaded.
    let count = |at| unsafe { S::nonzeros(load_up_to::<S>(from.add(at), len - at)).count_ones() as usize };
    (0..len).step_by(S::LANES).map(count).sum()
}

#[inline(always)]
pub(super) unsafe fn adam<S: Simd>(
    step: &AdamStep,
    len: usize,
    parameters: *mut f32,
    adam_m: *mut f32,
    adam_v: *mut f32,
    gradients: *const f32,
) {
    // SAFETY: all four are of `len` floats, as the caller says. Gradients are read beyond that by less than a vector, which
    // their slack allows; the others, whose neighbours belong to other tasks, not at all.
    unsafe {
        let [beta1, beta2] = [step.beta1, step.beta2].map(|beta| S::splat(beta));
        let [fresh1, fresh2] = [step.beta1, step.beta2].map(|beta| S::splat(1.0 - beta));
        let [root, epsilon, rate] = [step.root, step.epsilon, -step.rate].map(|x| S::splat(x));
        let mut at = 0;
        while at < len {
            let left = len - at;
            let g = S::load(gradients.add(at));
            let m = S::fma(beta1, load_up_to::<S>(adam_m.add(at), left), S::mul(fresh1, g));
            let v = S::fma(beta2, load_up_to::<S>(adam_v.add(at), left), S::mul(fresh2, S::mul(g, g)));
            let move_by = S::div(S::mul(rate, m), S::fma(S::sqrt(v), root, epsilon));
            let p = S::add(load_up_to::<S>(parameters.add(at), left), move_by);
            store_up_to::<S>(adam_m.add(at), m, left);
            store_up_to::<S>(adam_v.add(at), v, left);
            store_up_to::<S>(parameters.add(at), p, left);
            at += S::LANES;
        }
    }
}

#[inline(always)]
pub(super) unsafe fn column_sums<S: Simd>(
    from: *const f32,
    rows: usize,
    pitch: usize,
    columns: usize,
    out: *mut f32,
) {
    // SAFETY: the rows are read up to the vector in which the last column lies, within the slack, and no more than `columns`
    // sums are stored.
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
pub(super) unsafe fn gate<S: Simd>(gates: *const f32, values: *mut f32, len: usize) {
    // SAFETY: gates are read up to the vector in which the last lies, within the slack; of values, no more than `len`.
    unsafe {
        let mut at = 0;
        while at < len {
            let value = S::gate(S::load(gates.add(at)), load_up_to::<S>(values.add(at), len - at));
            store_up_to::<S>(values.add(at), value, len - at);
            at += S::LANES;
        }
    }
}
