//! Changes bytes at random, in the same way for the same seed.

/// A small generator; what it gives must never change, or a seed in a log could not be repeated.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        // One round apart from its neighbours.
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d | 1);
        random.next();
        random
    }

    /// 64 random bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 32) as usize) % end
    }
}

/// Inputs do not grow beyond this.
pub const LONGEST: usize = 1 << 16;

/// Numbers at which counts and offsets go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

/// One to eight changes to a member of the corpus; some parts come from other members, some from `words`.
pub fn mutate(random: &mut Random, corpus: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(8) {
        change(random, &mut bytes, corpus, words);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&[u8]]) {
    let at = random.below(bytes.len() + 1);
    let rest = bytes.len() - at;
    let some = |random: &mut Random, most: usize| 1 + random.below(most.clamp(1, 64));
    match random.below(11) {
        0 if rest > 0 => bytes[at] ^= 1 << random.below(8),
        1 if rest > 0 => bytes[at] = random.next() as u8,
        2 => bytes.insert(at, random.next() as u8),
        3 if rest > 0 => drop(bytes.drain(at..at + some(random, rest).min(rest))),
        4 if rest > 0 => {
            let part = bytes[at..at + some(random, rest).min(rest)].to_vec();
            put(bytes, random.below(bytes.len() + 1), &part);
        }
        5 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            let part = &other[from..other.len().min(from + some(random, other.len()))];
            put(bytes, at, part);
        }
        6 => {
            let width = [1, 2, 4, 8][random.below(4)];
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            for (byte, edge) in bytes[at..].iter_mut().zip(&edge[..width]) {
                *byte = *edge;
            }
        }
        7 if !words.is_empty() => put(bytes, at, words[random.below(words.len())]),
        8 if rest > 0 => bytes.truncate(at),
        9 if rest > 0 => {
            // A digit of a number in a text becomes another, or a number of its own.
            if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                let edge = EDGES[random.below(EDGES.len())].to_string();
                bytes.splice(at + digit..=at + digit, edge.bytes());
            }
        }
        _ => {
            for byte in bytes.iter_mut().skip(at).take(random.below(8)) {
                *byte = random.next() as u8;
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, part: &[u8]) {
    bytes.splice(at..at, part.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_others() {
        let corpus = [b"frames = 12\n".to_vec(), vec![0; 40]];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..500).map(|_| mutate(&mut random, &corpus, &[b"nan"])).collect::<Vec<_>>()
        };
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
        let different: std::collections::HashSet<_> = inputs(7).into_iter().collect();
        assert!(different.len() > 450, "{} different inputs", different.len());
    }
}
