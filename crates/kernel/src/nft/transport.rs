//! The seam between those who decide what the tables hold and the kernel, real or simulated.

use super::{Batch, CommitError, ElementData, Error, TableFamily};

pub trait Transport {
    /// Do all of the batch, or nothing of it. An empty batch is done already.
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError>;

    /// The number that every transaction in the network namespace raises, by any process.
    fn generation(&mut self) -> Result<u32, Error>;

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, Error>;

    /// The names of a table's sets and maps; empty if there is no such table.
    fn sets(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error>;

    /// The names of a table's chains; empty if there is no such table.
    fn chains(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error>;

    /// How many elements a set holds, expired ones that are not cleared away yet included. Before Linux 6.16 they are
    /// counted, and no further than a few above `most`.
    fn set_size(&mut self, family: TableFamily, table: &str, set: &str, most: usize) -> Result<usize, Error>;

    /// Hand every element to `each`. While packets or others write to the set, the kernel may leave out
    /// elements and repeat some. [`Error::Interrupted`] says that another commit fell into the reading.
    fn dump_elements(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error>;

    /// Hand the element of this key to `each`; `false` if there is none, or no such set.
    fn find_element(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        key: &[u8],
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<bool, Error> {
        let mut is_there = false;
        let dumped = self.dump_elements(family, table, set, &mut |element| {
            if element.key == key && !element.interval_end {
                is_there = true;
                each(element);
            }
        });
        match dumped {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(false),
            other => other.map(|()| is_there),
        }
    }

    /// How many packets a counter has counted; `None` if there is no such counter.
    fn packets_counted(
        &mut self,
        family: TableFamily,
        table: &str,
        counter: &str,
    ) -> Result<Option<u64>, Error> {
        let mut packets = None;
        self.counters(family, table, &mut |found| {
            if found.name == counter {
                packets = Some(found.packets);
            }
        })?;
        Ok(packets)
    }

    /// Hand every counter of the table to `each`. [`Error::Interrupted`] says that another commit fell into the
    /// reading: some may have been left out.
    fn counters(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error>;
}

/// A transport on top of another one that only changes how batches are committed, for example by counting them.
pub trait Layer {
    type Inner: Transport;

    fn inner(&mut self) -> &mut Self::Inner;

    /// [`Transport::commit`] of the whole.
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError>;
}

impl<L: Layer> Transport for L {
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        Layer::commit(self, batch)
    }

    fn generation(&mut self) -> Result<u32, Error> {
        self.inner().generation()
    }

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, Error> {
        self.inner().tables(family)
    }

    fn sets(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        self.inner().sets(family, table)
    }

    fn chains(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        self.inner().chains(family, table)
    }

    fn set_size(&mut self, family: TableFamily, table: &str, set: &str, most: usize) -> Result<usize, Error> {
        self.inner().set_size(family, table, set, most)
    }

    fn dump_elements(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error> {
        self.inner().dump_elements(family, table, set, each)
    }

    fn find_element(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        key: &[u8],
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<bool, Error> {
        self.inner().find_element(family, table, set, key, each)
    }

    fn packets_counted(
        &mut self,
        family: TableFamily,
        table: &str,
        counter: &str,
    ) -> Result<Option<u64>, Error> {
        self.inner().packets_counted(family, table, counter)
    }

    fn counters(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error> {
        self.inner().counters(family, table, each)
    }
}

/// What a counter has counted since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReading<'a> {
    pub name: &'a str,
    pub packets: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    /// Empty if it has none.
    pub comment: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpedElement<'a> {
    pub key: &'a [u8],
    /// `None` in sets; a verdict other than goto, which [`Batch`] cannot write, reads as `None` too.
    pub data: ElementData<'a>,
    /// In interval sets: this is the first value behind an interval.
    pub interval_end: bool,
    /// How long the element lives since it was last written, if not for ever.
    pub timeout_ms: Option<u64>,
    /// How much of that is left.
    pub expires_ms: Option<u64>,
    pub comment: Option<&'a str>,
}
