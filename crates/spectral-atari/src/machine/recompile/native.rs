//! The interface between Rust and translated programs, with all of its unsafe code.
//!
//! Translated functions get two pointers, to a [`Registers`] and to a [`Bus`], which are valid and exclusive while
//! the function runs. The functions pass the same pointers back to the functions below, as references, and use neither
//! before these return. Besides these they access only the program's image, at offsets that were checked at translation
//! or with an index masked to the size of what is indexed. The image and the code belong to the same `Rom`, which every
//! running console holds.
#![allow(unsafe_code)]

use super::super::bus::Bus;
use super::super::cpu::{self, Cpu};
use super::super::rom::Rom;
use super::region::{Mapping, Region};
use super::translate;
use cranelift_codegen::Context;
use cranelift_codegen::settings::{self, Configurable as _};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module as _, default_libcall_names};

/// The processor's registers as translated functions see them.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Registers {
    pub(super) a: u32,
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) sp: u32,
    /// As in [`Cpu`].
    pub(super) result: u32,
    pub(super) carry: u32,
    /// Overflow is bit 7; the other bits are arbitrary.
    pub(super) overflow: u32,
    pub(super) decimal: u32,
    pub(super) interrupts_off: u32,
    pub(super) cycle: i32,
    /// Instructions left in this frame.
    pub(super) budget: i32,
    pub(super) pc: u32,
    rom: *const Rom,
}

impl Registers {
    pub(super) fn new(cpu: &Cpu, rom: &Rom, budget: i32) -> Registers {
        Registers {
            a: u32::from(cpu.a),
            x: u32::from(cpu.x),
            y: u32::from(cpu.y),
            sp: u32::from(cpu.sp),
            result: u32::from(cpu.result),
            carry: u32::from(cpu.carry),
            overflow: u32::from(cpu.overflow) << 7,
            decimal: u32::from(cpu.decimal),
            interrupts_off: u32::from(cpu.interrupts_off),
            cycle: cpu.cycle,
            budget,
            pc: u32::from(cpu.pc),
            rom,
        }
    }

    fn rom(&self) -> &Rom {
        // SAFETY: `Entry::run`, the only way to code that gets these registers, borrows the same `Rom` until that code returns.
        unsafe { &*self.rom }
    }

    pub(super) fn cpu(&self) -> Cpu {
        Cpu {
            a: self.a as u8,
            x: self.x as u8,
            y: self.y as u8,
            sp: self.sp as u8,
            pc: self.pc as u16,
            result: self.result as u16,
            carry: self.carry as u8,
            overflow: self.overflow & 0x80 != 0,
            decimal: self.decimal != 0,
            interrupts_off: self.interrupts_off != 0,
            jammed: false,
            cycle: self.cycle,
        }
    }
}

type Code = unsafe extern "C" fn(*mut Registers, *mut Bus, u32) -> u32;

/// An address at which a translated function can be entered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    code: Code,
    index: u32,
    pub(super) pc: u16,
}

impl Entry {
    /// Runs translated code. Returns whether the interpreter must run the next instruction.
    #[inline]
    pub(super) fn run(&self, registers: &mut Registers, bus: &mut Bus, rom: &Rom) -> bool {
        // Not only when debugging: `Registers::rom` relies on it.
        assert!(std::ptr::eq(registers.rom, rom));
        // SAFETY: `code` was made by `compile` for a region of `rom`, which lives while it is borrowed here
        // and owns the code; both other pointers come from exclusive borrows.
        unsafe { (self.code)(registers, bus, self.index) != 0 }
    }
}

/// Memory that holds translated code, freed on drop.
pub(super) struct Module(Option<JITModule>);

impl Drop for Module {
    fn drop(&mut self) {
        if let Some(module) = self.0.take() {
            // SAFETY: the module is owned, through its table, by the `Rom` whose code it holds. No
            // thread runs that code any more: `Entry::run` borrows the `Rom`.
            unsafe { module.free_memory() }
        }
    }
}

/// Compiles a region of the program `image`, which must live as long as the code. Returns `None` if there is no code
/// generator for this machine.
pub(super) fn compile(region: &Region, mapping: &Mapping, image: &[u8]) -> Option<(Module, Vec<Entry>)> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").ok()?;
    flags.set("unwind_info", "false").ok()?;
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }).ok()?;
    let isa = cranelift_native::builder().ok()?.finish(settings::Flags::new(flags)).ok()?;
    let config = isa.frontend_config();
    let mut module = Module(Some(JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()))));
    let jit = module.0.as_mut()?;
    let mut context = Context::new();
    context.func.signature = translate::signature(config);
    let mut builder = FunctionBuilderContext::new();
    translate::translate(&mut context.func, &mut builder, config, region, mapping, image);
    let id = jit.declare_function("region", Linkage::Local, &context.func.signature).ok()?;
    jit.define_function(id, &mut context).ok()?;
    jit.finalize_definitions().ok()?;
    let code = jit.get_finalized_function(id);
    // SAFETY: the function was just built with this signature, in the calling convention of the platform; the functions
    // below that it calls are declared to it with theirs, in which a reference is a pointer (`Translator::call`).
    let code: Code = unsafe { std::mem::transmute::<*const u8, Code>(code) };
    let entries = region.entries.iter().zip(0..).map(|(pc, index)| Entry { code, index, pc: *pc }).collect();
    Some((module, entries))
}

