//! A transport that remembers how long its commits took, to tell the kernel's share from ours.

use std::time::{Duration, Instant};

use kernel::nft::{
    Batch, CommitError, Connection, CounterReading, DumpedElement, Error, Table, TableFamily, Transport,
};

pub(crate) struct Timed {
    connection: Connection,
    in_commits: Duration,
}

impl Timed {
    pub(crate) fn open() -> std::io::Result<Timed> {
        Ok(Timed { connection: Connection::open()?, in_commits: Duration::ZERO })
    }

    pub(crate) fn port(&self) -> u32 {
        self.connection.port()
    }

    /// The time spent in commits since this was asked last.
    pub(crate) fn take(&mut self) -> Duration {
        std::mem::take(&mut self.in_commits)
    }
}

impl Transport for Timed {
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        let started = Instant::now();
        let result = self.connection.commit(batch);
        self.in_commits += started.elapsed();
        result
    }

    fn generation(&mut self) -> Result<u32, Error> {
        self.connection.generation()
    }

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, Error> {
        self.connection.tables(family)
    }

    fn sets(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        self.connection.sets(family, table)
    }

    fn chains(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        self.connection.chains(family, table)
    }

    fn set_size(&mut self, family: TableFamily, table: &str, set: &str) -> Result<Option<usize>, Error> {
        self.connection.set_size(family, table, set)
    }

    fn dump_elements(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error> {
        self.connection.dump_elements(family, table, set, each)
    }

    fn counters(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error> {
        self.connection.counters(family, table, each)
    }
}
