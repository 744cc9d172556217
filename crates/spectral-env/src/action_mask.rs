//! Which actions are legal: a small set of bits.

/// Words of a mask; four of 64 bits hold the 256 actions that a task has at most.
const WORDS: usize = ActionMask::CAPACITY / 64;

/// A set of actions, one bit each. Copying one costs no more than copying four numbers.
///
/// ```
/// use spectral_env::ActionMask;
/// let mut legal = ActionMask::all(4);
/// legal.forbid(1);
/// assert_eq!((legal.count(), legal.first()), (3, Some(0)));
/// assert_eq!(legal.iter().collect::<Vec<_>>(), [0, 2, 3]);
/// assert_eq!((legal.allows(1), legal.nth(1)), (false, Some(2)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionMask([u64; WORDS]);

impl ActionMask {
    /// How many actions a mask has room for, and a task may have.
    pub const CAPACITY: usize = 256;

    /// No action.
    pub const fn none() -> Self {
        ActionMask([0; WORDS])
    }

    /// The first `actions` actions.
    ///
    /// # Panics
    /// If these are more than [`CAPACITY`](ActionMask::CAPACITY).
    pub fn all(actions: usize) -> Self {
        assert!(actions <= Self::CAPACITY, "a mask has room for {} actions, not {actions}", Self::CAPACITY);
        ActionMask(std::array::from_fn(|word| match actions.saturating_sub(64 * word) {
            0 => 0,
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        }))
    }

    /// Makes an action legal.
    ///
    /// # Panics
    /// If its number is [`CAPACITY`](ActionMask::CAPACITY) or more.
    pub fn allow(&mut self, action: usize) {
        self.0[action / 64] |= 1 << (action % 64);
    }

    /// Makes an action illegal.
    ///
    /// # Panics
    /// If its number is [`CAPACITY`](ActionMask::CAPACITY) or more.
    pub fn forbid(&mut self, action: usize) {
        self.0[action / 64] &= !(1 << (action % 64));
    }

    /// Makes every action illegal, for tasks that name the legal ones.
    ///
    /// ```
    /// use spectral_env::ActionMask;
    /// let mut legal = ActionMask::all(9);
    /// legal.clear();
    /// legal.allow(7);
    /// assert_eq!(legal.iter().collect::<Vec<_>>(), [7]);
    /// ```
    pub fn clear(&mut self) {
        *self = Self::none();
    }

    /// Keeps only actions that are in both.
    pub fn retain(&mut self, other: &ActionMask) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, its)| *mine &= its);
    }

    /// Whether an action is legal.
    pub fn allows(&self, action: usize) -> bool {
        self.0.get(action / 64).is_some_and(|word| word >> (action % 64) & 1 == 1)
    }

    /// How many actions are legal.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if no action is legal.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The legal actions, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.0;
        (0..WORDS).flat_map(move |word| {
            let mut left = words[word];
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(64 * word + bit)
            })
        })
    }

    /// The legal action of the lowest number.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The legal action before which there are `n` others.
    pub fn nth(&self, n: usize) -> Option<usize> {
        self.iter().nth(n)
    }

    /// The mask as bytes, action 8·i + j as bit j of byte i.
    pub fn to_bytes(self) -> [u8; Self::CAPACITY / 8] {
        let mut bytes = [0; Self::CAPACITY / 8];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The mask that [`to_bytes`](ActionMask::to_bytes) wrote; bytes that are left out are zeros.
    ///
    /// ```
    /// use spectral_env::ActionMask;
    /// let mut legal = ActionMask::all(12);
    /// legal.forbid(3);
    /// assert_eq!(legal.to_bytes()[..3], [0b1111_0111, 0b1111, 0]);
    /// assert_eq!(ActionMask::from_bytes(&legal.to_bytes()[..2]), legal);
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = [0; WORDS];
        for (at, &byte) in bytes.iter().enumerate().take(Self::CAPACITY / 8) {
            words[at / 8] |= u64::from(byte) << (8 * (at % 8));
        }
        ActionMask(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_mask_is_a_set(actions in 0usize..=256, changes in prop::collection::vec((0usize..256, any::<bool>()), 0..60)) {
            let (mut mask, mut set) = (ActionMask::all(actions), BTreeSet::from_iter(0..actions));
            for (action, legal) in changes {
                if legal {
                    mask.allow(action);
                    set.insert(action);
                } else {
                    mask.forbid(action);
                    set.remove(&action);
                }
            }
            prop_assert!(mask.iter().eq(set.iter().copied()));
            prop_assert_eq!((mask.count(), mask.first(), mask.is_empty()), (set.len(), set.first().copied(), set.is_empty()));
            for n in 0..257 {
                prop_assert_eq!(mask.allows(n), set.contains(&n));
                prop_assert_eq!(mask.nth(n), set.iter().nth(n).copied());
            }
            prop_assert_eq!(ActionMask::from_bytes(&mask.to_bytes()), mask);
            let mut both = mask;
            both.retain(&ActionMask::all(100));
            prop_assert!(both.iter().eq(set.iter().copied().filter(|&action| action < 100)));
        }
    }
}
