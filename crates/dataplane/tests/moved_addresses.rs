//! Addresses that go from a large service, which lets go of them piece by piece, to another one meanwhile.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::cell::RefCell;
use std::collections::BTreeSet;

use common::{Fixture, MARK, ip, pod_cidrs, service};
use dataplane::Reconciler;
use dataplane::nftables::{Nftables, TABLE_NAME};
use kernel::nft::{self, ElementData, Transport};
use model::{Family, NodePlan, Planned, Planner, Protocol, Service, ServiceKey, ServicePort};
use simulate::nft::Simulator;

type Rules = Reconciler<Nftables<Simulator>>;

const ADDRESS: &str = "203.0.113.77";
const POD: [(&str, &str); 1] = [("10.244.1.12", "here")];
const OTHER_POD: [(&str, &str); 1] = [("10.244.1.13", "here")];
const LARGE: u16 = 1_800;
const SETS: [&str; 4] = ["service-ips", "endpoints", "no-endpoint-reject-ips", "cluster-ips"];

/// With ports from 80 on, at its cluster IP and perhaps at the address that moves.
fn with_ports(last: u8, count: u16, has_address: bool) -> Service {
    let port = |port| ServicePort {
        name: format!("p{port}").into(),
        protocol: Protocol::Tcp,
        port,
        node_port: None,
    };
    let external_ips = if has_address { [ip(ADDRESS)].into() } else { [].into() };
    Service { ports: (80..80 + count).map(port).collect(), external_ips, ..service(last) }
}

fn rules() -> Rules {
    Reconciler::new(Nftables::new(Simulator::new(), &pod_cidrs(), MARK))
}

/// What the maps hold.
fn elements(rules: &mut Rules) -> BTreeSet<(&'static str, Vec<u8>, String)> {
    let simulator = rules.backend().transport();
    let mut found = BTreeSet::new();
    for set in SETS {
        let listed = simulator.dump_elements(nft::TableFamily::Ip, TABLE_NAME, set, &mut |element| {
            let data = match element.data {
                ElementData::Value(value) => format!("{value:?}"),
                data => format!("{data:?}"),
            };
            found.insert((set, element.key.to_vec(), data));
        });
        listed.unwrap_or_else(|error| panic!("{set}: {error}"));
    }
    found
}

/// Let the services that are not done take turns.
fn finish(rules: &mut Rules, cluster: &Fixture, mut waiting: Vec<ServiceKey>) -> usize {
    let mut pieces = 0;
    while let Some(service) = waiting.pop() {
        let synced = rules.sync_piece(Family::V4, &service, cluster).unwrap();
        for unfinished in synced.unfinished {
            if !waiting.contains(&unfinished) {
                waiting.insert(0, unfinished);
            }
        }
        pieces += 1;
        assert!(pieces < 1_000, "it never ends: {waiting:?}");
    }
    pieces
}

fn assert_as_after_a_fresh_start(rules: &mut Rules, cluster: &Fixture, what: &str) {
    let mut fresh = self::rules();
    let synced = fresh.sync(Family::V4, &[], cluster).unwrap();
    finish(&mut fresh, cluster, synced.unfinished);
    let (found, wanted) = (elements(rules), elements(&mut fresh));
    let missing: Vec<_> = wanted.difference(&found).take(3).collect();
    let foreign: Vec<_> = found.difference(&wanted).take(3).collect();
    assert!(found == wanted, "{what}: without {missing:?}, with {foreign:?}");
}

