//! What the table is given instead of the plans: the same destinations and answers, but every pool is the forwarder, at the
//! port that stands for the pool. Pure.
//!
//! So the flat table of mode nftables needs to know nothing of the forwarder: it picks one of one endpoint.

use std::net::SocketAddr;

use model::{
    Destination, Masquerade, PlannedEndpoint, Pool, PortPlan, Protocol, Routing, ServicePlan, Verdict,
};

/// Where the forwarder listens, for each pool.
pub(crate) type Doors = [SocketAddr; 2];

pub(super) fn plan(plan: &ServicePlan, doors: Doors) -> ServicePlan {
    let ports = plan.ports.iter().map(|port| redirected(port, doors)).collect();
    let ServicePlan { cluster_ip, health_check_port, excess, .. } = *plan;
    ServicePlan { cluster_ip, health_check_port, ports, excess }
}

pub(super) fn redirected(port: &PortPlan, doors: Doors) -> PortPlan {
    let is_carried = port.protocol != Protocol::Sctp;
    let pool = |pool: Pool| -> Box<[PlannedEndpoint]> {
        let door = doors[pool as usize];
        let used = is_carried && port.uses(pool) && !port.pool(pool).is_empty();
        let door =
            used.then(|| PlannedEndpoint { ip: door.ip(), port: door.port(), may_be_own_client: false });
        door.into_iter().collect()
    };
    let destinations = port.destinations.iter().map(|at| Destination {
        routing: if is_carried { led(at.routing) } else { refused(at.routing) },
        ..at.clone()
    });
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

/// The forwarder does not carry SCTP.
fn refused(routing: Routing) -> Routing {
    let refused = |verdict| match verdict {
        Verdict::Forward(_) => Verdict::Reject,
        other => other,
    };
    match routing {
        Routing::Same(verdict, masquerade) => Routing::Same(refused(verdict), masquerade),
        Routing::Split { outside, .. } => Routing::Same(refused(outside), Masquerade::Outsiders),
    }
}
