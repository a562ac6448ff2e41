//! What IPVS has to be told when offers change, and on which side of the commit to nf_tables. Pure.
//!
//! IPVS has no transactions, so the order keeps packets out of gaps: marks first, then the pool, and backwards when it
//! goes. A connection that IPVS gets without its mark hangs: its endpoint would answer past this node. No rule has to
//! lead a packet to IPVS for that: what the node sends is taken wherever it goes, and so is what arrives for an address
//! that is local already.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use kernel::ipvs::{Batch, Destination, DumpedDestination, DumpedServer, Protocol, VirtualServer};
use model::{IpvsSettings, PlannedEndpoint};

use super::draining::Draining;
use super::servers::{OURS, Offer, Offers, destination, passes_over_idle};

/// What a destination in use weighs: all are alike.
pub(super) const IN_USE: u32 = 1;

#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) before: Batch,
    pub(super) after: Batch,
    /// Servers that no service has any more and that drain, unless they turn out to have no connection.
    pub(super) left: Vec<VirtualServer>,
}

/// Writes steps; `draining` learns what goes.
pub(super) struct Planning<'a> {
    pub(super) draining: &'a mut Draining,
    pub(super) options: &'a IpvsSettings,
    pub(super) now: Instant,
}

impl Planning<'_> {
    /// From some offers to others.
    pub(super) fn change(&mut self, old: &Offers<'_>, new: &Offers<'_>) -> Steps {
        let mut steps = Steps::default();
        for (server, offer) in new {
            let before = old.get(server);
            let pool_before = before.and_then(|before| before.pool);
            match (pool_before, offer.pool) {
                (None, None) => {}
                (Some(pool), None) => self.retire(&mut steps.after, *server, pool.iter().map(destination)),
                (None, Some(pool)) => {
                    // What was answered by rules until now is so until the commit.
                    let waits = before.is_none() && offer.needs_rules;
                    let batch = if waits { &mut steps.after } else { &mut steps.before };
                    self.serve(batch, *server, offer, pool);
                }
                (Some(pool_before), Some(pool)) => {
                    let Some(before) = before else { continue };
                    let loses_mark = before.masqueraded && !offer.masqueraded;
                    let batch = if loses_mark { &mut steps.before } else { &mut steps.after };
                    if before.affinity_seconds != offer.affinity_seconds {
                        batch.set_service(*server, &offer.settings(self.options));
                    }
                    self.change_pool(batch, *server, pool_before, pool);
                }
            }
        }
        for (server, offer) in old.iter().filter(|(server, _)| !new.contains_key(server)) {
            if offer.pool.is_some() || self.draining.has(*server) {
                self.abandon(&mut steps, *server, offer.pool.unwrap_or_default().iter().map(destination));
            }
        }
        steps
    }

    /// No service has the server any more, and no rule answers in its place.
    fn abandon(
        &mut self,
        steps: &mut Steps,
        server: VirtualServer,
        endpoints: impl Iterator<Item = Destination>,
    ) {
        self.retire(&mut steps.before, server, endpoints);
        if self.draining.has(server) {
            steps.left.push(server);
        }
    }

    /// A server that the kernel does not have, or only what drains of it.
    pub(super) fn serve(
        &mut self,
        batch: &mut Batch,
        server: VirtualServer,
        offer: &Offer<'_>,
        pool: &[PlannedEndpoint],
    ) {
        batch.new_service(server, &offer.settings(self.options));
        self.draining.revive(server);
        for endpoint in pool.iter().map(destination) {
            self.add(batch, server, endpoint);
        }
    }

    fn change_pool(
        &mut self,
        batch: &mut Batch,
        server: VirtualServer,
        old: &[PlannedEndpoint],
        new: &[PlannedEndpoint],
    ) {
        let (gone, come) = differences(old, new);
        for endpoint in come {
            self.add(batch, server, endpoint);
        }
        for endpoint in gone {
            self.remove(batch, server, endpoint);
        }
    }

    fn add(&mut self, batch: &mut Batch, server: VirtualServer, endpoint: Destination) {
        match self.draining.release(server, &endpoint) {
            true => batch.set_destination(server, endpoint, IN_USE),
            false => batch.new_destination(server, endpoint, IN_USE),
        };
    }

    /// A flow of UDP has no end that IPVS sees, and would stay. Where new connections would be refused, open ones end.
    fn remove(&mut self, batch: &mut Batch, server: VirtualServer, endpoint: Destination) {
        let may_drain = server.protocol != Protocol::Udp && passes_over_idle(self.options.scheduler);
        let drains = may_drain && self.draining.take_in(server, endpoint, self.now);
        match drains {
            true => batch.set_destination(server, endpoint, 0),
            false => batch.delete_destination(server, endpoint),
        };
    }

    /// The server is to lead nowhere: it goes when its connections have ended.
    fn retire(
        &mut self,
        batch: &mut Batch,
        server: VirtualServer,
        endpoints: impl Iterator<Item = Destination>,
    ) {
        if server.protocol != Protocol::Udp {
            endpoints.for_each(|endpoint| self.remove(batch, server, endpoint));
        }
        if !self.draining.retire(server) {
            batch.delete_service(server);
        }
    }

    /// A server that the kernel has, at a rewrite: make it what is offered, or let it go.
    pub(super) fn adopt(
        &mut self,
        steps: &mut Steps,
        found: &DumpedServer,
        destinations: Vec<DumpedDestination>,
        offer: Option<&Offer<'_>>,
    ) {
        let server = found.server;
        let endpoints = destinations.iter().map(|one| one.destination);
        let Some(offer) = offer else {
            if found.settings.flags & OURS == 0 {
                // It may outlive what shows that a kube-proxy made it.
                steps.before.set_service(server, &found.settings.clone().with_flags(OURS));
            }
            return self.abandon(steps, server, endpoints);
        };
        let Some(pool) = offer.pool else { return self.retire(&mut steps.after, server, endpoints) };
        let settings = offer.settings(self.options);
        if found.settings != settings || found.by_network {
            steps.before.set_service(server, &settings);
        }
        let mut there: HashMap<Destination, DumpedDestination> =
            destinations.into_iter().map(|one| (one.destination, one)).collect();
        let mut come = Batch::new();
        let mut stays = false;
        for endpoint in pool.iter().map(destination) {
            match there.remove(&endpoint) {
                None => {
                    come.new_destination(server, endpoint, IN_USE);
                }
                Some(one) if !one.masquerading => {
                    come.delete_destination(server, endpoint);
                    come.new_destination(server, endpoint, IN_USE);
                }
                Some(one) if one.weight != IN_USE => {
                    come.set_destination(server, endpoint, IN_USE);
                }
                Some(_) => stays = true,
            }
        }
        let mut gone: Vec<Destination> = there.into_keys().collect();
        gone.sort_unstable();
        // Nobody knows which marks there are. Endpoints elsewhere go before one and come after one: right both ways, if
        // something is left in between.
        let (adding, removing) = match stays {
            true => (&mut steps.after, &mut steps.before),
            false => (&mut steps.before, &mut steps.after),
        };
        come.commands().iter().for_each(|command| {
            adding.push(command.clone());
        });
        gone.into_iter().for_each(|endpoint| self.remove(removing, server, endpoint));
    }
}

/// What a pool loses and gains. Endpoints keep their slots, so that few slots differ however large the pool is.
fn differences(old: &[PlannedEndpoint], new: &[PlannedEndpoint]) -> (Vec<Destination>, Vec<Destination>) {
    let slots = 0..old.len().max(new.len());
    let at = |pool: &[PlannedEndpoint], slot: usize| pool.get(slot).map(destination);
    let changed: Vec<usize> = slots.filter(|slot| at(old, *slot) != at(new, *slot)).collect();
    let of = |pool: &[PlannedEndpoint]| -> Vec<Destination> {
        changed.iter().filter_map(|slot| at(pool, *slot)).collect()
    };
    let (mut gone, mut come) = (of(old), of(new));
    let (before, after): (HashSet<_>, HashSet<_>) =
        (gone.iter().copied().collect(), come.iter().copied().collect());
    gone.retain(|endpoint| !after.contains(endpoint));
    come.retain(|endpoint| !before.contains(endpoint));
    (gone, come)
}

#[cfg(test)]
#[path = "../../tests/unit/ipvs_steps.rs"]
mod tests;
