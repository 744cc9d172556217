//! The processor against an independent one (the crate `mos6502`): every documented instruction, and those undocumented
//! ones that both know, in every addressing mode, one at a time and in sequences: registers, flags, memory and cycles.
//!
//! Instructions are run inside a console whose cartridge holds them, each followed by one that stops the processor. Cases
//! that would touch the other chips are drawn again, and none else is left out but this: in decimal mode the field's
//! emulator, which ours equals, gives N, V and Z and sums of digits above 9 that no real processor gives. Those are
//! compared with that emulator (`machine_instructions`), and here A and carry of every pair of proper digits.

use mos6502::Variant;
use mos6502::cpu::CPU;
use mos6502::instruction::Nmos6502;
use mos6502::memory::Bus;
use mos6502::registers::{StackPointer, Status};
use spectral_atari::machine::{Console, Format, Input, PowerOn, Registers, Rom, Scheme};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stops the processor.
const STOP: u8 = 0x02;
/// What stopping takes.
const STOP_CYCLES: i32 = 2;
/// The first half of a cartridge holds instructions among stops, the second half data.
const CODE: usize = 0x800;
/// Flags that exist: N, V, D, I, Z, C.
const FLAGS: u8 = 0xcf;
const CARRY: u8 = 0x01;
const DECIMAL: u8 = 0x08;

/// The console's memory as the processor sees it, apart from the chips.
#[derive(Clone)]
struct Memory {
    ram: [u8; 128],
    rom: Arc<[u8; 4096]>,
    touched_chips: bool,
}

impl Bus for Memory {
    fn get_byte(&mut self, address: u16) -> u8 {
        if address & 0x1000 != 0 {
            self.rom[usize::from(address & 0xfff)]
        } else if address & 0x0280 == 0x0080 {
            self.ram[usize::from(address & 0x7f)]
        } else {
            self.touched_chips = true;
            0
        }
    }

    fn set_byte(&mut self, address: u16, value: u8) {
        if address & 0x1280 == 0x0080 {
            self.ram[usize::from(address & 0x7f)] = value;
        } else if address & 0x1000 == 0 {
            self.touched_chips = true;
        }
    }
}

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as usize
    }

    fn byte(&mut self) -> u8 {
        // Bytes at which something happens are more frequent.
        match self.next() % 4 {
            0 => [0x00, 0x01, 0x7f, 0x80, 0xff, 0x99, 0x09, 0x90][self.next() % 8],
            _ => self.next() as u8,
        }
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.next() % values.len()]
    }
}

/// A cartridge and what the two processors need to run it.
struct Bench {
    memory: Memory,
    console: Console,
}

/// What a run left behind.
#[derive(Clone, Debug, PartialEq)]
struct Left {
    registers: Registers,
    ram: [u8; 128],
    /// The instructions that were run.
    opcodes: Vec<u8>,
    /// Whether one of them added or subtracted in decimal mode.
    decimal_sum: bool,
}

impl Bench {
    fn new(rom: [u8; 4096]) -> Bench {
        let plugged = Arc::new(Rom::new(&rom, Some(Scheme::K4)).unwrap());
        let console = Console::new(plugged, PowerOn::seeded(1), Format::Ntsc);
        Bench { memory: Memory { ram: [0; 128], rom: Arc::new(rom), touched_chips: false }, console }
    }

    /// The other processor's result, or `None` if the case will not do: the chips are touched, or no stop is reached.
    fn theirs(&self, from: Registers, ram: &[u8; 128]) -> Option<Left> {
        let memory = Memory { ram: *ram, ..self.memory.clone() };
        let mut cpu = CPU::new(memory, Nmos6502);
        cpu.registers.accumulator = from.a;
        cpu.registers.index_x = from.x;
        cpu.registers.index_y = from.y;
        cpu.registers.stack_pointer = StackPointer(from.sp);
        cpu.registers.program_counter = from.pc;
        cpu.registers.status = Status::from_bits_truncate(from.status);
        let (mut opcodes, mut decimal_sum, mut cycle) = (Vec::new(), false, 0);
        loop {
            let opcode = cpu.memory.get_byte(cpu.registers.program_counter);
            if opcode == STOP && !cpu.memory.touched_chips {
                break;
            }
            if opcodes.len() == 30 || cpu.memory.touched_chips {
                return None;
            }
            opcodes.push(opcode);
            decimal_sum |= adds(opcode) && cpu.registers.status.contains(Status::PS_DECIMAL_MODE);
            let before = cpu.cycles;
            cpu.single_step();
            cycle += fixed_cycles(opcode).unwrap_or((cpu.cycles - before) as i32);
        }
        let registers = Registers {
            a: cpu.registers.accumulator,
            x: cpu.registers.index_x,
            y: cpu.registers.index_y,
            sp: cpu.registers.stack_pointer.0,
            status: cpu.registers.status.bits() & FLAGS,
            pc: cpu.registers.program_counter,
            cycle,
        };
        Some(Left { registers, ram: cpu.memory.ram, opcodes, decimal_sum })
    }

