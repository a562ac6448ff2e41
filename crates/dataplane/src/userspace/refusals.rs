//! Services with ports that the forwarder does not carry, each reported once while it has them.

use std::collections::{HashMap, HashSet};

use model::{ServiceKey, ServicePlan};

const NO_SCTP: &str = "Mode userspace does not forward SCTP; connections to the SCTP ports of this service are rejected. Use mode nftables";

/// Of one family. It knows no more than the services that are there.
#[derive(Default)]
pub(super) struct Refusals {
    known: HashSet<ServiceKey>,
    untold: Vec<(ServiceKey, &'static str)>,
}

impl Refusals {
    /// There are just these services.
    pub(super) fn replace(&mut self, plans: &HashMap<ServiceKey, ServicePlan>) {
        self.known.retain(|service| plans.contains_key(service));
        plans.iter().for_each(|(service, plan)| self.note(service, Some(plan)));
    }

    pub(super) fn note(&mut self, service: &ServiceKey, plan: Option<&ServicePlan>) {
        let is_refused =
            |plan: &ServicePlan| plan.ports.iter().any(|port| !forwarder::carries(port.protocol));
        if !plan.is_some_and(is_refused) {
            self.known.remove(service);
        } else if self.known.insert(service.clone()) {
            self.untold.push((service.clone(), NO_SCTP));
        }
    }

    pub(super) fn take(&mut self) -> Vec<(ServiceKey, &'static str)> {
        std::mem::take(&mut self.untold)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{PortPlan, Protocol};

    use super::*;

    fn sctp() -> ServicePlan {
        let port = PortPlan {
            name: "".into(),
            protocol: Protocol::Sctp,
            affinity_seconds: None,
            cluster_pool: Box::default(),
            local_pool: Box::default(),
            destinations: Box::default(),
        };
        let ports = vec![Arc::new(port)].into();
        ServicePlan { cluster_ip: None, health_check_port: None, ports, excess: Default::default() }
    }

    #[test]
    fn services_that_a_rewrite_leaves_out_are_forgotten() {
        let mut refusals = Refusals::default();
        for turn in 0..3 {
            let plans: HashMap<ServiceKey, ServicePlan> =
                (0..1_000).map(|number| (format!("ns-{turn}/{number}").into(), sctp())).collect();
            refusals.replace(&plans);
            assert_eq!(refusals.take().len(), 1_000, "{turn}");
            refusals.replace(&plans);
            assert_eq!(refusals.take().len(), 0, "they are known");
            assert_eq!(refusals.known.len(), 1_000);
        }
    }
}
