//! Vectors of f32 in three instruction sets behind one small trait.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as arch;

/// A vector type and the few instructions that the kernels need.
///
/// # Safety
/// All functions need the instruction set to be present, and pointers valid for as many lanes as they touch.
pub(crate) trait Simd {
    type V: Copy;
    const LANES: usize;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    /// Loads the first `n` lanes, `n` at most `LANES`; the others are 0.
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// Stores the first `n` lanes, `n` at most `LANES`.
    unsafe fn store_part(p: *mut f32, v: Self::V, n: usize);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    /// The larger of both, `b` where either is not a number.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// `a · b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `v` where `gate` is above 0, otherwise 0.
    unsafe fn gate(gate: Self::V, v: Self::V) -> Self::V;
    /// One bit for every lane that is not 0.
    unsafe fn nonzeros(v: Self::V) -> u32;
    /// Transposes an 8 × 8 block: `to[j · to_pitch + i] = from[i · from_pitch + j]`, gated by `gates`, which lie as
    /// `to` does, if there are any.
    unsafe fn turn(
        from: *const f32,
        from_pitch: usize,
        to: *mut f32,
        to_pitch: usize,
        gates: Option<*const f32>,
    );
}

/// Functions of [`Simd`] that are one expression, with the one reason why all of them are sound.
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? = $value:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $type),*) $(-> $out)? {
            // SAFETY: the contract of `Simd`, which callers keep: the type's instruction set is present (`Kernels::new`
            // asserts it before it hands out kernels of that set), and pointers are valid for the lanes that the function
            // is to touch, which are the only ones that this expression touches; all accesses are unaligned ones.
            unsafe { $value }
        }
    )*};
}

/// [`Simd::turn`] for a block of any size, float by float.
///
/// # Safety
/// All addresses that the definition names must be valid.
pub(crate) unsafe fn turn_part(
    (rows, columns): (usize, usize),
    (from, from_pitch): (*const f32, usize),
    (to, to_pitch): (*mut f32, usize),
    gates: Option<*const f32>,
) {
    for j in 0..columns {
        for i in 0..rows {
            let at = j * to_pitch + i;
            // SAFETY: these are the addresses of row i and column j in the definition, which the caller says are valid.
            unsafe {
                let open = gates.is_none_or(|gates| *gates.add(at) > 0.0);
                *to.add(at) = if open { *from.add(i * from_pitch + j) } else { 0.0 };
            }
        }
    }
}

/// [`Simd::turn`] with AVX: pairs, then quadruples, then halves change places.
///
/// # Safety
/// AVX must be present, and eight floats from the start of each of the eight rows of all blocks must be valid.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn turn_avx(
    from: *const f32,
    from_pitch: usize,
    to: *mut f32,
    to_pitch: usize,
    gates: Option<*const f32>,
) {
    use arch::*;
    // SAFETY: AVX is present, and every access is to the eight floats at the start of row 0 to 7 of a block: the caller
    // vouches for both.
    unsafe {
        let a: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(from.add(i * from_pitch)));
        let b: [__m256; 8] = std::array::from_fn(|i| {
            let (x, y) = (a[i / 2 * 2], a[i / 2 * 2 + 1]);
            if i % 2 == 0 { _mm256_unpacklo_ps(x, y) } else { _mm256_unpackhi_ps(x, y) }
        });
        let c: [__m256; 8] = std::array::from_fn(|i| {
            let (x, y) = (b[i / 4 * 4 + i % 4 / 2], b[i / 4 * 4 + i % 4 / 2 + 2]);
            if i % 2 == 0 { _mm256_shuffle_ps::<0x44>(x, y) } else { _mm256_shuffle_ps::<0xEE>(x, y) }
        });
        for j in 0..8 {
            let (x, y) = (c[j % 4], c[j % 4 + 4]);
            let row = if j < 4 {
                _mm256_permute2f128_ps::<0x20>(x, y)
            } else {
                _mm256_permute2f128_ps::<0x31>(x, y)
            };
            let row = gates.map_or(row, |gates| Avx2::gate(_mm256_loadu_ps(gates.add(j * to_pitch)), row));
            _mm256_storeu_ps(to.add(j * to_pitch), row);
        }
    }
}

