//! What is left of a plan where other services own some of the addresses it names.

use std::sync::Arc;

use super::{Address, Destination, Pool, PortPlan, Role, Routing, ServicePlan, Verdict};
use crate::Protocol;

impl ServicePlan {
    /// The destinations the service wants to own, in the form that [`Claims`](crate::Claims) takes.
    pub fn wanted(&self) -> impl Iterator<Item = (Protocol, Address, Role)> {
        self.ports.iter().flat_map(|port| {
            port.destinations.iter().map(|destination| (port.protocol, destination.at, destination.role))
        })
    }

    /// Give up every destination the service does not own, and the pools that are unused then.
    pub fn retain(&mut self, owns: impl Fn(Protocol, Address) -> bool) {
        if self.wanted().all(|(protocol, at, _)| owns(protocol, at)) {
            return;
        }
        let mut ports = self.ports.to_vec();
        ports.retain_mut(|port| {
            let owns_all = port.destinations.iter().all(|destination| owns(port.protocol, destination.at));
            owns_all || Arc::make_mut(port).retain(&owns)
        });
        self.ports = ports.into();
    }
}

impl PortPlan {
    /// Does any destination forward to this pool?
    pub fn uses(&self, pool: Pool) -> bool {
        self.destinations.iter().any(|destination| destination.routing.forwards_to(pool))
    }

    /// The same port at these destinations.
    pub fn with_destinations(&self, destinations: Vec<Destination>) -> PortPlan {
        let mut port = PortPlan { destinations: destinations.into(), ..self.clone() };
        port.drop_unused_pools();
        port
    }

    fn retain(&mut self, owns: impl Fn(Protocol, Address) -> bool) -> bool {
        let mut destinations = std::mem::take(&mut self.destinations).into_vec();
        destinations.retain(|destination| owns(self.protocol, destination.at));
        self.destinations = destinations.into_boxed_slice();
        self.drop_unused_pools();
        !self.destinations.is_empty()
    }

    fn drop_unused_pools(&mut self) {
        if !self.uses(Pool::Cluster) {
            self.cluster_pool = Box::default();
        }
        if !self.uses(Pool::Local) {
            self.local_pool = Box::default();
        }
    }
}

impl Routing {
    /// Is any client sent to an endpoint of this pool?
    pub fn forwards_to(self, pool: Pool) -> bool {
        let forward = Verdict::Forward(pool);
        match self {
            Routing::Same(verdict, _) => verdict == forward,
            Routing::Split { outside, inside } => outside == forward || inside == forward,
        }
    }

    /// The pools that clients may be sent to: everyone or those outside, and those inside if these are told apart.
    pub fn pools(self) -> [Option<Pool>; 2] {
        let pool = |verdict| match verdict {
            Verdict::Forward(pool) => Some(pool),
            Verdict::Reject | Verdict::Drop => None,
        };
        match self {
            Routing::Same(verdict, _) => [pool(verdict), None],
            Routing::Split { outside, inside } => [pool(outside), pool(inside)],
        }
    }
}

/// Ports of the same name and protocol beside each other.
pub fn merged_ports<'a>(
    old: &'a [Arc<PortPlan>],
    new: &'a [Arc<PortPlan>],
) -> impl Iterator<Item = (Option<&'a Arc<PortPlan>>, Option<&'a Arc<PortPlan>>)> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        let name = |port: &&'a Arc<PortPlan>| (&*port.name, port.protocol);
        // Most of a large service stays as it is from one piece to the next, and names are long.
        if old.peek().zip(new.peek()).is_some_and(|(before, after)| Arc::ptr_eq(before, after)) {
            return Some((old.next(), new.next()));
        }
        match (old.peek().map(name), new.peek().map(name)) {
            (None, None) => None,
            (Some(before), Some(after)) if before == after => Some((old.next(), new.next())),
            (Some(before), Some(after)) if before < after => Some((old.next(), None)),
            (Some(_), None) => Some((old.next(), None)),
            _ => Some((None, new.next())),
        }
    })
}
