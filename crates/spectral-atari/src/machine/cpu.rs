//! The processor's registers and arithmetic (the instructions themselves are in `execute`).

use spectral_core::bytes::{StateError, StateReader, StateWriter};

/// Registers of the 6507. Flags are kept in the form in which instructions produce them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cpu {
    pub(super) a: u8,
    pub(super) x: u8,
    pub(super) y: u8,
    pub(super) sp: u8,
    pub(super) pc: u16,
    /// The last result: zero if its low byte is 0, negative if bit 7 or 8 is set.
    pub(super) result: u16,
    /// Carry: 0 or 1.
    pub(super) carry: u8,
    pub(super) overflow: bool,
    pub(super) decimal: bool,
    pub(super) interrupts_off: bool,
    /// Whether an invalid instruction has stopped the processor for good.
    pub(super) jammed: bool,
    /// Cycles since the frame began.
    pub(super) cycle: i32,
}

impl Cpu {
    /// The registers after a reset, at the address that the program's reset vector gives.
    pub(super) fn after_reset(pc: u16) -> Cpu {
        Cpu {
            a: 0,
            x: 0,
            y: 0,
            sp: 0xFF,
            pc,
            result: 1,
            carry: 0,
            overflow: false,
            decimal: false,
            interrupts_off: false,
            jammed: false,
            cycle: 0,
        }
    }

    /// The status register as instructions push it, with the break bit set.
    #[inline(always)]
    pub(super) fn status(&self) -> u8 {
        0x20 | (u8::from(self.negative()) << 7)
            | u8::from(self.overflow) << 6
            | 0x10
            | u8::from(self.decimal) << 3
            | u8::from(self.interrupts_off) << 2
            | u8::from(self.zero()) << 1
            | self.carry
    }

    #[inline(always)]
    pub(super) fn set_status(&mut self, status: u8) {
        self.overflow = status & 0x40 != 0;
        self.decimal = status & 0x08 != 0;
        self.interrupts_off = status & 0x04 != 0;
        self.result = u16::from(status & 0x80) << 1 | u16::from(status & 0x02 == 0);
        self.carry = status & 0x01;
    }

    #[inline(always)]
    pub(super) fn negative(&self) -> bool {
        self.result & 0x180 != 0
    }

    #[inline(always)]
    pub(super) fn zero(&self) -> bool {
        self.result & 0xFF == 0
    }

    #[inline(always)]
    pub(super) fn set_nz(&mut self, value: u8) {
        self.result = u16::from(value);
    }

    #[inline(always)]
    pub(super) fn add(&mut self, operand: u8) {
        if self.decimal {
            self.take_decimal(operand, add_decimal(self.a, operand, self.carry));
        } else {
            self.add_binary(operand);
        }
    }

    #[inline(always)]
    fn add_binary(&mut self, operand: u8) {
        let sum = u16::from(self.a) + u16::from(operand) + u16::from(self.carry);
        let result = sum as u8;
        self.overflow = (self.a ^ result) & (operand ^ result) & 0x80 != 0;
        self.carry = (sum >> 8) as u8;
        self.a = result;
        self.set_nz(result);
    }

    #[inline(always)]
    fn take_decimal(&mut self, operand: u8, (sum, carry): (u8, u8)) {
        self.overflow = (self.a ^ sum) & (sum ^ operand) & 0x80 != 0;
        self.a = sum;
        self.carry = carry;
        self.set_nz(sum);
    }

    #[inline(always)]
    pub(super) fn subtract(&mut self, operand: u8) {
        if self.decimal {
            self.take_decimal(operand, subtract_decimal(self.a, operand, self.carry));
        } else {
            self.add_binary(!operand);
        }
    }

    #[inline(always)]
    pub(super) fn compare(&mut self, register: u8, operand: u8) {
        self.carry = u8::from(register >= operand);
        self.set_nz(register.wrapping_sub(operand));
    }

    #[inline(always)]
    pub(super) fn bit(&mut self, operand: u8) {
        self.result = u16::from(self.a & operand) | u16::from(operand & 0x80) << 1;
        self.overflow = operand & 0x40 != 0;
    }

    #[inline(always)]
    pub(super) fn shift_left(&mut self, operand: u8) -> u8 {
        self.carry = operand >> 7;
        self.set_nz(operand << 1);
        operand << 1
    }

    #[inline(always)]
    pub(super) fn shift_right(&mut self, operand: u8) -> u8 {
        self.carry = operand & 1;
        self.set_nz(operand >> 1);
        operand >> 1
    }

    #[inline(always)]
    pub(super) fn rotate_left(&mut self, operand: u8) -> u8 {
        let result = operand << 1 | self.carry;
        self.carry = operand >> 7;
        self.set_nz(result);
        result
    }

    #[inline(always)]
    pub(super) fn rotate_right(&mut self, operand: u8) -> u8 {
        let result = operand >> 1 | self.carry << 7;
        self.carry = operand & 1;
        self.set_nz(result);
        result
    }

