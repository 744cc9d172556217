//! The source of the arbitrary contents of memory and timer when the console is switched on or reset.

use std::sync::OnceLock;

/// A source of arbitrary numbers, cheap to clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noise {
    /// SplitMix64 from a seed.
    Seeded(u64),
    /// The sequence that the Arcade Learning Environment uses for every game, from this index on.
    Ale(u32),
}

impl Noise {
    pub(super) fn next(&mut self) -> u32 {
        match self {
            Noise::Seeded(state) => {
                *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut z = *state;
                z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                (z ^ (z >> 31)) as u32
            }
            Noise::Ale(index) => {
                let sequence = ALE.get_or_init(|| mersenne_twister(4_753_849, 1 << 14));
                let value = sequence[*index as usize % sequence.len()];
                *index += 1;
                value
            }
        }
    }
}

static ALE: OnceLock<Vec<u32>> = OnceLock::new();

/// The first `count` numbers of MT19937.
fn mersenne_twister(seed: u32, count: usize) -> Vec<u32> {
    let mut state = vec![seed; 624];
    for i in 1..624 {
        let before = state[i - 1];
        state[i] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
    }
    (0..count)
        .map(|n| {
            let k = n % 624;
            let joined = (state[k] & 0x8000_0000) | (state[(k + 1) % 624] & 0x7FFF_FFFF);
            let twist = if joined & 1 != 0 { 0x9908_B0DF } else { 0 };
            state[k] = state[(k + 397) % 624] ^ (joined >> 1) ^ twist;
            let mut y = state[k];
            y ^= y >> 11;
            y ^= (y << 7) & 0x9D2C_5680;
            y ^= (y << 15) & 0xEFC6_0000;
            y ^ (y >> 18)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twister_gives_its_published_ten_thousandth_number() {
        assert_eq!(mersenne_twister(5489, 10_000)[9_999], 4_123_659_995);
    }
}
