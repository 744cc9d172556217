//! The kernels for x86: each does what its portable namesake does, byte for byte.

use super::area::{Division, SIDE, WIDTH};
use super::lines::{GROUP, Lines, PADDED, PERIOD, WIDE, Weights, first_pixel};
use std::arch::x86_64::*;

/// Vectors of 32 bytes in a line.
const VECTORS: usize = WIDTH / 32;

fn line(picture: &[u8], y: usize) -> &[u8; WIDTH] {
    picture[y * WIDTH..(y + 1) * WIDTH].try_into().expect("a whole line")
}

#[target_feature(enable = "avx2")]
fn load(line: &[u8; WIDTH], vector: usize) -> __m256i {
    assert!(vector < VECTORS);
    // SAFETY: bytes 32·vector to 32·vector + 31, of 160 = 32·VECTORS.
    unsafe { _mm256_loadu_si256(line.as_ptr().add(32 * vector).cast()) }
}

#[target_feature(enable = "avx2")]
fn equal(a: &[u8; WIDTH], b: &[u8; WIDTH]) -> bool {
    let mut different = _mm256_setzero_si256();
    for vector in 0..VECTORS {
        different = _mm256_or_si256(different, _mm256_xor_si256(load(a, vector), load(b, vector)));
    }
    _mm256_testz_si256(different, different) != 0
}

#[target_feature(enable = "avx2")]
pub(super) fn take_avx2(
    lines: &mut Lines,
    weights: &Weights,
    table: &[u8; 256],
    first: &[u8],
    second: &[u8],
) {
    // Colours are even but on a picture that lost them. What 16 of them look up is one shuffle.
    let colours: [__m256i; 8] = std::array::from_fn(|part| {
        let bytes: [u8; 16] = std::array::from_fn(|n| table[32 * part + 2 * n]);
        // SAFETY: an array of 16 bytes.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    });
    let look_up = |indices: __m256i| {
        let halves = _mm256_and_si256(_mm256_srli_epi16::<1>(indices), _mm256_set1_epi8(0x7f));
        let mut grey = _mm256_setzero_si256();
        for (part, &colours) in colours.iter().enumerate() {
            // Numbers of this part become 0x70 to 0x7f; all others pass 0x80, and a shuffle makes 0 of them.
            let chosen = _mm256_xor_si256(halves, _mm256_set1_epi8((part << 4) as i8));
            let chosen = _mm256_adds_epu8(chosen, _mm256_set1_epi8(0x70));
            grey = _mm256_or_si256(grey, _mm256_shuffle_epi8(colours, chosen));
        }
        grey
    };
    let mut count = 0;
    for y in 0..lines.of.len() {
        let (a, b) = (line(first, y), line(second, y));
        if y == 0 || !equal(a, line(first, y - 1)) || !equal(b, line(second, y - 1)) {
            let grey = &mut lines.grey[count];
            let (mut odd, mut different) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for vector in 0..VECTORS {
                let (a, b) = (load(a, vector), load(b, vector));
                odd = _mm256_or_si256(odd, _mm256_or_si256(a, b));
                different = _mm256_or_si256(different, _mm256_xor_si256(a, b));
            }
            if _mm256_testz_si256(odd, _mm256_set1_epi8(1)) == 0 {
                for ((pixel, &a), &b) in grey.iter_mut().zip(a).zip(b) {
                    *pixel = table[usize::from(a)].max(table[usize::from(b)]);
                }
            } else {
                let same = _mm256_testz_si256(different, different) != 0;
                for vector in 0..VECTORS {
                    let mut pixels = look_up(load(a, vector));
                    if !same {
                        pixels = _mm256_max_epu8(pixels, look_up(load(b, vector)));
                    }
                    // SAFETY: bytes 32·vector to 32·vector + 31, of which a line has 160 and its room more.
                    unsafe { _mm256_storeu_si256(grey.as_mut_ptr().add(32 * vector).cast(), pixels) };
                }
            }
            shrink_across(grey, weights, &mut lines.across[count]);
            count += 1;
        }
        lines.of[y] = count as u16 - 1;
    }
}

#[target_feature(enable = "avx2,avx512bw,avx512vl,avx512vbmi")]
pub(super) fn take_avx512(
    lines: &mut Lines,
    weights: &Weights,
    table: &[u8; 256],
    first: &[u8],
    second: &[u8],
) {
    // SAFETY: four times 64 bytes of a table of 256.
    let colours: [__m512i; 4] =
        std::array::from_fn(|part| unsafe { _mm512_loadu_si512(table.as_ptr().add(64 * part).cast()) });
    let look_up = |indices: __m512i| {
        let low = _mm512_permutex2var_epi8(colours[0], indices, colours[1]);
        let high = _mm512_permutex2var_epi8(colours[2], indices, colours[3]);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(indices), low, high)
    };
    let mut count = 0;
    for y in 0..lines.of.len() {
        let (a, b) = (line(first, y), line(second, y));
        if y == 0 || !equal(a, line(first, y - 1)) || !equal(b, line(second, y - 1)) {
            let grey = &mut lines.grey[count];
            // The last two overlap.
            for at in [0, 64, WIDTH - 64] {
                // SAFETY: 64 bytes from 0, 64 and 96 on, of lines of 160 bytes or more.
                unsafe {
                    let a = _mm512_loadu_si512(a.as_ptr().add(at).cast());
                    let b = _mm512_loadu_si512(b.as_ptr().add(at).cast());
                    let pixels = _mm512_max_epu8(look_up(a), look_up(b));
                    _mm512_storeu_si512(grey.as_mut_ptr().add(at).cast(), pixels);
                }
            }
            shrink_across(grey, weights, &mut lines.across[count]);
            count += 1;
        }
        lines.of[y] = count as u16 - 1;
    }
}

/// The weighted sums of one line, two groups at a time.
#[target_feature(enable = "avx2")]
fn shrink_across(grey: &[u8; PADDED], weights: &Weights, across: &mut [u16; WIDE]) {
    const { assert!(first_pixel(SIDE / GROUP - 1) + 16 <= PADDED && SIDE < WIDE) };
    // SAFETY: two arrays of 16 bytes.
    let both = |low: &[u8; 16], high: &[u8; 16]| unsafe {
        _mm256_loadu2_m128i(high.as_ptr().cast(), low.as_ptr().cast())
    };
    for group in (0..SIDE / GROUP).step_by(2) {
        let (low, high) = (&weights.groups[group % PERIOD], &weights.groups[(group + 1) % PERIOD]);
        // SAFETY: 16 bytes from the first pixel of a group on, of which the last ends within the line's room, as was asserted.
        let pixels = unsafe {
            let at = |group: usize| grey.as_ptr().add(first_pixel(group)).cast();
            _mm256_loadu2_m128i(at(group + 1), at(group))
        };
        let part = |n: usize| {
            let chosen = _mm256_shuffle_epi8(pixels, both(&low.pixels[n], &high.pixels[n]));
            _mm256_maddubs_epi16(chosen, both(&low.shares[n], &high.shares[n]))
        };
        let sums = _mm256_add_epi16(part(0), part(1));
        // Each store has one sum too many, which the next one overwrites.
        // SAFETY: eight sums from 7·group and from 7·(group + 1) on, where `group` is even and at most SIDE / GROUP - 2: so
        // the last one is SIDE, for which there is room, as was asserted.
        unsafe {
            let out = across.as_mut_ptr().add(group * GROUP);
            _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(sums));
            _mm_storeu_si128(out.add(GROUP).cast(), _mm256_extracti128_si256::<1>(sums));
        }
    }
}

