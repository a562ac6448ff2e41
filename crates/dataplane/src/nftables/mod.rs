//! nftables mode: the flat layout, where services and endpoints are only elements of a constant number of maps; but for
//! ports with many addresses or endpoints, which have a pool of their own. `docs/nftables.md` describes it; no external
//! program is run.

mod counted;
mod fullness;
mod inspect;
mod leftovers;
mod mode;
mod notified;
pub mod pins;
pub(crate) mod refusals;
pub(crate) mod service_counters;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use kernel::nft::{self, CommitErrorKind, Transport};
use model::{
    Address, Change, Family, LocalDetector, NodePlan, PortPlan, Routing, ServiceKey, ServicePlan,
    merged_ports,
};

use crate::backend::{Backend, Committed, Setup, SyncError};
use crate::drift::TellDrift;
use crate::inspection::{Inspected, Look};
use counted::Counted;
use table::{Counting, Door, Existing, Picker, SetName, TABLE, Table, TableSetup};

pub(crate) use fullness::{collector as fullness_collector, room as room_for_pins_here};
pub(crate) use mode::{MODE, SYNC_FAILURES};
pub use table::{Count, Pin, PinSweep, PortTraffic, ServicePortName, read_traffic};

/// The name of our table, in the families `ip` and `ip6`.
pub const TABLE_NAME: &str = TABLE;

/// What the kernel itself gives a set that packets write.
const LEAST_ROOM_FOR_PINS: u32 = 65_536;
/// Pins that are read on the sync thread: a few milliseconds' worth. More are read beside it.
const MOST_READ_AT_ONCE: usize = 4096;

/// A rewrite in place that failed once is tried as a replacement of the whole table the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The table in the kernel may be emptied and filled in place.
    InPlace,
    /// It refused that: delete it and start over.
    Replace,
}

struct FamilyTable {
    setup: TableSetup,
    table: Table,
    trust: Trust,
    /// Pins that are to go, and wait to be read.
    sweeps: Vec<PinSweep>,
}

/// The nftables data plane over a real or simulated kernel.
pub struct Nftables<T> {
    transport: Counted<T>,
    /// The netlink port of our commits, where the kernel reports those of others.
    own_port: Option<u32>,
    families: [FamilyTable; 2],
}

impl<T: Transport> Nftables<T> {
    pub fn new(transport: T, detector: &LocalDetector, masquerade_mark: u32) -> Nftables<T> {
        let families = Family::BOTH.map(|family| FamilyTable {
            setup: TableSetup {
                family,
                detector: detector.clone(),
                masquerade_mark,
                counting: Counting::Nothing,
                room_for_pins: LEAST_ROOM_FOR_PINS,
                picker: Picker::Rules,
                on_node: Vec::new(),
                addition: None,
            },
            table: Table::default(),
            trust: Trust::InPlace,
            sweeps: Vec::new(),
        });
        Nftables { transport: Counted::new(transport), own_port: None, families }
    }

    /// Whether packets, bytes and connections of every service port are counted, from the next rewrite on.
    pub fn count_traffic(mut self, on: bool) -> Nftables<T> {
        for FamilyTable { setup, .. } in &mut self.families {
            setup.counting = if on { Counting::Everything } else { Counting::Nothing };
        }
        self
    }

    /// The same for refused packets alone.
    pub(crate) fn count_refused(mut self, on: bool) -> Nftables<T> {
        for FamilyTable { setup, .. } in &mut self.families {
            setup.counting = if on { Counting::Refused } else { Counting::Nothing };
        }
        self
    }

    /// How many clients may be pinned, for addresses and for node ports each, in each family; see [`room_for_pins`].
    pub fn room_for_pins(mut self, pins: u32) -> Nftables<T> {
        for FamilyTable { setup, .. } in &mut self.families {
            setup.room_for_pins = room_for_pins(pins);
        }
        self
    }

    /// Which addresses of the node serve node ports, from the next rewrite on.
    pub(crate) fn set_on_node(&mut self, family: Family, ips: &[IpAddr]) {
        self.families[family.index()].setup.on_node = ips.to_vec();
    }

    /// Lead packets to IPVS, which picks endpoints.
    pub(crate) fn beside_ipvs(mut self) -> Nftables<T> {
        for FamilyTable { setup, .. } in &mut self.families {
            setup.picker = Picker::Ipvs { local_mark: table::local_mark(setup.masquerade_mark) };
        }
        self
    }

    /// Put these rules in front, from the next rewrite on.
    pub(crate) fn add(&mut self, family: Family, addition: Arc<dyn table::Addition>) {
        self.families[family.index()].setup.addition = Some(addition);
    }

    /// Have the kernel report commits that do not come from this netlink port.
    pub(crate) fn notified_beside(mut self, own_port: u32) -> Nftables<T> {
        self.own_port = Some(own_port);
        self
    }

    pub fn transport(&mut self) -> &mut T {
        &mut self.transport.inner
    }

