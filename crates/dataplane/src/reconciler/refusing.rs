//! Which services began to refuse clients with a sync, for the log.

use model::{Refusal, ServiceKey, ServicePlan};

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
