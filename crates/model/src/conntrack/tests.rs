//! Stale flows, case by case.

use super::*;
use crate::fixtures::ip;
use crate::{Destination, Masquerade, PlannedEndpoint, Role, Routing, Verdict};
use Protocol::{Sctp, Tcp, Udp};

const VIP: &str = "10.96.0.1";

fn vip() -> Address {
    Address::Vip(ip(VIP), 53)
}

fn backends(tails: &[u8]) -> Box<[PlannedEndpoint]> {
    tails
        .iter()
        .map(|n| PlannedEndpoint { ip: ip(&format!("10.0.0.{n}")), port: 5353, may_be_own_client: false })
        .collect()
}

fn to(tail: u8) -> FlowTarget {
    FlowTarget::Endpoint(ip(&format!("10.0.0.{tail}")), 5353)
}

/// A service with one destination for policy Cluster; no endpoints means it rejects.
fn plan(protocol: Protocol, at: Address, tails: &[u8]) -> ServicePlan {
    let verdict = if tails.is_empty() { Verdict::Reject } else { Verdict::Forward(Pool::Cluster) };
    plan_with(protocol, at, Routing::Same(verdict, Masquerade::Outsiders), tails, &[])
}

fn plan_with(protocol: Protocol, at: Address, routing: Routing, cluster: &[u8], local: &[u8]) -> ServicePlan {
    let destination = Destination { at, role: Role::ClusterIp, routing, allowed_sources: None };
    let port = PortPlan {
        name: "".into(),
        protocol,
        affinity_seconds: None,
        cluster_pool: backends(cluster),
        local_pool: backends(local),
        destinations: Box::new([destination]),
    };
    ServicePlan { ports: [port].into_iter().collect(), ..ServicePlan::default() }
}

#[test]
fn what_a_change_leaves_behind() {
    let np = Address::NodePort(30053);
    type Tails<'a> = Option<&'a [u8]>;
    // What it shows, protocol, address, old endpoints, new endpoints (None: no such service);
    // of the endpoints 1, 2, 3, those whose flows are stale; whether untouched flows are.
    type Case<'a> = (&'a str, Protocol, Address, Tails<'a>, Tails<'a>, &'a [u8], bool);
    let cases: [Case<'_>; 23] = [
        ("nothing changed", Udp, vip(), Some(&[1, 2]), Some(&[1, 2]), &[], false),
        ("an endpoint more", Udp, vip(), Some(&[1]), Some(&[1, 2]), &[], false),
        ("an endpoint less", Udp, vip(), Some(&[1, 2]), Some(&[1]), &[2, 3], true),
        ("replaced", Udp, vip(), Some(&[1]), Some(&[2]), &[1, 3], true),
        ("the first endpoint", Udp, vip(), Some(&[]), Some(&[1]), &[2, 3], true),
        ("the last one gone", Udp, vip(), Some(&[1, 2]), Some(&[]), &[1, 2], false),
        ("never had any", Udp, vip(), Some(&[]), Some(&[]), &[], false),
        ("service deleted", Udp, vip(), Some(&[1, 2]), None, &[1, 2], false),
        ("deleted without endpoints", Udp, vip(), Some(&[]), None, &[], false),
        ("created, or first sync", Udp, vip(), None, Some(&[1]), &[2, 3], true),
        ("created without endpoints", Udp, vip(), None, Some(&[]), &[], false),
        ("SCTP like UDP", Sctp, vip(), Some(&[]), Some(&[1]), &[2, 3], true),
        ("TCP created", Tcp, vip(), None, Some(&[1]), &[], false),
        ("TCP, the first endpoint", Tcp, vip(), Some(&[]), Some(&[1]), &[], false),
        ("TCP, an endpoint more", Tcp, vip(), Some(&[1]), Some(&[1, 2]), &[], false),
        ("TCP, an endpoint less", Tcp, vip(), Some(&[1, 2]), Some(&[1]), &[2, 3], false),
        ("TCP, the last one gone", Tcp, vip(), Some(&[1, 2]), Some(&[]), &[1, 2], false),
        ("TCP service deleted", Tcp, vip(), Some(&[1, 2]), None, &[1, 2], false),
        ("node port created", Udp, np, None, Some(&[1]), &[2, 3], true),
        ("node port, the last one gone", Udp, np, Some(&[1]), Some(&[]), &[1], false),
        ("node port of SCTP", Sctp, np, None, Some(&[1]), &[2, 3], false),
        ("node port of TCP", Tcp, np, Some(&[1]), Some(&[2]), &[1, 3], false),
        ("node port deleted", Udp, np, Some(&[1]), None, &[1], false),
    ];
    for (what, protocol, at, old, new, gone, untouched) in cases {
        let [old, new] = [old, new].map(|tails| tails.map(|tails| plan(protocol, at, tails)));
        let found = stale_flows(old.as_ref(), new.as_ref());
        let asks = found.iter().any(StaleFlows::asks_something);
        assert_eq!(asks, !gone.is_empty() || untouched, "{what}: {found:?}");
        assert!(found.iter().all(|flows| (flows.protocol, flows.at) == (protocol, at)), "{what}");
        let stale = |target| found.iter().any(|flows| flows.is_stale(target));
        let stale_ones: Vec<u8> = [1, 2, 3].into_iter().filter(|tail| stale(to(*tail))).collect();
        assert_eq!(stale_ones, gone, "{what}");
        assert_eq!(stale(FlowTarget::Untouched), untouched, "{what}");
    }
}

