//! Rules, virtual servers and routing of one machine together, for a data plane that changes them in turns: what packets
//! meet between two changes can be looked at, and any of them can be made to fail.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::io;
use std::rc::Rc;

use ipnet::IpNet;
use kernel::ipvs::{self, Batch, DumpedDestination, DumpedServer, Failure, Info, Timeouts, VirtualServer};
use kernel::nft::{self as tables, CommitError, CounterReading, DumpedElement, Table, TableFamily};

use super::{Node, Routing, Simulator};
use crate::{Host, Journey, Packet, nft, walk};

/// All that a packet meets.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub nft: nft::Simulator,
    pub ipvs: Simulator,
    pub routing: Routing,
}

impl Machine {
    /// Send the first packet of a connection through it.
    pub fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey {
        let mut node = Node { routing: &self.routing, nft: &mut self.nft, ipvs: &mut self.ipvs };
        walk(&mut node, host, packet, draw)
    }

    /// Move the clock, in milliseconds of any origin.
    pub fn set_now(&mut self, milliseconds: u64) {
        self.nft.set_now(milliseconds);
        self.ipvs.set_now(milliseconds);
    }
}

/// What is called after every change.
type Look = Box<dyn FnMut(&Machine)>;

/// A handle of a machine, and the kernel's place for those who want one: clones are handles of the same machine.
#[derive(Clone, Default)]
pub struct SharedMachine(Rc<RefCell<Shared>>);

#[derive(Default)]
struct Shared {
    machine: Machine,
    look: Option<Look>,
    /// How many operations go well before one fails.
    until_failure: Option<usize>,
    operations: usize,
    failures: usize,
}

impl fmt::Debug for SharedMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedMachine").field(&self.0.borrow().machine).finish()
    }
}

impl SharedMachine {
    pub fn new(machine: Machine) -> SharedMachine {
        SharedMachine(Rc::new(RefCell::new(Shared { machine, ..Shared::default() })))
    }

    /// The machine itself. It is nobody else's meanwhile.
    pub fn machine(&self) -> RefMut<'_, Machine> {
        RefMut::map(self.0.borrow_mut(), |shared| &mut shared.machine)
    }

    /// A copy of what it holds.
    pub fn snapshot(&self) -> Machine {
        self.0.borrow().machine.clone()
    }

    /// Call this after every change: each command to IPVS, each transaction of nf_tables, each change of routes. It must
    /// not use a handle.
    pub fn look(&self, look: impl FnMut(&Machine) + 'static) {
        self.0.borrow_mut().look = Some(Box::new(look));
    }

    /// Let an operation fail after so many that go well: a command, a transaction, a listing, a change of routes.
    pub fn fail_after(&self, operations: usize) {
        self.0.borrow_mut().until_failure = Some(operations);
    }

    /// How many operations were asked for, and how many of them were made to fail.
    pub fn operations(&self) -> (usize, usize) {
        let shared = self.0.borrow();
        (shared.operations, shared.failures)
    }

    /// Change the routing.
    pub fn route(&self, change: impl FnOnce(&mut Routing)) -> io::Result<()> {
        let mut shared = self.0.borrow_mut();
        if shared.fails() {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let before = shared.machine.routing.clone();
        change(&mut shared.machine.routing);
        if shared.machine.routing != before {
            shared.changed();
        }
        Ok(())
    }

    /// Have local routes for these prefixes, too.
    pub fn add_local(&self, prefixes: &[IpNet]) -> io::Result<()> {
        self.route(|routing| {
            routing.local.extend(prefixes);
            routing.local.sort_unstable();
            routing.local.dedup();
        })
    }

    /// Ask IPVS something.
    fn ask<T>(
        &self,
        question: impl FnOnce(&mut Simulator) -> Result<T, ipvs::Error>,
    ) -> Result<T, ipvs::Error> {
        let mut shared = self.0.borrow_mut();
        if shared.fails() {
            shared.machine.ipvs.fail_next(libc::ENOMEM);
        }
        question(&mut shared.machine.ipvs)
    }

    fn rules<T>(&self, question: impl FnOnce(&mut nft::Simulator) -> T) -> T {
        question(&mut self.0.borrow_mut().machine.nft)
    }
}

impl Shared {
    fn fails(&mut self) -> bool {
        self.operations += 1;
        let fails = self.until_failure == Some(0);
        self.until_failure = self.until_failure.and_then(|operations| operations.checked_sub(1));
        self.failures += usize::from(fails);
        fails
    }

    fn changed(&mut self) {
        if let Some(look) = &mut self.look {
            look(&self.machine);
        }
    }
}

impl ipvs::Transport for SharedMachine {
    /// Command by command: a failure concerns one of them.
    fn commit(&mut self, batch: &Batch) -> Result<Vec<Failure>, ipvs::Error> {
        let mut shared = self.0.borrow_mut();
        let mut failures = Vec::new();
        for (index, command) in batch.commands().iter().enumerate() {
            let done = match shared.fails() {
                true => Err(libc::ENOMEM),
                false => shared.machine.ipvs.carry_out(command),
            };
            match done {
                Ok(()) => shared.changed(),
                Err(errno) => failures.push(Failure { index, errno }),
            }
        }
        Ok(failures)
    }

    fn services(&mut self) -> Result<Vec<DumpedServer>, ipvs::Error> {
        self.ask(|ipvs| ipvs.services())
    }

    fn service(&mut self, server: VirtualServer) -> Result<Option<DumpedServer>, ipvs::Error> {
        self.ask(|ipvs| ipvs.service(server))
    }

    fn destinations(&mut self, server: VirtualServer) -> Result<Vec<DumpedDestination>, ipvs::Error> {
        self.ask(|ipvs| ipvs.destinations(server))
    }

    fn timeouts(&mut self) -> Result<Timeouts, ipvs::Error> {
        self.ask(|ipvs| ipvs.timeouts())
    }

    fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), ipvs::Error> {
        self.ask(|ipvs| ipvs.set_timeouts(timeouts))
    }

    fn info(&mut self) -> Result<Info, ipvs::Error> {
        self.ask(|ipvs| ipvs.info())
    }

    fn scheduler_available(&mut self, name: &str) -> Result<bool, ipvs::Error> {
        self.ask(|ipvs| ipvs.scheduler_available(name))
    }
}

impl tables::Transport for SharedMachine {
    fn commit(&mut self, batch: &tables::Batch) -> Result<(), CommitError> {
        let mut shared = self.0.borrow_mut();
        if shared.fails() {
            shared.machine.nft.fail_next(libc::ENOMEM);
        }
        shared.machine.nft.commit(batch)?;
        shared.changed();
        Ok(())
    }

    fn generation(&mut self) -> Result<u32, tables::Error> {
        self.rules(|nft| nft.generation())
    }

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, tables::Error> {
        self.rules(|nft| nft.tables(family))
    }

    fn sets(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, tables::Error> {
        self.rules(|nft| nft.sets(family, table))
    }

    fn chains(&mut self, family: TableFamily, table: &str) -> Result<Vec<String>, tables::Error> {
        self.rules(|nft| nft.chains(family, table))
    }

    fn set_size(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        most: usize,
    ) -> Result<usize, tables::Error> {
        self.rules(|nft| nft.set_size(family, table, set, most))
    }

    fn dump_elements(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), tables::Error> {
        self.rules(|nft| nft.dump_elements(family, table, set, each))
    }

    fn counters(
        &mut self,
        family: TableFamily,
        table: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), tables::Error> {
        self.rules(|nft| nft.counters(family, table, each))
    }
}
