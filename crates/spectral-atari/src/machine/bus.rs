//! The address space: which chip responds at which address.

use super::cartridge::Cartridge;
use super::input::Pins;
use super::riot::Riot;
use super::rom::Rom;
use super::tia::{Effect, Tia};

/// Everything that the processor can reach, apart from the program itself.
#[derive(Clone, Debug)]
pub(super) struct Bus {
    pub(super) ram: [u8; 128],
    pub(super) riot: Riot,
    pub(super) tia: Tia,
    pub(super) cartridge: Cartridge,
    pub(super) pins: Pins,
    /// Set when the frame is complete.
    pub(super) frame_done: bool,
}

impl Bus {
    /// Reads `addr` at `cycle`; `last` is the byte that was on the bus before.
    #[inline(always)]
    pub(super) fn read(&mut self, rom: &Rom, addr: u16, cycle: i32, last: u8) -> u8 {
        if addr & 0x1000 != 0 {
            self.cartridge.read(rom, addr)
        } else if addr & 0x0280 == 0x0080 {
            self.ram[usize::from(addr & 0x7F)]
        } else {
            self.read_chip(addr, cycle, last)
        }
    }

    /// Reads below the cartridge.
    pub(super) fn read_low(&mut self, addr: u16, cycle: i32, last: u8) -> u8 {
        if addr & 0x0280 == 0x0080 {
            self.ram[usize::from(addr & 0x7F)]
        } else {
            self.read_chip(addr, cycle, last)
        }
    }

    #[inline(never)]
    pub(super) fn read_chip(&mut self, addr: u16, cycle: i32, last: u8) -> u8 {
        if addr & 0x0080 == 0 {
            self.tia.read(addr, cycle, last, &self.pins)
        } else {
            self.riot.read(addr, cycle, &self.pins)
        }
    }

    /// Writes, and returns the cycle at which the processor continues.
    #[inline(always)]
    pub(super) fn write(&mut self, rom: &Rom, addr: u16, value: u8, cycle: i32) -> i32 {
        if addr & 0x1280 == 0x0080 {
            self.ram[usize::from(addr & 0x7F)] = value;
            return cycle;
        }
        self.write_elsewhere(rom, addr, value, cycle)
    }

    #[inline(never)]
    fn write_elsewhere(&mut self, rom: &Rom, addr: u16, value: u8, cycle: i32) -> i32 {
        if addr & 0x1000 != 0 {
            self.cartridge.write(rom, addr, value);
            return cycle;
        }
        if addr <= 0x3F && self.cartridge.watches_low_writes() {
            self.cartridge.write_low(rom, value);
        }
        self.write_low(addr, value, cycle)
    }

    /// Writes below the cartridge, and returns the cycle at which the processor continues.
    #[inline]
    pub(super) fn write_low(&mut self, addr: u16, value: u8, cycle: i32) -> i32 {
        if addr & 0x0080 == 0 {
            return self.write_tia((addr & 0x3F) as u8, value, cycle);
        }
        if addr & 0x0200 == 0 {
            self.ram[usize::from(addr & 0x7F)] = value;
        } else {
            self.riot.write(addr, value, cycle);
        }
        cycle
    }

    /// Writes to a register of the TIA, and returns the cycle at which the processor continues.
    #[inline(always)]
    pub(super) fn write_tia(&mut self, register: u8, value: u8, cycle: i32) -> i32 {
        match self.tia.write(register, value, cycle) {
            Effect::None => cycle,
            Effect::WaitForLine => next_line(cycle),
            Effect::EndFrame => {
                self.frame_done = true;
                cycle
            }
            Effect::EndFrameAndWait => {
                self.frame_done = true;
                next_line(cycle)
            }
        }
    }
}

/// The cycle at which the line of `cycle` ends (`cycle` itself, if a line starts there).
fn next_line(cycle: i32) -> i32 {
    cycle + (76 - cycle % 76) % 76
}
