//! How much is held in memory because its receiver does not take it, by all threads together: thousands of receivers may
//! not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Beyond this, bytes stay with the kernel until their receiver takes them.
const MOST: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(pub(crate) Arc<AtomicUsize>);

impl Memory {
    #[cfg(test)]
    pub(crate) fn full() -> Memory {
        Memory(Arc::new(AtomicUsize::new(MOST)))
    }

    /// Whether there is room for so many bytes. Each thread may exceed it by what it copies at once.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.0.load(Ordering::Relaxed) + bytes <= MOST
    }

    pub(crate) fn keep(&self, bytes: &[u8]) -> Box<[u8]> {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        bytes.into()
    }

    /// So many have been taken, or their connection is over.
    pub(crate) fn are_gone(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
