//! How far a thread's stack reaches, without asking anything that could block or allocate.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::registers;

/// The first thread's stack is at most this far from its end. The kernel keeps 128 MiB below it free.
const FIRST_STACK: usize = 64 << 20;
/// Other threads' stacks are smaller than this.
const LARGEST_STACK: usize = 64 << 20;

/// The end of the first thread's stack; 0 until [`find_first`].
static FIRST_END: AtomicUsize = AtomicUsize::new(0);

/// Learn where the first thread's stack ends. Before [`words`] is of use there.
pub(super) fn find_first() {
    // SAFETY: takes no pointers. The kernel puts the program's file name at the very end of the first stack.
    let end = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
    FIRST_END.store(end & !(size_of::<usize>() - 1), Ordering::Relaxed);
}

/// The calling thread's stack from `pointer` to its end, which is a little too far by the thread's own record.
pub(super) fn end(pointer: usize) -> Option<usize> {
    let first = FIRST_END.load(Ordering::Relaxed);
    if pointer < first && first - pointer < FIRST_STACK {
        return Some(first);
    }
    // The C libraries put a thread's record at the end of the mapping that holds its stack.
    let record = registers::thread_pointer();
    (pointer < record && record - pointer < LARGEST_STACK).then_some(record)
}

/// Read a word of the calling thread's own stack that lies between `pointer` and its end.
pub(super) fn read(pointer: usize, end: usize, address: usize) -> Option<usize> {
    let last = end.checked_sub(size_of::<usize>())?;
    let inside = address >= pointer && address <= last && address.is_multiple_of(align_of::<usize>());
    // SAFETY: aligned and inside the calling thread's stack, which is mapped to its end. Volatile, because the
    // words belong to others and may be anything.
    inside.then(|| unsafe { std::ptr::read_volatile(address as *const usize) })
}
