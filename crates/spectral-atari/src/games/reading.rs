//! How score, lives and the end of a game are read from RAM, in a small vocabulary that describes most games.

/// The 128 bytes of the console's RAM. The processor sees them at addresses 0x80 to 0xff, and so do our tables.
pub type Ram = [u8; 128];

/// The byte at an address from 0x80 to 0xff.
#[inline]
pub fn peek(ram: &Ram, address: u8) -> u8 {
    ram[usize::from(address & 0x7f)]
}

/// Both decimal digits of a byte: 0x42 is 42.
#[inline]
pub fn decimal(byte: u8) -> i32 {
    i32::from(byte >> 4) * 10 + i32::from(byte & 15)
}

/// One summand of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Both decimal digits of the byte at this address, times a weight.
    Decimal(u8, i32),
    /// The low four bits of the byte, times a weight.
    Low(u8, i32),
    /// The high four bits of the byte, times a weight.
    High(u8, i32),
    /// The low four bits, where the blank digit 10 counts as 0, times a weight.
    LowOrBlank(u8, i32),
    /// The high four bits, where the blank digit 10 counts as 0, times a weight.
    HighOrBlank(u8, i32),
    /// The whole byte as a number, times a weight.
    Byte(u8, i32),
    /// A pointer to the picture of a digit, 8 bytes each, times a weight; 0x80 is the blank before the first digit.
    Picture(u8, i32),
    /// A constant: a game that starts at 1000 points has −1000 here.
    Start(i32),
}

impl Term {
    /// The address that it reads, if it reads one.
    pub fn address(self) -> Option<u8> {
        match self {
            Term::Start(_) => None,
            Term::Decimal(at, _)
            | Term::Low(at, _)
            | Term::High(at, _)
            | Term::LowOrBlank(at, _)
            | Term::HighOrBlank(at, _)
            | Term::Byte(at, _)
            | Term::Picture(at, _) => Some(at),
        }
    }

    #[inline]
    fn value(self, ram: &Ram) -> i32 {
        let blank = |digit: u8| if digit == 10 { 0 } else { i32::from(digit) };
        match self {
            Term::Start(points) => points,
            Term::Decimal(at, weight) => decimal(peek(ram, at)) * weight,
            Term::Low(at, weight) => i32::from(peek(ram, at) & 15) * weight,
            Term::High(at, weight) => i32::from(peek(ram, at) >> 4) * weight,
            Term::LowOrBlank(at, weight) => blank(peek(ram, at) & 15) * weight,
            Term::HighOrBlank(at, weight) => blank(peek(ram, at) >> 4) * weight,
            Term::Byte(at, weight) => i32::from(peek(ram, at)) * weight,
            Term::Picture(at, weight) => match peek(ram, at) {
                0x80 => 0,
                pointer => i32::from(pointer >> 3) * weight,
            },
        }
    }
}

/// The sum of the terms.
#[inline]
pub fn total(ram: &Ram, terms: &[Term]) -> i32 {
    terms.iter().map(|term| term.value(ram)).sum()
}

/// The reward for a change of score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pay {
    /// The change itself.
    Change,
    /// A negative change means that the counter wrapped at this number, which is added.
    Round(i32),
    /// Negative changes pay nothing.
    Gains,
    /// The change, held between these limits.
    Between(i32, i32),
}

/// How lives are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    /// The game has none: always 0.
    None,
    /// (byte at `at` & `mask`) >> `shift`, plus `plus`.
    Count {
        /// Where.
        at: u8,
        /// Which bits.
        mask: u8,
        /// By how many bits they are moved down.
        shift: u8,
        /// What is added.
        plus: i32,
    },
    /// As many as bits are set among those of the mask.
    Bits {
        /// Where.
        at: u8,
        /// Which bits.
        mask: u8,
    },
}

impl Lives {
    /// The whole byte.
    pub(super) const fn byte(at: u8) -> Lives {
        Lives::Count { at, mask: 0xff, shift: 0, plus: 0 }
    }

    /// Some bits of a byte, and something added.
    pub(super) const fn masked(at: u8, mask: u8, plus: i32) -> Lives {
        Lives::Count { at, mask, shift: 0, plus }
    }

