//! A transport that counts what it commits, to tell our commits from those of others.

use kernel::nft::{Batch, CommitError, CounterReading, DumpedElement, Error, Table, TableFamily, Transport};

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

impl<T: Transport> Transport for Counted<T> {
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

    fn generation(&mut self) -> Result<u32, Error> {
        self.inner.generation()
    }

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, Error> {
        self.inner.tables(family)
    }

    fn sets(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        self.inner.sets(family, table)
    }

    fn chains(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        self.inner.chains(family, table)
    }

    fn set_size(&mut self, family: TableFamily, table: &str, set: &str) -> Result<Option<usize>, Error> {
        self.inner.set_size(family, table, set)
    }

    fn dump_elements(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error> {
        self.inner.dump_elements(family, table, set, each)
    }

    fn find_element(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        key: &[u8],
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<bool, Error> {
        self.inner.find_element(family, table, set, key, each)
    }

    fn packets_counted(
        &mut self,
        family: TableFamily,
        table: &str,
        counter: &str,
    ) -> Result<Option<u64>, Error> {
        self.inner.packets_counted(family, table, counter)
    }

    fn counters(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error> {
        self.inner.counters(family, table, each)
    }
}