/// `large` gives the address up, and the other one takes it while the pieces go on.
fn moves(what: &str, after_pieces: usize, is_deleted: bool, ports: u16, pods: &[(&str, &'static str)]) {
    let (large, other): (ServiceKey, ServiceKey) = ("default/large".into(), "default/other".into());
    let mut cluster = Fixture::default();
    cluster.add(&large, with_ports(1, LARGE, true), &POD);
    cluster.add(&other, with_ports(2, ports, false), pods);
    let mut rules = rules();
    rules.sync(Family::V4, &[], &cluster).unwrap();
    match is_deleted {
        true => drop(cluster.services.remove(&large)),
        false => cluster.add(&large, with_ports(1, LARGE, false), &POD),
    }
    let mut waiting = vec![large.clone()];
    for _ in 0..after_pieces {
        let synced = rules.sync_piece(Family::V4, &large, &cluster).unwrap();
        assert!(synced.unfinished.contains(&large), "{what}: {after_pieces} pieces show nothing");
    }
    cluster.add(&other, with_ports(2, ports, true), pods);
    match ports == LARGE {
        true => waiting.push(other.clone()),
        false => {
            let synced = rules.sync(Family::V4, std::slice::from_ref(&other), &cluster).unwrap();
            waiting.extend(synced.unfinished.into_iter().filter(|service| *service != large));
            let has =
                |rules: &mut Rules| elements(rules).iter().filter(|(set, ..)| *set == "service-ips").count();
            assert!(has(&mut rules) >= usize::from(ports), "{what}");
        }
    }
    finish(&mut rules, &cluster, waiting);
    assert_as_after_a_fresh_start(&mut rules, &cluster, what);
    // What is in the books is in the kernel: nothing is missing when it goes.
    cluster.add(&other, with_ports(2, ports, false), pods);
    let synced = rules.sync(Family::V4, std::slice::from_ref(&other), &cluster).unwrap();
    finish(&mut rules, &cluster, synced.unfinished);
    assert_as_after_a_fresh_start(&mut rules, &cluster, what);
}

#[test]
fn an_address_that_moves_off_a_large_service_is_served_by_its_new_owner() {
    for after_pieces in [1, 2] {
        for is_deleted in [false, true] {
            for (to, ports) in [("a small service", 3), ("a large one", LARGE)] {
                let from = if is_deleted { "deleted" } else { "changed" };
                let what = format!("from one {from}, {after_pieces} pieces ago, to {to}");
                moves(&what, after_pieces, is_deleted, ports, &POD);
                moves(&format!("{what} with other endpoints"), after_pieces, is_deleted, ports, &OTHER_POD);
                moves(&format!("{what} without endpoints"), after_pieces, is_deleted, ports, &[]);
            }
        }
    }
}

/// A service that is deleted and created again under another name, with the same cluster IP.
#[test]
fn a_large_service_that_is_renamed_keeps_its_cluster_ip_served() {
    let (old, new): (ServiceKey, ServiceKey) = ("default/old".into(), "default/new".into());
    for (ports, pods) in [(3, POD), (3, OTHER_POD), (LARGE, POD), (LARGE, OTHER_POD)] {
        let mut cluster = Fixture::default();
        cluster.add(&old, with_ports(1, LARGE, false), &POD);
        let mut rules = rules();
        rules.sync(Family::V4, &[], &cluster).unwrap();
        cluster.services.remove(&old);
        let synced = rules.sync_piece(Family::V4, &old, &cluster).unwrap();
        assert!(synced.unfinished.contains(&old), "one piece shows nothing");
        cluster.add(&new, with_ports(1, ports, false), &pods);
        let mut waiting = vec![old.clone(), new.clone()];
        if ports != LARGE {
            waiting = rules.sync(Family::V4, std::slice::from_ref(&new), &cluster).unwrap().unfinished;
            waiting.push(old.clone());
        }
        finish(&mut rules, &cluster, waiting);
        assert_as_after_a_fresh_start(&mut rules, &cluster, &format!("{ports} ports of the new one"));
    }
}

/// Both want what the other one has.
#[test]
fn large_services_that_swap_addresses_do_not_wait_for_each_other_for_ever() {
    let (one, two): (ServiceKey, ServiceKey) = ("default/one".into(), "default/two".into());
    let with = |first, second| {
        let mut cluster = Fixture::default();
        let external =
            |last, address| Service { external_ips: [ip(address)].into(), ..with_ports(last, LARGE, false) };
        cluster.add("default/one", external(1, first), &POD);
        cluster.add("default/two", external(2, second), &OTHER_POD);
        cluster
    };
    let mut rules = rules();
    rules.sync(Family::V4, &[], &with(ADDRESS, "203.0.113.78")).unwrap();
    let swapped = with("203.0.113.78", ADDRESS);
    finish(&mut rules, &swapped, vec![two, one]);
    assert_as_after_a_fresh_start(&mut rules, &swapped, "swapped");
}

/// Notes which services are planned.
struct Noted<'a>(&'a Fixture, RefCell<BTreeSet<ServiceKey>>);

impl Planner for Noted<'_> {
    fn plan(&self, service: &ServiceKey, family: Family) -> Option<Planned> {
        self.1.borrow_mut().insert(service.clone());
        self.0.plan(service, family)
    }
    fn weight(&self, service: &ServiceKey) -> usize {
        self.0.weight(service)
    }
    fn services(&self) -> Vec<ServiceKey> {
        self.0.services()
    }
    fn node(&self, family: Family) -> NodePlan {
        self.0.node(family)
    }
}

