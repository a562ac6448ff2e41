//! The slots through which a signal handler hands copies of stacks to the thread that walks them.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::registers::Registers;
use super::stack;

/// As many as can come between two looks of the reader, with some to spare.
const SLOTS: usize = 64;
/// The innermost part of a stack that is copied, in words.
const WORDS: usize = 64 * 1024 / size_of::<usize>();

const FREE: u8 = 0;
const BEING_FILLED: u8 = 1;
const FULL: u8 = 2;
const BEING_READ: u8 = 3;

/// Slots for stacks. Pages of it that were never written take no memory.
pub(super) struct Ring {
    slots: Box<[Slot]>,
    lost: AtomicU64,
}

struct Slot {
    state: AtomicU8,
    copy: UnsafeCell<Copied>,
}

// SAFETY: `copy` is touched only by the thread that moved `state` to BEING_FILLED or BEING_READ.
unsafe impl Sync for Slot {}

/// The innermost part of a thread's stack, as it was.
pub(super) struct Copied {
    pub(super) registers: Registers,
    /// The name of the thread, filled up with zeroes.
    pub(super) thread: [u8; 16],
    used: usize,
    words: [usize; WORDS],
}

impl Ring {
    pub(super) fn new() -> Ring {
        let layout = std::alloc::Layout::new::<[Slot; SLOTS]>();
        // SAFETY: the layout is not empty, and zeroes are a valid value of every field: atomics, numbers, and
        // options of numbers (as None or as Some; both are valid, and an empty slot is never read).
        let slots = unsafe {
            let memory = std::alloc::alloc_zeroed(layout).cast::<Slot>();
            if memory.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, SLOTS))
        };
        Ring { slots, lost: AtomicU64::new(0) }
    }

    /// Called in the signal handler, on the thread whose stack it is: takes no lock and allocates nothing.
    pub(super) fn put(&self, registers: Registers) {
        let Some(slot) = self.slots.iter().find(|slot| slot.moves(FREE, BEING_FILLED)) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // SAFETY: the state says that the slot is ours.
        unsafe { (*slot.copy.get()).fill(registers) };
        slot.state.store(FULL, Ordering::Release);
    }

    /// Hand every waiting stack to `each`, and free its slot.
    pub(super) fn take(&self, mut each: impl FnMut(&Copied)) {
        for slot in &self.slots {
            if !slot.moves(FULL, BEING_READ) {
                continue;
            }
            // SAFETY: the state says that the slot is ours.
            each(unsafe { &*slot.copy.get() });
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// How many came when no slot was free.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Slot {
    fn moves(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl Copied {
    fn fill(&mut self, registers: Registers) {
        self.registers = registers;
        self.thread = [0; 16];
        // SAFETY: the kernel writes at most 16 bytes, and the array has as many. A system call and no more.
        unsafe { libc::prctl(libc::PR_GET_NAME, self.thread.as_mut_ptr()) };
        self.used = 0;
        let pointer = registers.stack_pointer();
        let Some(end) = stack::end(pointer) else { return };
        for (number, word) in self.words.iter_mut().enumerate() {
            match stack::read(pointer, end, pointer.wrapping_add(number * size_of::<usize>())) {
                Some(value) => *word = value,
                None => break,
            }
            self.used = number + 1;
        }
    }

    /// The word that was at `address`.
    pub(super) fn read(&self, address: usize) -> Option<usize> {
        let distance = address.checked_sub(self.registers.stack_pointer())?;
        let whole = distance.is_multiple_of(size_of::<usize>());
        self.words.get(..self.used)?.get(distance / size_of::<usize>()).copied().filter(|_| whole)
    }
}