#[test]
fn an_endpoint_of_either_pool_is_live() {
    let split = |outside| Routing::Split {
        outside: Verdict::Forward(outside),
        inside: Verdict::Forward(Pool::Cluster),
    };
    let old = plan_with(Udp, vip(), split(Pool::Local), &[1, 3], &[2]);
    let new = plan_with(Udp, vip(), split(Pool::Local), &[1], &[2]);
    let found = stale_flows(Some(&old), Some(&new));
    let stale: Vec<bool> = [1, 2, 3].map(|tail| found[0].is_stale(to(tail))).into();
    assert_eq!(stale, [false, false, true]);

    let dropped = Routing::Split { outside: Verdict::Drop, inside: Verdict::Forward(Pool::Cluster) };
    let found = stale_flows(Some(&new), Some(&plan_with(Udp, vip(), dropped, &[1], &[])));
    assert!(found[0].is_stale(to(2)) && !found[0].is_stale(to(1)));
}

#[test]
fn a_destination_that_leaves_a_service_is_judged_alone() {
    let mut both = plan(Udp, vip(), &[1]);
    let other = Address::Vip(ip("198.51.100.1"), 53);
    let one = both.clone();
    let mut destinations = both.ports[0].destinations.to_vec();
    destinations.push(Destination { at: other, ..destinations[0].clone() });
    both.ports.for_each_mut(|port| Arc::make_mut(port).destinations = destinations.clone().into());
    let found = stale_flows(Some(&both), Some(&one));
    assert_eq!(found.iter().map(|flows| flows.at).collect::<Vec<_>>(), [other]);
    assert!(found[0].is_stale(to(1)) && !found[0].is_stale(to(2)));
}

#[test]
fn a_rewrite_to_the_destination_itself_cannot_be_seen_and_is_no_offence() {
    let own = Address::Vip(ip("10.0.0.1"), 5353);
    assert!(!stale_flows(None, Some(&plan(Udp, own, &[1])))[0].is_stale(FlowTarget::Untouched));
    assert!(stale_flows(None, Some(&plan(Udp, own, &[2])))[0].is_stale(FlowTarget::Untouched));
    let np = Address::NodePort(5353);
    assert!(!stale_flows(None, Some(&plan(Udp, np, &[1])))[0].is_stale(FlowTarget::Untouched));
}

