//! Which endpoints count: matching, merging, readiness, topology.

use super::*;
use crate::Hints;
use crate::fixtures::{on, port, ready, service, terminating};

#[test]
fn a_slice_port_serves_the_service_port_of_its_name_and_protocol() {
    let service = Service {
        ports: Box::new([port("dns", Protocol::Udp, 53, 0), port("dns-tcp", Protocol::Tcp, 53, 0)]),
        ..service()
    };
    let named = [
        slice_port("dns", Protocol::Udp, 5353),
        slice_port("dns-tcp", Protocol::Tcp, 5354),
        slice_port("dns", Protocol::Tcp, 1),
        slice_port("dns-tcp", Protocol::Udp, 2),
        slice_port("", Protocol::Udp, 3),
    ];
    let plan = plan_v4(&service, &[slice(&named, &[ready("10.0.0.1")])]);
    let ports: Vec<_> = plan.ports.iter().map(|p| (&*p.name, p.protocol, p.cluster_pool[0].port)).collect();
    assert_eq!(ports, [("dns", Protocol::Udp, 5353), ("dns-tcp", Protocol::Tcp, 5354)]);
    assert!(plan.ports.iter().all(|port| port.cluster_pool.len() == 1));
}

#[test]
fn slices_may_offer_one_port_under_different_numbers() {
    let (old, new) = ([slice_port("", Protocol::Tcp, 8080)], [slice_port("", Protocol::Tcp, 9090)]);
    let plan = plan_v4(&service(), &[slice(&new, &[ready("10.0.0.1")]), slice(&old, &[ready("10.0.0.1")])]);
    let numbers: Vec<u16> = plan.ports[0].cluster_pool.iter().map(|backend| backend.port).collect();
    assert_eq!(numbers, [8080, 9090]);
}

#[test]
fn unusable_endpoints_are_left_out() {
    let not_ready = Endpoint { ready: false, ..ready("10.0.0.2") };
    let dead = Endpoint { ready: false, serving: false, terminating: true, ..ready("10.0.0.3") };
    let no_host = ["0.0.0.0", "0.1.2.3", "224.0.0.9", "255.255.255.255"].map(ready);
    let cases = [&[not_ready, dead, ready("fd00::9")], &no_host[..]].concat();
    let plan = plan_one(&service(), &[&cases[..], &[ready("10.0.0.1")]].concat());
    assert_eq!(tails(&plan.cluster_pool), [1]);
    let plan = plan_one(&service(), &cases);
    assert_eq!(plan.cluster_pool.len(), 0);
    let nowhere = [slice_port("", Protocol::Tcp, 0)];
    let plan = plan_v4(&service(), &[slice(&nowhere, &[ready("10.0.0.1")])]);
    assert_eq!(plan.ports[0].cluster_pool.len(), 0);
}

#[test]
fn families_are_planned_apart() {
    let ports = http();
    let slices = [slice(&ports, &[ready("fd00::9"), ready("10.0.0.1")])];
    let plan = plan(&service(), &slices, &node(), &Settings::default(), Family::V6);
    assert_eq!(plan.cluster_ip, Some("fd00::1".parse().unwrap()));
    assert_eq!(tails(&plan.ports[0].cluster_pool), [9]);
}

#[test]
fn duplicates_collapse_and_the_ready_one_wins() {
    let ports = http();
    let gone = Endpoint { ready: false, ..on("n1", ready("10.0.0.1")) };
    let leaving = on("n1", terminating("10.0.0.1"));
    let here = on("n2", ready("10.0.0.1"));
    type Case<'a> = (&'a [Endpoint<'a>], &'a [(u8, bool)]);
    let cases: [Case<'_>; 4] = [
        (&[gone, here], &[(1, false)]),
        (&[leaving, here], &[(1, false)]),
        (&[gone, leaving], &[(1, true)]),
        (&[here, here, ready("10.0.0.2"), ready("10.0.0.2")], &[(1, false), (2, true)]),
    ];
    for (endpoints, wanted) in cases {
        let mut slices: Vec<_> = endpoints.iter().map(|endpoint| slice(&ports, &[*endpoint])).collect();
        for _ in 0..2 {
            let plan = plan_v4(&service(), &slices);
            let pool: Vec<_> =
                plan.ports[0].cluster_pool.iter().map(|b| (tail(b.ip), b.may_be_own_client)).collect();
            assert_eq!(pool, wanted, "{endpoints:?}");
            slices.reverse();
        }
    }
}

