//! What the table is given instead of the plans: the same destinations and answers, but every pool is the forwarder, at the
//! port that stands for the pool. Pure.
//!
//! So the flat table of mode nftables needs to know nothing of the forwarder: it picks one of one endpoint.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{
    Address, Change, Destination, Masquerade, PlannedEndpoint, Pool, PortPlan, Routing, ServicePlan, Verdict,
    merged_ports, ports_of,
};

/// Where the forwarder listens, for each pool.
pub(crate) type Doors = [SocketAddr; 2];

pub(super) fn plan(plan: &ServicePlan, doors: Doors) -> ServicePlan {
    let ports = plan.ports.iter().map(|port| redirected(port, doors)).collect();
    let ServicePlan { cluster_ip, health_check_port, excess, .. } = *plan;
    ServicePlan { cluster_ip: not_own(cluster_ip), health_check_port, ports, excess }
}

/// Before and after, without the ports that stay as they are: the table has nothing to do for these, and a large service
/// changes port by port.
pub(super) fn change(change: &Change<'_>, doors: Doors) -> [Option<ServicePlan>; 2] {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (old, new) in merged_ports(ports_of(change.old), ports_of(change.new)) {
        if old == new {
            continue;
        }
        let [old, new] = [old, new].map(|port| port.map(|port| redirected(port, doors)));
        if old != new {
            before.extend(old.map(Arc::new));
            after.extend(new.map(Arc::new));
        }
    }
    let with = |plan: Option<&ServicePlan>, ports: Vec<Arc<PortPlan>>| {
        let ServicePlan { cluster_ip, health_check_port, excess, .. } = *plan?;
        Some(ServicePlan { cluster_ip: not_own(cluster_ip), health_check_port, ports: ports.into(), excess })
    };
    [with(change.old, before), with(change.new, after)]
}

/// Rules for the forwarder's own address would meet the redirected clients of all services.
pub(super) fn is_own(at: Address) -> bool {
    matches!(at, Address::Vip(ip, _) if forwarder::is_own(ip))
}

fn not_own(cluster_ip: Option<IpAddr>) -> Option<IpAddr> {
    cluster_ip.filter(|ip| !forwarder::is_own(*ip))
}

pub(super) fn redirected(port: &PortPlan, doors: Doors) -> PortPlan {
    let is_carried = forwarder::carries(port.protocol);
    let pool = |pool: Pool| -> Box<[PlannedEndpoint]> {
        let door = doors[pool as usize];
        let used = is_carried && port.uses(pool) && !port.pool(pool).is_empty();
        let door =
            used.then(|| PlannedEndpoint { ip: door.ip(), port: door.port(), may_be_own_client: false });
        door.into_iter().collect()
    };
    let destinations = port
        .destinations
        .iter()
        .filter(|destination| !is_own(destination.at))
        .map(|at| Destination { routing: if is_carried { led(at.routing) } else { REFUSED }, ..at.clone() });
    PortPlan {
        name: port.name.clone(),
        protocol: port.protocol,
        // The forwarder remembers clients itself, and the endpoint sees the node's address anyway.
        affinity_seconds: None,
        cluster_pool: pool(Pool::Cluster),
        local_pool: pool(Pool::Local),
        destinations: destinations.collect(),
    }
}

/// Nobody has to be masqueraded on the way to the forwarder.
fn led(routing: Routing) -> Routing {
    match routing {
        Routing::Same(verdict, _) => Routing::Same(verdict, Masquerade::Outsiders),
        split @ Routing::Split { .. } => split,
    }
}

/// Of ports that are not carried: everybody is rejected, also those whom policy Local would drop. The table has no way to
/// reject some clients of an address and to drop others. `Userspace::fate` says the same.
const REFUSED: Routing = Routing::Same(Verdict::Reject, Masquerade::Outsiders);

#[cfg(test)]
#[path = "../../tests/unit/userspace_redirect.rs"]
mod tests;