// Functions that translated code calls. Their references are the pointers that `Entry::run` passed in, exclusive borrows
// that are still alive, and nothing uses them until the functions return.

pub(super) extern "C" fn read_chip(bus: &mut Bus, addr: u32, cycle: i32, last: u32) -> u32 {
    u32::from(bus.read_chip(addr as u16, cycle, last as u8))
}

pub(super) extern "C" fn read_low(bus: &mut Bus, addr: u32, cycle: i32, last: u32) -> u32 {
    u32::from(bus.read_low(addr as u16, cycle, last as u8))
}

/// Pulls one byte from a stack that may lie outside of memory, as `opcode` does.
pub(super) extern "C" fn pull(bus: &mut Bus, sp: u32, cycle: i32, opcode: u32) -> u32 {
    let last = bus.read_low(0x100 | sp as u16, cycle, opcode as u8);
    u32::from(bus.read_low(0x100 | u16::from((sp as u8).wrapping_add(1)), cycle, last))
}

pub(super) extern "C" fn read_cartridge(registers: &mut Registers, bus: &mut Bus, addr: u32) -> u32 {
    u32::from(bus.cartridge.read(registers.rom(), addr as u16))
}

pub(super) extern "C" fn write_cartridge(
    registers: &mut Registers,
    bus: &mut Bus,
    addr: u32,
    value: u32,
) -> u32 {
    bus.cartridge.write(registers.rom(), addr as u16, value as u8);
    0
}

pub(super) extern "C" fn write_riot(bus: &mut Bus, addr: u32, value: u32, cycle: i32) -> u32 {
    bus.riot.write(addr as u16, value as u8, cycle);
    0
}

/// Writes below the cartridge. Returns the cycle at which the processor continues, inverted if the frame is done.
pub(super) extern "C" fn write_low(bus: &mut Bus, addr: u32, value: u32, cycle: i32) -> i32 {
    let then = bus.write_low(addr as u16, value as u8, cycle);
    if bus.frame_done { !then } else { then }
}

extern "C" fn write_tia<const REGISTER: u8>(bus: &mut Bus, value: u32, cycle: i32) -> i32 {
    let then = bus.write_tia(REGISTER, value as u8, cycle);
    if bus.frame_done { !then } else { then }
}

/// The address of the function that writes one register of the TIA.
pub(super) fn tia_writer(register: u8) -> usize {
    macro_rules! writers {
        ($($n:literal)*) => {
            match register & 0x3F {
                $($n => write_tia::<$n> as *const () as usize,)*
                _ => write_tia::<0x3F> as *const () as usize,
            }
        };
    }
    writers!(0x00 0x01 0x02 0x04 0x05 0x06 0x07 0x08 0x09 0x0A 0x0B 0x0C 0x0D 0x0E 0x0F 0x10 0x11 0x12 0x13
        0x14 0x1B 0x1C 0x1D 0x1E 0x1F 0x20 0x21 0x22 0x23 0x24 0x25 0x26 0x27 0x28 0x29 0x2A 0x2B 0x2C)
}

pub(super) extern "C" fn add_decimal(a: u32, operand: u32, carry: u32) -> u32 {
    let (sum, carry) = cpu::add_decimal(a as u8, operand as u8, carry as u8);
    u32::from(sum) | u32::from(carry) << 8
}

pub(super) extern "C" fn subtract_decimal(a: u32, operand: u32, carry: u32) -> u32 {
    let (difference, carry) = cpu::subtract_decimal(a as u8, operand as u8, carry as u8);
    u32::from(difference) | u32::from(carry) << 8
}

// Loops of a load and a branch that wait for the timer. These functions return the cycles of the iterations that can be
// skipped because the loop will not end in them. `first` is the cycle of the first iteration's load, `cycles` the cycles of
// one iteration.

pub(super) extern "C" fn wait_not_zero(
    registers: &mut Registers,
    bus: &mut Bus,
    first: i32,
    cycles: i32,
) -> i32 {
    bus.riot.reaches_zero_at(first).map_or(0, |zero_at| skip(registers, zero_at - first, cycles))
}

pub(super) extern "C" fn wait_positive(
    registers: &mut Registers,
    bus: &mut Bus,
    first: i32,
    cycles: i32,
) -> i32 {
    let zero_at = bus.riot.reaches_zero_at(first).filter(|_| bus.riot.below_128(first));
    zero_at.map_or(0, |zero_at| skip(registers, zero_at - first, cycles))
}

pub(super) extern "C" fn wait_flag(registers: &mut Registers, bus: &mut Bus, first: i32, cycles: i32) -> i32 {
    bus.riot.reaches_zero_at(first).map_or(0, |zero_at| skip(registers, zero_at - first, cycles))
}

fn skip(registers: &mut Registers, wait: i32, cycles: i32) -> i32 {
    let iterations = ((wait + cycles - 1) / cycles).min(registers.budget / 2);
    registers.budget -= iterations * 2;
    iterations * cycles
}
