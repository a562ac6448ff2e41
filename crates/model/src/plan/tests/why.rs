//! Every reason for which an endpoint is used or not.

use super::*;
use crate::Hints;
use crate::fixtures::{on, ready, service, terminating};

fn hints(zones: &[&str], nodes: &[&str]) -> Hints {
    let texts = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
    Hints { zones: texts(zones), nodes: texts(nodes) }
}

/// What is said of each endpoint, by the last byte of its address.
fn explained(pool: Pool, slices: &[EndpointSlice<'_>]) -> Vec<(u8, Result<(), NotUsed>)> {
    let service = Service {
        internal_policy: TrafficPolicy::Local,
        external_ips: ["192.0.2.9".parse().unwrap()].into(),
        ..service()
    };
    let plan = plan_v4(&service, slices);
    let port = plan.ports.first().expect("a port");
    let explained = explain_endpoints(port, pool, slices, &node(), Family::V4);
    // What is said to be used is used, and nothing else.
    let used = explained.iter().filter(|one| one.used.is_ok());
    let used: Vec<(IpAddr, Option<u16>)> = used.map(|one| (one.ip, one.port)).collect();
    let planned: Vec<_> = port.pool(pool).iter().map(|one| (one.ip, Some(one.port))).collect();
    assert_eq!(used, planned);
    explained.into_iter().map(|one| (tail(one.ip), one.used)).collect()
}

#[test]
fn readiness_and_place_have_their_reasons() {
    let ports = http();
    let endpoints = [
        on("n1", ready("10.0.0.1")),
        on("n2", ready("10.0.0.2")),
        ready("10.0.0.3"),
        Endpoint { ready: false, serving: false, ..ready("10.0.0.4") },
        on("n1", terminating("10.0.0.5")),
        ready("224.0.0.6"),
        ready("fd00::7"),
    ];
    let slices = [slice(&ports, &endpoints)];
    let cluster = [
        (1, Ok(())),
        (2, Ok(())),
        (3, Ok(())),
        (4, Err(NotUsed::NotReady)),
        (5, Err(NotUsed::Terminating)),
        (6, Err(NotUsed::BadAddress)),
    ];
    assert_eq!(explained(Pool::Cluster, &slices), cluster);
    let local = [
        (1, Ok(())),
        (2, Err(NotUsed::OnOtherNode)),
        (3, Err(NotUsed::OnUnknownNode)),
        (4, Err(NotUsed::NotReady)),
        (5, Err(NotUsed::Terminating)),
        (6, Err(NotUsed::BadAddress)),
    ];
    assert_eq!(explained(Pool::Local, &slices), local);
}

#[test]
fn hints_have_their_reasons() {
    let ports = http();
    let (here, there) = (hints(&["z1"], &[]), hints(&["z2"], &[]));
    let hinted = |ip, hints| Endpoint { hints: Some(hints), ..ready(ip) };
    let slices = [slice(&ports, &[hinted("10.0.0.1", &here), hinted("10.0.0.2", &there)])];
    let said = [(1, Ok(())), (2, Err(NotUsed::HintedToOtherZones))];
    assert_eq!(explained(Pool::Cluster, &slices), said);
    let (here, there) = (hints(&["z1"], &["n1"]), hints(&["z1"], &["n2"]));
    let slices = [slice(&ports, &[hinted("10.0.0.1", &here), hinted("10.0.0.2", &there)])];
    let said = [(1, Ok(())), (2, Err(NotUsed::HintedToOtherNodes))];
    assert_eq!(explained(Pool::Cluster, &slices), said);
}

#[test]
fn ports_have_their_reasons_and_duplicates_are_told_once() {
    let (http, other, zero) =
        (http(), [slice_port("x", Protocol::Tcp, 1)], [slice_port("", Protocol::Tcp, 0)]);
    let not_ready = Endpoint { ready: false, serving: false, ..ready("10.0.0.1") };
    let slices = [
        slice(&http, &[not_ready]),
        slice(&http, &[ready("10.0.0.1")]),
        slice(&other, &[ready("10.0.0.2")]),
        slice(&zero, &[ready("10.0.0.3")]),
    ];
    let said = [(1, Ok(())), (2, Err(NotUsed::NoSuchPort)), (3, Err(NotUsed::BadPort))];
    assert_eq!(explained(Pool::Cluster, &slices), said);
}

/// As of a service with more endpoints than the mode takes.
#[test]
fn endpoints_that_were_left_out_are_told_so() {
    let ports = http();
    let slices = [slice(&ports, &[ready("10.0.0.1"), ready("10.0.0.2")])];
    let plan = plan_v4(&service(), &slices);
    let mut port = plan.ports.first().expect("a port").as_ref().clone();
    port.cluster_pool = port.cluster_pool.iter().take(1).copied().collect();
    let said = explain_endpoints(&port, Pool::Cluster, &slices, &node(), Family::V4);
    let said: Vec<_> = said.into_iter().map(|one| (tail(one.ip), one.used)).collect();
    assert_eq!(said, [(1, Ok(())), (2, Err(NotUsed::LeftOut))]);
}