fn flow(protocol: Protocol, destination: &str, port: u16, target: FlowTarget) -> RecordedFlow {
    RecordedFlow { protocol, destination: ip(destination), port, target, half_open: false }
}

#[test]
fn a_set_finds_flows_by_destination() {
    let np = Address::NodePort(30053);
    let mut set: StaleSet = stale_flows(Some(&plan(Udp, vip(), &[1])), None).into_iter().collect();
    set.extend(stale_flows(Some(&plan(Udp, np, &[1])), None));
    set.extend(stale_flows(Some(&plan(Tcp, vip(), &[1])), None));
    let tcp = flow(Tcp, VIP, 53, to(1));
    let cases = [
        (flow(Udp, VIP, 53, to(1)), true),
        (flow(Udp, VIP, 53, to(2)), false),
        (flow(Udp, VIP, 54, to(1)), false),
        (flow(Sctp, VIP, 53, to(1)), false),
        (flow(Udp, "192.0.2.1", 53, to(1)), false),
        (flow(Udp, "192.0.2.1", 30053, to(1)), true),
        (flow(Udp, "192.0.2.2", 30053, to(1)), false),
        (tcp, false),
        (RecordedFlow { half_open: true, ..tcp }, true),
    ];
    for (flow, stale) in cases {
        assert_eq!(set.is_stale(&flow, |at| at == ip("192.0.2.1")), stale, "{flow:?}");
    }
    assert!(!set.is_empty() && StaleSet::default().is_empty());
}

#[test]
fn a_set_keeps_up_with_later_changes() {
    let (a, b, c) = (plan(Udp, vip(), &[1]), plan(Udp, vip(), &[2]), plan(Udp, vip(), &[1, 2]));
    // The plans one after another; of the endpoints 1, 2, 3, those whose flows are stale.
    type Case<'a> = (&'a str, &'a [Option<&'a ServicePlan>], &'a [u8]);
    let cases: [Case<'_>; 5] = [
        ("there and back", &[Some(&a), Some(&b), Some(&a)], &[2, 3]),
        ("replaced, then deleted", &[Some(&a), Some(&b), None], &[1, 2, 3]),
        ("deleted and created again", &[Some(&a), None, Some(&b)], &[1, 3]),
        ("deleted twice", &[Some(&a), None, None], &[1]),
        ("shrunk, then grown again", &[Some(&c), Some(&a), Some(&c)], &[3]),
    ];
    for (what, plans, gone) in cases {
        let set: StaleSet = plans.windows(2).flat_map(|pair| stale_flows(pair[0], pair[1])).collect();
        let stale = |tail: &u8| set.is_stale(&flow(Udp, VIP, 53, to(*tail)), |_| false);
        assert_eq!([1, 2, 3].into_iter().filter(stale).collect::<Vec<u8>>(), gone, "{what}");
    }
}

#[test]
fn two_services_that_lost_one_address() {
    let lost = |tails| stale_flows(Some(&plan(Udp, vip(), tails)), None);
    let set: StaleSet = lost(&[1]).into_iter().chain(lost(&[3])).collect();
    let stale = [1, 2, 3].map(|tail| set.is_stale(&flow(Udp, VIP, 53, to(tail)), |_| false));
    assert_eq!(stale, [true, false, true]);
}

#[test]
fn flows_to_a_spared_target_stay() {
    let old = plan(Udp, vip(), &[1, 2]);
    let new = plan(Udp, vip(), &[1]);
    let mut found = stale_flows(Some(&old), Some(&new));
    assert!(found.iter().all(|flows| flows.is_stale(to(9))));
    found.iter_mut().for_each(|flows| flows.spare(&["10.0.0.9:5353".parse().unwrap()]));
    assert!(!found.is_empty());
    assert!(
        found.iter().all(|flows| !flows.is_stale(to(9)) && flows.is_stale(to(2)) && !flows.is_stale(to(1)))
    );
}
