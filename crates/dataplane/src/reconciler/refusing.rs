//! Which services began to refuse clients with a sync or got less than they ask for, for the log and events.

use model::{Change, Excess, Refusal, ServiceKey, ServicePlan};

/// Services that are named after one sync.
const MOST_NAMED: usize = 20;

/// Services that refuse clients because of their endpoints, and did not before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusing {
    pub services: Vec<(ServiceKey, Refusal)>,
    /// How many more there are.
    pub others: usize,
}

/// Of services before and after a sync.
pub(super) fn refusing<'a>(
    changes: impl Iterator<Item = (&'a ServiceKey, Option<&'a ServicePlan>, Option<&'a ServicePlan>)>,
) -> Refusing {
    let mut refusing = Refusing::default();
    for (service, old, new) in changes {
        let Some(why) = new.and_then(refusal).filter(|why| old.and_then(refusal) != Some(*why)) else {
            continue;
        };
        match refusing.services.len() < MOST_NAMED {
            true => refusing.services.push((service.clone(), why)),
            false => refusing.others += 1,
        }
    }
    refusing
}

/// The first that there is.
fn refusal(plan: &ServicePlan) -> Option<Refusal> {
    let destinations = plan.ports.iter().flat_map(|port| &port.destinations);
    destinations.filter_map(|at| at.refusal()).map(|(why, _)| why).next()
}

/// A service that asks for more than it may have since this change, or no longer does.
pub(super) fn newly_limited(change: &Change<'_>) -> Option<(ServiceKey, Excess)> {
    let excess = |plan: Option<&ServicePlan>| plan.map(|plan| plan.excess).unwrap_or_default();
    let new = excess(change.new);
    (new.is_none() != excess(change.old).is_none()).then(|| (change.service.clone(), new))
}
