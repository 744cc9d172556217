//! Decodes instructions once per program, so that running consoles fetch one word instead of up to three bytes.

use super::rom::Scheme;

/// Opcode in bits 0..8, operand in 8..24, length in 24..26, cycles in 26..30, in bit 30 whether a branch
/// follows that can be taken in the same step, and in bit 31 whether the entry may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded(pub(super) u32);

/// Bytes after the opcode, by opcode.
pub(super) const OPERAND_BYTES: [u8; 256] = operand_bytes();

/// Opcodes that jam a real processor; none is ever run, so their numbers serve for fused instructions.
pub(super) const FUSED_WAIT_TIMER: u8 = 0x02;

impl Decoded {
    const USABLE: u32 = 1 << 31;
    const BRANCH_FOLLOWS: u32 = 1 << 30;

    pub(super) fn new(opcode: u8, operand: u16) -> Decoded {
        let length = u32::from(OPERAND_BYTES[usize::from(opcode)]) + 1;
        let cycles = u32::from(CYCLES[usize::from(opcode)]);
        let word = u32::from(opcode) | u32::from(operand) << 8 | length << 24 | cycles << 26;
        Decoded(word | Decoded::USABLE)
    }

    /// Opcode `fused` standing for an instruction of `self`'s length and duration.
    fn fuse(self, fused: u8) -> Decoded {
        Decoded(self.0 & !0xFF | u32::from(fused))
    }

    #[inline(always)]
    pub(super) fn branch_follows(self) -> bool {
        self.0 & Decoded::BRANCH_FOLLOWS != 0
    }

    #[inline(always)]
    pub(super) fn length(self) -> u16 {
        (self.0 >> 24 & 3) as u16
    }

    #[inline(always)]
    pub(super) fn cycles(self) -> i32 {
        (self.0 >> 26 & 15) as i32
    }

    #[inline(always)]
    pub(super) fn usable(self) -> bool {
        self.0 & Decoded::USABLE != 0
    }

    #[inline(always)]
    pub(super) fn opcode(self) -> u8 {
        self.0 as u8
    }

    #[inline(always)]
    pub(super) fn operand(self) -> u16 {
        (self.0 >> 8) as u16
    }
}

/// Cycles by opcode, before what branches taken and page crossings add.
#[rustfmt::skip]
pub(super) const CYCLES: [u8; 256] = [
    7, 6, 2, 8, 3, 3, 5, 5, 3, 2, 2, 2, 4, 4, 6, 6,
    2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
    6, 6, 2, 8, 3, 3, 5, 5, 4, 2, 2, 2, 4, 4, 6, 6,
    2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
    6, 6, 2, 8, 3, 3, 5, 5, 3, 2, 2, 2, 3, 4, 6, 6,
    2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
    6, 6, 2, 8, 3, 3, 5, 5, 4, 2, 2, 2, 5, 4, 6, 6,
    2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
    2, 6, 2, 6, 3, 3, 3, 3, 2, 2, 2, 2, 4, 4, 4, 4,
    2, 6, 2, 6, 4, 4, 4, 4, 2, 5, 2, 5, 5, 5, 5, 5,
    2, 6, 2, 6, 3, 3, 3, 3, 2, 2, 2, 2, 4, 4, 4, 4,
    2, 5, 2, 5, 4, 4, 4, 4, 2, 4, 2, 4, 4, 4, 4, 4,
    2, 6, 2, 8, 3, 3, 5, 5, 2, 2, 2, 2, 4, 4, 6, 6,
    2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
    2, 6, 2, 8, 3, 3, 5, 5, 2, 2, 2, 2, 4, 4, 6, 6,
    2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
];

