//! Translated accesses to memory.

use super::super::bus::Bus;
use super::native;
use super::translate::{Translator, trusted};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, Endianness, InstBuilder as _, MemFlagsData, Value, types};
use std::mem::offset_of;

/// How an instruction addresses its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    ZeroPage,
    ZeroPageX,
    ZeroPageY,
    Absolute,
    AbsoluteX,
    AbsoluteY,
    /// Through a pointer, with Y added.
    Indirect,
    /// Through the pointer that X chooses.
    IndirectX,
}

/// An operand's address, as far as it is known when a program is translated.
#[derive(Clone, Copy)]
pub(super) enum Address {
    Known(u16),
    /// Somewhere in the first 256 bytes.
    Page(Value),
    /// At this offset within the 256 bytes from the first address on.
    Indexed(u16, Value),
    /// Anywhere; the second value is what the bus carried just before.
    Anywhere(Value, Value),
}

/// Addresses of paddles have this value under this mask.
const PADDLE_MASK: i64 = 0x108C;
const PADDLE: i64 = 0x0008;

const RAM: i32 = offset_of!(Bus, ram) as i32;

/// Two bytes in the order of the 6507.
fn unaligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_endianness(Endianness::Little)
}

impl Translator<'_> {
    /// The operand's address. With `extra`, an index that crosses a page takes one more cycle.
    pub(super) fn address(&mut self, mode: Mode, operand: u16, extra: bool) -> Address {
        match mode {
            Mode::ZeroPage => Address::Known(operand & 0xFF),
            Mode::ZeroPageX | Mode::ZeroPageY => {
                let index = if mode == Mode::ZeroPageX { self.v.x } else { self.v.y };
                let index = self.b.use_var(index);
                let sum = self.b.ins().iadd_imm_s(index, i64::from(operand));
                Address::Page(self.b.ins().band_imm_u(sum, 0xFF))
            }
            Mode::Absolute => Address::Known(operand),
            Mode::AbsoluteX | Mode::AbsoluteY => {
                let index = if mode == Mode::AbsoluteX { self.v.x } else { self.v.y };
                let index = self.b.use_var(index);
                if extra && operand & 0xFF != 0 {
                    let low = self.b.ins().iadd_imm_s(index, i64::from(operand & 0xFF));
                    let crossed = self.b.ins().ushr_imm_u(low, 8);
                    self.add_cycles(crossed);
                }
                Address::Indexed(operand, index)
            }
            Mode::Indirect => {
                let at = RAM + i32::from(operand & 0x7F);
                let base = self.b.ins().uload16(types::I32, unaligned(), self.bus, at);
                let y = self.b.use_var(self.v.y);
                if extra {
                    let low = self.b.ins().band_imm_u(base, 0xFF);
                    let low = self.b.ins().iadd(low, y);
                    let crossed = self.b.ins().ushr_imm_u(low, 8);
                    self.add_cycles(crossed);
                }
                let sum = self.b.ins().iadd(base, y);
                let high = self.b.ins().ushr_imm_u(base, 8);
                Address::Anywhere(self.b.ins().band_imm_u(sum, 0xFFFF), high)
            }
            Mode::IndirectX => {
                let x = self.b.use_var(self.v.x);
                let pointer = self.b.ins().iadd_imm_s(x, i64::from(operand));
                let pointer = self.b.ins().band_imm_u(pointer, 0xFF);
                let from = self.b.ins().iadd_imm_s(pointer, -0x80);
                let outside = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, from, 0x7F);
                self.leave_if(outside, self.before);
                let at = self.ram_pointer(pointer);
                let addr = self.b.ins().uload16(types::I32, unaligned(), at, RAM);
                let high = self.b.ins().ushr_imm_u(addr, 8);
                Address::Anywhere(addr, high)
            }
        }
    }

    /// Reads a byte; `last` is what the bus carried just before.
    pub(super) fn read(&mut self, address: Address, last: u8) -> Value {
        match address {
            Address::Known(addr) => self.read_known(addr, last),
            Address::Page(addr) => {
                let low = self.b.ins().band_imm_u(addr, 0x80);
                self.either(
                    low,
                    |t| t.read_ram(addr),
                    |t| {
                        let last = t.b.ins().iconst(types::I32, i64::from(last));
                        t.read_chip(addr, last)
                    },
                )
            }
            Address::Indexed(base, index) if self.mapping.plain_page(base) => {
                let at = self.image[self.mapping.offset(base)..].as_ptr();
                self.read_image(at, index)
            }
            Address::Indexed(base, index) => {
                let sum = self.b.ins().iadd_imm_s(index, i64::from(base));
                let addr = self.b.ins().band_imm_u(sum, 0xFFFF);
                let last = self.b.ins().iconst(types::I32, i64::from(base >> 8));
                if base & 0x1080 != 0 {
                    return self.read_anywhere(addr, last);
                }
                // The TIA: most likely a paddle, of the player that the index stands for.
                let which = self.b.ins().band_imm_u(addr, PADDLE_MASK);
                let paddle = self.b.ins().icmp_imm_u(IntCC::Equal, which, PADDLE);
                self.likely(paddle, |t| t.read_paddle(addr, last), |t| t.read_anywhere(addr, last))
            }
            Address::Anywhere(addr, last) => self.read_anywhere(addr, last),
        }
    }

    fn read_known(&mut self, addr: u16, last: u8) -> Value {
        if self.mapping.plain(addr) {
            let byte = self.image[self.mapping.offset(addr)];
            return self.b.ins().iconst(types::I32, i64::from(byte));
        }
        if addr & 0x1280 == 0x0080 {
            return self.b.ins().uload8(types::I32, trusted(), self.bus, RAM + i32::from(addr & 0x7F));
        }
        let [known, last] = [i64::from(addr), i64::from(last)].map(|n| self.b.ins().iconst(types::I32, n));
        if addr & 0x1000 != 0 {
            // Memory in the cartridge, or an address that switches banks; then the block ends here.
            return self
                .call(native::read_cartridge as *const () as usize, &[self.registers, self.bus, known]);
        }
        if i64::from(addr) & PADDLE_MASK == PADDLE {
            return self.read_paddle(known, last);
        }
        self.read_chip(known, last)
    }

    fn read_chip(&mut self, addr: Value, last: Value) -> Value {
        let now = self.now();
        self.call(native::read_chip as *const () as usize, &[self.bus, addr, now, last])
    }

    fn ram_pointer(&mut self, addr: Value) -> Value {
        let place = self.b.ins().band_imm_u(addr, 0x7F);
        self.bus_pointer(place)
    }

    /// A pointer to this offset in the bus.
    pub(super) fn bus_pointer(&mut self, offset: Value) -> Value {
        let pointer = self.pointer_type();
        let offset = self.b.ins().uextend(pointer, offset);
        self.b.ins().iadd(self.bus, offset)
    }

    pub(super) fn write_ram(&mut self, addr: Value, value: Value) {
        let pointer = self.ram_pointer(addr);
        self.b.ins().istore8(trusted(), value, pointer, RAM);
    }

    pub(super) fn read_ram(&mut self, addr: Value) -> Value {
        let pointer = self.ram_pointer(addr);
        self.b.ins().uload8(types::I32, trusted(), pointer, RAM)
    }

    /// Reads the image's byte `index` bytes behind `at`; both are known to lie in the image.
    fn read_image(&mut self, at: *const u8, index: Value) -> Value {
        let pointer = self.pointer_type();
        let at = self.b.ins().iconst(pointer, at as i64);
        let index = self.b.ins().uextend(pointer, index);
        let pointer = self.b.ins().iadd(at, index);
        self.b.ins().uload8(types::I32, trusted().with_readonly(), pointer, 0)
    }

    fn read_anywhere(&mut self, addr: Value, last: Value) -> Value {
        let rom = self.b.ins().band_imm_u(addr, 0x1000);
        self.likely(
            rom,
            |t| {
                t.leave_unless_plain(addr);
                let contiguous = t.mapping.segments;
                let whole = (0..8).all(|i| contiguous[i] == contiguous[0] + (i as u32 & 3) * 1024);
                if whole {
                    let low = t.b.ins().band_imm_u(addr, 0xFFF);
                    let at = t.image[contiguous[0] as usize..].as_ptr();
                    t.read_image(at, low)
                } else {
                    t.call(native::read_cartridge as *const () as usize, &[t.registers, t.bus, addr])
                }
            },
            |t| {
                let now = t.now();
                t.call(native::read_low as *const () as usize, &[t.bus, addr, now, last])
            },
        )
    }

    /// Leaves accesses that are not plain reads of the image to the interpreter.
    fn leave_unless_plain(&mut self, addr: Value) {
        let below = self.mapping.memory_below();
        let end = self.mapping.switching().map_or(0x1000, |(first, _)| first);
        if (below, end) != (0, 0x1000) {
            let low = self.b.ins().band_imm_u(addr, 0xFFF);
            let from = self.b.ins().iadd_imm_s(low, -i64::from(below));
            let special =
                self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, from, i64::from(end - below));
            self.leave_if(special, self.before);
        }
    }

    /// One of two values, depending on whether `condition` is zero.
    pub(super) fn either(
        &mut self,
        condition: Value,
        yes: impl FnOnce(&mut Self) -> Value,
        no: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let on_no = self.b.create_block();
        self.one_of(condition, yes, on_no, no)
    }

    /// The same, where `no` is rare.
    pub(super) fn likely(
        &mut self,
        condition: Value,
        yes: impl FnOnce(&mut Self) -> Value,
        no: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let on_no = self.b.create_block();
        self.b.set_cold_block(on_no);
        self.one_of(condition, yes, on_no, no)
    }

    fn one_of(
        &mut self,
        condition: Value,
        yes: impl FnOnce(&mut Self) -> Value,
        on_no: ir::Block,
        no: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let [on_yes, after] = [0; 2].map(|_| self.b.create_block());
        self.b.append_block_param(after, types::I32);
        self.b.ins().brif(condition, on_yes, &[], on_no, &[]);
        self.b.switch_to_block(on_yes);
        let value = yes(self);
        self.b.ins().jump(after, &[BlockArg::Value(value)]);
        self.b.switch_to_block(on_no);
        let value = no(self);
        self.b.ins().jump(after, &[BlockArg::Value(value)]);
        self.b.switch_to_block(after);
        self.b.block_params(after)[0]
    }

    /// Writes a byte. `next` is the address at which the program continues.
    pub(super) fn write(&mut self, address: Address, value: Value, next: u16) {
        match address {
            Address::Known(addr) if addr & 0x1280 == 0x0080 => {
                self.b.ins().istore8(trusted(), value, self.bus, RAM + i32::from(addr & 0x7F));
            }
            Address::Known(addr) if addr & 0x1000 != 0 => {
                if !self.mapping.plain(addr) {
                    let addr = self.b.ins().iconst(types::I32, i64::from(addr));
                    self.call(
                        native::write_cartridge as *const () as usize,
                        &[self.registers, self.bus, addr, value],
                    );
                }
            }
            Address::Known(addr) if addr & 0x0080 != 0 => {
                let addr = self.b.ins().iconst(types::I32, i64::from(addr));
                let now = self.now();
                self.call(native::write_riot as *const () as usize, &[self.bus, addr, value, now]);
            }
            Address::Known(addr) => self.write_tia((addr & 0x3F) as u8, value, next),
            Address::Page(addr) => {
                let high = self.b.ins().band_imm_u(addr, 0x80);
                self.write_ram_or(high, addr, value, next);
            }
            Address::Indexed(base, index) => {
                let sum = self.b.ins().iadd_imm_s(index, i64::from(base));
                let addr = self.b.ins().band_imm_u(sum, 0xFFFF);
                self.write_anywhere(addr, value, next);
            }
            Address::Anywhere(addr, _) => self.write_anywhere(addr, value, next),
        }
    }

    fn write_anywhere(&mut self, addr: Value, value: Value, next: u16) {
        let cartridge = self.b.ins().band_imm_u(addr, 0x1000);
        self.leave_if(cartridge, self.before);
        let which = self.b.ins().band_imm_u(addr, 0x0280);
        let ram = self.b.ins().icmp_imm_u(IntCC::Equal, which, 0x0080);
        self.write_ram_or(ram, addr, value, next);
    }

    /// Writes to RAM if `ram` is not zero, else to one of the chips.
    pub(super) fn write_ram_or(&mut self, ram: Value, addr: Value, value: Value, next: u16) {
        let [memory, chip, after] = [0; 3].map(|_| self.b.create_block());
        self.commit_cycles();
        self.b.ins().brif(ram, memory, &[], chip, &[]);
        self.b.switch_to_block(chip);
        let now = self.now();
        let then = self.call(native::write_low as *const () as usize, &[self.bus, addr, value, now]);
        self.b.def_var(self.v.cycle, then);
        self.leave_if_frame_done(then, next, after);
        self.b.switch_to_block(memory);
        self.write_ram(addr, value);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
    }
}
