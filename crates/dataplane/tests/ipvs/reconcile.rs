//! Changes lead to what a rewrite would write.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::*;
use crate::common::{ip, service};
use model::{Service, TrafficPolicy};

#[test]
fn changes_lead_to_what_a_rewrite_would_write() {
    let (mut reconciler, mut fixture) = synced();
    type Step = (&'static str, Option<Service>, &'static [(&'static str, &'static str)]);
    let steps: [Step; 8] = [
        ("default/plain", Some(service(1)), &PODS),
        ("default/plain", Some(service(1)), &PODS[..2]),
        ("default/plain", Some(Service { affinity_seconds: Some(77), ..service(1) }), &PODS),
        ("default/plain", Some(Service { internal_policy: TrafficPolicy::Local, ..service(1) }), &PODS[2..]),
        ("default/open", Some(Service { external_ips: [ip("198.51.100.3")].into(), ..service(3) }), &PODS),
        ("default/new", Some(service(99)), &PODS),
        ("default/new", Some(service(99)), &[]),
        ("default/guarded", None, &[]),
    ];
    for (name, service, endpoints) in steps {
        match service {
            Some(service) => fixture.add(name, service, endpoints),
            None => drop(fixture.services.remove(name)),
        }
        sync(&mut reconciler, &fixture, &[name]);
        assert!(!is_noticed(&mut reconciler), "{name}: our own change is taken for damage");
        assert_as_fresh(&mut reconciler, &fixture, name);
    }
}

#[test]
fn any_operation_may_fail_and_the_next_sync_repairs_it() {
    for operation in 0..60 {
        let (mut reconciler, mut fixture) = synced();
        fixture.add("default/plain", service(1), &PODS[1..]);
        fixture.add("default/new", service(99), &PODS);
        fixture.services.remove("default/open");
        machine(&mut reconciler).fail_after(operation);
        let dirty = ["default/plain".into(), "default/new".into(), "default/open".into()];
        if reconciler.sync_and_sweep(Family::V4, &dirty, &fixture).is_err() {
            sync(&mut reconciler, &fixture, &[]);
        }
        machine(&mut reconciler).machine().ipvs.end_all();
        is_noticed(&mut reconciler);
        sync(&mut reconciler, &fixture, &[]);
        is_noticed(&mut reconciler);
        assert_as_fresh(&mut reconciler, &fixture, &format!("operation {operation} failed"));
    }
}

#[test]
fn a_cluster_ip_outside_of_all_service_cidrs_has_a_route_of_its_own() {
    let (mut reconciler, mut fixture) = synced();
    let route: IpNet = "10.97.0.1/32".parse().unwrap();
    let apart = Service { cluster_ips: [ip("10.97.0.1")].into(), ..service(1) };
    fixture.add("default/apart", apart, &PODS);
    sync(&mut reconciler, &fixture, &["default/apart"]);
    assert!(held(&machine(&mut reconciler)).1.contains(&route));
    assert_as_fresh(&mut reconciler, &fixture, "it came");
    fixture.services.remove("default/apart");
    sync(&mut reconciler, &fixture, &["default/apart"]);
    assert!(!held(&machine(&mut reconciler)).1.contains(&route));
    assert_as_fresh(&mut reconciler, &fixture, "it went");
}

#[test]
fn node_ports_follow_the_address_of_the_node() {
    struct Moved(Fixture);
    impl Planner for Moved {
        fn plan(&self, key: &ServiceKey, family: Family) -> Option<model::Planned> {
            self.0.plan(key, family)
        }
        fn services(&self) -> Vec<ServiceKey> {
            self.0.services()
        }
        fn node(&self, family: Family) -> model::NodePlan {
            model::NodePlan { nodeport_ips: vec![ip("192.168.50.7")], ..self.0.node(family) }
        }
    }
    let (mut reconciler, fixture) = synced();
    let machine = machine(&mut reconciler);
    assert!(pool(&machine, server("192.168.50.2", 30_080)).is_some());
    let moved = Moved(fixture);
    assert!(sync(&mut reconciler, &moved, &[]).full);
    assert_eq!(pool(&machine, server("192.168.50.2", 30_080)), None);
    assert!(pool(&machine, server("192.168.50.7", 30_080)).is_some());
    assert_as_fresh(&mut reconciler, &moved, "another address");
}

#[test]
fn a_port_with_too_many_destinations_is_left_to_rules() {
    let mut fixture = Fixture::default();
    add_huge(&mut fixture, service(1), 16_385);
    fixture.add("default/plain", service(2), &PODS);
    let mut reconciler = reconciler();
    sync(&mut reconciler, &fixture, &[]);
    let machine = machine(&mut reconciler);
    assert_eq!(pool(&machine, server("10.96.0.1", 80)), None);
    assert_eq!(pool(&machine, server("10.96.0.2", 80)).unwrap().len(), 3);
    let client = gaps::outside("10.96.0.1", 80);
    let journey = machine.machine().walk(&gaps::host(), client, &mut |_| 0);
    assert!(journey.delivery().is_some_and(|delivery| delivery.port == 8080), "{journey:?}");
}

/// IPVS changes it in place, and no pool comes to IPVS because it is shortened on the way.
#[test]
fn the_affinity_of_a_large_pool_changes_without_touching_its_endpoints() {
    for (endpoints, held) in [(3_000, Some(3_000)), (6_000, None)] {
        let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
        add_huge(&mut fixture, service(1), endpoints);
        sync(&mut reconciler, &fixture, &[]);
        let seen = Rc::new(RefCell::new(BTreeSet::new()));
        let sizes = seen.clone();
        machine(&mut reconciler).look(move |machine| {
            let mut ipvs = machine.clone().ipvs;
            let web = server("10.96.0.1", 80);
            let pool = ipvs.service(web).unwrap().map(|_| ipvs.destinations(web).unwrap());
            let in_use = pool.map(|pool| pool.iter().filter(|one| one.weight == 1).count());
            sizes.borrow_mut().insert(in_use);
        });
        for affinity_seconds in [Some(60), Some(90), None] {
            add_huge(&mut fixture, Service { affinity_seconds, ..service(1) }, endpoints);
            sync(&mut reconciler, &fixture, &["default/huge"]);
        }
        let seen = seen.borrow();
        assert_eq!([seen.first(), seen.last()], [Some(&held); 2]);
        assert_as_fresh(&mut reconciler, &fixture, "affinity came and went");
    }
}

fn add_huge(fixture: &mut Fixture, service: Service, endpoints: u32) {
    let address = |number| std::net::Ipv4Addr::from(0x0af5_0000 + number).to_string();
    let addresses: Vec<String> = (0..endpoints).map(address).collect();
    let endpoints: Vec<(&str, &'static str)> =
        addresses.iter().map(|address| (address.as_str(), "there")).collect();
    fixture.add("default/huge", service, &endpoints);
}
