//! The simulator in the kernel's place: [`Transport`] for the dataplane, and what tests do to it meanwhile
//! as another process on the machine.

use std::io;

use kernel::nft::{
    Batch, CommitError, CounterReading, DumpedElement, ElementData, Error, Table, TableFamily, Transport,
};

use super::instruction::{Datum, Verdict};
use super::state::{Element, Key};
use super::{Errno, SimError, Simulator};

impl Transport for Simulator {
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.commit_bytes(batch.bytes())
            .map_err(|SimError { sequence, errno }| CommitError::of_message(batch, sequence, errno))
    }

    fn generation(&mut self) -> Result<u32, Error> {
        Ok(self.generation)
    }

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, Error> {
        let tables = self.state.tables(family).iter().map(|(name, table)| Table {
            name: name.clone(),
            comment: comment(&table.user_data).unwrap_or_default().to_owned(),
        });
        Ok(tables.collect())
    }

    fn sets(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        let table = self.state.table(family, table);
        Ok(table.map(|table| table.sets.keys().cloned().collect()).unwrap_or_default())
    }

    fn chains(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, Error> {
        let table = self.state.table(family, table);
        Ok(table.map(|table| table.chains.keys().cloned().collect()).unwrap_or_default())
    }

    fn set_size(&mut self, family: TableFamily, table: &str, set: &str, _: usize) -> Result<usize, Error> {
        let mut size = 0;
        self.dump_elements(family, table, set, &mut |_| size += 1)?;
        Ok(size)
    }

    fn dump_elements(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error> {
        let found = self.state.table(family, table).and_then(|table| table.sets.get(set));
        let Some(found) = found else {
            let what = format!("the elements of {set:?} in table {table:?}");
            return Err(Error::Failed { what, source: io::Error::from_raw_os_error(libc::ENOENT) });
        };
        for (key, element) in found.elements() {
            each(dumped(key, element, self.now));
        }
        Ok(())
    }

    fn counters(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error> {
        let table = self.state.table(family, table);
        for (name, packets) in table.into_iter().flat_map(|table| &table.counters) {
            each(CounterReading { name, packets: *packets, bytes: 0 });
        }
        Ok(())
    }
}

fn dumped<'a>(key: &'a Key, element: &'a Element, now: u64) -> DumpedElement<'a> {
    DumpedElement {
        key: &key.bytes,
        data: match &element.data {
            Some(Datum::Value(value)) => ElementData::Value(value),
            Some(Datum::Verdict(Verdict::Goto(chain))) => ElementData::Goto(chain),
            Some(Datum::Counter(name)) => ElementData::Counter(name),
            Some(Datum::Verdict(_)) | None => ElementData::None,
        },
        interval_end: !key.is_start,
        timeout_ms: element.timeout,
        expires_ms: element.expires_at.map(|at| at.saturating_sub(now)),
        comment: comment(&element.user_data),
    }
}

/// The comment in nft's user data: an entry of type 0, its length, and text up to a NUL.
fn comment(mut user_data: &[u8]) -> Option<&str> {
    while let [kind, length, rest @ ..] = user_data {
        let (value, behind) = rest.split_at_checked(usize::from(*length))?;
        if *kind == 0 {
            return std::str::from_utf8(value.split(|byte| *byte == 0).next()?).ok();
        }
        user_data = behind;
    }
    None
}

/// What others on the machine may do; each counts as a commit of theirs. `false`: there was nothing to do.
impl Simulator {
    pub fn delete_table(&mut self, family: TableFamily, table: &str) -> bool {
        let found = self.state.tables_mut(family).remove(table).is_some();
        self.theirs(found)
    }

    /// `nft flush table`: every rule goes; chains, sets and elements stay.
    pub fn flush_table(&mut self, family: TableFamily, table: &str) -> bool {
        let found = self.state.tables_mut(family).get_mut(table);
        let found = found.map(|table| table.chains.values_mut().for_each(|chain| chain.rules.clear()));
        self.theirs(found.is_some())
    }

    pub fn flush_set(&mut self, family: TableFamily, table: &str, set: &str) -> bool {
        let found = self.state.set_mut(family, table, set);
        let found = found.map(|set| {
            let keys: Vec<Key> = set.elements().keys().cloned().collect();
            for key in keys {
                set.put(key, None);
            }
        });
        self.theirs(found.is_some())
    }

    pub fn delete_element(&mut self, family: TableFamily, table: &str, set: &str, key: &[u8]) -> bool {
        let found = self.state.set_mut(family, table, set).and_then(|set| set.put(Key::start(key), None));
        self.theirs(found.is_some())
    }

    /// Delete one rule, counted from 0.
    pub fn delete_rule(&mut self, family: TableFamily, table: &str, chain: &str, index: usize) -> bool {
        let table = self.state.tables_mut(family).get_mut(table);
        let rules = table.and_then(|table| table.chains.get_mut(chain)).map(|chain| &mut chain.rules);
        let found = match rules {
            Some(rules) if index < rules.len() => {
                rules.remove(index);
                true
            }
            _ => false,
        };
        self.theirs(found)
    }

    fn theirs(&mut self, changed: bool) -> bool {
        if changed {
            self.raise_generation();
        }
        changed
    }

    /// Refuse the next batch with this error number, whatever it holds.
    pub fn fail_next(&mut self, errno: Errno) {
        self.failure = Some(errno);
    }
}
