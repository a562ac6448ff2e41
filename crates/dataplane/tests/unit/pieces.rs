//! How a large change is cut into pieces.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;
use model::{AllowedSources, Destination, Masquerade, Pool, Role, Routing, Verdict};

use super::*;

fn backend(number: u32) -> PlannedEndpoint {
    PlannedEndpoint {
        ip: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)),
        port: 80,
        may_be_own_client: false,
    }
}

fn port(number: u16, endpoints: impl Iterator<Item = u32>) -> PortPlan {
    let at = Address::Vip(IpAddr::from([10, 96, 0, 1]), number);
    let routing = Routing::Same(Verdict::Forward(Pool::Cluster), Masquerade::Outsiders);
    PortPlan {
        name: format!("p{number:05}").into(),
        protocol: Protocol::Tcp,
        affinity_seconds: None,
        cluster_pool: endpoints.map(backend).collect(),
        local_pool: [].into(),
        destinations: [Destination { at, role: Role::ClusterIp, routing, allowed_sources: None }].into(),
    }
}

fn plan(ports: impl Iterator<Item = PortPlan>) -> ServicePlan {
    ServicePlan {
        cluster_ip: Some(IpAddr::from([10, 96, 0, 1])),
        ports: ports.collect(),
        ..ServicePlan::default()
    }
}

/// Every step is small and no endpoint stands twice in a pool; returns how many it took.
fn walk(old: Option<&ServicePlan>, wanted: Option<&ServicePlan>) -> usize {
    walk_in(2 * PIECE, old, wanted)
}

fn walk_in(most: usize, old: Option<&ServicePlan>, wanted: Option<&ServicePlan>) -> usize {
    let mut now = old.cloned();
    for steps in 1..1000 {
        let Piece { plan, is_last } = next(now.as_ref(), wanted, &HashSet::new(), MOST_TURNED);
        let ports = |plan: &Option<ServicePlan>| plan.clone().map(|plan| plan.ports).unwrap_or_default();
        let (before, after) = (ports(&now), ports(&plan));
        let changed = merged_ports(&before, &after).filter(|(before, after)| before != after);
        let total: usize = changed.map(|(before, after)| cost(plain(before), plain(after))).sum();
        assert!(total <= most, "a step of {total}");
        let mut held = HashSet::new();
        for destination in after.iter().flat_map(|port| &port.destinations) {
            assert!(held.insert(destination.at), "{} stands twice", destination.at);
        }
        for port in &after {
            let distinct: HashSet<_> = port.cluster_pool.iter().collect();
            assert_eq!(distinct.len(), port.cluster_pool.len());
            let forwards = port.uses(Pool::Cluster);
            assert_eq!(port.cluster_pool.is_empty(), !forwards);
        }
        assert!(is_last || plan != now, "no progress");
        now = plan;
        if is_last {
            assert_eq!(now.as_ref(), wanted);
            return steps;
        }
    }
    panic!("it never ends");
}

#[test]
fn many_ports_come_and_go_in_pieces() {
    let many = plan((0..6_000).map(|number| port(number, 0..1)));
    let steps = walk(None, Some(&many));
    assert!((5..100).contains(&steps), "{steps}");
    walk(Some(&many), None);
    let other = plan((0..6_000).map(|number| port(number, 1..3)));
    walk(Some(&many), Some(&other));
}

#[test]
fn a_large_pool_is_filled_replaced_and_emptied_in_pieces() {
    let large = plan(std::iter::once(port(80, 0..20_000)));
    let steps = walk(None, Some(&large));
    assert!((10..100).contains(&steps), "{steps}");
    walk(Some(&large), None);
    walk(Some(&large), Some(&plan(std::iter::once(port(80, 100_000..120_000)))));
    walk(Some(&large), Some(&plan(std::iter::once(port(80, 19_000..19_500)))));
    assert_eq!(
        walk(Some(&large), Some(&plan(std::iter::once(port(80, 0..20_001))))),
        1,
        "a small change is one"
    );
}

#[test]
fn an_endpoint_that_moves_to_another_slot_stands_there_once() {
    let turned = (0..5_000).rev();
    walk(Some(&plan(std::iter::once(port(80, 0..5_000)))), Some(&plan(std::iter::once(port(80, turned)))));
}

