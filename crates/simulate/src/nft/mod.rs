//! A simulated nf_tables: [`Simulator`] takes the bytes a kernel would, refuses what a kernel would refuse,
//! and [`walk`] sends packets through the rules it holds. No privilege, no system calls.
//!
//! It stands in for the kernel in tests of the dataplane and where the kernel cannot be reached. Modelled is
//! what this project sends: ip and ip6 tables, filter and nat chains, named sets and maps, and the
//! instructions of [`kernel::nft::Expression`]. Anything else is refused with `EOPNOTSUPP` or `ENOENT`.

mod apply;
mod decode;
mod decode_rule;
mod elements;
mod graph;
mod header;
mod instruction;
mod interval;
mod lookup;
mod machine;
mod registers;
mod state;
#[cfg(test)]
mod tests;
mod transaction;
mod transport;
pub(crate) mod walk;
mod words;

use std::fmt;

use kernel::netlink::{Message, messages};
use kernel::nft::TableFamily;
use kernel::nft::sys::*;

use state::{Key, State};
use transaction::Transaction;

pub(crate) type Errno = i32;

/// Why a batch was refused: the kernel's error number and the message it is about. A batch that cannot be
/// read at all, or that someone else's commit overtook, is blamed on its `BATCH_BEGIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimError {
    pub sequence: u32,
    pub errno: i32,
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = std::io::Error::from_raw_os_error(self.errno);
        write!(f, "the simulated kernel refused message {} of the batch: {reason}", self.sequence)
    }
}

impl std::error::Error for SimError {}

/// The nf_tables of one network namespace.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    state: State,
    generation: u32,
    handles: u64,
    now: u64,
    failure: Option<Errno>,
    cannot_destroy: bool,
}

impl Simulator {
    pub fn new() -> Simulator {
        Simulator { generation: 1, ..Simulator::default() }
    }

    /// A kernel before 6.3, which knows no message that destroys.
    pub fn before_destroy() -> Simulator {
        Simulator { cannot_destroy: true, ..Simulator::new() }
    }

    /// Take a whole batch, from `BATCH_BEGIN` to `BATCH_END`: all of it, or on an error nothing.
    pub fn commit_bytes(&mut self, batch: &[u8]) -> Result<(), SimError> {
        let begin = self.begin(batch)?;
        if let Some(errno) = self.failure.take() {
            return Err(SimError { sequence: begin, errno });
        }
        let unknown = |message: &Message<'_>| self.cannot_destroy && apply::destroys(message.kind);
        if let Some(message) = messages(batch).find(unknown) {
            return Err(SimError { sequence: message.sequence, errno: libc::EINVAL });
        }
        match self.attempt(batch, Checks::AtTheEnd) {
            // Which message made the graph of chains invalid is only known by checking after each.
            Err(Refusal::Graph) => self.attempt(batch, Checks::AfterEach),
            other => other,
        }
        .map_err(|refusal| match refusal {
            Refusal::Message(error) => error,
            Refusal::Graph => SimError { sequence: begin, errno: libc::EINVAL },
        })
    }

    /// Check the frame of the batch; gives the sequence number of its begin.
    fn begin(&self, batch: &[u8]) -> Result<u32, SimError> {
        let mut all = messages(batch);
        let Some(begin) = all.next() else { return Err(SimError { sequence: 0, errno: libc::EINVAL }) };
        let error = |errno| SimError { sequence: begin.sequence, errno };
        let last = all.last().map(|message| message.kind);
        if begin.kind != NFNL_MSG_BATCH_BEGIN || last != Some(NFNL_MSG_BATCH_END) {
            return Err(error(libc::EINVAL));
        }
        let fields = decode::Fields::of(begin.payload.get(4..).unwrap_or_default());
        match fields.number(NFNL_BATCH_GENID).map_err(error)? {
            Some(generation) if generation != 0 && generation != self.generation => {
                Err(error(libc::ERESTART))
            }
            _ => Ok(begin.sequence),
        }
    }

    fn attempt(&mut self, batch: &[u8], checks: Checks) -> Result<(), Refusal> {
        let mut transaction = Transaction::new(&mut self.state, self.handles);
        let mut outcome = apply_all(&mut transaction, batch, self.now, checks);
        if outcome.is_ok() && transaction.suspects().any(|table| graph::check(table).is_err()) {
            outcome = Err(Refusal::Graph);
        }
        self.handles = transaction.handles;
        if outcome.is_err() {
            transaction.roll_back();
            return outcome;
        }
        let changed = transaction.changed_anything();
        transaction.commit();
        if changed {
            self.raise_generation();
        }
        Ok(())
    }

    /// The number of commits so far that changed something, as `NFT_MSG_GETGEN` tells it.
    pub fn generation_id(&self) -> u32 {
        self.generation
    }

    /// Never 0, which in a batch means any.
    fn raise_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1).max(1);
    }

    /// Move the clock, in milliseconds of any origin; elements whose time is up disappear.
    pub fn set_now(&mut self, milliseconds: u64) {
        self.now = milliseconds;
        self.state.expire(milliseconds);
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    pub fn table_names(&self, family: TableFamily) -> Vec<&str> {
        self.state.tables(family).keys().map(String::as_str).collect()
    }

    /// How many elements a set holds; `None` if there is no such set.
    pub fn count(&self, family: TableFamily, table: &str, set: &str) -> Option<usize> {
        Some(self.state.table(family, table)?.sets.get(set)?.elements().len())
    }

    pub fn has_element(&self, family: TableFamily, table: &str, set: &str, key: &[u8]) -> bool {
        let set = self.state.table(family, table).and_then(|table| table.sets.get(set));
        set.is_some_and(|set| set.elements().contains_key(&Key::start(key)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    AtTheEnd,
    AfterEach,
}

enum Refusal {
    Message(SimError),
    /// The graph of chains is invalid; see [`graph`].
    Graph,
}

fn apply_all(to: &mut Transaction<'_>, batch: &[u8], now: u64, checks: Checks) -> Result<(), Refusal> {
    for message in messages(batch).skip(1).take_while(|message| message.kind != NFNL_MSG_BATCH_END) {
        apply_one(to, &message, now, checks)
            .map_err(|errno| Refusal::Message(SimError { sequence: message.sequence, errno }))?;
    }
    Ok(())
}

fn apply_one(to: &mut Transaction<'_>, message: &Message<'_>, now: u64, checks: Checks) -> Result<(), Errno> {
    let request = decode::request(message)?;
    apply::request(to, &request, now)?;
    if checks == Checks::AfterEach {
        to.suspects().try_for_each(graph::check)?;
    }
    Ok(())
}
