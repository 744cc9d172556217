//! Translated accesses to the chips. Frequent accesses without effect are handled inline; the rest calls functions.

use super::super::bus::Bus;
use super::super::tia::Tia;
use super::memory::Mode;
use super::native;
use super::opcodes::{Kind, kind};
use super::region::{Block, Instruction};
use super::translate::{Leave, Translator, trusted};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder as _, Value, types};
use std::mem::offset_of;

/// Where a bus holds this field of its TIA.
const fn tia(field: usize) -> i32 {
    (offset_of!(Bus, tia) + field) as i32
}

impl Translator<'_> {
    /// Leaves after this instruction if `then`, the cycle that a chip returned, says that the frame is done. Otherwise jumps to
    /// the block `on`.
    pub(super) fn leave_if_frame_done(&mut self, then: Value, next: u16, on: ir::Block) {
        let out = self.b.create_block();
        self.b.set_cold_block(out);
        let done = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, then, 0);
        self.b.ins().brif(done, out, &[], on, &[]);
        self.b.switch_to_block(out);
        let cycle = self.b.ins().bnot(then);
        self.leave_after(cycle, next);
    }

    pub(super) fn write_tia(&mut self, register: u8, value: Value, next: u16) {
        match register {
            // WSYNC: on to the end of the line.
            0x02 => {
                let now = self.now();
                let then = self.next_line(now);
                self.b.def_var(self.v.cycle, then);
                self.pending = 0;
            }
            0x20 | 0x21 | 0x23 | 0x24 => {
                let motion = self.b.ins().ushr_imm_u(value, 4);
                let at = tia(Tia::MOTION_OFFSET + usize::from(register - 0x20));
                self.b.ins().istore8(trusted(), motion, self.bus, at);
            }
            // Sound, and registers that do not exist.
            0x03 | 0x15..=0x1A | 0x2D..=0x3F => {}
            _ => {
                let now = self.now();
                let on = self.b.create_block();
                if let Some(change) = self.change_by_write(register, value) {
                    // Programs write the same to most registers on line after line.
                    let call = self.b.create_block();
                    self.b.set_cold_block(call);
                    self.b.ins().brif(change, call, &[], on, &[]);
                    self.b.switch_to_block(call);
                }
                let then = self.call(native::tia_writer(register), &[self.bus, value, now]);
                if register == 0x00 {
                    self.leave_if_frame_done(then, next, on);
                } else {
                    self.b.ins().jump(on, &[]);
                }
                self.b.switch_to_block(on);
            }
        }
    }

    /// Not zero if writing `value` to this register changes anything; `None` if that takes longer to find out.
    fn change_by_write(&mut self, register: u8, value: Value) -> Option<Value> {
        let field = |t: &mut Self, offset: usize, index: u8| {
            t.b.ins().uload8(types::I32, trusted(), t.bus, tia(offset + usize::from(index)))
        };
        Some(match register {
            0x0D..=0x0F => {
                let held = field(self, Tia::PLAYFIELD_OFFSET, register - 0x0D);
                let change = self.b.ins().bxor(held, value);
                if register == 0x0D { self.b.ins().band_imm_u(change, 0xF0) } else { change }
            }
            // Graphics are handed on when the other player's are written, and the ball with those of player 1.
            0x1B | 0x1C => {
                let (player, other) = (register - 0x1B, 0x1C - register);
                let held = field(self, Tia::GRP_OFFSET, player);
                let mut change = self.b.ins().bxor(held, value);
                let mut pairs = vec![((Tia::GRP_OFFSET, other), (Tia::GRP_OLD_OFFSET, other))];
                if player == 1 {
                    pairs.push(((Tia::SWITCHED_ON_OFFSET, 2), (Tia::BALL_ON_OLD_OFFSET, 0)));
                }
                for (new, old) in pairs {
                    let (new, old) = (field(self, new.0, new.1), field(self, old.0, old.1));
                    let handed_on = self.b.ins().bxor(new, old);
                    change = self.b.ins().bor(change, handed_on);
                }
                change
            }
            0x1D..=0x1F => {
                let held = field(self, Tia::SWITCHED_ON_OFFSET, register - 0x1D);
                let bit = self.b.ins().ushr_imm_u(value, 1);
                let change = self.b.ins().bxor(held, bit);
                self.b.ins().band_imm_u(change, 1)
            }
            _ => return None,
        })
    }

    /// Pushes one byte, whether the stack is in memory or, as in some programs, in the TIA. Those programs switch missiles and
    /// ball with bit 1 of what they push: `bit`, 0 or 1.
    pub(super) fn push(&mut self, bit: Value, value: impl Fn(&mut Self) -> Value, next: u16) {
        let sp = self.b.use_var(self.v.sp);
        let below = self.b.ins().iadd_imm_s(sp, -1);
        let below = self.b.ins().band_imm_u(below, 0xFF);
        self.b.def_var(self.v.sp, below);
        self.commit_cycles();
        let now = self.now();
        let [memory, chip, switch, call, after] = [0; 5].map(|_| self.b.create_block());
        self.b.set_cold_block(call);
        let ram = self.b.ins().band_imm_u(sp, 0x80);
        self.b.ins().brif(ram, memory, &[], chip, &[]);

        self.b.switch_to_block(chip);
        let object = self.b.ins().iadd_imm_s(sp, -0x1D);
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, object, 3);
        self.b.ins().brif(inside, switch, &[], call, &[]);
        self.b.switch_to_block(switch);
        let at = self.bus_pointer(object);
        let held = self.b.ins().uload8(types::I32, trusted(), at, tia(Tia::SWITCHED_ON_OFFSET));
        let change = self.b.ins().bxor(held, bit);
        self.b.ins().brif(change, call, &[], after, &[]);

        self.b.switch_to_block(call);
        let byte = value(self);
        let then = self.call(native::write_low as *const () as usize, &[self.bus, sp, byte, now]);
        self.b.def_var(self.v.cycle, then);
        self.leave_if_frame_done(then, next, after);

        self.b.switch_to_block(memory);
        let byte = value(self);
        self.write_ram(sp, byte);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
    }

    /// Reads the paddle that the two lowest bits of `addr` choose; `last` is what the bus carried just before.
    pub(super) fn read_paddle(&mut self, addr: Value, last: Value) -> Value {
        let now = self.now();
        let clock = self.b.ins().imul_imm_s(now, 3);
        self.b.ins().store(trusted(), clock, self.bus, tia(Tia::LOOKED_AT_OFFSET));
        let paddle = self.b.ins().band_imm_u(addr, 3);
        let offset = self.b.ins().ishl_imm_u(paddle, 2);
        let at = self.bus_pointer(offset);
        let after = self.b.ins().load(types::I32, trusted(), at, tia(Tia::CHARGED_AFTER_OFFSET));
        let charged = self.b.ins().icmp(IntCC::SignedGreaterThan, now, after);
        let charged = self.b.ins().uextend(types::I32, charged);
        let charged = self.b.ins().ishl_imm_u(charged, 7);
        let noise = self.b.ins().band_imm_u(last, 0x3F);
        self.b.ins().bor(charged, noise)
    }

    /// A write to the TIA ends a frame that is too long. Blocks in which that could happen are left to the interpreter, so that
    /// writes in other blocks need not check it.
    pub(super) fn leave_if_overlong(&mut self, block: &Block, leave: Leave) {
        let writes = || block.instructions.iter().filter_map(writes_tia);
        if writes().next().is_none() {
            return;
        }
        // Branches and crossed pages take up to two cycles more than the table says.
        let cycles: i32 = block.instructions.iter().map(|i| i.cycles() + 2).sum();
        let waits = writes().filter(|may_wait| *may_wait).count() as i32;
        let longest = cycles + 76 * waits;
        let cycle = self.b.use_var(self.v.cycle);
        let end = self.b.ins().iadd_imm_s(cycle, i64::from(longest));
        let limit = self.b.ins().load(types::I32, trusted(), self.bus, tia(Tia::OVERLONG_OFFSET));
        let overlong = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, end, limit);
        self.leave_if(overlong, leave);
    }

    /// The cycle at which the line of `now` ends (`now` itself, if a line starts there).
    fn next_line(&mut self, now: Value) -> Value {
        // (now + 75) / 76 * 76, the division as a multiplication: exact for all cycles below 2^27.
        let up = self.b.ins().iadd_imm_s(now, 75);
        let quarter = self.b.ins().ushr_imm_u(up, 2);
        let wide = self.b.ins().uextend(types::I64, quarter);
        let factor = self.b.ins().iconst(types::I64, NINETEENTH);
        let product = self.b.ins().imul(wide, factor);
        let line = self.b.ins().ushr_imm_u(product, 36);
        let line = self.b.ins().ireduce(types::I32, line);
        self.b.ins().imul_imm_s(line, 76)
    }
}

/// Whether an instruction that may write to the TIA may write to WSYNC there; `None` if it cannot write to the TIA.
fn writes_tia(instruction: &Instruction) -> Option<bool> {
    let mode = match kind(instruction.opcode) {
        Kind::StoreA(mode) | Kind::StoreX(mode) | Kind::StoreY(mode) | Kind::Change(_, mode) => mode,
        // The stack may lie anywhere.
        _ => return [0x08, 0x48].contains(&instruction.opcode).then_some(true),
    };
    match mode {
        Mode::ZeroPage | Mode::Absolute => {
            (instruction.operand & 0x1080 == 0).then_some(instruction.operand & 0x3F == 0x02)
        }
        _ => Some(true),
    }
}

/// 2^36 / 19, rounded up.
const NINETEENTH: i64 = (1 << 36) / 19 + 1;

#[cfg(test)]
mod tests {
    use super::NINETEENTH;

    #[test]
    fn lines_end_where_division_says() {
        for cycle in (0..1 << 27).step_by(61).chain(0..100_000) {
            let up: i64 = cycle + 75;
            assert_eq!(((up >> 2) * NINETEENTH) >> 36, up / 76, "cycle {cycle}");
        }
    }
}
