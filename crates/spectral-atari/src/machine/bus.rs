//! Who answers at which address.

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

    #[inline(never)]
    fn read_chip(&mut self, addr: u16, cycle: i32, last: u8) -> u8 {
        if addr & 0x0080 == 0 {
            self.tia.read(addr, cycle, last, &self.pins)
        } else {
            self.riot.read(addr, cycle, &self.pins)
        }
    }

    /// Writes and gives the cycle at which the processor goes on.
    #[inline(always)]
    pub(super) fn write(&mut self, rom: &Rom, addr: u16, value: u8, cycle: i32) -> i32 {
        if addr & 0x1280 == 0x0080 {
            self.ram[usize::from(addr & 0x7F)] = value;
            return cycle;
        }
        self.write_chip(rom, addr, value, cycle)
    }

    #[inline(never)]
    fn write_chip(&mut self, rom: &Rom, addr: u16, value: u8, cycle: i32) -> i32 {
        if addr & 0x1000 != 0 {
            self.cartridge.write(rom, addr, value);
        } else if addr & 0x0080 != 0 {
            self.riot.write(addr, value, cycle);
        } else {
            if self.cartridge.watches_low_writes() && addr <= 0x3F {
                self.cartridge.write_low(rom, value);
            }
            match self.tia.write((addr & 0x3F) as u8, value, cycle) {
                Effect::None => {}
                Effect::WaitForLine => return next_line(cycle),
                Effect::EndFrame => self.frame_done = true,
                Effect::EndFrameAndWait => {
                    self.frame_done = true;
                    return next_line(cycle);
                }
            }
        }
        cycle
    }
}

/// The cycle at which the line of `cycle` ends (`cycle` itself, if a line starts there).
fn next_line(cycle: i32) -> i32 {
    cycle + (76 - cycle % 76) % 76
}