/// 16 lanes.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx512;
/// 8 lanes, with fused multiply-add.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Avx2;
/// 8 lanes of plain Rust, for any machine.
pub(crate) struct Scalar;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type V = arch::__m512;
    const LANES: usize = 16;
    functions! {
        splat(x: f32) -> Self::V = arch::_mm512_set1_ps(x);
        load(p: *const f32) -> Self::V = arch::_mm512_loadu_ps(p);
        load_part(p: *const f32, n: usize) -> Self::V = arch::_mm512_maskz_loadu_ps(((1u32 << n) - 1) as u16, p);
        store(p: *mut f32, v: Self::V) = arch::_mm512_storeu_ps(p, v);
        store_part(p: *mut f32, v: Self::V, n: usize) =
            arch::_mm512_mask_storeu_ps(p, ((1u32 << n) - 1) as u16, v);
        add(a: Self::V, b: Self::V) -> Self::V = arch::_mm512_add_ps(a, b);
        mul(a: Self::V, b: Self::V) -> Self::V = arch::_mm512_mul_ps(a, b);
        div(a: Self::V, b: Self::V) -> Self::V = arch::_mm512_div_ps(a, b);
        sqrt(a: Self::V) -> Self::V = arch::_mm512_sqrt_ps(a);
        max(a: Self::V, b: Self::V) -> Self::V = arch::_mm512_max_ps(a, b);
        fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V = arch::_mm512_fmadd_ps(a, b, c);
        gate(gate: Self::V, v: Self::V) -> Self::V = {
            let mask = arch::_mm512_cmp_ps_mask::<{ arch::_CMP_GT_OQ }>(gate, arch::_mm512_setzero_ps());
            arch::_mm512_maskz_mov_ps(mask, v)
        };
        nonzeros(v: Self::V) -> u32 =
            u32::from(arch::_mm512_cmp_ps_mask::<{ arch::_CMP_NEQ_UQ }>(v, arch::_mm512_setzero_ps()));
        turn(from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize, gates: Option<*const f32>) =
            turn_avx(from, from_pitch, to, to_pitch, gates);
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type V = arch::__m256;
    const LANES: usize = 8;
    functions! {
        splat(x: f32) -> Self::V = arch::_mm256_set1_ps(x);
        load(p: *const f32) -> Self::V = arch::_mm256_loadu_ps(p);
        load_part(p: *const f32, n: usize) -> Self::V = {
            let mut lanes = [0.0f32; 8];
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            arch::_mm256_loadu_ps(lanes.as_ptr())
        };
        store(p: *mut f32, v: Self::V) = arch::_mm256_storeu_ps(p, v);
        store_part(p: *mut f32, v: Self::V, n: usize) = {
            let mut lanes = [0.0f32; 8];
            arch::_mm256_storeu_ps(lanes.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n);
        };
        add(a: Self::V, b: Self::V) -> Self::V = arch::_mm256_add_ps(a, b);
        mul(a: Self::V, b: Self::V) -> Self::V = arch::_mm256_mul_ps(a, b);
        div(a: Self::V, b: Self::V) -> Self::V = arch::_mm256_div_ps(a, b);
        sqrt(a: Self::V) -> Self::V = arch::_mm256_sqrt_ps(a);
        max(a: Self::V, b: Self::V) -> Self::V = arch::_mm256_max_ps(a, b);
        fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V = arch::_mm256_fmadd_ps(a, b, c);
        gate(gate: Self::V, v: Self::V) -> Self::V = {
            let mask = arch::_mm256_cmp_ps::<{ arch::_CMP_GT_OQ }>(gate, arch::_mm256_setzero_ps());
            arch::_mm256_and_ps(mask, v)
        };
        nonzeros(v: Self::V) -> u32 = {
            let mask = arch::_mm256_cmp_ps::<{ arch::_CMP_NEQ_UQ }>(v, arch::_mm256_setzero_ps());
            arch::_mm256_movemask_ps(mask) as u32
        };
        turn(from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize, gates: Option<*const f32>) =
            turn_avx(from, from_pitch, to, to_pitch, gates);
    }
}

/// Applies a function lane by lane.
macro_rules! lanes {
    ($i:ident => $value:expr) => {{
        let mut out = [0.0f32; 8];
        for $i in 0..8 {
            out[$i] = $value;
        }
        out
    }};
}

impl Simd for Scalar {
    type V = [f32; 8];
    const LANES: usize = 8;
    functions! {
        load(p: *const f32) -> Self::V = p.cast::<[f32; 8]>().read_unaligned();
        load_part(p: *const f32, n: usize) -> Self::V = {
            let mut lanes = [0.0f32; 8];
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n);
            lanes
        };
        store(p: *mut f32, v: Self::V) = p.cast::<[f32; 8]>().write_unaligned(v);
        store_part(p: *mut f32, v: Self::V, n: usize) = std::ptr::copy_nonoverlapping(v.as_ptr(), p, n);
        turn(from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize, gates: Option<*const f32>) =
            turn_part((8, 8), (from, from_pitch), (to, to_pitch), gates);
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        lanes!(i => a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        lanes!(i => a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        lanes!(i => a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        lanes!(i => a[i].sqrt())
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        lanes!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Without the instruction a fused multiply-add is a slow library call; two roundings are good enough here.
        lanes!(i => a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn gate(gate: Self::V, v: Self::V) -> Self::V {
        lanes!(i => if gate[i] > 0.0 { v[i] } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn nonzeros(v: Self::V) -> u32 {
        (0..8).fold(0, |bits, i| bits | u32::from(v[i] != 0.0) << i)
    }
}
