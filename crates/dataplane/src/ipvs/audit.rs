//! Looks whether virtual servers are as we left them, some at a time: IPVS tells nobody of changes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kernel::ipvs::{Destination, Transport, VirtualServer};
use model::{IpvsSettings, NodePlan, PortPlan, ServiceKey, ServicePlan};

use super::carry_out::LeftOut;
use super::draining::Draining;
use super::servers::{Offer, Offers, add_port, destination};
use super::steps::IN_USE;

/// How often a share is looked at.
pub(super) const BETWEEN_SHARES: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Audit {
    /// Services that are still to be looked at in this round.
    waiting: Vec<ServiceKey>,
    /// Ports of the last of them that have been looked at already.
    ports_done: usize,
    /// What a look asks of the kernel: virtual servers and their destinations.
    share: usize,
}

impl Audit {
    /// Whether every service was looked at, and the next look begins with the first.
    pub(super) fn is_round_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Look at the next servers, so many that a round takes one `period`. Returns the first that is not as it should be.
    pub(super) fn next<T: Transport>(
        &mut self,
        servers: &mut T,
        (plans, node): (&HashMap<ServiceKey, ServicePlan>, &NodePlan),
        (draining, left_out): (&Draining, &LeftOut),
        options: &IpvsSettings,
        period: Duration,
    ) -> Option<VirtualServer> {
        if self.waiting.is_empty() {
            self.begin_round(plans, period);
        }
        let mut asked = 0;
        while let Some(service) = self.waiting.last() {
            let ports = plans.get(service).map(|plan| &*plan.ports).unwrap_or_default();
            let Some(port) = ports.get(self.ports_done) else {
                self.waiting.pop();
                self.ports_done = 0;
                continue;
            };
            if asked >= self.share {
                break;
            }
            self.ports_done += 1;
            asked += size(port);
            let mut offers = Offers::new();
            add_port(&mut offers, port, &node.nodeport_ips);
            let is_wrong = |(server, offer): &(VirtualServer, Offer<'_>)| {
                !is_right(servers, *server, offer, (draining, left_out), options)
            };
            if let Some((server, _)) = offers.into_iter().find(is_wrong) {
                return Some(server);
            }
        }
        None
    }

    fn begin_round(&mut self, plans: &HashMap<ServiceKey, ServicePlan>, period: Duration) {
        self.waiting = plans.keys().cloned().collect();
        self.ports_done = 0;
        let all: usize = plans.values().flat_map(|plan| &plan.ports).map(|port| size(port)).sum();
        let shares = (period.as_secs_f64() / BETWEEN_SHARES.as_secs_f64()).max(1.0);
        self.share = ((all as f64 / shares).ceil() as usize).max(1);
    }
}

/// About what the kernel is asked for a port; several addresses of the node count as one.
fn size(port: &PortPlan) -> usize {
    let pool = |at: &model::Destination| at.routing.pools()[0].map_or(0, |pool| port.pool(pool).len());
    port.destinations.iter().map(|at| 1 + pool(at)).sum()
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
    let is_missing = |at: &&Destination| !in_use.contains(at) && !left_out.contains(&(server, **at));
    let is_strange = |at: &Destination| !wanted.contains(at) && !draining.holds(server, at);
    !wanted.iter().any(|at| is_missing(&at)) && !found.iter().any(|one| is_strange(&one.destination))
}
