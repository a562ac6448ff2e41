//! Services with ports that the forwarder does not carry or addresses that are its own, each reported once while it has
//! them.

use std::collections::HashMap;

use model::{ServiceKey, ServicePlan};

use super::redirect;
use crate::shortfall::{Shortfall, Shortfalls};

const NO_SCTP: &str = "Mode userspace does not forward SCTP; connections to the SCTP ports of this service are rejected. Use mode nftables";

const OWN_ADDRESS: &str = "An address of this service is the one at which kube-proxy itself listens in mode userspace; it is not served. Use another address";

/// Of one family.
pub(super) struct Refusals {
    protocols: Shortfalls,
    addresses: Shortfalls,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals { protocols: Shortfalls::new(NO_SCTP), addresses: Shortfalls::new(OWN_ADDRESS) }
    }
}

impl Refusals {
    /// There are just these services.
    pub(super) fn replace(&mut self, plans: &HashMap<ServiceKey, ServicePlan>) {
        self.protocols.retain(|service| plans.contains_key(service));
        self.addresses.retain(|service| plans.contains_key(service));
        plans.iter().for_each(|(service, plan)| self.note(service, Some(plan)));
    }

    pub(super) fn note(&mut self, service: &ServiceKey, plan: Option<&ServicePlan>) {
        let is_refused =
            |plan: &ServicePlan| plan.ports.iter().any(|port| !forwarder::carries(port.protocol));
        match plan.is_some_and(is_refused) {
            true => self.protocols.begin(service),
            false => self.protocols.end(service),
        }
        let is_ours = |plan: &ServicePlan| {
            let mut destinations = plan.ports.iter().flat_map(|port| &port.destinations);
            destinations.any(|destination| redirect::is_own(destination.at))
        };
        match plan.is_some_and(is_ours) {
            true => self.addresses.begin(service),
            false => self.addresses.end(service),
        }
    }

    pub(super) fn take(&mut self) -> Vec<Shortfall> {
        let mut all = self.protocols.take();
        all.extend(self.addresses.take());
        all
    }
}

#[cfg(test)]
#[path = "../../tests/unit/userspace_refusals.rs"]
mod tests;