    fn ours(&mut self, from: Registers, ram: &[u8; 128]) -> (Registers, [u8; 128]) {
        self.console.set_registers(from);
        *self.console.ram_mut() = *ram;
        self.console.run_frame(&Input::default(), false);
        let mut registers = self.console.registers();
        registers.status &= FLAGS;
        registers.pc = registers.pc.wrapping_sub(1);
        registers.cycle -= STOP_CYCLES;
        (registers, *self.console.ram())
    }
}

fn starting(chance: &mut Chance, pc: u16) -> Registers {
    Registers {
        a: chance.byte(),
        x: chance.byte(),
        y: chance.byte(),
        // The console's stack is in the upper half of the page.
        sp: chance.byte() | 0x80,
        status: chance.next() as u8 & FLAGS,
        pc,
        cycle: 0,
    }
}

/// Instructions whose sum depends on the decimal flag: ADC, SBC, and undocumented ones that add or subtract.
fn adds(opcode: u8) -> bool {
    opcode & 0x61 == 0x61
}

/// What instructions that change memory at an indexed address take, by the data sheet: the same within a page and across.
/// The other processor counts a cycle too many across.
fn fixed_cycles(opcode: u8) -> Option<i32> {
    match opcode & 0x1f {
        _ if [4, 5].contains(&(opcode >> 5)) => None,
        0x1b | 0x1e | 0x1f => Some(7),
        0x13 => Some(8),
        _ => None,
    }
}

/// All instructions but those that stop a processor, and eight undocumented ones whose results depend on its temperature:
/// `machine_instructions` compares what the field's emulator makes of them.
fn comparable() -> Vec<u8> {
    const UNSTABLE: [u8; 8] = [0x8b, 0x93, 0x9b, 0x9c, 0x9e, 0x9f, 0xab, 0xbb];
    let stops = |opcode: u8| opcode & 0x1f == 0x12 || opcode & 0x9f == 0x02;
    (0..=255).filter(|&opcode| !stops(opcode) && !UNSTABLE.contains(&opcode)).collect()
}

/// A cartridge with single instructions (or `long` sequences of them) among stops, and where they begin.
fn cartridge(chance: &mut Chance, opcodes: &[u8], long: usize) -> ([u8; 4096], Vec<u16>) {
    let mut rom = [STOP; 4096];
    rom[CODE..].fill_with(|| chance.byte());
    let room = 6 * long + 6;
    let mut sites = Vec::new();
    for slot in 0..CODE / room {
        let at = slot * room + chance.next() % 3;
        let mut next = at;
        for _ in 0..long {
            let operand = operand(chance);
            rom[next] = chance.one_of(opcodes);
            let length = 1 + usize::from(Nmos6502::decode(rom[next]).unwrap().1.extra_bytes());
            rom[next + 1..next + length].copy_from_slice(&operand[..length - 1]);
            next += length;
        }
        sites.push(chance.one_of(&[0x1000, 0x3000, 0xd000, 0xf000]) | at as u16);
    }
    // Breaks go to a stop.
    rom[0xffe..].copy_from_slice(&[0xff, 0xf7]);
    rom[0x7ff] = STOP;
    (rom, sites)
}

/// An address of memory, of data, or a near one: also a distance to branch and a number.
fn operand(chance: &mut Chance) -> [u8; 2] {
    let page = chance.one_of(&[0x00, 0x01, 0x04, 0x0d, 0xf8, 0xff, 0x1a, 0xf0, 0x13]);
    [chance.byte(), page]
}

