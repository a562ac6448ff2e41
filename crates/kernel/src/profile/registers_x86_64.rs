//! x86-64: numbers as in its psABI.

use std::arch::asm;

use super::Registers;

pub(crate) const SUPPORTED: bool = true;
pub(crate) const STACK_POINTER: usize = 7;

/// The numbers of the kernel's record, in the order of the tables: rax rdx rcx rbx rsi rdi rbp rsp r8 … r15.
const RECORDED: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RDX,
    libc::REG_RCX,
    libc::REG_RBX,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_RBP,
    libc::REG_RSP,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// As they were when the signal came.
pub(crate) fn interrupted(context: &libc::ucontext_t) -> Registers {
    let recorded = |number: libc::c_int| context.uc_mcontext.gregs[number as usize] as usize;
    let mut registers = Registers::new(recorded(libc::REG_RIP));
    for (number, place) in RECORDED.into_iter().enumerate() {
        registers.set(number, Some(recorded(place)));
    }
    registers
}

/// As they are in the function this is inlined into: those that outlive a call.
#[inline(always)]
pub(crate) fn current() -> Registers {
    let mut saved = [0_usize; 8];
    // SAFETY: only reads registers, and writes the array, which is as large as what is written.
    unsafe {
        asm!(
            "mov [{saved}], rbx",
            "mov [{saved} + 8], rbp",
            "mov [{saved} + 16], rsp",
            "mov [{saved} + 24], r12",
            "mov [{saved} + 32], r13",
            "mov [{saved} + 40], r14",
            "mov [{saved} + 48], r15",
            "lea {pc}, [rip]",
            "mov [{saved} + 56], {pc}",
            saved = in(reg) &mut saved,
            pc = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    let [rbx, rbp, rsp, r12, r13, r14, r15, pc] = saved;
    let mut registers = Registers::new(pc);
    for (number, value) in [(3, rbx), (6, rbp), (7, rsp), (12, r12), (13, r13), (14, r14), (15, r15)] {
        registers.set(number, Some(value));
    }
    registers
}

/// The address of the thread's own record.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the ABI says that the first word of the record is its own address; only that is read.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}
