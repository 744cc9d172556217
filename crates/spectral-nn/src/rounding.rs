//! Numbers in bf16: 8 bits of exponent, as fp32 has, and 7 of mantissa.
//!
//! A GPU multiplies in bf16 and adds in fp32. A network that [rounds](Network::round_to_bf16) computes the same on a CPU, but
//! for the order of its sums.

use crate::cpu::Cpu;
use crate::network::Network;

/// The bits of the bf16 next to a number, to even where two are; as devices round.
pub(crate) fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

/// The bf16 next to a number, to even where two are.
///
/// ```
/// use spectral_nn::round_to_bf16;
/// assert_eq!(round_to_bf16(1.0 + 1.0 / 256.0), 1.0, "half-way between two");
/// assert_eq!(round_to_bf16(1.0 + 3.0 / 256.0), 1.0 + 1.0 / 64.0);
/// assert_eq!(round_to_bf16(-0.1), -0.10009765625);
/// ```
pub fn round_to_bf16(x: f32) -> f32 {
    f32::from_bits(u32::from(bf16_bits(x)) << 16)
}

impl Network<Cpu> {
    /// Rounds the weights of all online networks to bf16, and from now on what goes into each of their layers, in
    /// [`forward`](Network::forward) passes. Biases stay as they are, and so do planes of bytes, which bf16 holds exactly before
    /// they are scaled.
    ///
    /// # Panics
    /// [`forward_train`](Network::forward_train) does from now on: weights that were rounded are not to be trained further.
    pub fn round_to_bf16(&mut self) {
        for agent in 0..self.agents {
            let own = &mut self.online[agent * self.plan.stride..(agent + 1) * self.plan.stride];
            for layer in self.plan.affines() {
                own[layer.weights_at..layer.bias_at()].iter_mut().for_each(|x| *x = round_to_bf16(*x));
            }
        }
        self.rounds = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest_and_to_even() {
        let half = |bits: u32| bf16_bits(f32::from_bits(bits));
        assert_eq!((half(0x3F80_0000), half(0x3F80_7FFF)), (0x3F80, 0x3F80));
        // Halfway: to the even one, below or above.
        assert_eq!((half(0x3F80_8000), half(0x3F81_8000)), (0x3F80, 0x3F82));
        assert_eq!((half(0x3F80_8001), half(0xBF80_8001)), (0x3F81, 0xBF81));
        assert_eq!(bf16_bits(f32::MAX), 0x7F80, "beyond the largest there is infinity");
        assert_eq!((bf16_bits(f32::NEG_INFINITY), bf16_bits(-0.0)), (0xFF80, 0x8000));
        assert!(f32::from_bits(u32::from(half(0x7F80_0001)) << 16).is_nan());
    }
}
