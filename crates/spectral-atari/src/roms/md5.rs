//! MD5 (RFC 1321), by which the field names ROMs. It guards against mix-ups, not against forgers.

/// The MD5 sum of `bytes`, in hexadecimal.
///
/// ```
/// assert_eq!(spectral_atari::roms::md5(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
/// ```
pub fn md5(bytes: &[u8]) -> String {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut blocks = bytes.chunks_exact(64);
    for block in &mut blocks {
        mix(&mut state, block);
    }
    // The rest, a one bit, zeros, and the length in bits.
    let rest = blocks.remainder();
    let mut tail = [0; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    tail[end - 8..end].copy_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in tail[..end].chunks_exact(64) {
        mix(&mut state, block);
    }
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn mix(state: &mut [u32; 4], block: &[u8]) {
    const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let word =
        |i: usize| u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]]);
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (value, which) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        // The constants are the first 32 bits of the fractions of |sin|; double precision gives them exactly.
        let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(value).wrapping_add(constant).wrapping_add(word(which % 16));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(TURNS[step / 16][step % 4]));
    }
    for (total, part) in state.iter_mut().zip([a, b, c, d]) {
        *total = total.wrapping_add(part);
    }
}

#[cfg(test)]
mod tests {
    use super::md5;

    /// The test suite of RFC 1321, and lengths around the ends of blocks (sums by another program).
    #[test]
    fn known_answers() {
        let eighty = "1234567890".repeat(8);
        let known: [(&[u8], &str); 10] = [
            (b"", "d41d8cd98f00b204e9800998ecf8427e"),
            (b"a", "0cc175b9c0f1b6a831c399e269772661"),
            (b"message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (b"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (eighty.as_bytes(), "57edf4a22be3c955ac49da2e2107b67a"),
            (&[0; 55], "c9ea3314b91c9fd4e38f9432064fd1f2"),
            (&[0; 56], "e3c4dd21a9171fd39d208efa09bf7883"),
            (&[0; 64], "3b5d3c7d207e37dceeedd301e35e2e58"),
            (&[0; 120], "222f7d881ded1871724a1b9a1cb94247"),
        ];
        for (bytes, sum) in known {
            assert_eq!(md5(bytes), sum, "{} bytes", bytes.len());
        }
    }
}
