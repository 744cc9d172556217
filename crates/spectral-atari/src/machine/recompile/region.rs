//! Finds the instructions to translate together: those that one address can lead to while no bank is switched.

use super::super::decode::{CYCLES, OPERAND_BYTES};
use super::super::rom::Scheme;
use std::collections::{BTreeMap, BTreeSet};

/// What the processor sees at the cartridge's addresses while no bank is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) scheme: Scheme,
    /// As in the cartridge: image offsets of the kilobytes, with address bit 13 clear and set.
    pub(super) segments: [u32; 8],
    /// The two highest bits of addresses, which reach no cartridge but are part of the program counter.
    pub(super) mirror: u16,
}

impl Mapping {
    /// The image offset of the byte at `addr`.
    pub(super) fn offset(&self, addr: u16) -> usize {
        let index = (addr >> 10 & 3) | (addr >> 11 & 4);
        self.segments[usize::from(index)] as usize + usize::from(addr & 0x3FF)
    }

    /// The lowest and highest of the (low twelve bits of) addresses whose access may switch banks, if any.
    pub(super) fn switching(&self) -> Option<(u16, u16)> {
        match self.scheme {
            Scheme::F8 | Scheme::F8SC => Some((0xFF8, 0xFF9)),
            Scheme::F6 | Scheme::F6SC => Some((0xFF6, 0xFF9)),
            Scheme::F4 | Scheme::F4SC => Some((0xFF4, 0xFFB)),
            Scheme::E0 => Some((0xFE0, 0xFF7)),
            _ => None,
        }
    }

    /// Addresses (their low twelve bits) below this belong to memory in the cartridge.
    pub(super) fn memory_below(&self) -> u16 {
        match self.scheme {
            Scheme::F8SC | Scheme::F6SC | Scheme::F4SC => 0x100,
            _ => 0,
        }
    }

    /// Whether reading at `addr` returns the image's byte without side effects.
    pub(super) fn plain(&self, addr: u16) -> bool {
        let low = addr & 0xFFF;
        addr & 0x1000 != 0
            && low >= self.memory_below()
            && !self.switching().is_some_and(|(first, last)| (first..=last).contains(&low))
    }

    /// Whether the 256 bytes from `addr` on are plain and contiguous in the image.
    pub(super) fn plain_page(&self, addr: u16) -> bool {
        let Some(last) = addr.checked_add(0xFF) else { return false };
        addr & 0x1000 != 0
            && last & 0xF000 == addr & 0xF000
            && self.offset(last) == self.offset(addr) + 0xFF
            && (addr..=last).all(|at| self.plain(at))
    }

    /// The target of BRK. No translatable cartridge switches banks at the vector's addresses.
    pub(super) fn break_target(&self, image: &[u8]) -> u16 {
        u16::from_le_bytes([0xFFFE, 0xFFFF].map(|addr| image[self.offset(addr)]))
    }

    /// Whether programs with this scheme are translated at all.
    ///
    /// The others switch banks at addresses that programs use for other things, or map memory over the program.
    pub(super) fn translatable(scheme: Scheme) -> bool {
        !matches!(scheme, Scheme::E7 | Scheme::CV | Scheme::Tigervision3F)
    }
}

/// One instruction of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) pc: u16,
    pub(super) opcode: u8,
    pub(super) operand: u16,
}

impl Instruction {
    fn decode(image: &[u8], mapping: &Mapping, pc: u16) -> Option<Instruction> {
        let byte = |n: u16| {
            let addr = pc.checked_add(n)?;
            mapping.plain(addr).then(|| image[mapping.offset(addr)])
        };
        let opcode = byte(0)?;
        let operand = match OPERAND_BYTES[usize::from(opcode)] {
            0 => 0,
            1 => u16::from(byte(1)?),
            _ => u16::from_le_bytes([byte(1)?, byte(2)?]),
        };
        Some(Instruction { pc, opcode, operand })
    }

    pub(super) fn next(&self) -> u16 {
        self.pc.wrapping_add(1 + u16::from(OPERAND_BYTES[usize::from(self.opcode)]))
    }

    pub(super) fn cycles(&self) -> i32 {
        i32::from(CYCLES[usize::from(self.opcode)])
    }

    /// How much code it becomes, roughly. A read through a pointer may end at any chip, and with thousands of them the code
    /// generator takes gigabytes; programs that do something have a few.
    fn cost(&self) -> usize {
        let stores = (0x80..0xA0).contains(&self.opcode);
        let through_pointer = self.opcode & 0x0D == 0x01;
        if through_pointer && !stores { 16 } else { 1 }
    }

    fn is_branch(&self) -> bool {
        self.opcode & 0x1F == 0x10
    }

    /// Where the program continues after a subroutine that this instruction calls.
    pub(super) fn return_address(&self) -> Option<u16> {
        match self.opcode {
            0x20 => Some(self.next()),
            // BRK skips a byte.
            0x00 => Some(self.next().wrapping_add(1)),
            _ => None,
        }
    }

    /// The target of a branch.
    pub(super) fn branch_target(&self) -> u16 {
        self.next().wrapping_add_signed(i16::from(self.operand as u8 as i8))
    }

