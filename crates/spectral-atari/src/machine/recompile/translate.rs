//! Translates a region of the program to one function in Cranelift's intermediate representation.
//!
//! The processor's registers are variables of that function; they are loaded when it is entered and stored
//! when it is left. Cycles are counted at translation time, block by block. Whatever is unusual (stacks that
//! point into the TIA, accesses that switch banks through a pointer, too few instructions left in the frame)
//! leaves the function before the instruction in question, which the interpreter then runs.

use super::native::{self, Registers};
use super::region::{Block, Instruction, Mapping, Region};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AbiParam, BlockArg, InstBuilder as _, JumpTableData, MemFlagsData, Signature, Type, Value, types,
};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use std::collections::HashMap;
use std::mem::offset_of;

/// The function's return values: continue at the program counter, or let the interpreter run one instruction first.
pub(super) const GO_ON: i64 = 0;
pub(super) const INTERPRET: i64 = 1;

/// The variables that stand for the processor's state.
#[derive(Clone, Copy)]
pub(super) struct Variables {
    pub(super) a: Variable,
    pub(super) x: Variable,
    pub(super) y: Variable,
    pub(super) sp: Variable,
    pub(super) result: Variable,
    pub(super) carry: Variable,
    /// As in [`Registers`].
    pub(super) overflow: Variable,
    pub(super) cycle: Variable,
    pub(super) budget: Variable,
}

/// How to leave the function at some instruction.
#[derive(Clone, Copy)]
pub(super) struct Leave {
    pc: u16,
    /// Cycle variable and constant to add to it.
    cycle: Value,
    pending: i32,
    /// Instructions of the block that were counted and will not run.
    refund: i32,
}

pub(super) struct Translator<'a> {
    pub(super) b: FunctionBuilder<'a>,
    pub(super) mapping: &'a Mapping,
    pub(super) image: &'a [u8],
    pub(super) v: Variables,
    pub(super) registers: Value,
    pub(super) bus: Value,
    exit: ir::Block,
    /// The block that continues at a given address, to which subroutines of this function return.
    back: ir::Block,
    blocks: HashMap<u16, ir::Block>,
    signatures: HashMap<usize, ir::SigRef>,
    config: TargetFrontendConfig,
    /// Cycles of this block that are not yet in the cycle variable.
    pub(super) pending: i32,
    /// Whether the last result is known to fit a byte (only BIT and PLP make larger ones).
    pub(super) byte_result: bool,
    /// How to leave before the instruction being translated.
    pub(super) before: Leave,
    /// Instructions of the block after the one being translated.
    remaining: i32,
}

/// Pointers to memory that is always there.
pub(super) fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// The signature of every translated function.
pub(super) fn signature(config: TargetFrontendConfig) -> Signature {
    let pointer = config.pointer_type();
    let mut signature = Signature::new(config.default_call_conv);
    signature.params = vec![AbiParam::new(pointer), AbiParam::new(pointer), AbiParam::new(types::I32)];
    signature.returns = vec![AbiParam::new(types::I32)];
    signature
}

/// Builds the function of `region` into `function`.
pub(super) fn translate(
    function: &mut ir::Function,
    context: &mut FunctionBuilderContext,
    config: TargetFrontendConfig,
    region: &Region,
    mapping: &Mapping,
    image: &[u8],
) {
    let mut b = FunctionBuilder::new(function, context);
    let mut declare = || b.declare_var(types::I32);
    let v = Variables {
        a: declare(),
        x: declare(),
        y: declare(),
        sp: declare(),
        result: declare(),
        carry: declare(),
        overflow: declare(),
        cycle: declare(),
        budget: declare(),
    };
    let enter = b.create_block();
    b.append_block_params_for_function_params(enter);
    let exit = b.create_block();
    for _ in 0..3 {
        b.append_block_param(exit, types::I32);
    }
    b.set_cold_block(exit);
    let back = b.create_block();
    b.append_block_param(back, types::I32);
    let blocks = region.blocks.iter().map(|block| (block.start, b.create_block())).collect();
    b.switch_to_block(enter);
    let [registers, bus, entry] = [0, 1, 2].map(|n| b.block_params(enter)[n]);
    let cycle = b.ins().iconst(types::I32, 0);
    let before = Leave { pc: 0, cycle, pending: 0, refund: 0 };
    let mut translator = Translator {
        b,
        mapping,
        image,
        v,
        registers,
        bus,
        exit,
        back,
        blocks,
        signatures: HashMap::new(),
        config,
        pending: 0,
        byte_result: false,
        before,
        remaining: 0,
    };
    translator.enter(region, entry);
    for block in &region.blocks {
        translator.block(block);
    }
    translator.return_block(region);
    translator.exit_block();
    let mut b = translator.b;
    b.seal_all_blocks();
    b.finalize(config);
}

