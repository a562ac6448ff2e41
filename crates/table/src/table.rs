//! One family's table: what stands in the kernel beside the services' own elements, and the batches that
//! change it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kernel::nft::{Batch, ElementData};
use model::{Change, NodePlan, PortPlan, Protocol, ServiceKey, ServicePlan};

use crate::class::Draw;
use crate::demands::{self, Declared, Demand};
use crate::diff::{Difference, SharedKey, SharedOwners};
use crate::element::{Data, Element};
use crate::inherit::{self, InheritedPin};
use crate::layout::{Picker, TABLE, TableSetup, is_permanent_chain};
use crate::meter::{self, Counting};
use crate::pool::PoolId;
use crate::render::{RenderedPort, of_service};
use crate::sets::{SetName, holds_pins};
use crate::sweep::SplitBefore;
use crate::{node, own_pool, refusals};

/// Elements that are gathered before they are written out set by set.
const CHUNK: usize = 4096;

/// What the kernel's table is before a rewrite.
pub enum Existing {
    /// Absent, foreign or of another layout: it is replaced, and these pins of it are taken over.
    Other { pins: Vec<InheritedPin> },
    /// Ours, with these sets and chains: cleared and filled again in place, so that pins live on.
    Ours { sets: Vec<String>, chains: Vec<String>, counters: BTreeSet<String>, split: SplitBefore },
}

#[derive(Debug, Default)]
pub struct Table {
    owners: SharedOwners,
    /// How many elements belong to services.
    pub elements: usize,
    declared: Declared,
    has_affinity: bool,
}