/// Runs `wanted` cases of each opcode, and says how many of each were compared.
fn compare(seed: u64, opcodes: &[u8], long: usize, wanted: usize) -> BTreeMap<u8, usize> {
    let mut chance = Chance(seed);
    let mut counts: BTreeMap<u8, usize> = opcodes.iter().map(|&opcode| (opcode, 0)).collect();
    for _ in 0..200_000 {
        let lacking: Vec<u8> =
            counts.iter().filter(|(_, count)| **count < wanted).map(|(opcode, _)| *opcode).collect();
        if lacking.is_empty() {
            break;
        }
        let (rom, sites) = cartridge(&mut chance, &lacking, long);
        let mut bench = Bench::new(rom);
        for site in sites {
            for _ in 0..8 {
                case(&mut bench, &mut chance, site, &mut counts);
            }
        }
    }
    counts
}

fn case(bench: &mut Bench, chance: &mut Chance, site: u16, counts: &mut BTreeMap<u8, usize>) {
    let from = starting(chance, site);
    let mut ram: [u8; 128] = std::array::from_fn(|_| chance.byte());
    // Pointers and return addresses that lead to memory or to the cartridge.
    for at in (chance.next() % 2..127).step_by(2) {
        if chance.next().is_multiple_of(2) {
            ram[at + 1] = chance.one_of(&[0x00, 0xf0, 0xf3, 0xf8, 0x10, 0x17]);
        }
    }
    let Some(expected) = bench.theirs(from, &ram) else { return };
    // See above; `every_sum_and_difference` has them.
    if expected.decimal_sum || expected.opcodes.iter().any(|opcode| !counts.contains_key(opcode)) {
        return;
    }
    let (registers, memory) = bench.ours(from, &ram);
    assert!(
        registers == expected.registers && memory == expected.ram,
        "{:02x?} from {from:02x?}\nexpected {:02x?}\nfound    {registers:02x?}, memory {}",
        expected.opcodes,
        expected.registers,
        if memory == expected.ram { "equal" } else { "different" },
    );
    for opcode in expected.opcodes {
        *counts.entry(opcode).or_default() += 1;
    }
}

#[test]
fn every_instruction_gives_what_another_processor_gives() {
    let opcodes = comparable();
    assert_eq!(opcodes.len(), 256 - 12 - 8);
    let counts = compare(0x9e37_79b9_7f4a_7c15, &opcodes, 1, 1_000);
    let few: Vec<_> = counts.iter().filter(|(_, count)| **count < 1_000).collect();
    assert!(few.is_empty(), "too few cases of {few:02x?}");
    println!("{} instructions, {} cases", counts.len(), counts.values().sum::<usize>());
}

#[test]
fn sequences_give_what_another_processor_gives() {
    let counts = compare(0x0123_4567_89ab_cdef, &comparable(), 6, 200);
    assert!(counts.values().all(|&count| count >= 200), "{counts:?}");
}

/// Every pair of numbers, with and without carry; in decimal mode every pair of two digits.
#[test]
fn every_sum_and_difference() {
    for opcode in [0x65, 0xe5] {
        let mut rom = [STOP; 4096];
        rom[..2].copy_from_slice(&[opcode, 0x80]);
        let mut bench = Bench::new(rom);
        let digits = |byte: u8| byte >> 4 <= 9 && byte & 15 <= 9;
        for a in 0..=255 {
            for operand in 0..=255 {
                for status in [0, CARRY, DECIMAL, DECIMAL | CARRY] {
                    let decimal = status & DECIMAL != 0;
                    if decimal && !(digits(a) && digits(operand)) {
                        continue;
                    }
                    let from = Registers { a, x: 0, y: 0, sp: 0xff, status, pc: 0xf000, cycle: 0 };
                    let mut ram = [0; 128];
                    ram[0] = operand;
                    let expected = bench.theirs(from, &ram).unwrap().registers;
                    let found = bench.ours(from, &ram).0;
                    let seen = |registers: Registers| match decimal {
                        true => Registers { status: registers.status & CARRY, ..registers },
                        false => registers,
                    };
                    assert_eq!(
                        seen(found),
                        seen(expected),
                        "{opcode:02x} {a:02x} {operand:02x} {status:02x}"
                    );
                }
            }
        }
    }
}