impl Translator<'_> {
    fn state(&self) -> [(Variable, usize); 9] {
        [
            (self.v.a, offset_of!(Registers, a)),
            (self.v.x, offset_of!(Registers, x)),
            (self.v.y, offset_of!(Registers, y)),
            (self.v.sp, offset_of!(Registers, sp)),
            (self.v.result, offset_of!(Registers, result)),
            (self.v.carry, offset_of!(Registers, carry)),
            (self.v.overflow, offset_of!(Registers, overflow)),
            (self.v.cycle, offset_of!(Registers, cycle)),
            (self.v.budget, offset_of!(Registers, budget)),
        ]
    }

    /// Loads the registers and goes to the block asked for.
    fn enter(&mut self, region: &Region, entry: Value) {
        for (variable, offset) in self.state() {
            let value = self.load_register(offset);
            self.b.def_var(variable, value);
        }
        // The builder changes each call for itself, so the default needs one of its own.
        let mut targets: Vec<_> = region
            .entries
            .iter()
            .chain(region.entries.first())
            .map(|entry| {
                let block = self.blocks[entry];
                self.b.func.dfg.block_call(block, &[])
            })
            .collect();
        let Some(default) = targets.pop() else { return };
        let table = self.b.create_jump_table(JumpTableData::new(default, &targets));
        self.b.ins().br_table(entry, table);
    }

    /// The one block at which subroutines return. They mostly return to where this function called one.
    fn return_block(&mut self, region: &Region) {
        self.b.switch_to_block(self.back);
        let pc = self.b.block_params(self.back)[0];
        let last = region.blocks.iter().filter_map(|block| block.instructions.last());
        let mut addresses: Vec<u16> = last.filter_map(Instruction::return_address).collect();
        addresses.retain(|address| self.blocks.contains_key(address));
        addresses.sort_unstable();
        addresses.dedup();
        self.jump_to_one(pc, &addresses);
    }

    /// Jumps to the one of the sorted `addresses` that equals `pc`, or leaves the function.
    fn jump_to_one(&mut self, pc: Value, addresses: &[u16]) {
        let Some(&middle) = addresses.get(addresses.len() / 2) else { return self.go_out(pc) };
        let [less, not_less] = [self.b.create_block(), self.b.create_block()];
        if addresses.len() == 1 {
            let found = self.b.ins().icmp_imm_u(IntCC::Equal, pc, i64::from(middle));
            self.b.ins().brif(found, self.blocks[&middle], &[], less, &[]);
            self.b.switch_to_block(less);
            return self.go_out(pc);
        }
        let (low, high) = addresses.split_at(addresses.len() / 2);
        let is_less = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, pc, i64::from(middle));
        self.b.ins().brif(is_less, less, &[], not_less, &[]);
        for (block, addresses) in [(less, low), (not_less, high)] {
            self.b.switch_to_block(block);
            self.jump_to_one(pc, addresses);
        }
    }

    /// The one block in which the function stores the registers and returns.
    fn exit_block(&mut self) {
        self.b.switch_to_block(self.exit);
        let [pc, refund, code] = [0, 1, 2].map(|n| self.b.block_params(self.exit)[n]);
        let left = self.b.use_var(self.v.budget);
        let left = self.b.ins().iadd(left, refund);
        self.b.def_var(self.v.budget, left);
        for (variable, offset) in self.state() {
            let value = self.b.use_var(variable);
            self.store_register(offset, value);
        }
        self.store_register(offset_of!(Registers, pc), pc);
        self.b.ins().return_(&[code]);
    }

    pub(super) fn load_register(&mut self, offset: usize) -> Value {
        self.b.ins().load(types::I32, trusted(), self.registers, offset as i32)
    }

    pub(super) fn store_register(&mut self, offset: usize, value: Value) {
        self.b.ins().store(trusted(), value, self.registers, offset as i32);
    }

    fn block(&mut self, block: &Block) {
        self.b.switch_to_block(self.blocks[&block.start]);
        self.pending = 0;
        self.byte_result = false;
        let count = block.instructions.len() as i32;
        let cycle = self.b.use_var(self.v.cycle);
        let short = Leave { pc: block.start, cycle, pending: 0, refund: count };
        let budget = self.b.use_var(self.v.budget);
        let left = self.b.ins().iadd_imm_s(budget, i64::from(-count));
        self.b.def_var(self.v.budget, left);
        let too_few = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, left, 0);
        self.leave_if(too_few, short);
        self.leave_if_overlong(block, short);
        if let [load, branch] = block.instructions[..] {
            self.wait_for_timer(load, branch);
        }
        for (index, instruction) in block.instructions.iter().enumerate() {
            self.remaining = count - 1 - index as i32;
            let cycle = self.b.use_var(self.v.cycle);
            self.before =
                Leave { pc: instruction.pc, cycle, pending: self.pending, refund: self.remaining + 1 };
            self.pending += instruction.cycles();
            let ended = self.instruction(*instruction);
            if ended {
                return;
            }
        }
        self.commit_cycles();
        let Some(last) = block.instructions.last() else { return };
        if last.switches(self.mapping) {
            // What comes next is now in another bank.
            let next = self.b.ins().iconst(types::I32, i64::from(last.next()));
            self.go_out(next);
        } else {
            self.go(last.next());
        }
    }

    /// Skips iterations of a loop that does nothing but wait for the timer.
    fn wait_for_timer(&mut self, load: Instruction, branch: Instruction) {
        if branch.branch_target() != load.pc {
            return;
        }
        let wait = match (load.opcode, load.operand, branch.opcode) {
            (0xAC..=0xAE, 0x0284, 0xD0) => native::wait_not_zero as *const () as usize,
            (0xAC..=0xAE, 0x0284, 0x10) => native::wait_positive as *const () as usize,
            (0x2C, 0x0285, 0x10) => native::wait_flag as *const () as usize,
            _ => return,
        };
        let next = branch.next();
        let cycles = 7 + i64::from((next ^ load.pc) & 0xFF00 != 0);
        let cycle = self.b.use_var(self.v.cycle);
        let first = self.b.ins().iadd_imm_s(cycle, 4);
        let cycles = self.b.ins().iconst(types::I32, cycles);
        let budget = self.b.use_var(self.v.budget);
        self.store_register(offset_of!(Registers, budget), budget);
        let skipped = self.call(wait, &[self.registers, self.bus, first, cycles]);
        let budget = self.load_register(offset_of!(Registers, budget));
        self.b.def_var(self.v.budget, budget);
        let cycle = self.b.ins().iadd(cycle, skipped);
        self.b.def_var(self.v.cycle, cycle);
    }

    /// The cycle of the instruction being translated.
    pub(super) fn now(&mut self) -> Value {
        let cycle = self.b.use_var(self.v.cycle);
        if self.pending == 0 { cycle } else { self.b.ins().iadd_imm_s(cycle, i64::from(self.pending)) }
    }

    pub(super) fn commit_cycles(&mut self) {
        if self.pending != 0 {
            let now = self.now();
            self.b.def_var(self.v.cycle, now);
            self.pending = 0;
        }
    }

    /// Adds cycles that are only known when the program runs.
    pub(super) fn add_cycles(&mut self, extra: Value) {
        let now = self.now();
        let now = self.b.ins().iadd(now, extra);
        self.b.def_var(self.v.cycle, now);
        self.pending = 0;
    }

    /// Continues at `pc`, in this function if it is part of it. Cycles are committed already.
    pub(super) fn go(&mut self, pc: u16) {
        if let Some(block) = self.blocks.get(&pc) {
            self.b.ins().jump(*block, &[]);
        } else {
            let pc = self.b.ins().iconst(types::I32, i64::from(pc));
            self.go_out(pc);
        }
    }

    /// Leaves for an address that is known only at run time, after the last instruction of a block.
    pub(super) fn go_out(&mut self, pc: Value) {
        let none = self.b.ins().iconst(types::I32, 0);
        let code = self.b.ins().iconst(types::I32, GO_ON);
        self.b.ins().jump(self.exit, &[BlockArg::Value(pc), BlockArg::Value(none), BlockArg::Value(code)]);
    }

    /// Continues at the address to which a subroutine returns.
    pub(super) fn go_back(&mut self, pc: Value) {
        self.b.ins().jump(self.back, &[BlockArg::Value(pc)]);
    }

    /// A conditional branch of the program, at the end of a block.
    pub(super) fn branch(&mut self, instruction: Instruction, taken: Value) {
        self.commit_cycles();
        let (target, next) = (instruction.branch_target(), instruction.next());
        let [yes, no] = [self.b.create_block(), self.b.create_block()];
        self.b.ins().brif(taken, yes, &[], no, &[]);
        self.b.switch_to_block(yes);
        self.pending = 1 + i32::from((target ^ next) & 0xFF00 != 0);
        self.commit_cycles();
        self.go(target);
        self.b.switch_to_block(no);
        self.go(next);
    }

    /// Leaves before an instruction, if `condition` holds, so that the interpreter runs it.
    pub(super) fn leave_if(&mut self, condition: Value, leave: Leave) {
        let [out, on] = [self.b.create_block(), self.b.create_block()];
        self.b.set_cold_block(out);
        self.b.ins().brif(condition, out, &[], on, &[]);
        self.b.switch_to_block(out);
        self.leave(leave);
        self.b.switch_to_block(on);
    }

    /// Leaves before an instruction, so that the interpreter runs it.
    pub(super) fn leave(&mut self, leave: Leave) {
        let cycle = self.b.ins().iadd_imm_s(leave.cycle, i64::from(leave.pending));
        self.b.def_var(self.v.cycle, cycle);
        let [pc, refund, code] = [i64::from(leave.pc), i64::from(leave.refund), INTERPRET]
            .map(|n| self.b.ins().iconst(types::I32, n));
        self.b.ins().jump(self.exit, &[BlockArg::Value(pc), BlockArg::Value(refund), BlockArg::Value(code)]);
    }

    /// Leaves after the instruction being translated, at `next`.
    pub(super) fn leave_after(&mut self, cycle: Value, next: u16) {
        self.b.def_var(self.v.cycle, cycle);
        let [pc, refund, code] =
            [i64::from(next), i64::from(self.remaining), GO_ON].map(|n| self.b.ins().iconst(types::I32, n));
        self.b.ins().jump(self.exit, &[BlockArg::Value(pc), BlockArg::Value(refund), BlockArg::Value(code)]);
    }

    /// Calls a function of [`native`] that takes `args` and returns 32 bits.
    pub(super) fn call(&mut self, function: usize, args: &[Value]) -> Value {
        let pointer: Type = self.config.pointer_type();
        let shape = args
            .iter()
            .fold(1, |shape, arg| shape * 2 + usize::from(self.b.func.dfg.value_type(*arg) == pointer));
        let signature = match self.signatures.get(&shape) {
            Some(signature) => *signature,
            None => {
                let mut signature = Signature::new(self.config.default_call_conv);
                signature.params =
                    args.iter().map(|arg| AbiParam::new(self.b.func.dfg.value_type(*arg))).collect();
                signature.returns = vec![AbiParam::new(types::I32)];
                let signature = self.b.import_signature(signature);
                self.signatures.insert(shape, signature);
                signature
            }
        };
        let target = self.b.ins().iconst(pointer, function as i64);
        let call = self.b.ins().call_indirect(signature, target, args);
        self.b.inst_results(call)[0]
    }

    pub(super) fn pointer_type(&self) -> Type {
        self.config.pointer_type()
    }
}
