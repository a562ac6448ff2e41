//! The ports of one service in two plans.

use model::{PortPlan, ServicePlan};

pub(crate) fn ports_of(plan: Option<&ServicePlan>) -> &[PortPlan] {
    plan.map(|plan| &*plan.ports).unwrap_or_default()
}

/// Ports of the same name and protocol beside each other.
pub(crate) fn merged<'a>(
    old: &'a [PortPlan],
    new: &'a [PortPlan],
) -> impl Iterator<Item = (Option<&'a PortPlan>, Option<&'a PortPlan>)> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        let name = |port: &&'a PortPlan| (&*port.name, port.protocol);
        match (old.peek().map(name), new.peek().map(name)) {
            (None, None) => None,
            (Some(before), Some(after)) if before == after => Some((old.next(), new.next())),
            (Some(before), Some(after)) if before < after => Some((old.next(), None)),
            (Some(_), None) => Some((old.next(), None)),
            _ => Some((None, new.next())),
        }
    })
}