/// One line of the result from three lines of sums. The bits that it gives back are those of means which are a half.
#[target_feature(enable = "avx2")]
pub(super) fn shrink_down(
    sums: [&[u16; WIDE]; 3],
    shares: [u16; 3],
    denominator: u16,
    division: &Division,
    out: &mut [u8; WIDE],
) -> u128 {
    let word = |word: u16| _mm256_set1_epi16(word as i16);
    let (half, denominator, factor) = (word(denominator / 2), word(denominator), word(division.factor));
    let before = _mm_cvtsi32_si128(division.before.into());
    let after = _mm_cvtsi32_si128(division.after.into());
    let mut halves = 0;
    for at in (0..WIDE).step_by(32) {
        let mut quotients = [half; 2];
        for (n, result) in quotients.iter_mut().enumerate() {
            let from = at + 16 * n;
            let mut raised = half;
            for (sums, &share) in sums.iter().zip(&shares) {
                // SAFETY: 16 sums from 32·k or 32·k + 16 on, of 96.
                let sums = unsafe { _mm256_loadu_si256(sums.as_ptr().add(from).cast()) };
                raised = _mm256_add_epi16(raised, _mm256_mullo_epi16(sums, word(share)));
            }
            let quotient = _mm256_mulhi_epu16(_mm256_srl_epi16(raised, before), factor);
            let quotient = _mm256_srl_epi16(quotient, after);
            let exact = _mm256_cmpeq_epi16(_mm256_mullo_epi16(quotient, denominator), raised);
            // Two bits a word; one is enough.
            let bits = _mm_movemask_epi8(_mm_packs_epi16(
                _mm256_castsi256_si128(exact),
                _mm256_extracti128_si256::<1>(exact),
            ));
            halves |= (bits as u32 as u128) << from;
            *result = quotient;
        }
        let bytes = _mm256_packus_epi16(quotients[0], quotients[1]);
        let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(bytes);
        // SAFETY: bytes 32·k to 32·k + 31, of 96.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(at).cast(), bytes) };
    }
    halves & ((1 << SIDE) - 1)
}
