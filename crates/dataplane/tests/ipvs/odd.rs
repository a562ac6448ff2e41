//! Objects that IPVS cannot serve as they are, and that must not disturb others.

use super::*;
use crate::common::{ip, service};
use model::{Protocol as Transport4, Service, ServicePort};

/// The simulated kernel refuses such a destination, as the real one does.
#[test]
fn an_endpoint_that_ipvs_refuses_is_left_out_and_stops_nobody() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::everything());
    fixture.add("default/odd", service(50), &[("fe80::1", "there"), ("fd00:244:2::22", "there")]);
    fixture.add("default/new", service(51), &[("fd00:244:2::23", "there")]);
    reconciler.sync_and_sweep(Family::V6, &[], &fixture).unwrap();
    let machine = machine(&mut reconciler);
    let served = |last: u8, address: &str| {
        let found = pool(&machine, server(&format!("fd00:96::{last:x}"), 80)).unwrap();
        found.into_keys().map(|at| at.address).collect::<Vec<_>>() == [ip(address)]
    };
    assert!(served(50, "fd00:244:2::22") && served(51, "fd00:244:2::23"));
    assert!(!(0..20).any(|_| reconciler.check(Family::V6)), "what is left out is taken for damage");
}

/// It goes and comes back sooner than what drains is looked at.
#[test]
fn an_endpoint_that_ipvs_refuses_may_come_back_at_once() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::everything());
    let pods = [("fd00:244:2::22", "there"), ("fe80::1", "there")];
    fixture.add("default/odd", service(50), &pods);
    reconciler.sync_and_sweep(Family::V6, &[], &fixture).unwrap();
    for endpoints in [&pods[..1], &pods, &pods[1..], &[], &pods] {
        fixture.add("default/odd", service(50), endpoints);
        let synced = reconciler.sync_and_sweep(Family::V6, &["default/odd".into()], &fixture).unwrap();
        assert!(!synced.full, "{endpoints:?}");
    }
    let found = pool(&machine(&mut reconciler), server("fd00:96::32", 80)).unwrap();
    assert_eq!(found.into_keys().map(|at| at.address).collect::<Vec<_>>(), [ip("fd00:244:2::22")]);
    assert!(!(0..20).any(|_| reconciler.check(Family::V6)), "what is left out is taken for damage");
}

/// One service has a node port, another the same number on the node's own address as an external IP.
#[test]
fn an_external_ip_of_the_node_does_not_take_a_node_port() {
    let (mut reconciler, mut fixture) = synced();
    let port = ServicePort { name: "http".into(), protocol: Transport4::Tcp, port: 30080, node_port: None };
    let taker = Service { external_ips: [ip("192.168.50.2")].into(), ports: [port].into(), ..service(60) };
    let node_port = server("192.168.50.2", 30080);
    let before = pool(&machine(&mut reconciler), node_port).unwrap();
    fixture.add("default/taker", taker, &[("10.244.2.99", "there")]);
    sync(&mut reconciler, &fixture, &["default/taker"]);
    assert_eq!(pool(&machine(&mut reconciler), node_port).unwrap(), before);
    assert!(!is_noticed(&mut reconciler));
    assert_as_fresh(&mut reconciler, &fixture, "both are there");
    fixture.services.remove("default/taker");
    sync(&mut reconciler, &fixture, &["default/taker"]);
    assert_eq!(pool(&machine(&mut reconciler), node_port).unwrap(), before);
}
