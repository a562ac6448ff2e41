//! Keeping the process small: how the allocator holds memory, and giving it back after a burst.

/// Tune the allocator for a process that is small most of the time. Call it before any thread is started.
///
/// glibc gives each thread a heap of its own and keeps ever larger blocks in them; objects that one thread
/// makes and another frees then leave holes that are never returned.
pub fn stay_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; changes settings of the allocator only.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}

/// Larger blocks (batches, lists being read) get pages of their own, which go back when they are freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 * 1024;

/// Return free heap pages to the system.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
