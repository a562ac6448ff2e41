//! A transport that counts what it commits, to tell our commits from those of others.

use kernel::nft::{Batch, CommitError, Layer, Transport};

pub(crate) struct Counted<T> {
    pub(crate) inner: T,
    /// The generation before our first commit, and how many we made since.
    since: Option<(u32, u32)>,
}

impl<T: Transport> Counted<T> {
    pub(crate) fn new(inner: T) -> Counted<T> {
        Counted { inner, since: None }
    }

    /// Whether no other process has committed since our first commit. When in doubt, no.
    pub(crate) fn is_undisturbed(&mut self) -> bool {
        match (self.since, self.inner.generation()) {
            (Some((start, ours)), Ok(now)) => now == start.wrapping_add(ours),
            _ => false,
        }
    }
}

impl<T: Transport> Layer for Counted<T> {
    type Inner = T;

    fn inner(&mut self) -> &mut T {
        &mut self.inner
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if self.since.is_none() {
            self.since = self.inner.generation().ok().map(|generation| (generation, 0));
        }
        self.inner.commit(batch)?;
        if let Some((_, ours)) = &mut self.since
            && !batch.is_empty()
        {
            *ours = ours.wrapping_add(1);
        }
        Ok(())
    }
}
