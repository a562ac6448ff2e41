//! Destinations that a large service still has in the kernel although it no longer wants them: they go piece by piece.
//! A service that wants one meanwhile is the owner by all claims, and would write over what a later piece deletes.

use std::collections::{HashMap, HashSet};

use model::{Address, Claims, PortPlan, Protocol, ServiceKey, ServicePlan, merged_ports, ports_of};

use super::planning::Fresh;

#[derive(Default)]
pub(super) struct Lingering(HashMap<(Protocol, Address), ServiceKey>);

impl Lingering {
    pub(super) fn clear(&mut self) {
        self.0 = HashMap::new();
    }

    /// Whether this service still has it.
    pub(super) fn is_of(&self, service: &ServiceKey, protocol: Protocol, at: Address) -> bool {
        self.0.get(&(protocol, at)) == Some(service)
    }

    /// Who else has what these plans want.
    pub(super) fn wanted<'a>(
        &'a self,
        plans: impl Iterator<Item = (&'a ServiceKey, &'a ServicePlan)>,
    ) -> HashMap<(Protocol, Address), &'a ServiceKey> {
        if self.0.is_empty() {
            return HashMap::new();
        }
        let wanted = plans.flat_map(|(service, plan)| plan.wanted().map(move |wish| (service, wish)));
        wanted
            .filter_map(|(service, (protocol, at, _))| {
                let holder = self.0.get(&(protocol, at)).filter(|holder| *holder != service)?;
                Some(((protocol, at), holder))
            })
            .collect()
    }

    /// These plans are about to be written, as their services have just been planned.
    pub(super) fn note(&mut self, fresh: &Fresh, claims: &Claims) {
        if !self.0.is_empty() {
            self.0.retain(|_, holder| !fresh.plans.contains_key(holder));
        }
        for service in &fresh.unfinished {
            let plan = fresh.plans.get(service).and_then(Option::as_ref);
            let kept = plan.into_iter().flat_map(ServicePlan::wanted);
            let unclaimed = kept.filter(|(protocol, at, _)| !claims.owns(service, *protocol, *at));
            self.0.extend(unclaimed.map(|(protocol, at, _)| ((protocol, at), service.clone())));
        }
    }

    /// The next piece of a service is about to be written, on the way to what was planned before.
    pub(super) fn note_piece(
        &mut self,
        service: &ServiceKey,
        old: Option<&ServicePlan>,
        new: Option<&ServicePlan>,
    ) {
        if self.0.is_empty() {
            return;
        }
        let changed = || merged_ports(ports_of(old), ports_of(new)).filter(|(before, after)| before != after);
        let kept: HashSet<_> =
            changed().filter_map(|(_, after)| after).flat_map(|port| destinations(port)).collect();
        let before = changed().filter_map(|(before, _)| before).flat_map(|port| destinations(port));
        for gone in before.filter(|at| !kept.contains(at)) {
            if self.is_of(service, gone.0, gone.1) {
                self.0.remove(&gone);
            }
        }
    }
}

fn destinations(port: &PortPlan) -> impl Iterator<Item = (Protocol, Address)> {
    port.destinations.iter().map(|destination| (port.protocol, destination.at))
}
