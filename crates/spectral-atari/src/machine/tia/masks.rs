//! Which of a line's 160 pixels each moving object covers, as 160 bits.

/// Pixel `x` is bit `x % 64` of word `x / 64`.
pub(super) type Mask = [u64; 3];

/// Distances from an object's position to its second and third copy, by the low bits of NUSIZ (0: no copy).
pub(super) const COPIES: [[u8; 2]; 8] =
    [[0, 0], [16, 0], [32, 0], [16, 32], [64, 0], [0, 0], [32, 64], [0, 0]];

/// Adds the pixels of `pattern` (bit 0 leftmost) at `at`, around the end of the line where need be.
#[inline]
fn put(mask: &mut Mask, pattern: u64, at: u32) {
    let at = if at >= 160 { at - 160 } else { at };
    let (word, bit) = ((at / 64) as usize, at % 64);
    mask[word] |= pattern << bit;
    if bit != 0 && word < 2 {
        mask[word + 1] |= pattern >> (64 - bit);
    }
    // Word 2 holds 32 pixels; what was put beyond belongs to the start of the line.
    mask[0] |= mask[2] >> 32;
    mask[2] &= 0xFFFF_FFFF;
}

/// The pixels of a player with the graphics `bits` (bit 7 leftmost).
pub(super) fn player(bits: u8, position: u8, nusiz: u8, skip_first: bool) -> Mask {
    let mut mask = [0; 3];
    let position = u32::from(position);
    let one = u64::from(bits.reverse_bits());
    match nusiz & 7 {
        // Stretched players start one pixel late.
        5 if !skip_first => put(&mut mask, stretch(one, 2) << 1, position),
        7 if !skip_first => put(&mut mask, stretch(one, 4) << 1, position),
        5 | 7 => {}
        mode => {
            if !skip_first {
                put(&mut mask, one, position);
            }
            for copy in COPIES[usize::from(mode)] {
                if copy != 0 {
                    put(&mut mask, one, position + u32::from(copy));
                }
            }
        }
    }
    mask
}

fn stretch(bits: u64, factor: u32) -> u64 {
    (0..8).filter(|i| bits >> i & 1 != 0).map(|i| ((1 << factor) - 1) << (i * factor)).sum()
}

/// The pixels of a missile of the width that bits 4 and 5 of NUSIZ give.
pub(super) fn missile(position: u8, nusiz: u8, at_least_two: bool) -> Mask {
    let mut mask = [0; 3];
    let size = (nusiz >> 4 & 3) | u8::from(at_least_two);
    let pattern = (1 << (1 << size)) - 1;
    let position = u32::from(position);
    put(&mut mask, pattern, position);
    for copy in COPIES[usize::from(nusiz & 7)] {
        if copy != 0 {
            put(&mut mask, pattern, position + u32::from(copy));
        }
    }
    mask
}

/// The pixels of the ball, whose width is in bits 4 and 5 of CTRLPF.
pub(super) fn ball(position: u8, ctrlpf: u8) -> Mask {
    let mut mask = [0; 3];
    put(&mut mask, (1 << (1 << (ctrlpf >> 4 & 3))) - 1, u32::from(position));
    mask
}

/// The pixels of the playfield: 20 bits (bit 0 leftmost), repeated or mirrored on the right.
pub(super) fn playfield(bits: u32, mirrored: bool) -> Mask {
    let right = if mirrored { bits.reverse_bits() >> 12 } else { bits };
    let all = u64::from(bits) | u64::from(right) << 20;
    let word = |shift: u32| {
        u64::from(QUADRUPLED[(all >> shift & 0xFF) as usize])
            | u64::from(QUADRUPLED[(all >> (shift + 8) & 0xFF) as usize]) << 32
    };
    [word(0), word(16), word(32) & 0xFFFF_FFFF]
}

const QUADRUPLED: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut bit = 0;
        while bit < 8 {
            if i >> bit & 1 != 0 {
                table[i] |= 0xF << (4 * bit);
            }
            bit += 1;
        }
        i += 1;
    }
    table
};

/// The pixels below each place in the line.
static BELOW: [Mask; 161] = {
    let mut table = [[0; 3]; 161];
    let mut x = 0;
    while x < 161 {
        let mut pixel = 0;
        while pixel < x {
            table[x][pixel / 64] |= 1 << (pixel % 64);
            pixel += 1;
        }
        x += 1;
    }
    table
};

/// The pixels `from..to`.
#[inline]
pub(super) fn window(from: usize, to: usize) -> Mask {
    let (below, above) = (&BELOW[to], &BELOW[from]);
    [below[0] & !above[0], below[1] & !above[1], below[2] & !above[2]]
}

/// Eight pixels as eight bytes of ones, where their bits are set.
pub(super) static WIDENED: [u64; 256] = {
    let mut table = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut pixel = 0;
        while pixel < 8 {
            if bits >> pixel & 1 != 0 {
                table[bits] |= 0xFF << (8 * pixel);
            }
            pixel += 1;
        }
        bits += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lit(mask: Mask, x: i32) -> bool {
        let x = x.rem_euclid(160) as usize;
        mask[x / 64] >> (x % 64) & 1 != 0
    }

    proptest! {
        #[test]
        fn players_are_where_their_copies_say(bits: u8, position in 0u8..160, nusiz in 0u8..8, skip: bool) {
            let mask = player(bits, position, nusiz, skip);
            let (width, late) = match nusiz { 5 => (2, 1), 7 => (4, 1), _ => (1, 0) };
            let offsets: &[i32] = match nusiz {
                1 => &[0, 16], 2 => &[0, 32], 3 => &[0, 16, 32], 4 => &[0, 64], 6 => &[0, 32, 64], _ => &[0],
            };
            for x in 0..160 {
                let expected = offsets.iter().skip(usize::from(skip)).any(|offset| {
                    let inside = (x - i32::from(position) - offset - late).rem_euclid(160);
                    inside < 8 * width && bits & (0x80 >> (inside / width)) != 0
                });
                prop_assert_eq!(lit(mask, x), expected, "pixel {}", x);
            }
        }

        #[test]
        fn playfields_repeat_or_mirror(bits in 0u32..1 << 20, mirrored: bool) {
            let mask = playfield(bits, mirrored);
            for x in 0..160 {
                let block = x / 4;
                let index = if block < 20 { block } else if mirrored { 39 - block } else { block - 20 };
                prop_assert_eq!(lit(mask, x), bits >> index & 1 != 0);
            }
        }

        #[test]
        fn windows_cover_their_pixels(from in 0usize..=160, to in 0usize..=160) {
            for x in 0..160 {
                prop_assert_eq!(lit(window(from, to), x as i32), (from..to).contains(&x));
            }
        }
    }
}