#[test]
fn terminating_endpoints_serve_only_where_nothing_is_ready() {
    let both = Service {
        ports: Box::new([port("", Protocol::Tcp, 80, 30080)]),
        external_policy: TrafficPolicy::Local,
        ..service()
    };
    // Endpoints, wanted cluster pool, wanted local pool.
    type Case<'a> = (&'a [Endpoint<'a>], &'a [u8], &'a [u8]);
    let cases: [Case<'_>; 5] = [
        (&[on("n1", ready("10.0.0.1")), on("n1", terminating("10.0.0.2"))], &[1], &[1]),
        (&[on("n2", ready("10.0.0.1")), on("n1", terminating("10.0.0.2"))], &[1], &[2]),
        (&[on("n2", terminating("10.0.0.1")), on("n1", terminating("10.0.0.2"))], &[1, 2], &[2]),
        (&[on("n2", terminating("10.0.0.1"))], &[1], &[]),
        (&[on("n2", ready("10.0.0.1"))], &[1], &[]),
    ];
    for (endpoints, cluster, local) in cases {
        let plan = plan_one(&both, endpoints);
        assert_eq!(tails(&plan.cluster_pool), cluster, "{endpoints:?}");
        assert_eq!(tails(&plan.local_pool), local, "{endpoints:?}");
    }
}

/// One endpoint per item: the zones and nodes it is meant for.
fn hinted(hints: &[(&[&str], &[&str])]) -> Vec<Hints> {
    let names = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
    hints.iter().map(|(zones, nodes)| Hints { zones: names(zones), nodes: names(nodes) }).collect()
}

#[test]
fn topology_narrows_the_cluster_pool() {
    // What it shows, (zones, nodes) of endpoints 1, 2, …, wanted.
    type Case<'a> = (&'a str, &'a [(&'a [&'a str], &'a [&'a str])], &'a [u8]);
    let cases: [Case<'_>; 9] = [
        ("no hints", &[(&[], &[]), (&[], &[])], &[1, 2]),
        ("own zone", &[(&["z1"], &[]), (&["z2"], &[])], &[1]),
        ("several zones", &[(&["z2", "z1"], &[]), (&["z1"], &[]), (&["z2"], &[])], &[1, 2]),
        ("no endpoint for our zone", &[(&["z2"], &[]), (&["z3"], &[])], &[1, 2]),
        ("one endpoint lacks a zone", &[(&["z1"], &[]), (&[], &[])], &[1, 2]),
        ("own node before own zone", &[(&["z1"], &["n2"]), (&["z2"], &["n1"])], &[2]),
        ("no endpoint for our node: zone", &[(&["z1"], &["n2"]), (&["z2"], &["n3"])], &[1]),
        (
            "one endpoint lacks a node: zone",
            &[(&["z1"], &["n1"]), (&["z1"], &[]), (&["z2"], &["n1"])],
            &[1, 2],
        ),
        ("node hints alone", &[(&[], &["n1", "n2"]), (&[], &["n2"])], &[1]),
    ];
    for (what, hints, wanted) in cases {
        let hints = hinted(hints);
        let endpoints: Vec<_> = hints
            .iter()
            .enumerate()
            .map(|(i, hints)| Endpoint { hints: Some(hints), ..ready(&format!("10.0.0.{}", i + 1)) })
            .collect();
        assert_eq!(tails(&plan_one(&service(), &endpoints).cluster_pool), wanted, "{what}");
    }
}

#[test]
fn zones_need_a_node_with_a_zone() {
    let hints = hinted(&[(&["z1"], &[])]);
    let endpoints = [Endpoint { hints: Some(&hints[0]), ..ready("10.0.0.1") }];
    let (ports, homeless) = (http(), NodeView { zone: None, ..node() });
    let plan = plan(&service(), &[slice(&ports, &endpoints)], &homeless, &Settings::default(), Family::V4);
    assert_eq!(tails(&plan.ports[0].cluster_pool), [1]);
}

#[test]
fn hints_of_endpoints_that_are_not_ready_do_not_count() {
    let hints = hinted(&[(&["z1"], &[]), (&["z2"], &[])]);
    let near = Endpoint { hints: Some(&hints[0]), ..ready("10.0.0.1") };
    let far = Endpoint { hints: Some(&hints[1]), ..ready("10.0.0.2") };
    let leaving = terminating("10.0.0.3");
    assert_eq!(tails(&plan_one(&service(), &[near, far, leaving]).cluster_pool), [1]);
    let all_leaving = [near, far].map(|endpoint| Endpoint { ready: false, terminating: true, ..endpoint });
    assert_eq!(
        tails(&plan_one(&service(), &all_leaving).cluster_pool),
        [1, 2],
        "no topology among the dying"
    );
}

#[test]
fn hints_do_not_touch_policy_local() {
    let hints = hinted(&[(&[], &["n1"]), (&[], &["n2"])]);
    let service = Service { internal_policy: TrafficPolicy::Local, ..service() };
    let endpoints = [
        Endpoint { hints: Some(&hints[0]), ..on("n1", ready("10.0.0.1")) },
        Endpoint { hints: Some(&hints[1]), ..on("n1", ready("10.0.0.2")) },
    ];
    assert_eq!(tails(&plan_one(&service, &endpoints).local_pool), [1, 2]);
}
