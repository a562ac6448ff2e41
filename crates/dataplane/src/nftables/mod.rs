//! nftables mode: the flat layout, where services and endpoints are only elements of a constant number of
//! maps. `docs/nftables.md` describes it; no external program is run.

mod bytes;
mod class;
mod code;
mod counted;
mod counting_rules;
mod diff;
mod element;
mod inherit;
mod layout;
mod meter;
mod node;
mod render;
mod sets;
mod sweep;
mod table;
mod traffic;

use std::collections::HashMap;
use std::time::Instant;

use kernel::nft::{self, CommitErrorKind, Transport};
use model::{Family, LocalDetector, NodePlan, Routing, ServiceKey, ServicePlan};

use crate::backend::{Backend, Change, Committed, SyncError};
use counted::Counted;
use layout::TABLE;
use sweep::Sweep;
use table::{Existing, Table};

pub use layout::Dialect;
pub use meter::{Direction, Meter, MeterName};
pub use traffic::{Count, PortTraffic, ServicePortName, read_traffic};

/// The name of our table, in the families `ip` and `ip6`.
pub const TABLE_NAME: &str = TABLE;

/// A rewrite in place that failed once is tried as a replacement of the whole table the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The table in the kernel may be emptied and filled in place.
    InPlace,
    /// It refused that: delete it and start anew.
    Replace,
}

struct FamilyTable {
    dialect: Dialect,
    table: Table,
    trust: Trust,
}

/// The nftables data plane over a real or simulated kernel.
pub struct Nftables<T> {
    transport: Counted<T>,
    families: [FamilyTable; 2],
}

impl<T: Transport> Nftables<T> {
    pub fn new(transport: T, detector: &LocalDetector, masquerade_mark: u32) -> Nftables<T> {
        let families = Family::BOTH.map(|family| FamilyTable {
            dialect: Dialect { family, detector: detector.clone(), masquerade_mark, count_traffic: false },
            table: Table::default(),
            trust: Trust::InPlace,
        });
        Nftables { transport: Counted::new(transport), families }
    }

    /// Whether packets, bytes and connections of every service port are counted, from the next rewrite on.
    pub fn count_traffic(mut self, on: bool) -> Nftables<T> {
        for FamilyTable { dialect, .. } in &mut self.families {
            dialect.count_traffic = on;
        }
        self
    }

    pub fn transport(&mut self) -> &mut T {
        &mut self.transport.inner
    }

    /// Whether nobody else has committed anything to nf_tables since our first commit.
    pub fn is_undisturbed(&mut self) -> bool {
        self.transport.is_undisturbed()
    }

    /// Whether the kernel holds a table of our name; one that cannot be read counts as none.
    pub fn exists(&mut self, family: Family) -> bool {
        let family = self.families[family.index()].dialect.nft_family();
        self.transport.tables(family).is_ok_and(|tables| tables.iter().any(|table| table.name == TABLE))
    }

    /// Look at the kernel's table once, before a rewrite.
    fn existing(&mut self, family: Family) -> Result<Existing, SyncError> {
        let FamilyTable { dialect, trust, .. } = &self.families[family.index()];
        let family = dialect.nft_family();
        let comment = dialect.table_comment();
        let tables = self.transport.tables(family)?;
        match tables.iter().find(|table| table.name == TABLE) {
            Some(table) if table.comment == comment && *trust == Trust::InPlace => Ok(Existing::Ours {
                sets: self.transport.sets(family, TABLE)?,
                chains: self.transport.chains(family, TABLE)?,
                counters: traffic::counter_names(&mut self.transport, dialect)?,
                // Unread, every destination counts as newly split: that costs some pins, and is never wrong.
                split: sweep::split_before(&mut self.transport, dialect).unwrap_or_default(),
            }),
            Some(table) if table.comment != comment => {
                Ok(Existing::Other { pins: inherit::read(&mut self.transport, dialect) })
            }
            _ => Ok(Existing::Other { pins: Vec::new() }),
        }
    }

