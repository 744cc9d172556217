//! The RIOT chip: the interval timer and the two input ports (its 128 bytes of memory belong to the console).

use super::input::Pins;
use spectral_core::bytes::{StateError, StateReader, StateWriter};

/// Timer and port state.
#[derive(Clone, Debug)]
pub(super) struct Riot {
    /// The value last written to the timer.
    timer: u8,
    /// The timer counts once every `1 << shift` cycles.
    shift: u32,
    /// The cycle of that write.
    set_at: i32,
    /// Whether the timer has been read after it ran out, and when.
    read_after_expiry: bool,
    expiry_read_at: i32,
    ddra: u8,
}

impl Riot {
    /// The state after a system reset, in which the timer holds an arbitrary number.
    pub(super) fn after_reset(timer: u8) -> Riot {
        Riot { timer, shift: 6, set_at: 0, read_after_expiry: false, expiry_read_at: 0, ddra: 0 }
    }

    /// Moves all remembered times back by `cycles`.
    pub(super) fn rebase(&mut self, cycles: i32) {
        self.set_at = self.set_at.wrapping_sub(cycles);
        self.expiry_read_at = self.expiry_read_at.wrapping_sub(cycles);
    }

    /// The first cycle at which the timer, not yet run out at `cycle`, reads 0; `None` if it reads 0 or has
    /// run out.
    pub(super) fn reaches_zero_at(&self, cycle: i32) -> Option<i32> {
        let delta = cycle.wrapping_sub(1).wrapping_sub(self.set_at);
        let value = i32::from(self.timer) - (delta >> self.shift) - 1;
        (delta >= 0 && value > 0).then(|| self.set_at + 1 + ((i32::from(self.timer) - 1) << self.shift))
    }

    /// Whether the timer, not yet run out at `cycle`, reads less than 128 there.
    pub(super) fn below_128(&self, cycle: i32) -> bool {
        let delta = cycle.wrapping_sub(1).wrapping_sub(self.set_at);
        i32::from(self.timer) - (delta >> self.shift) - 1 < 128
    }

    pub(super) fn read(&mut self, addr: u16, cycle: i32, pins: &Pins) -> u8 {
        match addr & 7 {
            0 => pins.swcha,
            1 => self.ddra,
            2 => pins.swchb,
            3 => 0,
            4 | 6 => self.read_timer(cycle),
            _ => self.read_flag(cycle),
        }
    }

    fn delta(&self, cycle: i32) -> u32 {
        cycle.wrapping_sub(1).wrapping_sub(self.set_at) as u32
    }

    fn read_timer(&mut self, cycle: i32) -> u8 {
        let delta = self.delta(cycle);
        let start = i32::from(self.timer);
        let value = start.wrapping_sub((delta >> self.shift) as i32).wrapping_sub(1);
        if value >= 0 {
            return value as u8;
        }
        // Run out: from here on it counts every cycle, until it is read once; then at its old rate again.
        let expiry = start << self.shift;
        let value = expiry.wrapping_sub(delta as i32).wrapping_sub(1);
        if value <= -2 && !self.read_after_expiry {
            self.read_after_expiry = true;
            self.expiry_read_at = cycle;
        }
        if self.read_after_expiry {
            let offset = self.expiry_read_at.wrapping_sub(self.set_at.wrapping_add(expiry));
            return start.wrapping_sub((delta >> self.shift) as i32).wrapping_sub(offset) as u8;
        }
        value as u8
    }

    fn read_flag(&self, cycle: i32) -> u8 {
        let value = i32::from(self.timer) - (self.delta(cycle) >> self.shift) as i32 - 1;
        if value >= 0 || self.read_after_expiry { 0x00 } else { 0x80 }
    }

    pub(super) fn write(&mut self, addr: u16, value: u8, cycle: i32) {
        if addr & 0x14 == 0x14 {
            self.timer = value;
            self.shift = [0, 3, 6, 10][usize::from(addr & 3)];
            self.set_at = cycle;
            self.read_after_expiry = false;
        } else if addr & 7 == 1 {
            self.ddra = value;
        }
    }

    pub(super) fn save(&self, out: &mut StateWriter) {
        out.u8(self.timer);
        out.u32(self.shift);
        out.i32(self.set_at);
        out.bool(self.read_after_expiry);
        out.i32(self.expiry_read_at);
        out.u8(self.ddra);
    }

    pub(super) fn restore(&mut self, from: &mut StateReader) -> Result<(), StateError> {
        self.timer = from.u8()?;
        self.shift = from.u32()?;
        if ![0, 3, 6, 10].contains(&self.shift) {
            return Err(StateError(format!("no RIOT timer interval {}", self.shift)));
        }
        self.set_at = from.i32()?;
        self.read_after_expiry = from.bool()?;
        self.expiry_read_at = from.i32()?;
        self.ddra = from.u8()?;
        Ok(())
    }
}