    #[inline]
    pub(super) fn read(self, ram: &Ram) -> i32 {
        match self {
            Lives::None => 0,
            Lives::Count { at, mask, shift, plus } => i32::from((peek(ram, at) & mask) >> shift) + plus,
            Lives::Bits { at, mask } => (peek(ram, at) & mask).count_ones() as i32,
        }
    }
}

/// A statement about one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The bits under the mask have this value: address, mask, value.
    Is(u8, u8, u8),
    /// The bits under the mask have another value: address, mask, value.
    Not(u8, u8, u8),
    /// The byte is above this value.
    Above(u8, u8),
    /// The lives, as counted in this frame, are 0.
    NoLives,
}

impl Test {
    /// The address that it reads, if it reads one.
    pub fn address(self) -> Option<u8> {
        match self {
            Test::Is(at, ..) | Test::Not(at, ..) | Test::Above(at, _) => Some(at),
            Test::NoLives => None,
        }
    }

    #[inline]
    fn holds(self, ram: &Ram, lives: i32) -> bool {
        match self {
            Test::Is(at, mask, value) => peek(ram, at) & mask == value,
            Test::Not(at, mask, value) => peek(ram, at) & mask != value,
            Test::Above(at, value) => peek(ram, at) > value,
            Test::NoLives => lives == 0,
        }
    }
}

/// True if all tests of one of the rows hold.
#[inline]
pub(super) fn any_row_holds(ram: &Ram, lives: i32, rows: &[&[Test]]) -> bool {
    rows.iter().any(|row| row.iter().all(|test| test.holds(ram, lives)))
}

/// How one game is read.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// In the words of this module.
    Table {
        /// The score is the sum of these.
        score: &'static [Term],
        /// The reward for a change of score.
        pay: Pay,
        /// How lives are counted.
        lives: Lives,
        /// The game is over when all tests of one of these rows hold.
        over: &'static [&'static [Test]],
        /// True if no lives are left when the game is over, whatever the counter says.
        ends_at_zero: bool,
    },
    /// By a function of its own, for games that the vocabulary cannot describe. It updates the tally and returns the reward. The
    /// addresses are those that it reads.
    Special(fn(&Ram, &mut Tally) -> i32, &'static [u8]),
}

impl Reading {
    /// The addresses that it reads.
    pub fn addresses(&self) -> Vec<u8> {
        let mut found = match self {
            Reading::Special(_, addresses) => addresses.to_vec(),
            Reading::Table { score, lives, over, .. } => {
                let lives = match *lives {
                    Lives::None => None,
                    Lives::Count { at, .. } | Lives::Bits { at, .. } => Some(at),
                };
                let tests = over.iter().flat_map(|row| row.iter()).filter_map(|test| test.address());
                score.iter().filter_map(|term| term.address()).chain(lives).chain(tests).collect()
            }
        };
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The state of a game in progress, as read after the last frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The score, as the game's counter shows it.
    pub score: i32,
    /// Lives left.
    pub lives: i32,
    /// True if the game is over.
    pub over: bool,
    /// Whatever else a game's own function remembers.
    pub memory: i32,
}

impl Tally {
    /// Reads the RAM after a frame and returns the reward of that frame.
    #[inline]
    pub fn read(&mut self, reading: &Reading, ram: &Ram) -> i32 {
        match *reading {
            Reading::Special(read, _) => read(ram, self),
            Reading::Table { score, pay, lives, over, ends_at_zero } => {
                let reward = self.pay(total(ram, score), pay);
                self.lives = lives.read(ram);
                self.over = any_row_holds(ram, self.lives, over);
                if ends_at_zero && self.over {
                    self.lives = 0;
                }
                reward
            }
        }
    }

    /// Stores the new score and returns the reward for its change.
    #[inline]
    pub(super) fn pay(&mut self, score: i32, pay: Pay) -> i32 {
        let change = score - self.score;
        self.score = score;
        match pay {
            Pay::Change => change,
            Pay::Round(at) if change < 0 => change + at,
            Pay::Round(_) => change,
            Pay::Gains => change.max(0),
            Pay::Between(least, most) => change.clamp(least, most),
        }
    }
}