    /// One transaction; returns what it took and the pins that are to go after it.
    fn commit_changes(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<(Committed, Sweep), SyncError> {
        let FamilyTable { dialect, table, .. } = &mut self.families[family.index()];
        let started = Instant::now();
        let (batch, difference) = table.change(dialect, changes, node);
        let rendering = started.elapsed();
        let committed = Committed {
            bytes: batch.len_bytes(),
            elements: table.elements,
            rendering,
            ..Committed::default()
        };
        self.transport.commit(&batch)?;
        Ok((committed, Sweep::after(&difference)))
    }

    fn sweep(&mut self, family: Family, sweep: &Sweep) -> Result<usize, SyncError> {
        sweep.run(&mut self.transport, &self.families[family.index()].dialect)
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
        let (batch, table) = Table::rewrite(&ours.dialect, &existing, plans, node);
        let rendering = started.elapsed();
        if let Err(error) = self.transport.commit(&batch) {
            if is_misfit(error.kind) {
                ours.trust = Trust::Replace;
            }
            return Err(error.into());
        }
        ours.trust = Trust::InPlace;
        ours.table = table;
        let mut left_behind = false;
        if let Existing::Ours { split, .. } = &existing {
            let swept = sweep::sweep_strangers(&mut self.transport, &ours.dialect, plans, split);
            left_behind = !report_sweep(family, swept);
        }
        let (bytes, elements) = (batch.len_bytes(), ours.table.elements);
        Ok(Committed { bytes, elements, left_behind, rendering, ..Committed::default() })
    }

    /// A destination with affinity that turns from one pool to two is changed in two steps: a pin made
    /// before may name an endpoint that is right for one kind of client and wrong for the other.
    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        let unpinned: Vec<Option<ServicePlan>> = changes.iter().map(unpinned_step).collect();
        if unpinned.iter().all(Option::is_none) {
            let (committed, sweep) = self.commit_changes(family, changes, node)?;
            let swept = report_sweep(family, self.sweep(family, &sweep));
            return Ok(Committed { left_behind: !swept, ..committed });
        }
        let (first, sweep) = self.commit_changes(family, &flip_step(changes, &unpinned, true), node)?;
        self.sweep(family, &sweep)?;
        let second = flip_step(changes, &unpinned, false);
        let (second, _) = self.commit_changes(family, &second, (node.1, node.1))?;
        let (bytes, rendering) = (first.bytes + second.bytes, first.rendering + second.rendering);
        Ok(Committed { bytes, rendering, ..second })
    }

    fn detect_local(&mut self, family: Family, detector: &LocalDetector) -> bool {
        let dialect = &mut self.families[family.index()].dialect;
        let before = dialect.table_comment();
        dialect.detector = detector.clone();
        dialect.table_comment() != before
    }

    fn masquerade_by(&mut self, family: Family, mark: u32) -> bool {
        let dialect = &mut self.families[family.index()].dialect;
        std::mem::replace(&mut dialect.masquerade_mark, mark) != mark
    }

    /// Upstream's nftables mode passes them on, too.
    fn drop_invalid(&mut self, _: Family, _: bool) -> bool {
        false
    }

    /// Damage within the table is told by notifications.
    fn is_intact(&mut self, family: Family, _: &HashMap<ServiceKey, ServicePlan>, _: &NodePlan) -> bool {
        let dialect = &self.families[family.index()].dialect;
        let (family, comment) = (dialect.nft_family(), dialect.table_comment());
        let ours = |table: &nft::Table| table.name == TABLE && table.comment == comment;
        // An unreadable list says nothing about the table; the next commit will.
        self.transport.tables(family).map_or(true, |tables| tables.iter().any(ours))
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        let family = self.families[family.index()].dialect.nft_family();
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

/// The same plan without affinity, if this change must pass through it.
fn unpinned_step(change: &Change<'_>) -> Option<ServicePlan> {
    let (old, new) = (change.old?, change.new?);
    old.affinity_seconds?;
    new.affinity_seconds?;
    let split = |plan: &ServicePlan| {
        let mut destinations = plan.ports.iter().flat_map(|port| &port.destinations);
        destinations.any(|destination| matches!(destination.routing, Routing::Split { .. }))
    };
    (split(new) && !split(old)).then(|| ServicePlan { affinity_seconds: None, ..new.clone() })
}

/// One of the two steps of changes of which some must pass through a plan without affinity.
fn flip_step<'a>(
    changes: &[Change<'a>],
    unpinned: &'a [Option<ServicePlan>],
    first: bool,
) -> Vec<Change<'a>> {
    let steps = changes.iter().zip(unpinned).map(|(change, unpinned)| match unpinned {
        None if first => *change,
        None => Change { old: change.new, ..*change },
        Some(plan) if first => Change { new: Some(plan), ..*change },
        Some(plan) => Change { old: Some(plan), ..*change },
    });
    steps.collect()
}

/// Returns whether it is done.
fn report_sweep(family: Family, swept: Result<usize, SyncError>) -> bool {
    match &swept {
        Ok(0) => {}
        Ok(count) => tracing::debug!(%family, count, "Moved clients off endpoints that are gone"),
        Err(error) => tracing::warn!(
            %family, %error,
            "Could not forget the pins of gone endpoints; their clients move after one retransmission"
        ),
    }
    swept.is_ok()
}
