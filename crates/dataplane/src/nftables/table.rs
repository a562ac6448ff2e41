//! One family's table: what stands in the kernel beside the services' own elements, and the batches that
//! change it.

use std::collections::{BTreeSet, HashMap};

use kernel::nft::{Batch, ElementData};
use model::{NodePlan, ServiceKey, ServicePlan};

use super::class::{Class, Kind};
use super::diff::{Difference, SharedKey, SharedOwners};
use super::element::{Data, Element};
use super::inherit::{self, InheritedPin};
use super::layout::{Dialect, TABLE, is_permanent_chain};
use super::render::{Demands, render};
use super::sets::{Door, SetName, holds_pins};
use super::sweep::SplitBefore;
use super::{meter, node};
use crate::backend::Change;

/// Pool sizes whose chain exists from the start, so that ordinary scaling needs no new chain.
const CLASSES_UP_FRONT: u32 = 16;
/// Services whose elements are gathered before they are written out set by set.
const CHUNK: usize = 512;

/// What the kernel's table is before a rewrite.
pub(crate) enum Existing {
    /// Absent, foreign or of another layout: it is replaced, and these pins of it are taken over.
    Other { pins: Vec<InheritedPin> },
    /// Ours, with these sets and chains: cleared and filled again in place, so that pins live on.
    Ours { sets: Vec<String>, chains: Vec<String>, counters: BTreeSet<String>, split: SplitBefore },
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    owners: SharedOwners,
    /// How many elements belong to services.
    pub(crate) elements: usize,
    declared: Demands,
}