    /// Whether it accesses an address, known beforehand, that switches banks.
    pub(super) fn switches(&self, mapping: &Mapping) -> bool {
        let absolute = matches!(self.opcode & 0x1F, 0x0C..=0x0F) && ![0x4C, 0x6C].contains(&self.opcode);
        let low = self.operand & 0xFFF;
        absolute
            && self.operand & 0x1000 != 0
            && mapping.switching().is_some_and(|(first, last)| (first..=last).contains(&low))
    }
}

/// A basic block: instructions that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) start: u16,
    pub(super) instructions: Vec<Instruction>,
}

/// Blocks that are translated into one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) blocks: Vec<Block>,
    /// Where the function can be entered.
    pub(super) entries: Vec<u16>,
}

/// The most instructions in one region.
const MAX_INSTRUCTIONS: usize = 2500;
/// The most that they may cost together: see [`Instruction::cost`].
const MAX_COST: usize = 4500;

/// Finds the instructions that `start` leads to. Addresses that are `known` have been translated already and are left out.
/// `supported` tells which instructions can be translated; the others end a block.
pub(super) fn discover(
    image: &[u8],
    mapping: &Mapping,
    start: u16,
    known: impl Fn(u16) -> bool,
    supported: impl Fn(&Instruction) -> bool,
) -> Option<Region> {
    let mut found: BTreeMap<u16, Instruction> = BTreeMap::new();
    let mut leaders = BTreeSet::from([start]);
    let mut entries = BTreeSet::from([start]);
    let mut open = vec![start];
    let mut cost = 0;
    while let Some(mut pc) = open.pop() {
        while found.len() < MAX_INSTRUCTIONS
            && cost < MAX_COST
            && !found.contains_key(&pc)
            && !(known(pc) && pc != start)
        {
            let Some(instruction) = Instruction::decode(image, mapping, pc) else { break };
            if !supported(&instruction) {
                // The interpreter runs it and continues after it.
                if !jams(instruction.opcode) {
                    let next = instruction.next();
                    leaders.insert(next);
                    entries.insert(next);
                    open.push(next);
                }
                break;
            }
            found.insert(pc, instruction);
            cost += instruction.cost();
            let next = instruction.next();
            let mut lead = |target: u16, entry: bool| {
                leaders.insert(target);
                if entry {
                    entries.insert(target);
                }
                open.push(target);
            };
            match instruction.opcode {
                0x4C => lead(instruction.operand, instruction.operand <= pc),
                0x20 => {
                    lead(instruction.operand, true);
                    lead(next, true);
                }
                0x00 => {
                    lead(mapping.break_target(image), true);
                    lead(next.wrapping_add(1), true);
                }
                0x40 | 0x60 | 0x6C => {}
                _ if instruction.is_branch() => {
                    let target = instruction.branch_target();
                    lead(target, target <= pc);
                    lead(next, false);
                }
                _ if instruction.switches(mapping) => lead(next, true),
                _ => {
                    if found.contains_key(&next) {
                        leaders.insert(next);
                    }
                    pc = next;
                    continue;
                }
            }
            break;
        }
    }
    let blocks: Vec<Block> = leaders
        .iter()
        .filter(|leader| found.contains_key(leader))
        .map(|leader| Block { start: *leader, instructions: basic_block(&found, &leaders, *leader, mapping) })
        .collect();
    let entries: Vec<u16> = entries.into_iter().filter(|entry| found.contains_key(entry)).collect();
    (!blocks.is_empty() && found.contains_key(&start)).then_some(Region { blocks, entries })
}

fn jams(opcode: u8) -> bool {
    opcode & 0x1F == 0x12 || (opcode & 0x1F == 0x02 && opcode < 0x80)
}

/// The instructions from `leader` up to the next one that can jump or be jumped to.
fn basic_block(
    found: &BTreeMap<u16, Instruction>,
    leaders: &BTreeSet<u16>,
    leader: u16,
    mapping: &Mapping,
) -> Vec<Instruction> {
    let mut instructions = vec![];
    let mut pc = leader;
    while let Some(instruction) = found.get(&pc) {
        instructions.push(*instruction);
        pc = instruction.next();
        let ends = matches!(instruction.opcode, 0x4C | 0x20 | 0x60 | 0x6C | 0x00 | 0x40)
            || instruction.is_branch()
            || instruction.switches(mapping);
        if ends || leaders.contains(&pc) {
            break;
        }
    }
    instructions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: [u8; 2]) -> usize {
        let image: Vec<u8> = code.into_iter().cycle().take(4096).collect();
        let segments = std::array::from_fn(|n| 1024 * (n as u32 & 3));
        let mapping = Mapping { scheme: Scheme::K4, segments, mirror: 0xE000 };
        let region = discover(&image, &mapping, 0xF000, |_| false, |_| true).expect("a region");
        region.blocks.iter().map(|block| block.instructions.len()).sum()
    }

    /// With 2,000 reads through pointers in one function the code generator took 17 seconds and 3 GB.
    #[test]
    fn programs_of_nothing_but_pointers_are_cut_into_small_regions() {
        assert!(found([0xA5, 0x80]) > 2000, "plain reads");
        assert!(found([0x91, 0x80]) > 2000, "stores through a pointer");
        for opcode in [0x01, 0x11, 0xA1, 0xB1, 0xF1] {
            assert!(found([opcode, 0x80]) < 300, "{opcode:#x}");
        }
    }
}
