//! Looks whether virtual servers are as we left them, some at a time: IPVS tells nobody of changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::time::Duration;

use kernel::ipvs::{Destination, Transport, VirtualServer};
use model::{IpvsSettings, NodePlan, ServiceKey, ServicePlan};

use super::carry_out::LeftOut;
use super::draining::Draining;
use super::servers::{Offer, Offers, add_port, destination, sizes};
use super::steps::IN_USE;
use model::Change;

/// How often a share is looked at.
pub(super) const BETWEEN_SHARES: Duration = Duration::from_secs(1);
/// The part of a period that a round takes: a look takes time, too.
const ROUND: f64 = 0.9;

/// Where the looks have got to. Kept up to date change by change: no look walks all services.
#[derive(Debug, Default)]
pub(super) struct Audit {
    services: BTreeSet<ServiceKey>,
    /// The service whose turn it is; `None` between two rounds.
    at: Option<ServiceKey>,
    /// Ports of it that have been looked at already.
    ports_done: usize,
    /// How much may be asked of the kernel now. Below 0 after a large port; few services are asked about seldom.
    allowance: f64,
}

/// What came of a look.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The first server that is not as it should be.
    pub(super) wrong: Option<VirtualServer>,
    /// It is the turn of what is looked at once a round.
    pub(super) is_round_over: bool,
}

impl Audit {
    /// These are all services.
    pub(super) fn begin_again<'a>(&mut self, services: impl Iterator<Item = &'a ServiceKey>) {
        self.services = services.cloned().collect();
    }

    pub(super) fn note(&mut self, changes: &[Change<'_>]) {
        for change in changes {
            match change.new {
                Some(_) => self.services.insert(change.service.clone()),
                None => self.services.remove(change.service),
            };
        }
    }

    /// Look at the next servers, so many that a round takes one `period`; `held` is how many servers and destinations
    /// there are.
    pub(super) fn next<T: Transport>(
        &mut self,
        servers: &mut T,
        (plans, node): (&HashMap<ServiceKey, ServicePlan>, &NodePlan),
        (draining, left_out): (&Draining, &LeftOut),
        options: &IpvsSettings,
        (held, period): (usize, Duration),
    ) -> Looked {
        self.allow(held, period);
        let mut looked = Looked::default();
        while self.allowance >= 1.0 {
            let Some(service) = self.at.clone() else {
                looked.is_round_over = true;
                self.allowance -= 1.0;
                self.at = self.services.first().cloned();
                continue;
            };
            let Some(port) = plans.get(&service).and_then(|plan| plan.ports.get(self.ports_done)) else {
                self.allowance -= 1.0;
                self.go_on_behind(&service);
                continue;
            };
            self.ports_done += 1;
            let mut offers = Offers::new();
            add_port(&mut offers, port, &node.nodeport_ips);
            self.allowance -= sizes(&offers).iter().sum::<usize>() as f64;
            let is_wrong = |(server, offer): &(VirtualServer, Offer<'_>)| {
                !is_right(servers, *server, offer, (draining, left_out), options)
            };
            looked.wrong = offers.into_iter().find(is_wrong).map(|(server, _)| server);
            if looked.wrong.is_some() {
                break;
            }
        }
        looked
    }

    fn go_on_behind(&mut self, service: &ServiceKey) {
        let behind = (Bound::Excluded(service), Bound::Unbounded);
        self.at = self.services.range::<ServiceKey, _>(behind).next().cloned();
        self.ports_done = 0;
    }

    /// A look is due. Every service costs something, also one that has nothing in the kernel.
    fn allow(&mut self, held: usize, period: Duration) {
        let looks = (ROUND * period.as_secs_f64() / BETWEEN_SHARES.as_secs_f64()).max(1.0);
        let round = (held + self.services.len() + 1) as f64;
        self.allowance = (self.allowance + round / looks).min(round);
    }
}

/// What cannot be read counts as right; the next commit will tell.
fn is_right<T: Transport>(
    servers: &mut T,
    server: VirtualServer,
    offer: &Offer<'_>,
    (draining, left_out): (&Draining, &LeftOut),
    options: &IpvsSettings,
) -> bool {
    let Some(pool) = offer.pool else { return true };
    match servers.service(server) {
        Err(_) => return true,
        Ok(Some(found)) if found.settings == offer.settings(options) && !found.by_network => {}
        Ok(_) => return false,
    }
    let Ok(found) = servers.destinations(server) else { return true };
    let in_use = found.iter().filter(|one| one.masquerading && one.weight == IN_USE);
    let in_use: HashSet<Destination> = in_use.map(|one| one.destination).collect();
    let wanted: HashSet<Destination> = pool.iter().map(destination).collect();
    let is_missing = |at: &&Destination| !in_use.contains(at) && !left_out.covers(at);
    let is_strange = |at: &Destination| !wanted.contains(at) && !draining.holds(server, at);
    !wanted.iter().any(|at| is_missing(&at)) && !found.iter().any(|one| is_strange(&one.destination))
}