impl Table {
    /// The batch that makes the table hold just these services, and the state it leaves.
    pub(crate) fn rewrite(
        dialect: &Dialect,
        existing: &Existing,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> (Batch, Table) {
        let mut batch = Batch::new(dialect.nft_family(), TABLE);
        let demands = Demands { counting: dialect.count_traffic, ..up_front(plans) };
        let counters = counters(dialect, plans);
        batch.add_table(&dialect.table_comment());
        match existing {
            Existing::Other { .. } => {
                batch.delete_table();
                batch.add_table(&dialect.table_comment());
            }
            Existing::Ours { sets, chains, counters: before, .. } => {
                clear(&mut batch, sets, chains, &demands);
                before.difference(&counters).for_each(|name| batch.delete_counter(name));
            }
        }
        dialect.declare(&mut batch);
        let mut table = Table::default();
        table.declare(dialect, &mut batch, demands);
        node::write_changes(&mut batch, &NodePlan::default(), node);
        counters.iter().for_each(|name| batch.add_counter(name));
        table.write_all(dialect, &mut batch, plans);
        if let Existing::Other { pins } = existing {
            inherit::write(&mut batch, pins, plans);
        }
        (batch, table)
    }

    /// The batch for a few changed services, and what it removes and adds.
    pub(crate) fn change(
        &mut self,
        dialect: &Dialect,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> (Batch, Difference) {
        let mut difference = Difference::default();
        let mut demands = Demands::default();
        let mut counters = CounterChanges::default();
        for change in changes {
            let elements = |plan: Option<&ServicePlan>| {
                plan.map(|plan| render(change.service, plan, dialect.count_traffic)).unwrap_or_default()
            };
            difference.of(elements(change.old), elements(change.new));
            if dialect.count_traffic {
                counters.note(change);
            }
            if let Some(plan) = change.new {
                demands.add(plan);
            }
        }
        difference.settle_shared(&mut self.owners);
        self.elements += difference.added.len();
        self.elements = self.elements.saturating_sub(difference.removed.len());
        let mut batch = Batch::new(dialect.nft_family(), TABLE);
        self.declare(dialect, &mut batch, demands);
        node::write_changes(&mut batch, node.0, node.1);
        for element in &difference.removed {
            batch.delete_element(&element.set.name(), element.key.as_slice());
        }
        // An element names a counter that is there: the old ones go behind the elements, the new come before.
        counters.removed.iter().for_each(|name| batch.delete_counter(name));
        counters.added.iter().for_each(|name| batch.add_counter(name));
        write(&mut batch, &difference.added);
        (batch, difference)
    }

    fn write_all(&mut self, dialect: &Dialect, batch: &mut Batch, plans: &HashMap<ServiceKey, ServicePlan>) {
        let mut pending: Vec<Element> = Vec::new();
        for (index, (service, plan)) in plans.iter().enumerate() {
            let elements = render(service, plan, dialect.count_traffic).into_iter();
            pending.extend(
                elements.filter(|element| SharedKey::of(element).is_none_or(|key| self.owners.add(key))),
            );
            if (index + 1) % CHUNK == 0 {
                self.elements += flush(batch, &mut pending);
            }
        }
        self.elements += flush(batch, &mut pending);
    }

    /// Make the chains, sets and rules that are asked for and not there yet.
    fn declare(&mut self, dialect: &Dialect, batch: &mut Batch, demands: Demands) {
        for class in demands.classes {
            self.declare_class(dialect, batch, class);
        }
        if demands.counting && !self.declared.counting {
            self.declared.counting = true;
            dialect.declare_counting(batch);
        }
        for length in demands.prefix_lengths {
            if self.declared.prefix_lengths.insert(length) {
                dialect.declare_prefix_length(batch, length);
            }
        }
        for seconds in demands.timeouts {
            if self.declared.timeouts.is_empty() {
                dialect.declare_affinity(batch);
            }
            if self.declared.timeouts.insert(seconds) {
                dialect.declare_timeout(batch, seconds);
            }
        }
    }

    fn declare_class(&mut self, dialect: &Dialect, batch: &mut Batch, class: Class) {
        if self.declared.classes.contains(&class) {
            return;
        }
        if let Some(next) = class.next() {
            self.declare_class(dialect, batch, next);
        }
        dialect.declare_class(batch, &class);
        self.declared.classes.insert(class);
    }
}

/// Counters that come and go with changes of services.
#[derive(Default)]
struct CounterChanges {
    added: Vec<String>,
    removed: Vec<String>,
}

impl CounterChanges {
    fn note(&mut self, change: &Change<'_>) {
        let names = |plan: Option<&ServicePlan>| {
            plan.map(|plan| meter::names(change.service, plan)).unwrap_or_default()
        };
        let (before, after) = (names(change.old), names(change.new));
        self.added.extend(after.difference(&before).cloned());
        self.removed.extend(before.difference(&after).cloned());
    }
}

/// Every counter there will be.
fn counters(dialect: &Dialect, plans: &HashMap<ServiceKey, ServicePlan>) -> BTreeSet<String> {
    let counted = plans.iter().filter(|_| dialect.count_traffic);
    counted.flat_map(|(service, plan)| meter::names(service, plan)).collect()
}

/// Take everything away but the pins, the counters and the base chains, and what served timeouts, prefix lengths and pool
/// sizes that nobody wants any more.
///
/// The other sets are flushed and not deleted, although a new set would be filled faster: a packet that is on
/// its way through the old rules at the moment of the commit looks up what is valid *after* it. In the same
/// set it finds the new elements; in a deleted one it would find nothing and go unserved.
fn clear(batch: &mut Batch, sets: &[String], chains: &[String], wanted: &Demands) {
    batch.flush_rules();
    let wanted_sets = wanted.sets();
    for name in sets.iter().filter(|name| !holds_pins(name)) {
        batch.flush_set(name);
        if !wanted_sets.contains(name) {
            batch.delete_set(name);
        }
    }
    let wanted_chains = wanted.chains();
    for name in chains.iter().filter(|name| !is_permanent_chain(name) && !wanted_chains.contains(*name)) {
        batch.delete_chain(name);
    }
}

fn up_front(plans: &HashMap<ServiceKey, ServicePlan>) -> Demands {
    let mut demands = Demands::default();
    let class = |size| Class { door: Door::Vip, kind: Kind::Plain, affine: false, size };
    demands.classes.extend((1..=CLASSES_UP_FRONT).map(class));
    plans.values().for_each(|plan| demands.add(plan));
    demands
}

/// Write gathered elements set by set: neighbours of one set share a message. Returns how many there were.
fn flush(batch: &mut Batch, pending: &mut Vec<Element>) -> usize {
    pending.sort_unstable_by(Element::order);
    write(batch, pending);
    let count = pending.len();
    pending.clear();
    count
}

fn write(batch: &mut Batch, elements: &[Element]) {
    for element in elements {
        let set: SetName = element.set;
        let (name, key, label) = (set.name(), element.key.as_slice(), element.label.as_deref());
        match &element.data {
            Data::None => batch.add_element(&name, key, ElementData::None, label),
            Data::Counter => {
                batch.add_element(&name, key, ElementData::Counter(label.unwrap_or_default()), None);
            }
            Data::Endpoint(endpoint) => {
                batch.add_element(&name, key, ElementData::Value(endpoint.as_slice()), label);
            }
            Data::Goto(class) => batch.add_element(&name, key, ElementData::Goto(&class.name()), label),
        }
    }
}