impl Table {
    /// The batch that makes the table hold just these services, and the state it leaves.
    pub fn rewrite(
        setup: &TableSetup,
        existing: &Existing,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> (Batch, Table) {
        let mut batch = Batch::new(setup.nft_family(), TABLE);
        let mut declared = Declared::up_front();
        for (service, plan) in plans {
            demands::ask_for_plan(&mut declared, setup, service, plan);
        }
        let counters = counters(setup, plans);
        batch.add_table(&setup.table_comment());
        match existing {
            Existing::Other { .. } => {
                batch.delete_table();
                batch.add_table(&setup.table_comment());
            }
            Existing::Ours { sets, chains, counters: before, .. } => {
                clear(&mut batch, sets, chains, (&declared, setup));
                let gone = before
                    .difference(&counters)
                    .filter(|name| !refusals::counters().contains(&name.as_str()));
                gone.for_each(|name| batch.delete_counter(name));
            }
        }
        // Rules name them.
        refusals::counters().iter().for_each(|name| batch.add_counter(name));
        setup.declare(&mut batch);
        if setup.counting == Counting::Everything {
            setup.declare_counting(&mut batch);
        }
        let mut table = Table { has_affinity: declared.has_timeouts(), ..Table::default() };
        if table.has_affinity {
            setup.declare_affinity(&mut batch);
        }
        declared.iter().for_each(|demand| declare(setup, &mut batch, demand));
        table.declared = declared;
        node::write_changes(&mut batch, &NodePlan::default(), node, setup.picker != Picker::Rules);
        counters.iter().for_each(|name| batch.add_counter(name));
        table.write_all(setup, &mut batch, plans);
        if let Existing::Other { pins } = existing {
            inherit::write(&mut batch, pins, plans, setup.room_for_pins);
        }
        (batch, table)
    }

    /// The batch for a few changed services, and what it removes and adds.
    pub fn change(
        &mut self,
        setup: &TableSetup,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> (Batch, Difference) {
        let mut batch = Batch::new(setup.nft_family(), TABLE);
        let mut difference = Difference::default();
        let mut counters = CounterChanges::default();
        let mut pools = PoolSizes::default();
        for change in changes {
            let elements = |plan: Option<&ServicePlan>| plan.and_then(of_service).into_iter().collect();
            difference.of(elements(change.old), elements(change.new));
            for (before, after) in changed_ports(change, setup) {
                self.change_port(setup, &mut batch, (before.as_ref(), after.as_ref()), &mut pools);
                let common = |port: &Option<RenderedPort<'_>>| port.as_ref().map(RenderedPort::common);
                difference.of(common(&before).unwrap_or_default(), common(&after).unwrap_or_default());
                own_pool::compare(before.as_ref(), after.as_ref(), &mut difference);
            }
            counters.note(change, setup.counting);
        }
        difference.settle(&mut self.owners);
        self.elements += difference.added.len();
        self.elements = self.elements.saturating_sub(difference.removed.len());
        node::write_changes(&mut batch, node.0, node.1, setup.picker != Picker::Rules);
        for element in &difference.removed {
            batch.delete_element(&element.set.name(), element.key.as_slice());
        }
        // An element names a counter that is there: the old ones go behind the elements, the new come before.
        counters.removed.iter().for_each(|name| batch.delete_counter(name));
        counters.added.iter().for_each(|name| batch.add_counter(name));
        // The kernel walks a map whenever a rule is bound to it: an empty one, then, if it is new.
        pools.write(setup, &mut batch);
        write(&mut batch, &difference.added);
        for demand in self.declared.collect() {
            demand.chains().iter().for_each(|chain| batch.delete_chain(chain));
            demand.sets().iter().for_each(|set| batch.delete_set(&set.name()));
        }
        (batch, difference)
    }

    /// Make the chains, sets and rules that a port asks for and that are not there yet.
    fn change_port(
        &mut self,
        setup: &TableSetup,
        batch: &mut Batch,
        (before, after): (Option<&RenderedPort<'_>>, Option<&RenderedPort<'_>>),
        pools: &mut PoolSizes,
    ) {
        let demands = |port: Option<&RenderedPort<'_>>| port.map(demands::of_port).unwrap_or_default();
        let (old, new) = (demands(before), demands(after));
        let is_first = !self.has_affinity && new.iter().any(|demand| matches!(demand, Demand::Timeout(_)));
        if is_first {
            self.has_affinity = true;
            setup.declare_affinity(batch);
        }
        for demand in new.difference(&old) {
            if self.declared.ask(*demand) {
                declare(setup, batch, *demand);
                pools.note_new(*demand);
            }
        }
        old.difference(&new).for_each(|demand| self.declared.leave(*demand));
        for demand in new {
            let Demand::Pool(pool) = demand else { continue };
            let size = |port: Option<&RenderedPort<'_>>| port.map(|port| port.port.pool(pool.pool).len());
            if size(before) != size(after) || !old.contains(&demand) {
                pools.note(pool, after);
            }
        }
    }

    fn write_all(&mut self, setup: &TableSetup, batch: &mut Batch, plans: &HashMap<ServiceKey, ServicePlan>) {
        let mut pools = PoolSizes::default();
        let mut pending: Vec<Element> = Vec::new();
        for (service, plan) in plans {
            pending.extend(of_service(plan).filter(|element| self.is_first_owner(element)));
            for port in &plan.ports {
                let rendered = RenderedPort::new(service, port, setup);
                pending.extend(rendered.common().into_iter().filter(|element| self.is_first_owner(element)));
                own_pool::render(&rendered, &mut |element| {
                    if self.is_first_owner(&element) {
                        pending.push(element);
                    }
                });
                for pool in own_pools(&rendered) {
                    pools.new.insert(pool);
                    pools.note(pool, Some(&rendered));
                }
                if pending.len() >= CHUNK {
                    self.elements += flush(batch, &mut pending);
                }
            }
        }
        self.elements += flush(batch, &mut pending);
        pools.write(setup, batch);
    }

    fn is_first_owner(&mut self, element: &Element) -> bool {
        SharedKey::of(element).is_none_or(|key| self.owners.add(key))
    }
}

/// The pools of its own that a port draws from.
fn own_pools(rendered: &RenderedPort<'_>) -> impl Iterator<Item = PoolId> {
    let is_pool = |demand| match demand {
        Demand::Pool(pool) => Some(pool),
        _ => None,
    };
    demands::of_port(rendered).into_iter().filter_map(is_pool)
}

fn declare(setup: &TableSetup, batch: &mut Batch, demand: Demand) {
    match demand {
        Demand::PrefixLength(length) => setup.declare_prefix_length(batch, length),
        Demand::Timeout(seconds) => setup.declare_timeout(batch, seconds),
        Demand::Pool(_) | Demand::PoolMembers(_) => {
            demand.sets().into_iter().for_each(|set| setup.declare_set(batch, set));
        }
        Demand::Class(_, class) => setup.declare_class(batch, &class),
        Demand::Pinning(pinning) => setup.declare_pinning(batch, &pinning),
    }
}

/// The ports of a service that differ, before and after. Both plans have them sorted by name and protocol.
fn changed_ports<'a>(
    change: &Change<'a>,
    setup: &'a TableSetup,
) -> impl Iterator<Item = (Option<RenderedPort<'a>>, Option<RenderedPort<'a>>)> {
    let service: &'a str = change.service;
    let rendered =
        move |port: Option<&'a Arc<PortPlan>>| port.map(|port| RenderedPort::new(service, port, setup));
    change
        .ports()
        .filter(|(before, after)| before != after)
        .map(move |(before, after)| (rendered(before), rendered(after)))
}

/// Own pools whose number of slots is another one now.
#[derive(Default)]
struct PoolSizes {
    sizes: HashMap<PoolId, (Protocol, usize)>,
    new: BTreeSet<PoolId>,
}

impl PoolSizes {
    fn note(&mut self, pool: PoolId, rendered: Option<&RenderedPort<'_>>) {
        let size = rendered.map(|rendered| (rendered.port.protocol, rendered.port.pool(pool.pool).len()));
        self.sizes.extend(size.map(|size| (pool, size)));
    }

