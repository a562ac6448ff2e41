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

/// Where the looks have got to. Kept up to date change by change: no look walks all services.
#[derive(Debug, Default)]
pub(super) struct Audit {
    services: BTreeSet<ServiceKey>,
    /// The service whose turn it is; `None` between two rounds.
    at: Option<ServiceKey>,
    /// Ports of it that have been looked at already.
    ports_done: usize,
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

    /// Whether every service was looked at, and the next look begins with the first.
    pub(super) fn is_round_over(&self) -> bool {
        self.at.is_none()
    }

    /// Look at the next servers, so many that a round takes one `period`; `held` is how many servers and destinations
    /// there are. Returns the first that is not as it should be.
    pub(super) fn next<T: Transport>(
        &mut self,
        servers: &mut T,
        (plans, node): (&HashMap<ServiceKey, ServicePlan>, &NodePlan),
        (draining, left_out): (&Draining, &LeftOut),
        options: &IpvsSettings,
        (held, period): (usize, Duration),
    ) -> Option<VirtualServer> {
        if self.at.is_none() {
            self.at = self.services.first().cloned();
        }
        let share = self.share(held, period);
        let mut asked = 0;
        while let Some(service) = self.at.clone().filter(|_| asked < share) {
            let Some(port) = plans.get(&service).and_then(|plan| plan.ports.get(self.ports_done)) else {
                asked += 1;
                self.go_on_behind(&service);
                continue;
            };
            self.ports_done += 1;
            let mut offers = Offers::new();
            add_port(&mut offers, port, &node.nodeport_ips);
            asked += sizes(&offers).iter().sum::<usize>();
            let is_wrong = |(server, offer): &(VirtualServer, Offer<'_>)| {
                !is_right(servers, *server, offer, (draining, left_out), options)
            };
            if let Some((server, _)) = offers.into_iter().find(is_wrong) {
                return Some(server);
            }
        }
        None
    }

    fn go_on_behind(&mut self, service: &ServiceKey) {
        let behind = (Bound::Excluded(service), Bound::Unbounded);
        self.at = self.services.range::<ServiceKey, _>(behind).next().cloned();
        self.ports_done = 0;
    }

    /// What a look may ask of the kernel, services that have nothing there included.
    fn share(&self, held: usize, period: Duration) -> usize {
        let shares = (period.as_secs_f64() / BETWEEN_SHARES.as_secs_f64()).max(1.0);
        (((held + self.services.len()) as f64 / shares).ceil() as usize).max(1)
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
