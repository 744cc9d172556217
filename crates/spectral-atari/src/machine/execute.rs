//! The instruction interpreter.
//!
//! All cycles of an instruction are counted before it touches memory, so its reads and writes fall on its
//! last cycle, as in ALE's emulator.

use super::bus::Bus;
use super::cpu::Cpu;
use super::decode::{Decoded, FUSED_WAIT_TIMER, OPERAND_BYTES};
use super::rom::Rom;

/// Runs until the frame is complete or `budget` instructions have been run.
pub(super) fn run(cpu: &mut Cpu, bus: &mut Bus, rom: &Rom, budget: i32) {
    let mut r = *cpu;
    let mut budget = if r.jammed { 0 } else { budget };

    // Where the operand of each addressing mode lies. `last` is what the bus carried just before the operand.
    macro_rules! address {
        (zp, $op:expr) => {{ (($op & 0xFF), $op as u8) }};
        (zpx, $op:expr) => {{ (u16::from(($op as u8).wrapping_add(r.x)), $op as u8) }};
        (zpy, $op:expr) => {{ (u16::from(($op as u8).wrapping_add(r.y)), $op as u8) }};
        (abs, $op:expr) => {{ ($op, ($op >> 8) as u8) }};
        // Indexed reads take a cycle more across a page.
        (abx, $op:expr) => {{
            r.cycle += i32::from((($op & 0xFF) + u16::from(r.x)) >> 8);
            ($op.wrapping_add(u16::from(r.x)), ($op >> 8) as u8)
        }};
        (aby, $op:expr) => {{
            r.cycle += i32::from((($op & 0xFF) + u16::from(r.y)) >> 8);
            ($op.wrapping_add(u16::from(r.y)), ($op >> 8) as u8)
        }};
        // Indexed writes always take it; the cycle table says so.
        (abx_w, $op:expr) => {{ ($op.wrapping_add(u16::from(r.x)), ($op >> 8) as u8) }};
        (aby_w, $op:expr) => {{ ($op.wrapping_add(u16::from(r.y)), ($op >> 8) as u8) }};
        (izx, $op:expr) => {{
            let pointer = ($op as u8).wrapping_add(r.x);
            let low = bus.read(rom, u16::from(pointer), r.cycle, $op as u8);
            let high = bus.read(rom, u16::from(pointer.wrapping_add(1)), r.cycle, low);
            (u16::from_le_bytes([low, high]), high)
        }};
        (izy, $op:expr) => {{
            let (base, last) = address!(izy_base, $op);
            r.cycle += i32::from(((base & 0xFF) + u16::from(r.y)) >> 8);
            (base.wrapping_add(u16::from(r.y)), last)
        }};
        (izy_w, $op:expr) => {{
            let (base, last) = address!(izy_base, $op);
            (base.wrapping_add(u16::from(r.y)), last)
        }};
        (izy_base, $op:expr) => {{
            let pointer = $op as u8;
            let low = bus.read(rom, u16::from(pointer), r.cycle, pointer);
            let high = bus.read(rom, u16::from(pointer.wrapping_add(1)), r.cycle, low);
            (u16::from_le_bytes([low, high]), high)
        }};
    }
    macro_rules! operand {
        (imm, $op:expr) => {
            $op as u8
        };
        ($mode:ident, $op:expr) => {{
            let (address, last) = address!($mode, $op);
            bus.read(rom, address, r.cycle, last)
        }};
    }
    macro_rules! write {
        ($address:expr, $value:expr) => {{
            r.cycle = bus.write(rom, $address, $value, r.cycle);
            if bus.frame_done {
                budget = 0;
            }
        }};
    }
    macro_rules! store {
        ($mode:ident, $op:expr, $value:expr) => {{
            let (address, _) = address!($mode, $op);
            write!(address, $value);
        }};
    }
    macro_rules! modify {
        ($mode:ident, $op:expr, $f:expr) => {{
            let (address, last) = address!($mode, $op);
            let value = bus.read(rom, address, r.cycle, last);
            #[allow(clippy::redundant_closure_call)]
            let value = $f(&mut r, value);
            write!(address, value);
        }};
    }
    macro_rules! push {
        ($value:expr) => {{
            let address = 0x100 | u16::from(r.sp);
            r.sp = r.sp.wrapping_sub(1);
            write!(address, $value);
        }};
    }
    macro_rules! pull {
        ($last:expr) => {{
            r.sp = r.sp.wrapping_add(1);
            bus.read(rom, 0x100 | u16::from(r.sp), r.cycle, $last)
        }};
    }
    // The first byte pulled by an instruction: the stack is read once before its pointer moves.
    macro_rules! pull_first {
        ($opcode:literal) => {{
            let last = bus.read(rom, 0x100 | u16::from(r.sp), r.cycle, $opcode);
            pull!(last)
        }};
    }
    macro_rules! branch {
        ($op:expr, $taken:expr) => {
            if $taken {
                let target = r.pc.wrapping_add_signed(i16::from($op as i8));
                r.cycle += 1 + i32::from((target ^ r.pc) & 0xFF00 != 0);
                r.pc = target;
            }
        };
    }
    macro_rules! load {
        ($register:ident, $mode:ident, $op:expr) => {{
            let value = operand!($mode, $op);
            r.$register = value;
            r.set_nz(value);
        }};
    }
    macro_rules! logic {
        ($operator:tt, $mode:ident, $op:expr) => {{
            let value = operand!($mode, $op);
            let result = r.a $operator value;
            r.a = result;
            r.set_nz(result);
        }};
    }
    macro_rules! simple {
        ($method:ident, $mode:ident, $op:expr) => {{
            let value = operand!($mode, $op);
            r.$method(value);
        }};
    }
    macro_rules! step {
        ($register:ident, $f:ident) => {{
            let value = r.$register;
            r.$register = r.$f(value);
        }};
    }
    macro_rules! cmp {
        ($register:ident, $mode:ident, $op:expr) => {{
            let value = operand!($mode, $op);
            r.compare(r.$register, value);
        }};
    }

    while budget > 0 {
        budget -= 1;
        let mut d = Decoded(0);
        let mut offset = 0;
        if r.pc & 0x1000 != 0 {
            offset = bus.cartridge.code_offset(r.pc);
            d = rom.decoded[offset];
        }
        if !d.usable() {
            d = fetch(r.pc, r.cycle, bus, rom);
        }
        r.pc = r.pc.wrapping_add(d.length());
        r.cycle += d.cycles();
        let op = d.operand();
        match d.opcode() {
            0x69 => simple!(add, imm, op),
            0x65 => simple!(add, zp, op),
            0x75 => simple!(add, zpx, op),
            0x6D => simple!(add, abs, op),
            0x7D => simple!(add, abx, op),
            0x79 => simple!(add, aby, op),
            0x61 => simple!(add, izx, op),
            0x71 => simple!(add, izy, op),

            0xE9 | 0xEB => simple!(subtract, imm, op),
            0xE5 => simple!(subtract, zp, op),
            0xF5 => simple!(subtract, zpx, op),
            0xED => simple!(subtract, abs, op),
            0xFD => simple!(subtract, abx, op),
            0xF9 => simple!(subtract, aby, op),
            0xE1 => simple!(subtract, izx, op),
            0xF1 => simple!(subtract, izy, op),

            0x29 => logic!(&, imm, op),
            0x25 => logic!(&, zp, op),
            0x35 => logic!(&, zpx, op),
            0x2D => logic!(&, abs, op),
            0x3D => logic!(&, abx, op),
            0x39 => logic!(&, aby, op),
            0x21 => logic!(&, izx, op),
            0x31 => logic!(&, izy, op),

            0x09 => logic!(|, imm, op),
            0x05 => logic!(|, zp, op),
            0x15 => logic!(|, zpx, op),
            0x0D => logic!(|, abs, op),
            0x1D => logic!(|, abx, op),
            0x19 => logic!(|, aby, op),
            0x01 => logic!(|, izx, op),
            0x11 => logic!(|, izy, op),

            0x49 => logic!(^, imm, op),
            0x45 => logic!(^, zp, op),
            0x55 => logic!(^, zpx, op),
            0x4D => logic!(^, abs, op),
            0x5D => logic!(^, abx, op),
            0x59 => logic!(^, aby, op),
            0x41 => logic!(^, izx, op),
            0x51 => logic!(^, izy, op),

            0xA9 => load!(a, imm, op),
            0xA5 => load!(a, zp, op),
            0xB5 => load!(a, zpx, op),
            0xAD => load!(a, abs, op),
            0xBD => load!(a, abx, op),
            0xB9 => load!(a, aby, op),
            0xA1 => load!(a, izx, op),
            0xB1 => load!(a, izy, op),
            0xA2 => load!(x, imm, op),
            0xA6 => load!(x, zp, op),
            0xB6 => load!(x, zpy, op),
            0xAE => load!(x, abs, op),
            0xBE => load!(x, aby, op),
            0xA0 => load!(y, imm, op),
            0xA4 => load!(y, zp, op),
            0xB4 => load!(y, zpx, op),
            0xAC => load!(y, abs, op),
            0xBC => load!(y, abx, op),

            0x85 => store!(zp, op, r.a),
            0x95 => store!(zpx, op, r.a),
            0x8D => store!(abs, op, r.a),
            0x9D => store!(abx_w, op, r.a),
            0x99 => store!(aby_w, op, r.a),
            0x81 => store!(izx, op, r.a),
            0x91 => store!(izy_w, op, r.a),
            0x86 => store!(zp, op, r.x),
            0x96 => store!(zpy, op, r.x),
            0x8E => store!(abs, op, r.x),
            0x84 => store!(zp, op, r.y),
            0x94 => store!(zpx, op, r.y),
            0x8C => store!(abs, op, r.y),

            0xC9 => cmp!(a, imm, op),
            0xC5 => cmp!(a, zp, op),
            0xD5 => cmp!(a, zpx, op),
            0xCD => cmp!(a, abs, op),
            0xDD => cmp!(a, abx, op),
            0xD9 => cmp!(a, aby, op),
            0xC1 => cmp!(a, izx, op),
            0xD1 => cmp!(a, izy, op),
            0xE0 => cmp!(x, imm, op),
            0xE4 => cmp!(x, zp, op),
            0xEC => cmp!(x, abs, op),
            0xC0 => cmp!(y, imm, op),
            0xC4 => cmp!(y, zp, op),
            0xCC => cmp!(y, abs, op),

            0x24 => simple!(bit, zp, op),
            0x2C => simple!(bit, abs, op),

            0x10 => branch!(op, !r.negative()),
            0x30 => branch!(op, r.negative()),
            0x50 => branch!(op, !r.overflow),
            0x70 => branch!(op, r.overflow),
            0x90 => branch!(op, r.carry == 0),
            0xB0 => branch!(op, r.carry != 0),
            0xD0 => branch!(op, !r.zero()),
            0xF0 => branch!(op, r.zero()),

            0x0A => r.a = r.shift_left(r.a),
            0x06 => modify!(zp, op, Cpu::shift_left),
            0x16 => modify!(zpx, op, Cpu::shift_left),
            0x0E => modify!(abs, op, Cpu::shift_left),
            0x1E => modify!(abx_w, op, Cpu::shift_left),
            0x4A => r.a = r.shift_right(r.a),
            0x46 => modify!(zp, op, Cpu::shift_right),
            0x56 => modify!(zpx, op, Cpu::shift_right),
            0x4E => modify!(abs, op, Cpu::shift_right),
            0x5E => modify!(abx_w, op, Cpu::shift_right),
            0x2A => r.a = r.rotate_left(r.a),
            0x26 => modify!(zp, op, Cpu::rotate_left),
            0x36 => modify!(zpx, op, Cpu::rotate_left),
            0x2E => modify!(abs, op, Cpu::rotate_left),
            0x3E => modify!(abx_w, op, Cpu::rotate_left),
            0x6A => r.a = r.rotate_right(r.a),
            0x66 => modify!(zp, op, Cpu::rotate_right),
            0x76 => modify!(zpx, op, Cpu::rotate_right),
            0x6E => modify!(abs, op, Cpu::rotate_right),
            0x7E => modify!(abx_w, op, Cpu::rotate_right),

            0xC6 => modify!(zp, op, Cpu::decrement),
            0xD6 => modify!(zpx, op, Cpu::decrement),
            0xCE => modify!(abs, op, Cpu::decrement),
            0xDE => modify!(abx_w, op, Cpu::decrement),
            0xE6 => modify!(zp, op, Cpu::increment),
            0xF6 => modify!(zpx, op, Cpu::increment),
            0xEE => modify!(abs, op, Cpu::increment),
            0xFE => modify!(abx_w, op, Cpu::increment),
            0xCA => step!(x, decrement),
            0x88 => step!(y, decrement),
            0xE8 => step!(x, increment),
            0xC8 => step!(y, increment),

            0xAA => {
                r.x = r.a;
                r.set_nz(r.a);
            }
            0xA8 => {
                r.y = r.a;
                r.set_nz(r.a);
            }
            0x8A => {
                r.a = r.x;
                r.set_nz(r.x);
            }
            0x98 => {
                r.a = r.y;
                r.set_nz(r.y);
            }
            0xBA => {
                r.x = r.sp;
                r.set_nz(r.sp);
            }
            0x9A => r.sp = r.x,

            0x18 => r.carry = 0,
            0x38 => r.carry = 1,
            0x58 => r.interrupts_off = false,
            0x78 => r.interrupts_off = true,
            0xB8 => r.overflow = false,
            0xD8 => r.decimal = false,
            0xF8 => r.decimal = true,

            0x48 => push!(r.a),
            0x08 => push!(r.status()),
            0x68 => {
                r.a = pull_first!(0x68);
                r.set_nz(r.a);
            }
            0x28 => {
                let status = pull_first!(0x28);
                r.set_status(status);
            }

            0x4C => r.pc = op,
            0x6C => {
                let low = bus.read(rom, op, r.cycle, (op >> 8) as u8);
                // The pointer's high byte comes from the same page.
                let next = op & 0xFF00 | u16::from((op as u8).wrapping_add(1));
                let high = bus.read(rom, next, r.cycle, low);
                r.pc = u16::from_le_bytes([low, high]);
            }
            0x20 => {
                let back = r.pc.wrapping_sub(1);
                push!((back >> 8) as u8);
                push!(back as u8);
                r.pc = op;
            }
            0x60 => {
                let low = pull_first!(0x60);
                let high = pull!(low);
                r.pc = u16::from_le_bytes([low, high]).wrapping_add(1);
            }
            0x40 => {
                let status = pull_first!(0x40);
                r.set_status(status);
                let low = pull!(status);
                let high = pull!(low);
                r.pc = u16::from_le_bytes([low, high]);
            }
            0x00 => {
                let back = r.pc.wrapping_add(1);
                push!((back >> 8) as u8);
                push!(back as u8);
                push!(r.status());
                r.interrupts_off = true;
                let low = bus.read(rom, 0xFFFE, r.cycle, 0);
                let high = bus.read(rom, 0xFFFF, r.cycle, low);
                r.pc = u16::from_le_bytes([low, high]);
            }

            // No operation, on nothing, on a constant, or on memory that is read all the same.
            0xEA | 0x1A | 0x3A | 0x5A | 0x7A | 0xDA | 0xFA => {}
            0x80 | 0x82 | 0x89 | 0xC2 | 0xE2 => {}
            0x04 | 0x44 | 0x64 => _ = operand!(zp, op),
            0x14 | 0x34 | 0x54 | 0x74 | 0xD4 | 0xF4 => _ = operand!(zpx, op),
            0x0C => _ = operand!(abs, op),
            0x1C | 0x3C | 0x5C | 0x7C | 0xDC | 0xFC => _ = operand!(abx, op),

            FUSED_WAIT_TIMER => {
                // Skip the iterations that cannot end the loop, then do what its LDA does.
                if let Some(zero_at) = bus.riot.reaches_zero_at(r.cycle) {
                    let after = r.pc.wrapping_add(2);
                    let cycles = 7 + i32::from((after ^ after.wrapping_sub(5)) & 0xFF00 != 0);
                    let iterations = ((zero_at - r.cycle + cycles - 1) / cycles).min(budget / 2);
                    r.cycle += iterations * cycles;
                    budget -= iterations * 2;
                }
                load!(a, abs, op);
            }

            opcode => {
                macro_rules! combined {
                    ($f:expr, $zp:literal $zpx:literal $abs:literal $abx:literal $aby:literal $izx:literal $izy:literal) => {
                        match opcode {
                            $zp => modify!(zp, op, $f),
                            $zpx => modify!(zpx, op, $f),
                            $abs => modify!(abs, op, $f),
                            $abx => modify!(abx_w, op, $f),
                            $aby => modify!(aby_w, op, $f),
                            $izx => modify!(izx, op, $f),
                            _ => modify!(izy_w, op, $f),
                        }
                    };
                }
                match opcode {
                    0x07 | 0x17 | 0x0F | 0x1F | 0x1B | 0x03 | 0x13 => {
                        combined!(Cpu::slo, 0x07 0x17 0x0F 0x1F 0x1B 0x03 0x13);
                    }
                    0x27 | 0x37 | 0x2F | 0x3F | 0x3B | 0x23 | 0x33 => {
                        combined!(Cpu::rla, 0x27 0x37 0x2F 0x3F 0x3B 0x23 0x33);
                    }
                    0x47 | 0x57 | 0x4F | 0x5F | 0x5B | 0x43 | 0x53 => {
                        combined!(Cpu::sre, 0x47 0x57 0x4F 0x5F 0x5B 0x43 0x53);
                    }
                    0x67 | 0x77 | 0x6F | 0x7F | 0x7B | 0x63 | 0x73 => {
                        combined!(Cpu::rra, 0x67 0x77 0x6F 0x7F 0x7B 0x63 0x73);
                    }
                    0xC7 | 0xD7 | 0xCF | 0xDF | 0xDB | 0xC3 | 0xD3 => {
                        combined!(Cpu::dcp, 0xC7 0xD7 0xCF 0xDF 0xDB 0xC3 0xD3);
                    }
                    0xE7 | 0xF7 | 0xEF | 0xFF | 0xFB | 0xE3 | 0xF3 => {
                        combined!(Cpu::isb, 0xE7 0xF7 0xEF 0xFF 0xFB 0xE3 0xF3);
                    }
                    0xA7 | 0xB7 | 0xAF | 0xBF | 0xA3 | 0xB3 => {
                        r.a = match opcode {
                            0xA7 => operand!(zp, op),
                            0xB7 => operand!(zpy, op),
                            0xAF => operand!(abs, op),
                            0xBF => operand!(aby, op),
                            0xA3 => operand!(izx, op),
                            _ => operand!(izy, op),
                        };
                        r.x = r.a;
                        r.set_nz(r.a);
                    }
                    0x87 => store!(zp, op, r.a & r.x),
                    0x97 => store!(zpy, op, r.a & r.x),
                    0x8F => store!(abs, op, r.a & r.x),
                    0x83 => store!(izx, op, r.a & r.x),
                    0x0B | 0x2B => {
                        logic!(&, imm, op);
                        r.carry = r.a >> 7;
                    }
                    0x4B => r.a = r.shift_right({ r.a } & op as u8),
                    0x6B => r.and_rotate(op as u8),
                    0x8B => {
                        r.a = (r.a | 0xEE) & r.x & op as u8;
                        r.set_nz(r.a);
                    }
                    0xAB => {
                        r.a = (r.a | 0xEE) & op as u8;
                        r.x = r.a;
                        r.set_nz(r.a);
                    }
                    0xCB => {
                        let both = r.a & r.x;
                        r.compare(both, op as u8);
                        r.x = both.wrapping_sub(op as u8);
                    }
                    0xBB => {
                        let value = operand!(aby, op);
                        r.sp &= value;
                        r.a = r.sp;
                        r.x = r.sp;
                        r.set_nz(r.sp);
                    }
                    0x93 | 0x9F | 0x9E | 0x9C | 0x9B => {
                        // Stores whose value is mixed with the address.
                        let (address, _) = match opcode {
                            0x93 => address!(izy_w, op),
                            0x9C => address!(abx_w, op),
                            _ => address!(aby_w, op),
                        };
                        let value = match opcode {
                            0x9E => r.x,
                            0x9C => r.y,
                            _ => r.a & r.x,
                        };
                        if opcode == 0x9B {
                            r.sp = value;
                        }
                        write!(address, value & ((address >> 8) as u8).wrapping_add(1));
                    }
                    _ => {
                        r.jammed = true;
                        budget = 0;
                    }
                }
            }
        }
        if d.branch_follows() && budget > 0 {
            budget -= 1;
            let d = rom.decoded[offset + usize::from(d.length())];
            r.pc = r.pc.wrapping_add(2);
            r.cycle += 2;
            let flag = match d.opcode() >> 6 {
                0 => r.negative(),
                1 => r.overflow,
                2 => r.carry != 0,
                _ => r.zero(),
            };
            branch!(d.operand(), flag == (d.opcode() & 0x20 != 0));
        }
    }
    *cpu = r;
}

/// Fetches byte by byte, from wherever the program counter points.
#[inline(never)]
fn fetch(pc: u16, cycle: i32, bus: &mut Bus, rom: &Rom) -> Decoded {
    let opcode = bus.read(rom, pc, cycle, 0);
    let mut operand = [0; 2];
    let mut last = opcode;
    for index in 0..u16::from(OPERAND_BYTES[usize::from(opcode)]) {
        last = bus.read(rom, pc.wrapping_add(1 + index), cycle, last);
        operand[usize::from(index)] = last;
    }
    // A jam must not be mistaken for a fused instruction.
    let opcode = if opcode == FUSED_WAIT_TIMER { 0x12 } else { opcode };
    Decoded::new(opcode, u16::from_le_bytes(operand))
}