const fn operand_bytes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut opcode = 0;
    while opcode < 256 {
        let low = opcode & 0x1F;
        table[opcode] = match low {
            // Columns of the opcode matrix; the exceptions (BRK, JSR, RTI, RTS) follow.
            0x00 => match opcode {
                0x20 => 2,
                0x00 | 0x40 | 0x60 => 0,
                _ => 1,
            },
            0x01 | 0x03 | 0x04..=0x07 | 0x09 | 0x0B | 0x10 | 0x11 | 0x13 | 0x14..=0x17 => 1,
            0x02 if opcode >= 0x80 => 1,
            0x0C..=0x0F | 0x19 | 0x1B..=0x1F => 2,
            _ => 0,
        };
        opcode += 1;
    }
    table
}

/// Decodes the instruction that would start at each byte of `bytes`.
///
/// An entry is unusable (and the processor then fetches byte by byte) where fetching has side effects or
/// where the instruction does not lie whole in one kilobyte, since the next kilobyte may belong to another
/// bank.
pub(super) fn decode_image(bytes: &[u8], scheme: Scheme) -> Box<[Decoded]> {
    let plain = |offset: usize| plain_fetch(scheme, offset);
    (0..bytes.len())
        .map(|at| {
            let opcode = bytes[at];
            let extra = usize::from(OPERAND_BYTES[usize::from(opcode)]);
            let last = at + extra;
            if at / 1024 != last / 1024 || last >= bytes.len() || !(at..=last).all(plain) {
                return Decoded(0);
            }
            let operand = match extra {
                0 => 0,
                1 => u16::from(bytes[at + 1]),
                _ => u16::from_le_bytes([bytes[at + 1], bytes[at + 2]]),
            };
            // LDA INTIM; BNE back: programs spend much of every frame here.
            let loops = at + 4 < bytes.len() && at / 1024 == (at + 4) / 1024 && (at..at + 5).all(plain);
            if loops && opcode == 0xAD && operand == 0x0284 && bytes[at + 3..at + 5] == [0xD0, 0xFB] {
                return Decoded::new(opcode, operand).fuse(FUSED_WAIT_TIMER);
            }
            // A jam must not be mistaken for a fused instruction.
            if opcode & 0x1F == 0x12 || (opcode & 0x1F == 0x02 && opcode < 0x80) {
                return Decoded::new(0x12, 0);
            }
            let end = last + 2;
            let same_piece = end < bytes.len() && at / 1024 == end / 1024 && (at..=end).all(plain);
            if same_piece && STEADY.contains(&opcode) && bytes[last + 1] & 0x1F == 0x10 {
                return Decoded(Decoded::new(opcode, operand).0 | Decoded::BRANCH_FOLLOWS);
            }
            Decoded::new(opcode, operand)
        })
        .chain(std::iter::repeat_n(Decoded(0), 1024))
        .collect()
}

/// Whether fetching the image's byte at `offset` does nothing but give that byte, wherever it is mapped.
fn plain_fetch(scheme: Scheme, offset: usize) -> bool {
    let in_bank = offset % 4096;
    match scheme {
        Scheme::K2 | Scheme::K4 | Scheme::FE | Scheme::CV | Scheme::Tigervision3F => true,
        Scheme::F8 | Scheme::F6 | Scheme::F4 => in_bank < 0xFC0,
        Scheme::F8SC | Scheme::F6SC | Scheme::F4SC => (0x100..0xFC0).contains(&in_bank),
        Scheme::E0 => offset < 7168 + 0x3C0,
        Scheme::E7 => (0x800 * 7 + 0x200..0x800 * 7 + 0x7C0).contains(&offset) || offset < 0x800 * 7,
    }
}

/// Instructions often followed by a branch that can neither end a frame nor switch banks.
const STEADY: [u8; 34] = [
    0xCA, 0x88, 0xE8, 0xC8, 0xAA, 0xA8, 0x8A, 0x98, 0x0A, 0x4A, 0x2A, 0x6A, // on registers
    0xA9, 0xA2, 0xA0, 0x29, 0x09, 0x49, 0x69, 0xE9, 0xC9, 0xE0, 0xC0, // with constants
    0xA5, 0xA6, 0xA4, 0x25, 0x05, 0x45, 0xC5, 0xE4, 0xC4, 0x24, 0xE5, // with the zero page
];