#[test]
fn the_affinity_of_a_large_pool_changes_in_pieces() {
    let pinned = |seconds, endpoints: std::ops::Range<u32>| {
        plan(std::iter::once(PortPlan { affinity_seconds: seconds, ..port(80, endpoints) }))
    };
    for endpoints in [0..6_000, 3_000..9_000, 9_000..9_010] {
        walk_in(3 * PIECE, Some(&pinned(Some(10_800), 0..6_000)), Some(&pinned(None, endpoints)));
    }
    walk_in(3 * PIECE, Some(&pinned(None, 0..6_000)), Some(&pinned(Some(60), 0..6_000)));
    // As many as most services have keep all their endpoints meanwhile.
    let (before, wanted) = (pinned(None, 0..1_900), pinned(Some(60), 0..1_900));
    let first = next(Some(&before), Some(&wanted), &HashSet::new(), MOST_TURNED);
    assert_eq!(first.plan.as_ref(), Some(&wanted));
}

#[test]
fn a_large_pool_that_becomes_one_for_each_address_goes_in_pieces() {
    let shared = guarded(5, 0, 6_000);
    let copied = guarded(5, 0, 100);
    assert!(shared.shares_pools() && !copied.shares_pools());
    walk_in(3 * PIECE, Some(&plan(std::iter::once(shared))), Some(&plan(std::iter::once(copied))));
}

#[test]
fn what_others_gain_or_lose_does_not_wait() {
    let many = plan((0..6_000).map(|number| port(number, 0..1)));
    let at = (Protocol::Tcp, Address::Vip(IpAddr::from([10, 96, 0, 1]), 5_999));
    let piece = next(None, Some(&many), &HashSet::from([at]), MOST_TURNED);
    assert!(!piece.is_last);
    assert!(piece.plan.is_some_and(|plan| plan.ports.last().is_some_and(|port| &*port.name == "p05999")));
}

#[test]
fn a_port_that_is_renamed_keeps_its_address_to_itself() {
    let named = |name: &str, endpoints| {
        plan(std::iter::once(PortPlan { name: name.into(), ..port(80, 0..endpoints) }))
    };
    assert_eq!(
        walk_in(MOST_TOGETHER, Some(&named("web", 5_000)), Some(&named("http", 5_000))),
        1,
        "it is never without"
    );
    walk_in(MOST_TOGETHER, Some(&named("web", 20_000)), Some(&named("http", 20_000)));
}

#[test]
fn many_ports_that_change_their_numbers_give_them_up_first() {
    let turned = |by: u16| {
        plan((0..2_000).map(move |number| PortPlan {
            destinations: port((number + by) % 2_000, 0..1).destinations,
            ..port(number, 0..1)
        }))
    };
    walk(Some(&turned(0)), Some(&turned(7)));
}

/// A port at so many addresses of a load balancer, which only so many ranges may use.
fn guarded(addresses: u32, ranges: u32, endpoints: u32) -> PortPlan {
    let nets = (0..ranges).map(|number| IpNet::from(IpAddr::V4(Ipv4Addr::from_bits(0xc000_0000 + number))));
    let allowed = Arc::new(AllowedSources { nets: nets.collect(), itself: true });
    let plain = port(80, 0..endpoints);
    let own = plain.destinations[0].clone();
    let at = |number| Address::Vip(Ipv4Addr::from_bits(0xcb00_0000 + number).into(), 80);
    let guarded = |number| Destination {
        at: at(number),
        role: Role::LoadBalancerIp,
        allowed_sources: Some(allowed.clone()),
        ..own.clone()
    };
    let destinations = std::iter::once(own.clone()).chain((0..addresses).map(guarded)).collect();
    PortPlan { destinations, ..plain }
}

#[test]
fn a_port_with_many_addresses_and_source_ranges_is_changed_in_pieces() {
    let of = |port: PortPlan| plan(std::iter::once(port));
    let (few, many) = (of(guarded(300, 300, 2)), of(guarded(600, 301, 2)));
    assert!(many.weight() > 40 * PIECE);
    assert!(walk(None, Some(&many)) > 30, "created");
    assert!(walk(Some(&many), None) > 30, "removed");
    assert!(walk(Some(&few), Some(&many)) > 30, "more addresses, and all of them with other ranges");
    assert!(walk(Some(&many), Some(&few)) > 30, "fewer of them");
    let wide = of(guarded(600, 300, 5_000));
    assert!(walk(Some(&few), Some(&wide)) > 30, "other endpoints, too");
    assert!(walk(None, Some(&wide)) > 30, "created with many endpoints");
    assert!(walk(Some(&wide), None) > 30, "removed with many endpoints");
    let refused = |mut port: PortPlan| {
        port.cluster_pool = Box::default();
        let refused = Routing::Same(Verdict::Reject, Masquerade::Outsiders);
        port.destinations.iter_mut().for_each(|at| at.routing = refused);
        of(port)
    };
    assert!(walk(Some(&wide), Some(&refused(guarded(600, 300, 0)))) > 30, "all endpoints gone");
    assert!(walk(Some(&refused(guarded(600, 300, 0))), Some(&wide)) > 30, "and back");
}
