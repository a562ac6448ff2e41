//! Slot order: an endpoint keeps its place in a pool while it lives, so that a change touches few slots.

use std::sync::Arc;

use model::{PlannedEndpoint, PortPlan, ServicePlan};

/// Give the pools of `new` the order of `old`, with newcomers in the places of those that went.
pub(crate) fn keep_order(old: &ServicePlan, new: &mut ServicePlan) {
    new.ports.for_each_mut(|port| {
        let Some(before) = old.port(&port.name, port.protocol) else { return };
        if !Arc::ptr_eq(before, port) {
            arrange_port(before, Arc::make_mut(port));
        }
        // Kept once, and seen to be the same without another look.
        if before == port {
            *port = Arc::clone(before);
        }
    });
}

fn arrange_port(before: &PortPlan, port: &mut PortPlan) {
    port.cluster_pool = arrange(&before.cluster_pool, &port.cluster_pool);
    port.local_pool = arrange(&before.local_pool, &port.local_pool);
}

/// `wanted` is sorted, as the plan gives it.
fn arrange(before: &[PlannedEndpoint], wanted: &[PlannedEndpoint]) -> Box<[PlannedEndpoint]> {
    let place = |backend: &PlannedEndpoint| (backend.ip, backend.port);
    let current = |backend: &PlannedEndpoint| wanted.binary_search_by_key(&place(backend), place).ok();
    let mut kept = vec![false; wanted.len()];
    let mut slots: Vec<Option<PlannedEndpoint>> = Vec::with_capacity(before.len().max(wanted.len()));
    for backend in before {
        let index = current(backend).filter(|index| !kept[*index]);
        slots.push(index.map(|index| {
            kept[index] = true;
            wanted[index]
        }));
    }
    let mut newcomers = wanted.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(backend, _)| *backend);
    for slot in &mut slots {
        if slot.is_none() {
            *slot = newcomers.next();
        }
    }
    slots.extend(newcomers.map(Some));
    fill_holes(slots)
}

/// Move the last endpoints into the places that stayed empty.
fn fill_holes(mut slots: Vec<Option<PlannedEndpoint>>) -> Box<[PlannedEndpoint]> {
    let mut index = 0;
    while index < slots.len() {
        if slots[index].is_none() {
            slots.swap_remove(index);
        } else {
            index += 1;
        }
    }
    slots.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(last: &[u8]) -> Vec<PlannedEndpoint> {
        let ip = |last| std::net::IpAddr::from([10, 0, 0, last]);
        last.iter()
            .map(|last| PlannedEndpoint { ip: ip(*last), port: 80, may_be_own_client: false })
            .collect()
    }

    #[test]
    fn endpoints_keep_their_slots() {
        type Case = (&'static str, &'static [u8], &'static [u8], &'static [u8]);
        let cases: [Case; 7] = [
            ("unchanged", &[3, 1, 2], &[1, 2, 3], &[3, 1, 2]),
            ("added goes last", &[2, 1], &[1, 2, 3], &[2, 1, 3]),
            ("removed in the middle: the last one takes its slot", &[3, 1, 2], &[2, 3], &[3, 2]),
            ("removed at the end", &[3, 1, 2], &[1, 3], &[3, 1]),
            ("replaced in place", &[3, 1, 2], &[2, 3, 4], &[3, 4, 2]),
            ("all gone", &[1, 2], &[], &[]),
            ("two replaced, one more", &[1, 2, 3], &[2, 5, 6, 7], &[5, 2, 6, 7]),
        ];
        for (name, before, wanted, expected) in cases {
            assert_eq!(&*arrange(&pool(before), &pool(wanted)), &*pool(expected), "{name}");
        }
    }
}
