//! The registers a stack is walked with, numbered as the unwind tables number them.

#[cfg(target_arch = "aarch64")]
#[path = "registers_aarch64.rs"]
mod arch;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
#[path = "registers_none.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "registers_x86_64.rs"]
mod arch;

pub(super) use arch::{SUPPORTED, current, interrupted, thread_pointer};

/// How many there are on the largest of the architectures.
pub(super) const COUNT: usize = 33;

/// What is known of a frame; a register that was not saved is `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) pc: usize,
    values: [Option<usize>; COUNT],
}

impl Registers {
    pub(super) const STACK_POINTER: usize = arch::STACK_POINTER;

    pub(super) const fn new(pc: usize) -> Registers {
        Registers { pc, values: [None; COUNT] }
    }

    pub(super) fn get(&self, number: usize) -> Option<usize> {
        self.values.get(number).copied().flatten()
    }

    pub(super) fn set(&mut self, number: usize, value: Option<usize>) {
        if let Some(place) = self.values.get_mut(number) {
            *place = value;
        }
    }

    pub(super) fn stack_pointer(&self) -> usize {
        self.get(Registers::STACK_POINTER).unwrap_or(0)
    }
}