    /// Whether the kernel holds a table of our name; one that cannot be read counts as none.
    pub fn exists(&mut self, family: Family) -> bool {
        let family = self.families[family.index()].setup.nft_family();
        self.transport.tables(family).is_ok_and(|tables| tables.iter().any(|table| table.name == TABLE))
    }

    /// Look at the kernel's table once, before a rewrite.
    fn existing(&mut self, family: Family) -> Result<Existing, SyncError> {
        let FamilyTable { setup, trust, .. } = &self.families[family.index()];
        let family = setup.nft_family();
        let comment = setup.table_comment();
        let tables = self.transport.tables(family)?;
        match tables.iter().find(|table| table.name == TABLE) {
            Some(table) if table.comment == comment && *trust == Trust::InPlace => Ok(Existing::Ours {
                sets: self.transport.sets(family, TABLE)?,
                chains: self.transport.chains(family, TABLE)?,
                counters: table::counter_names(&mut self.transport, setup)?,
                // Unread, every destination counts as newly split: that costs some pins, and is never wrong.
                split: table::split_before(&mut self.transport, setup.family).unwrap_or_default(),
            }),
            Some(table) if table.comment != comment => {
                Ok(Existing::Other { pins: table::read_pins(&mut self.transport, setup) })
            }
            _ => Ok(Existing::Other { pins: Vec::new() }),
        }
    }

    /// Clients of endpoints that go, as far as they can be read at once: their pins go in the same transaction.
    fn known_pins(&mut self, sweep: &PinSweep) -> Vec<Pin> {
        let family = self.families[sweep.family.index()].setup.nft_family();
        let few = |set: SetName| {
            let size = self.transport.set_size(family, TABLE, &set.name(), MOST_READ_AT_ONCE);
            size.is_ok_and(|pins| pins <= MOST_READ_AT_ONCE)
        };
        match Door::BOTH.map(SetName::Pins).into_iter().all(few) {
            true => sweep.find(&mut self.transport).unwrap_or_default(),
            false => Vec::new(),
        }
    }
}

impl<T: Transport> Backend for Nftables<T> {
    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        let existing = self.existing(family)?;
        let ours = &mut self.families[family.index()];
        let started = Instant::now();
        let (batch, table) = Table::rewrite(&ours.setup, &existing, plans, node);
        let rendering = started.elapsed();
        if let Err(error) = self.transport.commit(&batch) {
            if is_misfit(error.kind) {
                ours.trust = Trust::Replace;
            }
            return Err(error.into());
        }
        ours.trust = Trust::InPlace;
        ours.table = table;
        if let Existing::Ours { split, .. } = &existing {
            ours.sweeps.push(PinSweep::of_strangers(family, plans, split));
        }
        let (bytes, elements) = (batch.len_bytes(), ours.table.elements);
        Ok(Committed { bytes, elements, rendering, ..Committed::default() })
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        let sweep = PinSweep::after(family, changes);
        let known = sweep.as_ref().map(|sweep| self.known_pins(sweep)).unwrap_or_default();
        let FamilyTable { setup, table, sweeps, .. } = &mut self.families[family.index()];
        let started = Instant::now();
        let (mut batch, _) = table.change(setup, changes, node);
        let rendering = started.elapsed();
        let without_pins = (!known.is_empty()).then(|| batch.clone());
        table::delete_pins(&mut batch, &known);
        let committed = Committed {
            bytes: batch.len_bytes(),
            elements: table.elements,
            rendering,
            ..Committed::default()
        };
        match (self.transport.commit(&batch), without_pins) {
            // A packet has replaced a pin since it was read: they are left to the sweep.
            (Err(error), Some(batch)) if is_about_pins(error.kind) => self.transport.commit(&batch)?,
            (outcome, _) => outcome?,
        }
        sweeps.extend(sweep);
        Ok(committed)
    }

    fn works_in_pieces(&self) -> bool {
        true
    }

    /// A destination with affinity that turns from one pool to two goes without affinity until its pins are gone: a pin
    /// made before may name an endpoint that is right for one kind of client and wrong for the other. (IPVS pins the
    /// clients of its ports itself.)
    fn interim(&self, change: &Change<'_>) -> Option<ServicePlan> {
        let (old, new) = (change.old?, change.new?);
        let is_pinned_here = |port: &PortPlan| self.families.iter().any(|table| table.setup.picks_for(port));
        let turns = |(before, after): (Option<&Arc<PortPlan>>, Option<&Arc<PortPlan>>)| {
            let pair = before.zip(after).filter(|(before, after)| !Arc::ptr_eq(before, after));
            pair.is_some_and(|(before, after)| is_pinned_here(before) && is_newly_split(before, after))
        };
        merged_ports(&old.ports, &new.ports).any(turns).then(|| new.clone().without_affinity())
    }

    fn take_sweeps(&mut self, family: Family) -> Vec<PinSweep> {
        std::mem::take(&mut self.families[family.index()].sweeps)
    }

    fn sweep(&mut self, sweep: &PinSweep) -> Result<usize, SyncError> {
        let pins = sweep.find(&mut self.transport)?;
        self.forget(sweep.family, &pins)
    }

    fn forget(&mut self, family: Family, pins: &[Pin]) -> Result<usize, SyncError> {
        Ok(table::forget(&mut self.transport, family, pins)?)
    }

    /// Invalid packets pass, as in upstream's nftables mode.
    fn configure(&mut self, family: Family, wanted: &Setup) -> bool {
        let setup = &mut self.families[family.index()].setup;
        let before = (setup.table_comment(), setup.masquerade_mark);
        setup.detector = wanted.detector.clone();
        setup.masquerade_mark = wanted.masquerade_mark;
        if let Picker::Ipvs { local_mark: mark } = &mut setup.picker {
            *mark = table::local_mark(wanted.masquerade_mark);
        }
        before != (setup.table_comment(), setup.masquerade_mark)
    }

    fn watch(&mut self, tell: TellDrift) {
        let Some(own_port) = self.own_port else { return };
        let monitor = notified::subscribe(own_port);
        // From here on nothing is missed.
        if !self.transport.is_undisturbed() {
            tell(notified::missed("Another process used nf_tables during the first sync"));
        }
        if let Err(error) = monitor.and_then(|monitor| notified::start(monitor, own_port, tell)) {
            tracing::error!(
                %error,
                "Failed to watch nf_tables; changes by other processes are repaired only by the next change or \
                 restart"
            );
        }
    }

    fn damage_found(&self) -> &'static str {
        "Our table in nf_tables is gone"
    }

    /// Damage within the table is reported by notifications.
    fn is_intact(&mut self, family: Family, _: &HashMap<ServiceKey, ServicePlan>, _: &NodePlan) -> bool {
        let setup = &self.families[family.index()].setup;
        let (family, comment) = (setup.nft_family(), setup.table_comment());
        let ours = |table: &nft::Table| table.name == TABLE && table.comment == comment;
        // An unreadable list says nothing about the table; the next commit will.
        self.transport.tables(family).map_or(true, |tables| tables.iter().any(ours))
    }

    fn inspect(&mut self, family: Family, inspected: &Inspected<'_>) -> Look {
        let setup = &self.families[family.index()].setup;
        Look::Done(inspect::inspect(&mut self.transport, setup, inspected).map_err(Into::into))
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        let family = self.families[family.index()].setup.nft_family();
        if self.transport.tables(family)?.iter().any(|table| table.name == TABLE) {
            let mut batch = nft::Batch::new(family, TABLE);
            batch.delete_table();
            self.transport.commit(&batch)?;
        }
        Ok(())
    }
}

