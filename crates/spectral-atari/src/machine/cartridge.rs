//! Bank switching: which part of the image is mapped to each kilobyte of the cartridge's addresses.

use super::rom::{Rom, Scheme};
use spectral_core::bytes::{StateError, StateReader, StateWriter};

/// The changeable part of a cartridge: what is mapped where, and its memory if it has any.
#[derive(Clone, Debug)]
pub(super) struct Cartridge {
    scheme: Scheme,
    /// Image offsets of the four kilobytes at `$1000`, with address bit 13 clear (0..4) and set (4..8).
    pub(super) segments: [u32; 8],
    /// The offset of the four kilobytes if they are contiguous, as they are most of the time.
    window: u32,
    /// One bit for each 64 bytes of addresses where a read does more than return the image's byte.
    special_reads: u64,
    /// The same for writes; writes elsewhere do nothing.
    special_writes: u64,
    /// Which of E7's four 256-byte pages of memory is shown.
    small_page: u8,
    memory: Memory,
}

/// Memory in a cartridge. Most have none and some have little. The few with more keep it on the heap, so that copying a
/// console stays cheap.
#[derive(Clone, Debug)]
enum Memory {
    Little([u8; LITTLE]),
    Much(Box<[u8; MUCH]>),
}

const LITTLE: usize = 128;
const MUCH: usize = 2048;

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Little(bytes) => bytes,
            Memory::Much(bytes) => &bytes[..],
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Little(bytes) => bytes,
            Memory::Much(bytes) => &mut bytes[..],
        }
    }
}

/// [`Cartridge::window`] where there is none.
const SCATTERED: u32 = u32::MAX;
const LAST_PAGE: u64 = 1 << 63;

impl Cartridge {
    pub(super) fn new(rom: &Rom, memory: impl FnMut() -> u8) -> Cartridge {
        let scheme = rom.scheme();
        let (mut ram, size) = match scheme {
            Scheme::F8SC | Scheme::F6SC | Scheme::F4SC => (Memory::Little([0; LITTLE]), 128),
            Scheme::E7 => (Memory::Much(Box::new([0; MUCH])), 2048),
            Scheme::CV => (Memory::Much(Box::new([0; MUCH])), 1024),
            _ => (Memory::Little([0; LITTLE]), 0),
        };
        ram.bytes_mut()[..size].fill_with(memory);
        let (special_reads, special_writes) = match scheme {
            Scheme::K2 | Scheme::K4 | Scheme::FE | Scheme::Tigervision3F => (0, 0),
            Scheme::F8 | Scheme::F6 | Scheme::F4 | Scheme::E0 => (LAST_PAGE, LAST_PAGE),
            Scheme::F8SC | Scheme::F6SC | Scheme::F4SC => (LAST_PAGE | 0b1111, LAST_PAGE | 0b0011),
            Scheme::E7 => (LAST_PAGE | 0xFF << 32, LAST_PAGE | 0x0F << 32),
            Scheme::CV => (0xFFFF_FFFF, 0xFFFF_FFFF),
        };
        let mut cartridge = Cartridge {
            scheme,
            segments: [0; 8],
            window: SCATTERED,
            special_reads,
            special_writes,
            small_page: 0,
            memory: ram,
        };
        cartridge.reset(rom);
        cartridge
    }

    /// The mapping after a system reset; memory keeps its contents.
    pub(super) fn reset(&mut self, rom: &Rom) {
        let void = rom.void();
        match self.scheme {
            Scheme::K2 | Scheme::K4 | Scheme::F6 | Scheme::F6SC | Scheme::F4 | Scheme::F4SC => self.bank(0),
            Scheme::F8 | Scheme::F8SC => self.bank(1),
            Scheme::E0 => self.map([4096, 5120, 6144, 7168]),
            Scheme::E7 => {
                self.map([0, 1024, 14336, 15360]);
                self.small_page = 0;
            }
            Scheme::FE => {
                self.segments = [4096, 5120, 6144, 7168, 0, 1024, 2048, 3072];
                self.find_window();
            }
            Scheme::CV => self.map([void, void, 0, 1024]),
            Scheme::Tigervision3F => self.map([0, 1024, void - 2048, void - 1024]),
        }
    }

    fn map(&mut self, segments: [u32; 4]) {
        self.segments[..4].copy_from_slice(&segments);
        self.segments[4..].copy_from_slice(&segments);
        self.find_window();
    }

    fn find_window(&mut self) {
        let first = self.segments[0];
        let pieces = self.segments.iter().enumerate();
        let whole = pieces.fold(true, |whole, (i, at)| whole && *at == first + (i as u32 & 3) * 1024);
        self.window = if whole { first } else { SCATTERED };
    }

    /// The image offset of the byte at `addr`.
    #[inline(always)]
    pub(super) fn code_offset(&self, addr: u16) -> usize {
        if self.window != SCATTERED {
            self.window as usize + usize::from(addr & 0xFFF)
        } else {
            self.offset(addr)
        }
    }

    fn bank(&mut self, bank: u32) {
        self.map([0, 1024, 2048, 3072].map(|segment| bank * 4096 + segment));
    }

    /// Whether writes to address `$3F` and below must be passed to [`Cartridge::write_low`].
    pub(super) fn watches_low_writes(&self) -> bool {
        self.scheme == Scheme::Tigervision3F
    }