    /// The chain that draws is new, and has no rule yet.
    fn note_new(&mut self, demand: Demand) {
        if let Demand::Class(_, class) = demand
            && let (Draw::Own(pool), None) = (class.draw, class.next())
        {
            self.new.insert(pool);
        }
    }

    fn write(&self, setup: &TableSetup, batch: &mut Batch) {
        for (pool, (protocol, size)) in &self.sizes {
            if !self.new.contains(pool) {
                setup.clear_pool(batch, *pool);
            }
            setup.draw_from(batch, *pool, *protocol, *size as u32);
        }
    }
}

/// Counters that come and go with changes of services.
#[derive(Default)]
struct CounterChanges {
    added: Vec<String>,
    removed: Vec<String>,
}

impl CounterChanges {
    fn note(&mut self, change: &Change<'_>, counting: Counting) {
        if counting == Counting::Nothing {
            return;
        }
        let names = |plan: Option<&ServicePlan>| {
            plan.map(|plan| meter::names(change.service, plan, counting)).unwrap_or_default()
        };
        let (before, after) = (names(change.old), names(change.new));
        self.added.extend(after.difference(&before).cloned());
        self.removed.extend(before.difference(&after).cloned());
    }
}

/// Every counter there will be.
fn counters(setup: &TableSetup, plans: &HashMap<ServiceKey, ServicePlan>) -> BTreeSet<String> {
    plans.iter().flat_map(|(service, plan)| meter::names(service, plan, setup.counting)).collect()
}

/// Take everything away but the pins, the counters and the base chains, and what served timeouts, prefix lengths and pool
/// sizes that are no longer wanted.
///
/// The other sets are flushed and not deleted, although a new set would be filled faster: a packet that is on
/// its way through the old rules at the moment of the commit looks up what is valid *after* it. In the same
/// set it finds the new elements; in a deleted one it would find nothing and go unserved.
fn clear(batch: &mut Batch, sets: &[String], chains: &[String], (wanted, setup): (&Declared, &TableSetup)) {
    batch.flush_rules();
    let wanted_sets = wanted.sets(setup);
    for name in sets.iter().filter(|name| !holds_pins(name)) {
        batch.flush_set(name);
        if !wanted_sets.contains(name) {
            batch.delete_set(name);
        }
    }
    let wanted_chains = wanted.chains(setup.counting);
    for name in chains.iter().filter(|name| !is_permanent_chain(name) && !wanted_chains.contains(*name)) {
        batch.delete_chain(name);
    }
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
            Data::Pin(pinning) => batch.add_element(&name, key, ElementData::Goto(&pinning.chain()), label),
        }
    }
}
