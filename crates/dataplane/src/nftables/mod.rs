//! nftables mode: the flat layout, where services and endpoints are only elements of a constant number of
//! maps. `docs/nftables.md` describes it; no external program is run.

mod bytes;
mod class;
mod code;
mod diff;
mod element;
mod inherit;
mod layout;
mod node;
mod render;
mod sets;
mod sweep;
mod table;

use std::collections::HashMap;

use kernel::nft::{self, Transport};
use model::{Family, LocalDetector, NodePlan, Routing, ServiceKey, ServicePlan};

use crate::backend::{Backend, Change, Committed, SyncError};
use layout::{TABLE, TABLE_COMMENT};
use sweep::Sweep;
use table::{Existing, Table};

pub use layout::Dialect;

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
    transport: T,
    families: [FamilyTable; 2],
}

impl<T: Transport> Nftables<T> {
    pub fn new(transport: T, detector: &LocalDetector, masquerade_mark: u32) -> Nftables<T> {
        let families = Family::BOTH.map(|family| FamilyTable {
            dialect: Dialect { family, detector: detector.clone(), masquerade_mark },
            table: Table::default(),
            trust: Trust::InPlace,
        });
        Nftables { transport, families }
    }

    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Look at the kernel's table once, before a rewrite.
    fn existing(&mut self, family: Family) -> Result<Existing, SyncError> {
        let FamilyTable { dialect, trust, .. } = &self.families[family.index()];
        let family = dialect.nft_family();
        let tables = self.transport.tables(family)?;
        let found = tables.iter().find(|table| table.name == TABLE);
        match found {
            Some(table) if table.comment == TABLE_COMMENT && *trust == Trust::InPlace => {
                Ok(Existing::Ours { sets: self.transport.sets(family, TABLE)? })
            }
            Some(table) if table.comment != TABLE_COMMENT => {
                Ok(Existing::Other { pins: inherit::read(&mut self.transport, dialect)? })
            }
            _ => Ok(Existing::Other { pins: Vec::new() }),
        }
    }

    fn commit_changes(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        let FamilyTable { dialect, table, .. } = &mut self.families[family.index()];
        let (batch, difference) = table.change(dialect, changes, node);
        self.transport.commit(&batch)?;
        let sweep = Sweep::after(&difference);
        report_sweep(family, sweep.run(&mut self.transport, dialect));
        Ok(Committed { bytes: batch.len_bytes() })
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
        let (batch, table) = Table::rewrite(&ours.dialect, &existing, plans, node);
        if let Err(error) = self.transport.commit(&batch) {
            ours.trust = Trust::Replace;
            return Err(error.into());
        }
        ours.trust = Trust::InPlace;
        ours.table = table;
        if matches!(existing, Existing::Ours { .. }) {
            let plans = plans.iter().map(|(service, plan)| (&**service, plan));
            let swept = sweep::sweep_strangers(&mut self.transport, &ours.dialect, plans);
            report_sweep(family, swept);
        }
        Ok(Committed { bytes: batch.len_bytes() })
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
            return self.commit_changes(family, changes, node);
        }
        let with = |step: usize| {
            changes.iter().zip(&unpinned).map(move |(change, unpinned)| match (unpinned, step) {
                (None, 1) => *change,
                (None, _) => Change { old: change.new, ..*change },
                (Some(plan), 1) => Change { new: Some(plan), ..*change },
                (Some(plan), _) => Change { old: Some(plan), ..*change },
            })
        };
        let first: Vec<Change<'_>> = with(1).collect();
        let second: Vec<Change<'_>> = with(2).collect();
        self.commit_changes(family, &first, node)?;
        self.commit_changes(family, &second, (node.1, node.1))
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

fn report_sweep(family: Family, swept: Result<usize, SyncError>) {
    match swept {
        Ok(0) => {}
        Ok(count) => tracing::debug!(%family, count, "Moved clients off endpoints that are gone"),
        Err(error) => tracing::warn!(
            %family, %error,
            "Could not forget the pins of gone endpoints; their clients move after one retransmission"
        ),
    }
}
