//! An architecture whose stacks cannot be walked yet: nothing is known.

use super::Registers;

pub(crate) const SUPPORTED: bool = false;
pub(crate) const STACK_POINTER: usize = 0;

pub(crate) fn interrupted(_context: &libc::ucontext_t) -> Registers {
    Registers::new(0)
}

pub(crate) fn current() -> Registers {
    Registers::new(0)
}

pub(crate) fn thread_pointer() -> usize {
    0
}
