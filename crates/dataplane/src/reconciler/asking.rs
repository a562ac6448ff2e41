//! What is known of an address and port: who has it, who else wants it, and what the kernel holds there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{Address, Claim, Destination, Family, PortPlan, Protocol, Refusal, ServiceKey, ServicePlan};

use super::{Applied, Known, Reconciler};
use crate::backend::Backend;
use crate::inspection::{Inspected, Look, Owner};

/// What services have at an address, of which one may have it as its cluster IP.
const MOST_HOLDERS: usize = 16;

/// Where to go on among the addresses of a service: at this port of its plan, and this address of the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub port: usize,
    pub address: usize,
}

impl<B: Backend> Reconciler<B> {
    /// The service that has an address and port.
    pub fn owner(&self, family: Family, claim: Claim) -> Option<&ServiceKey> {
        self.families[family.index()].claims.owner(claim)
    }

    /// Whom the mode refuses at a destination that is planned like this, and why: everybody, or (`true`) only clients
    /// outside.
    pub fn refusal(&self, protocol: Protocol, planned: &Destination) -> Option<(Refusal, bool)> {
        planned.refusal_by(|fate| self.backend.fate(protocol, fate))
    }

    /// Whether services stand in each other's way.
    pub fn has_contests(&self, family: Family) -> bool {
        self.families[family.index()].claims.has_contests()
    }

    /// Services that want it too and do not have it: how many, and the first of them.
    pub fn rivals(&self, family: Family, claim: Claim, most: usize) -> (usize, Vec<ServiceKey>) {
        self.families[family.index()].claims.rivals(claim, most)
    }

    /// What services have at an address, at most so much of it.
    pub fn claims_at(&self, ip: IpAddr, most: usize) -> Vec<(Claim, ServiceKey)> {
        self.families[Family::of(ip).index()].claims.at(ip, most)
    }

    /// Whether services have anything from one address to another of the same family.
    pub fn has_claims_between(&self, first: IpAddr, last: IpAddr) -> bool {
        self.families[Family::of(first).index()].claims.has_between(first, last)
    }

    /// Whether an address is the cluster IP of a service whose rules are written. Those that have it are looked at first;
    /// one that no service has is looked for among all.
    pub fn is_live(&self, ip: IpAddr, holders: &[(Claim, ServiceKey)]) -> bool {
        let Applied::Known(known) = &self.families[Family::of(ip).index()].applied else { return false };
        holders.iter().any(|(_, service)| has_cluster_ip(known, service, ip))
            || known.plans.values().any(|plan| plan.cluster_ip == Some(ip))
    }

    /// Compare what the kernel holds for an address and port with what was written; `None` if nothing is known of that.
    pub fn inspect(
        &mut self,
        protocol: Protocol,
        to: SocketAddr,
        owner: Option<(&ServiceKey, &str, Address)>,
        is_live: bool,
        client: Option<IpAddr>,
    ) -> Option<Look> {
        let family = Family::of(to.ip());
        let Applied::Known(known) = &self.families[family.index()].applied else { return None };
        let owner = owner.and_then(|(service, name, at)| {
            let plan = known.plans.get(service)?;
            let (port, destination) = destination(plan, protocol, Some(name), at)?;
            Some(Owner { service, port, destination })
        });
        let inspected = Inspected { protocol, to, owner, is_live, client, node: &known.node };
        Some(self.backend.inspect(family, &inspected))
    }

    /// Compare everything of a family, or what a service has and what all share, where the mode does that at once.
    pub fn inspect_all(&mut self, family: Family, wanted: Option<&ServiceKey>) -> Option<Look> {
        let Applied::Known(known) = &self.families[family.index()].applied else { return None };
        self.backend.inspect_all(family, (&known.plans, wanted), &known.node)
    }

    /// Compare what the kernel holds for the addresses of a service with what was written, from one of them on until
    /// about so many things are compared: how many that were, and where to go on. Each address may be a hundred elements to read, while the
    /// sync thread waits.
    pub fn inspect_service(
        &mut self,
        family: Family,
        service: &ServiceKey,
        from: Position,
        enough: usize,
    ) -> (usize, Vec<Look>, Option<Position>) {
        let mut looks = Vec::new();
        let Applied::Known(known) = &self.families[family.index()].applied else { return (0, looks, None) };
        let Some(plan) = known.plans.get(service) else { return (0, looks, None) };
        let node_ip = known.node.nodeport_ips.first();
        let mut compared = 0;
        for (number, port) in plan.ports.iter().enumerate().skip(from.port) {
            let skipped = if number == from.port { from.address } else { 0 };
            for (address, destination) in port.destinations.iter().enumerate().skip(skipped) {
                if compared >= enough {
                    return (compared, looks, Some(Position { port: number, address }));
                }
                compared += 1;
                let to = match (destination.at, node_ip) {
                    (Address::Vip(ip, port), _) => SocketAddr::new(ip, port),
                    (Address::NodePort(port), Some(ip)) => SocketAddr::new(*ip, port),
                    (Address::NodePort(_), None) => continue,
                };
                let claims = &self.families[family.index()].claims;
                let node_port = Claim { at: Address::Vip(to.ip(), to.port()), protocol: port.protocol };
                let is_node_port = matches!(destination.at, Address::NodePort(_));
                if is_node_port && claims.owner(node_port).is_some() {
                    continue;
                }
                let is_live = plan.cluster_ip == Some(to.ip()) || {
                    let holders = claims.at(to.ip(), MOST_HOLDERS);
                    holders.iter().any(|(_, holder)| has_cluster_ip(known, holder, to.ip()))
                };
                let owner = Some(Owner { service, port, destination });
                let protocol = port.protocol;
                let inspected = Inspected { protocol, to, owner, is_live, client: None, node: &known.node };
                let look = self.backend.inspect(family, &inspected);
                compared += look.compared().saturating_sub(1);
                looks.push(look);
            }
        }
        (compared, looks, None)
    }
}

fn has_cluster_ip(known: &Known, service: &ServiceKey, ip: IpAddr) -> bool {
    known.plans.get(service).is_some_and(|plan| plan.cluster_ip == Some(ip))
}

/// The port that has an address, and what is planned there. It is probably the one of this name: a service may have tens
/// of thousands of ports.
pub(super) fn destination<'a>(
    plan: &'a ServicePlan,
    protocol: Protocol,
    name: Option<&str>,
    at: Address,
) -> Option<(&'a Arc<PortPlan>, &'a Destination)> {
    let named = name.and_then(|name| plan.port(name, protocol)).into_iter();
    let others = plan.ports.iter().filter(|port| port.protocol == protocol);
    let mut to = named.chain(others).flat_map(|port| port.destinations.iter().map(move |to| (port, to)));
    to.find(|(_, to)| to.at == at)
}
