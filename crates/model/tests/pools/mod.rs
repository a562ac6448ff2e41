//! The pools of every port, beside a plain way to find them: each port by itself, out of all endpoints of all slices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{
    Endpoint, EndpointSlice, Family, PlannedEndpoint, PortPlan, Protocol, Role, Service, SlicePort,
    TrafficPolicy,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::world::{NODE, World, world};

/// How well an endpoint suits, the smaller the better: terminating, place, aim of the node hints, of the zone hints.
type Worth = (bool, u8, u8, u8);

const HERE: u8 = 0;

fn worth(endpoint: &Endpoint<'_>) -> Option<Worth> {
    let usable = endpoint.ready || endpoint.serving && endpoint.terminating;
    let place = match endpoint.node {
        Some(NODE) => HERE,
        None => 1,
        Some(_) => 2,
    };
    let aim = |named: &[Box<str>], mine: &str| match named {
        [] => 2,
        named if named.iter().any(|name| **name == *mine) => HERE,
        _ => 1,
    };
    let node = endpoint.hints.map_or(2, |hints| aim(&hints.nodes, NODE));
    let zone = endpoint.hints.map_or(2, |hints| aim(&hints.zones, "z1"));
    usable.then_some((!endpoint.ready, place, node, zone))
}

/// The best of what the slices say about each address and port.
fn found(slices: &[EndpointSlice<'_>], port: &PortPlan, family: Family) -> BTreeMap<(IpAddr, u16), Worth> {
    let mut best = BTreeMap::new();
    for slice in slices {
        for at in slice.ports.iter().filter(|at| at.name == port.name && at.protocol == port.protocol) {
            for endpoint in slice.endpoints.iter().filter(|endpoint| Family::of(endpoint.ip) == family) {
                let Some(worth) = worth(endpoint).filter(|_| !endpoint.ip.is_unspecified()) else { continue };
                let known = best.entry((endpoint.ip, at.port)).or_insert(worth);
                *known = worth.min(*known);
            }
        }
    }
    best
}

fn backends(
    found: &BTreeMap<(IpAddr, u16), Worth>,
    from_anywhere: bool,
    fits: impl Fn(&Worth) -> bool,
) -> Box<[PlannedEndpoint]> {
    let fitting = found.iter().filter(|(_, worth)| fits(worth));
    let backend = |(&(ip, port), &(_, place, ..)): (&(IpAddr, u16), &Worth)| PlannedEndpoint {
        ip,
        port,
        may_be_own_client: from_anywhere || place < 2,
    };
    fitting.map(backend).collect()
}

fn cluster_pool(found: &BTreeMap<(IpAddr, u16), Worth>, from_anywhere: bool) -> Box<[PlannedEndpoint]> {
    let ready: Vec<&Worth> = found.values().filter(|(terminating, ..)| !terminating).collect();
    let agreed = |aims: &[u8]| aims.iter().all(|aim| *aim < 2) && aims.contains(&HERE);
    let by_node = agreed(&ready.iter().map(|(.., node, _)| *node).collect::<Vec<_>>());
    let by_zone = agreed(&ready.iter().map(|(.., zone)| *zone).collect::<Vec<_>>());
    backends(found, from_anywhere, |&(terminating, _, node, zone)| match terminating {
        _ if ready.is_empty() => true,
        true => false,
        false if by_node => node == HERE,
        false if by_zone => zone == HERE,
        false => true,
    })
}

fn local_pool(found: &BTreeMap<(IpAddr, u16), Worth>) -> Box<[PlannedEndpoint]> {
    let any_ready = found.values().any(|(terminating, place, ..)| !terminating && *place == HERE);
    backends(found, false, |(terminating, place, ..)| *place == HERE && !(any_ready && *terminating))
}

/// The pools of the port, for the traffic that it has.
fn pools(
    service: &Service,
    slices: &[EndpointSlice<'_>],
    port: &PortPlan,
    family: Family,
) -> [Box<[PlannedEndpoint]>; 2] {
    let found = found(slices, port, family);
    let has_role = |wanted: fn(Role) -> bool| port.destinations.iter().any(|at| wanted(at.role));
    let inside = has_role(|role| role == Role::ClusterIp).then_some(service.internal_policy);
    let outside = has_role(|role| role != Role::ClusterIp).then_some(service.external_policy);
    let is_split = outside == Some(TrafficPolicy::Local);
    let uses_all = inside == Some(TrafficPolicy::Cluster) || outside.is_some();
    let uses_local = is_split || inside == Some(TrafficPolicy::Local);
    [
        if uses_all { cluster_pool(&found, is_split) } else { Box::default() },
        if uses_local { local_pool(&found) } else { Box::default() },
    ]
}

/// Lists of ports, and which of them each slice has: slices share them, as those of the cluster state do.
fn lists() -> impl Strategy<Value = (Vec<Vec<SlicePort>>, Vec<usize>)> {
    let named = [("a", Protocol::Tcp), ("b", Protocol::Udp), ("c", Protocol::Udp), ("d", Protocol::Sctp)];
    let port = (proptest::sample::select(named.to_vec()), 8080..8082u16);
    let port = port.prop_map(|((name, protocol), port)| SlicePort { name: name.into(), protocol, port });
    (vec(vec(port, 0..8), 3), vec(0..3usize, 8))
}

/// A service whose slices are those of two worlds.
fn service() -> impl Strategy<Value = World> {
    (world(), world()).prop_map(|(one, other)| World { slices: [one.slices, other.slices].concat(), ..one })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pools_are_those_of_each_port_by_itself(
        world in service(), (lists, list_of) in lists(), is_v4 in any::<bool>(),
    ) {
        let family = if is_v4 { Family::V4 } else { Family::V6 };
        let slices = world.slices.iter().zip(&list_of);
        let slices: Vec<_> = slices.map(|(slice, list)| slice.view(&lists[*list])).collect();
        let plan = world.plan_of(&slices, family);
        prop_assert!(plan.excess.is_none());
        for port in &plan.ports {
            let planned = [&port.cluster_pool, &port.local_pool].map(Clone::clone);
            prop_assert_eq!(planned, pools(&world.service, &slices, port, family));
        }
        // Where the lists are kept makes no difference.
        let apart: Vec<Vec<SlicePort>> = list_of.iter().map(|list| lists[*list].clone()).collect();
        let slices: Vec<_> = world.slices.iter().zip(&apart).map(|(slice, ports)| slice.view(ports)).collect();
        prop_assert_eq!(world.plan_of(&slices, family), plan);
    }
}
