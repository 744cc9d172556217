//! Translates programs to the host's own instructions, and leaves whatever is unusual to the interpreter.
//!
//! Code is translated after it has run a few times, once for all consoles that share a [`Rom`]. `region` finds the
//! instructions to translate together; `opcodes`, `instructions`, `memory` and `translate` express them in Cranelift's
//! intermediate representation; `native` makes the result callable. After every frame a console that runs translated
//! code is in exactly the state in which the interpreter would have left it.

mod chips;
mod instructions;
mod memory;
mod native;
mod opcodes;
mod region;
mod translate;

use super::bus::Bus;
use super::cpu::Cpu;
use super::execute;
use super::rom::Rom;
use native::{Entry, Module, Registers};
use region::Mapping;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};

/// An instruction that has been interpreted this many times is worth translating.
const HOT: u8 = 40;
/// The heat of code that cannot be translated.
const NEVER: u8 = u8::MAX;
/// The most bank mappings that are translated in one program. Further ones are left to the interpreter.
const MAX_MAPPINGS: usize = 64;
/// The most regions that are translated in one mapping.
const MAX_REGIONS: usize = 100;

/// The translations of one program.
pub(super) struct Translations {
    tables: Box<[OnceLock<Table>]>,
}

impl std::fmt::Debug for Translations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mappings = self.tables.iter().take_while(|table| table.get().is_some()).count();
        f.debug_struct("Translations").field("mappings", &mappings).finish()
    }
}

/// The translations that are valid for one bank mapping.
struct Table {
    mapping: Mapping,
    /// By address; see [`slot`].
    entries: Box<[OnceLock<Entry>]>,
    heat: Box<[AtomicU8]>,
    modules: Mutex<Vec<Module>>,
}

/// The table index of an address of the cartridge: its low twelve bits and bit 13.
#[inline]
fn slot(pc: u16) -> usize {
    usize::from(pc & 0x0FFF | pc >> 1 & 0x1000)
}

impl Translations {
    pub(super) fn new() -> Translations {
        Translations { tables: (0..MAX_MAPPINGS).map(|_| OnceLock::new()).collect() }
    }

    /// The table of a mapping, created if there is none.
    fn table(&self, mapping: Mapping) -> Option<&Table> {
        self.tables.iter().find_map(|table| {
            let table = table.get_or_init(|| Table {
                mapping,
                entries: (0..0x2000).map(|_| OnceLock::new()).collect(),
                heat: (0..0x2000).map(|_| AtomicU8::new(0)).collect(),
                modules: Mutex::new(vec![]),
            });
            (table.mapping == mapping).then_some(table)
        })
    }
}

impl Table {
    fn shows(&self, segments: &[u32; 8], pc: u16) -> bool {
        self.mapping.segments == *segments && self.mapping.mirror == pc >> 14
    }

    #[inline]
    fn entry(&self, pc: u16) -> Option<&Entry> {
        self.entries[slot(pc)].get()
    }

    /// Counts an interpretation of `pc`, and translates code that is hot.
    #[cold]
    fn warm(&self, rom: &Rom, pc: u16) {
        let heat = &self.heat[slot(pc)];
        let count = heat.load(Ordering::Relaxed);
        if count == NEVER {
            return;
        }
        if count < HOT {
            heat.store(count + 1, Ordering::Relaxed);
            return;
        }
        // While one thread translates, the others interpret.
        let Ok(mut modules) = self.modules.try_lock() else { return };
        heat.store(NEVER, Ordering::Relaxed);
        if modules.len() >= MAX_REGIONS || self.entry(pc).is_some() {
            return;
        }
        let known = |pc: u16| pc >> 14 != self.mapping.mirror || self.entry(pc).is_some();
        let image = rom.image();
        let Some(region) = region::discover(image, &self.mapping, pc, known, opcodes::supported) else {
            return;
        };
        if let Some((module, entries)) = native::compile(&region, &self.mapping, image) {
            modules.push(module);
            for entry in entries {
                // An address that is translated twice keeps its first translation.
                let _ = self.entries[slot(entry.pc)].set(entry);
            }
        }
    }
}

/// Runs until the frame is complete or `budget` instructions have been run.
pub(super) fn run(cpu: &mut Cpu, bus: &mut Bus, rom: &Rom, budget: i32) {
    if cpu.jammed || !Mapping::translatable(rom.scheme()) {
        return execute::run(cpu, bus, rom, budget);
    }
    let mut registers = Registers::new(cpu, rom, budget);
    let mut table: Option<&Table> = None;
    // Whether the program jumped to this instruction. Only such addresses are worth counting.
    let mut head = true;
    while registers.budget > 0 && !bus.frame_done {
        let pc = registers.pc as u16;
        if pc & 0x1000 != 0 {
            let segments = bus.cartridge.segments;
            let current = match table {
                Some(current) if current.shows(&segments, pc) => current,
                _ => {
                    let mapping = Mapping { scheme: rom.scheme(), segments, mirror: pc >> 14 };
                    let found = rom.translations().table(mapping);
                    let Some(found) = found else {
                        *cpu = registers.cpu();
                        return execute::run(cpu, bus, rom, registers.budget);
                    };
                    table = Some(found);
                    found
                }
            };
            if let Some(entry) = current.entry(pc) {
                let interpret = entry.run(&mut registers, bus, rom);
                head = true;
                if !interpret || registers.budget <= 0 {
                    continue;
                }
            } else if head {
                current.warm(rom, pc);
                head = false;
            }
        }
        let budget = registers.budget;
        let mut next = registers.cpu();
        execute::run(&mut next, bus, rom, 1);
        head |= !(1..=3).contains(&next.pc.wrapping_sub(pc));
        registers = Registers::new(&next, rom, budget - 1);
        if next.jammed {
            *cpu = next;
            return;
        }
    }
    *cpu = registers.cpu();
}
