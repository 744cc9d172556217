//! Which instruction each opcode is, as far as instructions are translated.

use super::memory::Mode;
use super::region::Instruction;

/// Operations on a byte that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Or,
    And,
    Xor,
    Add,
    Subtract,
    CompareA,
    CompareX,
    CompareY,
    Bit,
    LoadA,
    LoadX,
    LoadY,
    LoadAX,
    Ignore,
}

/// Operations on a byte that is read and written back, or on A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    ShiftLeft,
    ShiftRight,
    RotateLeft,
    RotateRight,
    Decrement,
    Increment,
}

/// What kind of instruction an opcode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Constant(Operation),
    Read(Operation, Mode),
    StoreA(Mode),
    StoreX(Mode),
    StoreY(Mode),
    Change(Change, Mode),
    ChangeA(Change),
    Simple,
    Unsupported,
}

/// Whether an instruction can be translated.
pub(super) fn supported(instruction: &Instruction) -> bool {
    let pointer = |mode: Mode| mode == Mode::Indirect;
    let zero_page = instruction.operand & 0xFF;
    match kind(instruction.opcode) {
        Kind::Unsupported => false,
        // The interpreter follows pointers that do not lie in memory.
        Kind::Read(_, mode) | Kind::StoreA(mode) if pointer(mode) => (0x80..0xFF).contains(&zero_page),
        Kind::Simple if instruction.opcode == 0x6C => {
            instruction.operand & 0x1280 == 0x0080 && instruction.operand & 0x7F != 0x7F
        }
        // Reading and writing one address, where both may do something.
        Kind::Change(_, Mode::Absolute) => instruction.operand & 0x1280 == 0x0080,
        _ => true,
    }
}

pub(super) fn kind(opcode: u8) -> Kind {
    let operation = match opcode >> 5 {
        0 => Operation::Or,
        1 => Operation::And,
        2 => Operation::Xor,
        3 => Operation::Add,
        5 => Operation::LoadA,
        6 => Operation::CompareA,
        _ => Operation::Subtract,
    };
    let change = match opcode >> 5 {
        0 => Change::ShiftLeft,
        1 => Change::RotateLeft,
        2 => Change::ShiftRight,
        3 => Change::RotateRight,
        6 => Change::Decrement,
        _ => Change::Increment,
    };
    let store = opcode >> 5 == 4;
    match opcode {
        0x89 => Kind::Constant(Operation::Ignore),
        0xA2 => Kind::Constant(Operation::LoadX),
        0xA6 => Kind::Read(Operation::LoadX, Mode::ZeroPage),
        0xB6 => Kind::Read(Operation::LoadX, Mode::ZeroPageY),
        0xAE => Kind::Read(Operation::LoadX, Mode::Absolute),
        0xBE => Kind::Read(Operation::LoadX, Mode::AbsoluteY),
        0xA0 => Kind::Constant(Operation::LoadY),
        0xA4 => Kind::Read(Operation::LoadY, Mode::ZeroPage),
        0xB4 => Kind::Read(Operation::LoadY, Mode::ZeroPageX),
        0xAC => Kind::Read(Operation::LoadY, Mode::Absolute),
        0xBC => Kind::Read(Operation::LoadY, Mode::AbsoluteX),
        0xA7 => Kind::Read(Operation::LoadAX, Mode::ZeroPage),
        0xB7 => Kind::Read(Operation::LoadAX, Mode::ZeroPageY),
        0xAF => Kind::Read(Operation::LoadAX, Mode::Absolute),
        0xBF => Kind::Read(Operation::LoadAX, Mode::AbsoluteY),
        0xB3 => Kind::Read(Operation::LoadAX, Mode::Indirect),
        0xE0 => Kind::Constant(Operation::CompareX),
        0xE4 => Kind::Read(Operation::CompareX, Mode::ZeroPage),
        0xEC => Kind::Read(Operation::CompareX, Mode::Absolute),
        0xC0 => Kind::Constant(Operation::CompareY),
        0xC4 => Kind::Read(Operation::CompareY, Mode::ZeroPage),
        0xCC => Kind::Read(Operation::CompareY, Mode::Absolute),
        0x24 => Kind::Read(Operation::Bit, Mode::ZeroPage),
        0x2C => Kind::Read(Operation::Bit, Mode::Absolute),
        0x04 | 0x44 | 0x64 => Kind::Read(Operation::Ignore, Mode::ZeroPage),
        0x0C => Kind::Read(Operation::Ignore, Mode::Absolute),
        0x80 | 0x82 | 0xC2 | 0xE2 => Kind::Constant(Operation::Ignore),
        0x86 => Kind::StoreX(Mode::ZeroPage),
        0x96 => Kind::StoreX(Mode::ZeroPageY),
        0x8E => Kind::StoreX(Mode::Absolute),
        0x84 => Kind::StoreY(Mode::ZeroPage),
        0x94 => Kind::StoreY(Mode::ZeroPageX),
        0x8C => Kind::StoreY(Mode::Absolute),
        0x0A | 0x2A | 0x4A | 0x6A => Kind::ChangeA(change),
        // Columns of the opcode matrix.
        _ if opcode & 0x1F == 0x09 => Kind::Constant(operation),
        _ if opcode & 0x03 == 0x01 => {
            let mode = match opcode & 0x1F {
                0x05 => Mode::ZeroPage,
                0x15 => Mode::ZeroPageX,
                0x0D => Mode::Absolute,
                0x1D => Mode::AbsoluteX,
                0x19 => Mode::AbsoluteY,
                0x11 => Mode::Indirect,
                0x01 => Mode::IndirectX,
                _ => return Kind::Unsupported,
            };
            if store { Kind::StoreA(mode) } else { Kind::Read(operation, mode) }
        }
        _ if opcode & 0x07 == 0x06 && !matches!(opcode >> 5, 4 | 5) => {
            let mode = match opcode & 0x1F {
                0x06 => Mode::ZeroPage,
                0x16 => Mode::ZeroPageX,
                0x0E => Mode::Absolute,
                _ => return Kind::Unsupported,
            };
            Kind::Change(change, mode)
        }
        // Branches, transfers, counting, flags, the stack, jumps, and doing nothing.
        _ if opcode & 0x1F == 0x10 => Kind::Simple,
        0xCA | 0x88 | 0xE8 | 0xC8 | 0xAA | 0xA8 | 0x8A | 0x98 | 0xBA | 0x9A => Kind::Simple,
        0x18 | 0x38 | 0x58 | 0x78 | 0xB8 | 0xD8 | 0xF8 => Kind::Simple,
        0x48 | 0x08 | 0x68 | 0x28 | 0x4C | 0x6C | 0x20 | 0x60 | 0x00 | 0x40 => Kind::Simple,
        0xEA | 0x1A | 0x3A | 0x5A | 0x7A | 0xDA | 0xFA => Kind::Simple,
        _ => Kind::Unsupported,
    }
}