    #[inline(always)]
    pub(super) fn decrement(&mut self, operand: u8) -> u8 {
        let result = operand.wrapping_sub(1);
        self.set_nz(result);
        result
    }

    #[inline(always)]
    pub(super) fn increment(&mut self, operand: u8) -> u8 {
        let result = operand.wrapping_add(1);
        self.set_nz(result);
        result
    }

    // Undocumented instructions: a shift or count in memory, then an operation on A with the result.

    #[inline(always)]
    pub(super) fn slo(&mut self, operand: u8) -> u8 {
        let result = self.shift_left(operand);
        self.a |= result;
        self.set_nz(self.a);
        result
    }

    #[inline(always)]
    pub(super) fn rla(&mut self, operand: u8) -> u8 {
        let result = self.rotate_left(operand);
        self.a &= result;
        self.set_nz(self.a);
        result
    }

    #[inline(always)]
    pub(super) fn sre(&mut self, operand: u8) -> u8 {
        let result = self.shift_right(operand);
        self.a ^= result;
        self.set_nz(self.a);
        result
    }

    #[inline(always)]
    pub(super) fn rra(&mut self, operand: u8) -> u8 {
        let result = self.rotate_right(operand);
        self.add(result);
        result
    }

    #[inline(always)]
    pub(super) fn dcp(&mut self, operand: u8) -> u8 {
        let result = operand.wrapping_sub(1);
        self.compare(self.a, result);
        result
    }

    #[inline(always)]
    pub(super) fn isb(&mut self, operand: u8) -> u8 {
        let result = operand.wrapping_add(1);
        self.subtract(result);
        result
    }

    /// ARR: an AND and a rotation that leave traces of the adder in the flags.
    #[inline(always)]
    pub(super) fn and_rotate(&mut self, operand: u8) {
        let value = self.a & operand;
        let result = value >> 1 | self.carry << 7;
        // Its sign is the old carry, in either mode.
        self.set_nz(result);
        if !self.decimal {
            self.carry = result >> 6 & 1;
            self.overflow = (result >> 6 ^ result >> 5) & 1 != 0;
            self.a = result;
            return;
        }
        self.overflow = (value ^ result) & 0x40 != 0;
        self.a = result;
        if (value & 0x0F) + (value & 0x01) > 0x05 {
            self.a = self.a & 0xF0 | self.a.wrapping_add(0x06) & 0x0F;
        }
        if u16::from(value & 0xF0) + u16::from(value & 0x10) > 0x50 {
            self.a = self.a.wrapping_add(0x60);
            self.carry = 1;
        } else {
            self.carry = 0;
        }
    }

    pub(super) fn save(&self, out: &mut StateWriter) {
        for byte in [self.a, self.x, self.y, self.sp, self.status()] {
            out.u8(byte);
        }
        out.u16(self.pc);
        out.bool(self.jammed);
        out.i32(self.cycle);
    }

    pub(super) fn restore(&mut self, from: &mut StateReader) -> Result<(), StateError> {
        self.a = from.u8()?;
        self.x = from.u8()?;
        self.y = from.u8()?;
        self.sp = from.u8()?;
        self.set_status(from.u8()?);
        self.pc = from.u16()?;
        self.jammed = from.bool()?;
        self.cycle = from.i32()?;
        if !(0..1 << 27).contains(&self.cycle) {
            return Err(StateError(format!("{} is no cycle of a frame", self.cycle)));
        }
        Ok(())
    }
}

// The decimal functions take and return values instead of the registers, which would otherwise have to be in memory.

#[inline(never)]
pub(super) fn add_decimal(a: u8, operand: u8, carry: u8) -> (u8, u8) {
    let sum = from_bcd(a) + from_bcd(operand) + i32::from(carry);
    (to_bcd(sum & 0xFF), u8::from(sum > 99))
}

#[inline(never)]
pub(super) fn subtract_decimal(a: u8, operand: u8, carry: u8) -> (u8, u8) {
    let borrow = 1 - i32::from(carry);
    let mut difference = from_bcd(a) - from_bcd(operand) - borrow;
    if difference < 0 {
        difference += 100;
    }
    // Digits above 9 can make the difference negative. ALE's emulator then uses the wrong table.
    let result = if difference < 0 { from_bcd(difference as u8) as u8 } else { to_bcd(difference) };
    (result, u8::from(i32::from(a) >= i32::from(operand) + borrow))
}

/// The number that two decimal digits stand for; digits above 9 count as what they are.
fn from_bcd(byte: u8) -> i32 {
    i32::from(byte >> 4) * 10 + i32::from(byte & 0x0F)
}

/// The last two decimal digits of a number.
fn to_bcd(number: i32) -> u8 {
    (((number % 100 / 10) << 4) | (number % 10)) as u8
}