/// Whether an error of a rewrite in place says that the table is not what we take it for. Anything else (no
/// memory, no permission) would befall a replacement as well, and that costs all pins.
fn is_misfit(kind: CommitErrorKind) -> bool {
    matches!(
        kind,
        CommitErrorKind::Exists
            | CommitErrorKind::Missing
            | CommitErrorKind::Busy
            | CommitErrorKind::Rejected
    )
}

/// Whether an error may come from pins that were read before the commit.
fn is_about_pins(kind: CommitErrorKind) -> bool {
    matches!(kind, CommitErrorKind::Exists | CommitErrorKind::Full)
}

/// Whether a destination with affinity turns from one pool to two.
fn is_newly_split(before: &PortPlan, after: &PortPlan) -> bool {
    let is_split = |routing: Routing| matches!(routing, Routing::Split { .. });
    if before.affinity_seconds.is_none() || after.affinity_seconds.is_none() {
        return false;
    }
    let split = after.destinations.iter().filter(|destination| is_split(destination.routing));
    let split: HashSet<Address> = split.map(|destination| destination.at).collect();
    let mut whole = before.destinations.iter().filter(|destination| !is_split(destination.routing));
    !split.is_empty() && whole.any(|destination| split.contains(&destination.at))
}

/// How many pins a map holds at most where so many connections may be tracked.
fn room_for_pins(tracked: u32) -> u32 {
    tracked.max(LEAST_ROOM_FOR_PINS)
}

/// How many clients are pinned, by address and by node port; `None` if there is no table to ask.
fn count_pins<T: Transport>(transport: &mut T, family: Family) -> Option<[usize; 2]> {
    let family = table::nft_family(family);
    let mut size = |door| transport.set_size(family, TABLE, &SetName::Pins(door).name(), usize::MAX);
    match Door::BOTH.map(|door| size(door).ok()) {
        [Some(addresses), Some(node_ports)] => Some([addresses, node_ports]),
        _ => None,
    }
}

impl From<nft::CommitError> for SyncError {
    fn from(error: nft::CommitError) -> SyncError {
        SyncError::new(error)
    }
}

impl From<nft::Error> for SyncError {
    fn from(error: nft::Error) -> SyncError {
        SyncError::new(error)
    }
}
