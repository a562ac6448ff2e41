//! AArch64: numbers as in its DWARF supplement, x0 … x30 and the stack pointer.

use std::arch::asm;

use super::Registers;

pub(crate) const SUPPORTED: bool = true;
pub(crate) const STACK_POINTER: usize = 31;

/// As they were when the signal came.
pub(crate) fn interrupted(context: &libc::ucontext_t) -> Registers {
    let recorded = &context.uc_mcontext;
    let mut registers = Registers::new(recorded.pc as usize);
    for (number, value) in recorded.regs.iter().enumerate() {
        registers.set(number, Some(*value as usize));
    }
    registers.set(STACK_POINTER, Some(recorded.sp as usize));
    registers
}

/// As they are in the function this is inlined into: those that outlive a call.
#[inline(always)]
pub(crate) fn current() -> Registers {
    let mut saved = [0_usize; 14];
    // SAFETY: only reads registers, and writes the array, which is as large as what is written.
    unsafe {
        asm!(
            "stp x19, x20, [{saved}]",
            "stp x21, x22, [{saved}, #16]",
            "stp x23, x24, [{saved}, #32]",
            "stp x25, x26, [{saved}, #48]",
            "stp x27, x28, [{saved}, #64]",
            "stp x29, x30, [{saved}, #80]",
            "mov {scratch}, sp",
            "str {scratch}, [{saved}, #96]",
            "adr {scratch}, .",
            "str {scratch}, [{saved}, #104]",
            saved = in(reg) &mut saved,
            scratch = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    let mut registers = Registers::new(saved[13]);
    for (number, value) in (19..).zip(saved.into_iter().take(13)) {
        registers.set(number, Some(value));
    }
    registers
}

/// The address of the thread's own record.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: only reads a register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}