/// An old service claims and gives up what so many others, of so many ports, want as well. How many of them are planned at
/// once, when it claims it and when it gives it up?
fn planned_with_it(rivals: u16, ports: u16) -> [usize; 2] {
    let key = ServiceKey::from("default/old");
    let within = |net: &str, number: u16| ip(&format!("{net}.{}.{}", number / 250, 1 + number % 250));
    let address = |number| within("203.0", number);
    let mut cluster = Fixture::default();
    for number in 0..rivals {
        let external_ips = [address(number)].into();
        let cluster_ips = [within("10.97", number)].into();
        let rival = Service { external_ips, cluster_ips, created: 9, ..with_ports(2, ports, false) };
        cluster.add(&format!("default/rival-{number:03}"), rival, &POD);
    }
    cluster.add(&key, with_ports(1, 1, false), &OTHER_POD);
    let mut rules = rules();
    let synced = rules.sync(Family::V4, &[], &cluster).unwrap();
    finish(&mut rules, &cluster, synced.unfinished);
    [true, false].map(|claims| {
        let external_ips = (0..rivals).filter(|_| claims).map(address).collect();
        cluster.add(&key, Service { external_ips, created: 1, ..with_ports(1, 1, false) }, &OTHER_POD);
        let noted = Noted(&cluster, RefCell::default());
        let synced = rules.sync(Family::V4, std::slice::from_ref(&key), &noted).unwrap();
        let planned = noted.1.take().into_iter().filter(|service| *service != key).count();
        // Whoever loses an address loses it with the same transaction.
        if claims {
            assert!(synced.services > usize::from(rivals), "{} services", synced.services);
        } else if ports > 2_000 {
            assert_eq!(
                (synced.services, synced.unfinished.len()),
                (1, usize::from(rivals)),
                "they gain later"
            );
        }
        finish(&mut rules, &cluster, synced.unfinished);
        assert_as_after_a_fresh_start(&mut rules, &cluster, &format!("{rivals} rivals, claimed: {claims}"));
        planned
    })
}

#[test]
fn however_many_services_win_or_lose_addresses_few_are_planned_at_once() {
    assert_eq!(planned_with_it(3, 1), [3, 3], "a few are done at once");
    assert_eq!(planned_with_it(5, 2_100), [0, 0], "large ones have their turn later");
    for planned in planned_with_it(200, 1).into_iter().chain(planned_with_it(10, 1_000)) {
        assert!(planned <= 100, "{planned} services are planned at once");
    }
    assert!(planned_with_it(10, 900).iter().all(|planned| *planned <= 5), "by their weight");
}
