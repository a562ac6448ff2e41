//! Giving memory back to the system after a burst.

/// Return free heap pages to the system. glibc keeps them otherwise, and a node pays for the largest sync ever.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
