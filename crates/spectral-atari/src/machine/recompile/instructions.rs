//! Each instruction in Cranelift's intermediate representation.

use super::memory::{Address, Mode};
use super::native::{self, Registers};
use super::opcodes::{Change, Kind, Operation, kind};
use super::region::Instruction;
use super::translate::Translator;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder as _, Value, types};
use cranelift_frontend::Variable;
use std::mem::offset_of;

impl Translator<'_> {
    /// Translates one instruction. Returns whether it ended the block.
    pub(super) fn instruction(&mut self, i: Instruction) -> bool {
        let last = |mode: Mode| if mode == Mode::Absolute { (i.operand >> 8) as u8 } else { i.operand as u8 };
        match kind(i.opcode) {
            Kind::Constant(operation) => {
                let value = self.constant(i64::from(i.operand));
                self.operate(operation, value);
            }
            Kind::Read(operation, mode) => {
                let address = self.address(mode, i.operand, true);
                let value = self.read(address, last(mode));
                self.operate(operation, value);
            }
            Kind::StoreA(mode) => self.store(mode, self.v.a, i),
            Kind::StoreX(mode) => self.store(mode, self.v.x, i),
            Kind::StoreY(mode) => self.store(mode, self.v.y, i),
            Kind::Change(change, mode) => {
                let address = self.address(mode, i.operand, false);
                if let Address::Page(addr) = address {
                    let high = self.b.ins().band_imm_u(addr, 0x80);
                    let chip = self.b.ins().icmp_imm_u(IntCC::Equal, high, 0);
                    self.leave_if(chip, self.before);
                }
                let value = self.read(address, last(mode));
                let value = self.change(change, value);
                self.write(address, value, i.next());
            }
            Kind::ChangeA(change) => {
                let a = self.b.use_var(self.v.a);
                let a = self.change(change, a);
                self.b.def_var(self.v.a, a);
            }
            Kind::Simple if self.control_flow(i) => return true,
            Kind::Simple => self.simple(i),
            Kind::Unsupported => {
                self.leave(self.before);
                return true;
            }
        }
        false
    }

    fn constant(&mut self, n: i64) -> Value {
        self.b.ins().iconst(types::I32, n)
    }

    fn store(&mut self, mode: Mode, register: Variable, i: Instruction) {
        let address = self.address(mode, i.operand, false);
        let value = self.b.use_var(register);
        self.write(address, value, i.next());
    }

    fn set_result(&mut self, byte: Value) {
        self.b.def_var(self.v.result, byte);
        self.byte_result = true;
    }

    fn set(&mut self, register: Variable, byte: Value) {
        self.b.def_var(register, byte);
        self.set_result(byte);
    }

    fn operate(&mut self, operation: Operation, value: Value) {
        let a = self.b.use_var(self.v.a);
        match operation {
            Operation::Or => {
                let a = self.b.ins().bor(a, value);
                self.set(self.v.a, a);
            }
            Operation::And => {
                let a = self.b.ins().band(a, value);
                self.set(self.v.a, a);
            }
            Operation::Xor => {
                let a = self.b.ins().bxor(a, value);
                self.set(self.v.a, a);
            }
            Operation::Add => self.add(a, value, value, native::add_decimal as *const () as usize),
            Operation::Subtract => {
                let inverse = self.b.ins().bxor_imm_u(value, 0xFF);
                self.add(a, inverse, value, native::subtract_decimal as *const () as usize);
            }
            Operation::CompareA => self.compare(a, value),
            Operation::CompareX => {
                let x = self.b.use_var(self.v.x);
                self.compare(x, value);
            }
            Operation::CompareY => {
                let y = self.b.use_var(self.v.y);
                self.compare(y, value);
            }
            Operation::Bit => {
                let both = self.b.ins().band(a, value);
                let sign = self.b.ins().band_imm_u(value, 0x80);
                let sign = self.b.ins().ishl_imm_u(sign, 1);
                let result = self.b.ins().bor(both, sign);
                self.b.def_var(self.v.result, result);
                self.byte_result = false;
                let overflow = self.b.ins().ishl_imm_u(value, 1);
                self.b.def_var(self.v.overflow, overflow);
            }
            Operation::LoadA => self.set(self.v.a, value),
            Operation::LoadX => self.set(self.v.x, value),
            Operation::LoadY => self.set(self.v.y, value),
            Operation::LoadAX => {
                self.b.def_var(self.v.x, value);
                self.set(self.v.a, value);
            }
            Operation::Ignore => {}
        }
    }

    /// Adds `value` to A; `original` goes to the decimal adder.
    fn add(&mut self, a: Value, value: Value, original: Value, decimal_adder: usize) {
        let carry = self.b.use_var(self.v.carry);
        let decimal = self.load_register(offset_of!(Registers, decimal));
        let [in_decimal, after] = [0; 2].map(|_| self.b.create_block());
        self.b.set_cold_block(in_decimal);
        let [sum, second] = [0; 2].map(|_| self.b.append_block_param(after, types::I32));
        let binary = self.b.ins().iadd(a, value);
        let binary = self.b.ins().iadd(binary, carry);
        self.b.ins().brif(decimal, in_decimal, &[], after, &[binary, value].map(BlockArg::Value));
        self.b.switch_to_block(in_decimal);
        let adjusted = self.call(decimal_adder, &[a, original, carry]);
        // Decimal subtraction looks at the signs of what it was given, not of the inverse.
        self.b.ins().jump(after, &[adjusted, original].map(BlockArg::Value));
        self.b.switch_to_block(after);
        let result = self.b.ins().band_imm_u(sum, 0xFF);
        let carry = self.b.ins().ushr_imm_u(sum, 8);
        let first = self.b.ins().bxor(a, result);
        let second = self.b.ins().bxor(second, result);
        let overflow = self.b.ins().band(first, second);
        self.b.def_var(self.v.overflow, overflow);
        self.b.def_var(self.v.carry, carry);
        self.set(self.v.a, result);
    }

    fn compare(&mut self, register: Value, value: Value) {
        let carry = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, register, value);
        let carry = self.b.ins().uextend(types::I32, carry);
        self.b.def_var(self.v.carry, carry);
        let difference = self.b.ins().isub(register, value);
        let result = self.b.ins().band_imm_u(difference, 0xFF);
        self.set_result(result);
    }

    fn change(&mut self, change: Change, value: Value) -> Value {
        let carry = self.b.use_var(self.v.carry);
        let (result, carry) = match change {
            Change::ShiftLeft | Change::RotateLeft => {
                let out = self.b.ins().ushr_imm_u(value, 7);
                let shifted = self.b.ins().ishl_imm_u(value, 1);
                let shifted = self.b.ins().band_imm_u(shifted, 0xFF);
                let rotated = change == Change::RotateLeft;
                (if rotated { self.b.ins().bor(shifted, carry) } else { shifted }, Some(out))
            }
            Change::ShiftRight | Change::RotateRight => {
                let out = self.b.ins().band_imm_u(value, 1);
                let shifted = self.b.ins().ushr_imm_u(value, 1);
                if change == Change::RotateRight {
                    let high = self.b.ins().ishl_imm_u(carry, 7);
                    (self.b.ins().bor(shifted, high), Some(out))
                } else {
                    (shifted, Some(out))
                }
            }
            Change::Decrement | Change::Increment => {
                let step = if change == Change::Increment { 1 } else { -1 };
                let changed = self.b.ins().iadd_imm_s(value, step);
                (self.b.ins().band_imm_u(changed, 0xFF), None)
            }
        };
        if let Some(carry) = carry {
            self.b.def_var(self.v.carry, carry);
        }
        self.set_result(result);
        result
    }

    fn transfer(&mut self, from: Variable, to: Variable) {
        let value = self.b.use_var(from);
        self.set(to, value);
    }

    fn count(&mut self, register: Variable, change: Change) {
        let value = self.b.use_var(register);
        let value = self.change(change, value);
        self.b.def_var(register, value);
    }

    fn set_flag(&mut self, offset: usize, value: i64) {
        let value = self.constant(value);
        self.store_register(offset, value);
    }

    /// Instructions on registers, flags and the stack, and those that do nothing.
    fn simple(&mut self, i: Instruction) {
        match i.opcode {
            0xCA => self.count(self.v.x, Change::Decrement),
            0x88 => self.count(self.v.y, Change::Decrement),
            0xE8 => self.count(self.v.x, Change::Increment),
            0xC8 => self.count(self.v.y, Change::Increment),
            0xAA => self.transfer(self.v.a, self.v.x),
            0xA8 => self.transfer(self.v.a, self.v.y),
            0x8A => self.transfer(self.v.x, self.v.a),
            0x98 => self.transfer(self.v.y, self.v.a),
            0xBA => self.transfer(self.v.sp, self.v.x),
            0x9A => {
                let x = self.b.use_var(self.v.x);
                self.b.def_var(self.v.sp, x);
            }
            0x18 | 0x38 => {
                let carry = self.constant(i64::from(i.opcode == 0x38));
                self.b.def_var(self.v.carry, carry);
            }
            0x58 | 0x78 => {
                self.set_flag(offset_of!(Registers, interrupts_off), i64::from(i.opcode == 0x78));
            }
            0xB8 => {
                let clear = self.constant(0);
                self.b.def_var(self.v.overflow, clear);
            }
            0xD8 | 0xF8 => self.set_flag(offset_of!(Registers, decimal), i64::from(i.opcode == 0xF8)),
            0x48 => {
                let a = self.b.use_var(self.v.a);
                let bit = self.b.ins().ushr_imm_u(a, 1);
                let bit = self.b.ins().band_imm_u(bit, 1);
                self.push(bit, |_| a, i.next());
            }
            0x08 => {
                let result = self.b.use_var(self.v.result);
                let byte = self.b.ins().band_imm_u(result, 0xFF);
                let zero = self.b.ins().icmp_imm_u(IntCC::Equal, byte, 0);
                let zero = self.b.ins().uextend(types::I32, zero);
                self.push(zero, Self::status, i.next());
            }
            0x68 => {
                let a = self.pull(0x68);
                self.set(self.v.a, a);
            }
            0x28 => {
                let status = self.pull(0x28);
                self.set_status(status);
            }
            _ => {}
        }
    }

    /// Jumps, calls, returns and branches, which end a block. Returns false if the instruction is none of these.
    fn control_flow(&mut self, i: Instruction) -> bool {
        match i.opcode {
            0x4C => {
                self.commit_cycles();
                self.go(i.operand);
            }
            0x6C => {
                let low = self.read(Address::Known(i.operand), 0);
                let high = self.read(Address::Known(i.operand + 1), 0);
                let pc = self.word(low, high);
                self.commit_cycles();
                self.go_out(pc);
            }
            0x20 | 0x00 => self.call_subroutine(i),
            0x60 => {
                let [low, high] = self.pull_many();
                let saved = self.word(low, high);
                let pc = self.b.ins().iadd_imm_s(saved, 1);
                let pc = self.b.ins().band_imm_u(pc, 0xFFFF);
                self.commit_cycles();
                self.go_back(pc);
            }
            0x40 => {
                let [status, low, high] = self.pull_many();
                self.set_status(status);
                let pc = self.word(low, high);
                self.commit_cycles();
                self.go_back(pc);
            }
            _ if i.opcode & 0x1F == 0x10 => {
                let taken = self.condition(i.opcode);
                self.branch(i, taken);
            }
            _ => return false,
        }
        true
    }

    fn word(&mut self, low: Value, high: Value) -> Value {
        let high = self.b.ins().ishl_imm_u(high, 8);
        self.b.ins().bor(low, high)
    }

    /// Not zero if a branch is taken.
    fn condition(&mut self, opcode: u8) -> Value {
        let result = self.b.use_var(self.v.result);
        let set = opcode & 0x20 != 0;
        let flag = match opcode >> 6 {
            0 => self.b.ins().band_imm_u(result, 0x180),
            1 => {
                let overflow = self.b.use_var(self.v.overflow);
                self.b.ins().band_imm_u(overflow, 0x80)
            }
            2 => self.b.use_var(self.v.carry),
            _ => {
                // Zero is the opposite of a result.
                let byte = if self.byte_result { result } else { self.b.ins().band_imm_u(result, 0xFF) };
                let condition = if set { IntCC::Equal } else { IntCC::NotEqual };
                return self.b.ins().icmp_imm_u(condition, byte, 0);
            }
        };
        self.b.ins().icmp_imm_u(if set { IntCC::NotEqual } else { IntCC::Equal }, flag, 0)
    }

    /// The status register as PHP pushes it.
    fn status(&mut self) -> Value {
        let result = self.b.use_var(self.v.result);
        let negative = self.b.ins().band_imm_u(result, 0x180);
        let negative = self.b.ins().icmp_imm_u(IntCC::NotEqual, negative, 0);
        let zero = self.b.ins().band_imm_u(result, 0xFF);
        let zero = self.b.ins().icmp_imm_u(IntCC::Equal, zero, 0);
        let overflow = self.b.use_var(self.v.overflow);
        let overflow = self.b.ins().band_imm_u(overflow, 0x80);
        let overflow = self.b.ins().ushr_imm_u(overflow, 1);
        let decimal = self.load_register(offset_of!(Registers, decimal));
        let interrupts_off = self.load_register(offset_of!(Registers, interrupts_off));
        let mut status = self.b.use_var(self.v.carry);
        status = self.b.ins().bor_imm_u(status, 0x30);
        status = self.b.ins().bor(status, overflow);
        let [negative, zero] = [negative, zero].map(|flag| self.b.ins().uextend(types::I32, flag));
        for (flag, bit) in [(negative, 7), (zero, 1), (decimal, 3), (interrupts_off, 2)] {
            let flag = self.b.ins().ishl_imm_u(flag, bit);
            status = self.b.ins().bor(status, flag);
        }
        status
    }

    fn set_status(&mut self, status: Value) {
        let overflow = self.b.ins().ishl_imm_u(status, 1);
        self.b.def_var(self.v.overflow, overflow);
        for (bit, offset) in [(3, offset_of!(Registers, decimal)), (2, offset_of!(Registers, interrupts_off))]
        {
            let flag = self.b.ins().ushr_imm_u(status, bit);
            let flag = self.b.ins().band_imm_u(flag, 1);
            self.store_register(offset, flag);
        }
        let negative = self.b.ins().band_imm_u(status, 0x80);
        let negative = self.b.ins().ishl_imm_u(negative, 1);
        let not_zero = self.b.ins().ushr_imm_u(status, 1);
        let not_zero = self.b.ins().band_imm_u(not_zero, 1);
        let not_zero = self.b.ins().bxor_imm_u(not_zero, 1);
        let result = self.b.ins().bor(negative, not_zero);
        self.b.def_var(self.v.result, result);
        self.byte_result = false;
        let carry = self.b.ins().band_imm_u(status, 1);
        self.b.def_var(self.v.carry, carry);
    }

    /// Pulls one byte.
    fn pull(&mut self, opcode: u8) -> Value {
        let sp = self.b.use_var(self.v.sp);
        let first = self.b.ins().iadd_imm_s(sp, 1);
        let first = self.b.ins().band_imm_u(first, 0xFF);
        self.b.def_var(self.v.sp, first);
        let from = self.b.ins().iadd_imm_s(sp, -0x80);
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, from, 0x7F);
        self.either(
            inside,
            |t| t.read_ram(first),
            |t| {
                let now = t.now();
                let opcode = t.constant(i64::from(opcode));
                t.call(native::pull as *const () as usize, &[t.bus, sp, now, opcode])
            },
        )
    }

    /// Pulls some bytes; leaves if the stack does not lie in memory.
    fn pull_many<const N: usize>(&mut self) -> [Value; N] {
        let sp = self.b.use_var(self.v.sp);
        let from = self.b.ins().iadd_imm_s(sp, -0x80);
        let beyond = 0x80 - N as i64;
        let outside = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, from, beyond);
        self.leave_if(outside, self.before);
        let last = self.b.ins().iadd_imm_s(sp, N as i64);
        self.b.def_var(self.v.sp, last);
        std::array::from_fn(|n| {
            let at = self.b.ins().iadd_imm_s(sp, n as i64 + 1);
            self.read_ram(at)
        })
    }

    /// JSR and BRK, which also saves the status.
    fn call_subroutine(&mut self, i: Instruction) {
        let breaks = i.opcode == 0x00;
        // JSR saves the address of its own last byte.
        let back = if breaks { i.next().wrapping_add(1) } else { i.next().wrapping_sub(1) };
        let [low, high] = back.to_le_bytes().map(|byte| self.constant(i64::from(byte)));
        let mut bytes = vec![high, low];
        if breaks {
            bytes.push(self.status());
        }
        let sp = self.b.use_var(self.v.sp);
        let count = bytes.len() as i64;
        let outside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, sp, 0x7F + count);
        self.leave_if(outside, self.before);
        for (n, byte) in (0..).zip(bytes) {
            let at = self.b.ins().iadd_imm_s(sp, -n);
            self.write_ram(at, byte);
        }
        let below = self.b.ins().iadd_imm_s(sp, -count);
        self.b.def_var(self.v.sp, below);
        self.commit_cycles();
        if breaks {
            self.set_flag(offset_of!(Registers, interrupts_off), 1);
            self.go(self.mapping.break_target(self.image));
        } else {
            self.go(i.operand);
        }
    }
}
