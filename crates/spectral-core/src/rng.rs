//! Counter-based random numbers: every draw is a pure function of (seed, purpose, step, index).
//!
//! Nothing is shared and nothing has to be saved: an agent that is trained alone, in a population of any size,
//! or killed and resumed draws the same numbers, because a [`Stream`] is re-created from its key at every step.
//! The generator is Philox4x32-10 (Salmon et al., 2011), which a GPU computes just as well.

/// What a stream of random numbers is for. Streams of different purposes never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Initial weights of the networks.
    Weights = 1,
    /// The environment's own randomness, one stream per agent step.
    Environment = 2,
    /// Exploration: whether to act at random, and how.
    Exploration = 3,
    /// Which transitions a minibatch holds.
    Sampling = 4,
    /// Episodes played for evaluation, never for training.
    Evaluation = 5,
    /// Anything in tests, benchmarks and statistics.
    Other = 6,
}

/// A stream of random numbers keyed by (seed, purpose, step).
///
/// ```
/// use spectral_core::rng::{Purpose, Stream};
/// let mut a = Stream::new(7, Purpose::Environment, 123);
/// let mut b = Stream::new(7, Purpose::Environment, 123);
/// assert_eq!(a.next_u32(), b.next_u32());
/// assert!(a.below(6) < 6);
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

impl Stream {
    /// The stream of this seed and purpose at this step.
    pub fn new(seed: u64, purpose: Purpose, step: u64) -> Self {
        // The step takes two counter words, the purpose one; the last counts blocks within the stream.
        let counter = [0, purpose as u32, step as u32, (step >> 32) as u32];
        Stream { key: [seed as u32, (seed >> 32) as u32], counter, block: [0; 4], used: 4 }
    }

    /// 32 uniformly distributed bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.block = philox(self.counter, self.key);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// 64 uniformly distributed bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// Uniform in [0, 1), with 24 bits: every value is exact in f32.
    #[inline]
    pub fn unit_f32(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 * (1.0 / (1 << 24) as f32)
    }

    /// Uniform in [0, 1), with 53 bits.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..n. The bias of the multiply-shift method is below n/2⁶⁴: unobservable.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "Stream::below needs a non-empty range");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit_f64() < p
    }

    /// A normally distributed number, mean 0 and variance 1 (Box and Muller's method).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit_f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit_f64()).cos()
    }
}

/// One block of Philox4x32-10.
#[inline]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the reference implementation (Random123, kat_vectors).
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let counter = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        let key = [0xa4093822, 0x299f31d0];
        assert_eq!(philox(counter, key), [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_step() {
        let first = |seed, purpose, step| Stream::new(seed, purpose, step).next_u64();
        let base = first(1, Purpose::Sampling, 1);
        assert_ne!(base, first(2, Purpose::Sampling, 1));
        assert_ne!(base, first(1, Purpose::Exploration, 1));
        assert_ne!(base, first(1, Purpose::Sampling, 2));
        assert_ne!(base, first(1, Purpose::Sampling, 1 | 1 << 40));
    }

    #[test]
    fn moments_are_right() {
        let mut s = Stream::new(3, Purpose::Other, 0);
        let n = 200_000;
        let (mut sum, mut square, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let x = s.normal();
            sum += x;
            square += x * x;
            uniform += s.unit_f64();
        }
        let n = f64::from(n);
        assert!(
            (sum / n).abs() < 0.01 && (square / n - 1.0).abs() < 0.02 && (uniform / n - 0.5).abs() < 0.005
        );
    }
}