    /// A write below `$40`, seen by Tigervision's cartridges.
    pub(super) fn write_low(&mut self, rom: &Rom, value: u8) {
        let banks = rom.void() / 2048;
        let start = u32::from(value) % banks * 2048;
        let [_, _, third, fourth] = [0, 1, 2, 3].map(|i| self.segments[i]);
        self.map([start, start + 1024, third, fourth]);
    }

    #[inline(always)]
    pub(super) fn offset(&self, addr: u16) -> usize {
        let index = (addr >> 10 & 3) | (addr >> 11 & 4);
        self.segments[usize::from(index)] as usize + usize::from(addr & 0x3FF)
    }

    #[inline(always)]
    pub(super) fn read(&mut self, rom: &Rom, addr: u16) -> u8 {
        if self.special_reads >> (addr >> 6 & 63) & 1 != 0 {
            return self.read_special(rom, addr);
        }
        rom.bytes[self.offset(addr)]
    }

    #[inline(never)]
    fn read_special(&mut self, rom: &Rom, addr: u16) -> u8 {
        let low = usize::from(addr & 0xFFF);
        match self.scheme {
            Scheme::F8SC | Scheme::F6SC | Scheme::F4SC if (0x80..0x100).contains(&low) => {
                return self.memory.bytes()[low & 0x7F];
            }
            Scheme::CV => return if low < 0x400 { self.memory.bytes()[low] } else { 0 },
            Scheme::E7 if low < 0x800 => {
                return if low >= 0x400 { self.memory.bytes()[low & 0x3FF] } else { 0 };
            }
            Scheme::E7 if (0x900..0xA00).contains(&low) => {
                return self.memory.bytes()[1024 + usize::from(self.small_page) * 256 + (low & 0xFF)];
            }
            _ => {}
        }
        self.switch(rom, addr);
        rom.bytes[self.offset(addr)]
    }

    #[inline(always)]
    pub(super) fn write(&mut self, rom: &Rom, addr: u16, value: u8) {
        if self.special_writes >> (addr >> 6 & 63) & 1 != 0 {
            self.write_special(rom, addr, value);
        }
    }

    #[inline(never)]
    fn write_special(&mut self, rom: &Rom, addr: u16, value: u8) {
        let low = usize::from(addr & 0xFFF);
        match self.scheme {
            Scheme::F8SC | Scheme::F6SC | Scheme::F4SC if low < 0x80 => self.memory.bytes_mut()[low] = value,
            Scheme::CV if low >= 0x400 => self.memory.bytes_mut()[low & 0x3FF] = value,
            Scheme::E7 if low < 0x400 => self.memory.bytes_mut()[low] = value,
            Scheme::E7 if (0x800..0x900).contains(&low) => {
                self.memory.bytes_mut()[1024 + usize::from(self.small_page) * 256 + (low & 0xFF)] = value;
            }
            _ => self.switch(rom, addr),
        }
    }

    /// Accesses at the top of the address space choose banks.
    fn switch(&mut self, rom: &Rom, addr: u16) {
        let low = u32::from(addr & 0xFFF);
        match (self.scheme, low) {
            (Scheme::F8 | Scheme::F8SC, 0xFF8..=0xFF9) => self.bank(low - 0xFF8),
            (Scheme::F6 | Scheme::F6SC, 0xFF6..=0xFF9) => self.bank(low - 0xFF6),
            (Scheme::F4 | Scheme::F4SC, 0xFF4..=0xFFB) => self.bank(low - 0xFF4),
            (Scheme::E0, 0xFE0..=0xFF7) => {
                let segment = ((low - 0xFE0) / 8) as usize;
                self.segments[segment] = low % 8 * 1024;
                self.segments[segment + 4] = low % 8 * 1024;
                self.find_window();
            }
            (Scheme::E7, 0xFE0..=0xFE6) => {
                let start = (low - 0xFE0) * 2048;
                self.map([start, start + 1024, 14336, 15360]);
                self.special_reads &= !0xFFFF_FFFF;
                self.special_writes &= !0xFFFF_FFFF;
            }
            (Scheme::E7, 0xFE7) => {
                self.map([rom.void(), rom.void(), 14336, 15360]);
                self.special_reads |= 0xFFFF_FFFF;
                self.special_writes |= 0xFFFF;
            }
            (Scheme::E7, 0xFE8..=0xFEB) => self.small_page = (low - 0xFE8) as u8,
            _ => {}
        }
    }

    pub(super) fn save(&self, out: &mut StateWriter) {
        self.segments.iter().for_each(|segment| out.u32(*segment));
        out.u64(self.special_reads);
        out.u64(self.special_writes);
        out.u8(self.small_page);
        let mut all = [0; MUCH];
        all[..self.memory.bytes().len()].copy_from_slice(self.memory.bytes());
        out.blob(&all);
    }

    pub(super) fn restore(&mut self, rom: &Rom, from: &mut StateReader) -> Result<(), StateError> {
        for segment in &mut self.segments {
            *segment = from.u32()?;
            if *segment as usize + 1024 > rom.bytes.len() {
                return Err(StateError("the banks shown do not lie in this ROM".into()));
            }
        }
        self.find_window();
        self.special_reads = from.u64()?;
        self.special_writes = from.u64()?;
        self.small_page = from.u8()? & 3;
        let all = from.blob()?;
        if all.len() != MUCH {
            return Err(StateError("cartridge memory is not 2048 bytes".into()));
        }
        let memory = self.memory.bytes_mut();
        memory.copy_from_slice(&all[..memory.len()]);
        Ok(())
    }
}
