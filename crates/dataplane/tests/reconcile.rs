//! The reconciler over a simulated kernel: what it commits, how little, and what it does after a failure.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;

use common::{Fixture, MARK, ip, pod_cidrs, service};
use dataplane::nftables::{Nftables, TABLE_NAME};
use dataplane::{Reconciler, Setup};
use kernel::nft::{self, Batch, ElementData, Transport};
use model::{Family, Pair, Planner, Service, ServiceKey, TrafficPolicy};
use simulate::nft::Simulator;

type Simulated = Reconciler<Nftables<Simulator>>;

const PODS: [(&str, &str); 3] = [("10.244.1.11", "here"), ("10.244.1.12", "here"), ("10.244.2.21", "there")];

fn reconciler() -> Simulated {
    over(Simulator::new())
}

fn over(simulator: Simulator) -> Simulated {
    Reconciler::new(Nftables::new(simulator, &pod_cidrs(), MARK))
}

fn sync(reconciler: &mut Simulated, fixture: &Fixture, dirty: &[&str]) -> dataplane::Synced {
    let dirty: Vec<ServiceKey> = dirty.iter().map(|name| (*name).into()).collect();
    reconciler.sync_and_sweep(Family::V4, &dirty, fixture).unwrap()
}

/// Every element of every set but the pins, as text.
fn elements(reconciler: &mut Simulated) -> BTreeMap<String, Vec<String>> {
    let simulator = reconciler.backend().transport();
    let mut all = BTreeMap::new();
    for set in simulator.sets(nft::TableFamily::Ip, TABLE_NAME).unwrap() {
        let mut held = Vec::new();
        simulator
            .dump_elements(nft::TableFamily::Ip, TABLE_NAME, &set, &mut |element| {
                held.push(format!("{:02x?} {:?} {:?}", element.key, element.data, element.comment));
            })
            .unwrap();
        held.sort_unstable();
        // Sets on demand may be left over empty by one way and never made by the other.
        if !held.is_empty() && !set.ends_with("affinity") {
            all.insert(set, held);
        }
    }
    all
}

/// The kernel holds what a first sync of the same cluster would write.
fn assert_as_fresh(held: &mut Simulated, fixture: &Fixture, when: &str) {
    let mut fresh = reconciler();
    sync(&mut fresh, fixture, &[]);
    assert_eq!(held.programmed(Family::V4), fresh.programmed(Family::V4), "{when}");
    let (held, mut wanted) = (slotless(elements(held)), slotless(elements(&mut fresh)));
    for (set, elements) in held {
        assert_eq!(Some(elements), wanted.remove(&set), "{when}: {set}");
    }
    assert!(wanted.is_empty(), "{when}: missing {wanted:?}");
}

/// The slots of a pool may stand in another order than a first sync gives them: compare endpoints only.
fn slotless(mut all: BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<String>> {
    for (set, elements) in &mut all {
        if set.ends_with("endpoints") {
            for element in elements.iter_mut() {
                let (key, rest) = element.split_once(']').unwrap();
                *element = format!("{}{rest}", &key[..key.len() - "00, 00, 00, 00".len()]);
            }
            elements.sort_unstable();
        }
    }
    all
}

#[test]
fn the_first_sync_is_full_and_the_next_ones_carry_only_changes() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::everything());
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    let nothing = sync(&mut reconciler, &fixture, &["default/plain"]);
    assert_eq!((nothing.full, nothing.services, nothing.committed.bytes), (false, 0, 0));
    fixture.add("default/plain", service(1), &[("10.244.1.11", "here"), ("10.244.2.22", "there")]);
    let replaced = sync(&mut reconciler, &fixture, &["default/plain"]);
    assert_eq!((replaced.full, replaced.services), (false, 1));
    assert!(replaced.committed.bytes < 300, "one slot out, one in: {} bytes", replaced.committed.bytes);
}

#[test]
fn what_is_programmed_is_counted() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::everything());
    assert_eq!(reconciler.programmed(Family::V4), None);
    sync(&mut reconciler, &fixture, &[]);
    let before = reconciler.programmed(Family::V4).unwrap();
    let of_services =
        |(set, _): &(&String, &Vec<String>)| !["nodeport-addresses", "service-cidrs"].contains(&set.as_str());
    let held: usize = elements(&mut reconciler).iter().filter(of_services).map(|(_, held)| held.len()).sum();
    assert_eq!(before.elements, held);
    let local = Service { internal_policy: TrafficPolicy::Local, ..service(77) };
    fixture.add("default/new", local, &[("10.244.2.21", "there")]);
    sync(&mut reconciler, &fixture, &["default/new"]);
    let after = reconciler.programmed(Family::V4).unwrap();
    assert_eq!(after.services, before.services + 1);
    assert_eq!(after.unserved.internal, before.unserved.internal + 1, "no endpoint here, and policy Local");
    assert_eq!(after.unserved.external, before.unserved.external);
    reconciler.distrust(Family::V4);
    assert_eq!(reconciler.programmed(Family::V4), None);
}

#[test]
fn changes_lead_to_what_a_rewrite_would_write() {
    let mut fixture = Fixture::everything();
    let mut reconciler = reconciler();
    sync(&mut reconciler, &fixture, &[]);
    let sticky = Service { affinity_seconds: Some(77), ..service(1) };
    type Step = (&'static str, Option<Service>, &'static [(&'static str, &'static str)]);
    let steps: [Step; 7] = [
        ("default/plain", Some(service(1)), &PODS),
        ("default/plain", Some(service(1)), &PODS[..2]),
        ("default/plain", Some(sticky), &PODS),
        ("default/plain", Some(Service { internal_policy: TrafficPolicy::Local, ..service(1) }), &PODS[2..]),
        ("default/new", Some(service(99)), &PODS),
        ("default/guarded", None, &[]),
        ("default/sticky-local", None, &[]),
    ];
    for (name, service, endpoints) in steps {
        match service {
            Some(service) => fixture.add(name, service, endpoints),
            None => drop(fixture.services.remove(name)),
        }
        sync(&mut reconciler, &fixture, &[name]);
        assert_as_fresh(&mut reconciler, &fixture, name);
    }
}

#[test]
fn a_failed_commit_keeps_the_old_rules_and_is_followed_by_a_rewrite() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::everything());
    sync(&mut reconciler, &fixture, &[]);
    let before = elements(&mut reconciler);
    fixture.add("default/plain", service(1), &PODS);
    reconciler.backend().transport().fail_next(12);
    let dirty = ["default/plain".into()];
    assert!(reconciler.sync(Family::V4, &dirty, &fixture).is_err());
    assert_eq!(elements(&mut reconciler), before);
    assert!(reconciler.is_unknown(Family::V4));
    // No mark is left of the dirty service: the rewrite covers it.
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    assert_as_fresh(&mut reconciler, &fixture, "in the end");
}

#[test]
fn a_rewrite_in_place_that_fails_is_followed_by_a_replacement() {
    let fixture = Fixture::everything();
    let mut simulator = Simulator::new();
    // A table that claims to be ours, with pins of another shape, which a rewrite in place leaves alone.
    let mut batch = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
    batch.add_table("rules for kube-proxy; flat layout 3; local: 10.244.0.0/16");
    batch.add_set(&nft::Set {
        name: "affinity",
        key_type: 13,
        key_length: 2,
        data: None,
        flags: nft::SetFlags::default(),
        size: 0,
        user_data: &[],
    });
    simulator.commit(&batch).unwrap();
    let mut reconciler = over(simulator);
    assert!(reconciler.sync(Family::V4, &[], &fixture).is_err());
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    assert_as_fresh(&mut reconciler, &fixture, "in the end");
}

#[test]
fn a_foreign_table_of_our_name_is_replaced() {
    let mut simulator = Simulator::new();
    let mut batch = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
    batch.add_table("somebody's rules");
    batch.add_chain(&nft::Chain { name: "service-ABC", hook: None });
    simulator.commit(&batch).unwrap();
    let (mut reconciler, fixture) = (over(simulator), Fixture::everything());
    sync(&mut reconciler, &fixture, &[]);
    assert_as_fresh(&mut reconciler, &fixture, "in the end");
}

#[test]
fn a_single_missing_element_is_repaired_after_distrust() {
    let (mut reconciler, fixture) = (reconciler(), Fixture::everything());
    sync(&mut reconciler, &fixture, &[]);
    let key = [10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0];
    assert!(reconciler.backend().transport().delete_element(
        nft::TableFamily::Ip,
        TABLE_NAME,
        "service-ips",
        &key
    ));
    reconciler.distrust(Family::V4);
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    assert_as_fresh(&mut reconciler, &fixture, "in the end");
}

#[test]
fn a_rewrite_leaves_nothing_of_the_past() {
    let mut before = reconciler();
    sync(&mut before, &Fixture::everything(), &[]);
    let mut restarted = over(before.backend().transport().clone());
    sync(&mut restarted, &Fixture::default(), &[]);
    let mut fresh = reconciler();
    sync(&mut fresh, &Fixture::default(), &[]);
    let names = |reconciler: &mut Simulated| {
        let simulator = reconciler.backend().transport();
        let mut names = simulator.sets(nft::TableFamily::Ip, TABLE_NAME).unwrap();
        names.extend(simulator.chains(nft::TableFamily::Ip, TABLE_NAME).unwrap());
        names.sort_unstable();
        names
    };
    assert_eq!(names(&mut restarted), names(&mut fresh));
}

#[test]
fn one_family_fails_alone() {
    let (mut reconciler, fixture) = (reconciler(), Fixture::everything());
    reconciler.backend().transport().fail_next(12);
    assert!(reconciler.sync(Family::V4, &[], &fixture).is_err());
    assert!(reconciler.sync(Family::V6, &[], &fixture).unwrap().full);
    assert!(reconciler.is_unknown(Family::V4) && !reconciler.is_unknown(Family::V6));
}

#[test]
fn a_contested_address_moves_when_its_owner_goes() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    let claiming =
        |last, created| Service { external_ips: [ip("198.51.100.1")].into(), created, ..service(last) };
    fixture.add("default/younger", claiming(1, 20), &PODS[..1]);
    fixture.add("default/older", claiming(2, 10), &PODS[1..2]);
    sync(&mut reconciler, &fixture, &[]);
    let owner = |reconciler: &mut Simulated| {
        let held = elements(reconciler);
        let at =
            held["service-ips"].iter().find(|element| element.contains("c6, 33, 64, 01")).unwrap().clone();
        if at.contains("older") { "older" } else { "younger" }
    };
    assert_eq!(owner(&mut reconciler), "older");
    fixture.services.remove("default/older");
    sync(&mut reconciler, &fixture, &["default/older"]);
    assert_eq!(owner(&mut reconciler), "younger");
    assert_as_fresh(&mut reconciler, &fixture, "in the end");
    fixture.add("default/older", claiming(2, 10), &PODS[1..2]);
    sync(&mut reconciler, &fixture, &["default/older"]);
    assert_eq!(owner(&mut reconciler), "older");
}

/// A pin of `client` at 10.96.0.5:80, as a packet would write it.
fn pin(simulator: &mut Simulator, client: [u8; 4], endpoint: [u8; 4]) {
    let mut batch = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
    let key = [&client[..], &[10, 96, 0, 5, 6, 0, 0, 0, 0, 80, 0, 0]].concat();
    let data = [&endpoint[..], &[0x1f, 0x90, 0, 0]].concat();
    batch.add_element("affinity", &key, ElementData::Value(&data), None);
    simulator.commit(&batch).unwrap();
}

fn pins(reconciler: &mut Simulated) -> usize {
    reconciler.backend().transport().count(nft::TableFamily::Ip, TABLE_NAME, "affinity").unwrap()
}

fn sticky_fixture(endpoints: &[(&str, &'static str)]) -> Fixture {
    let mut fixture = Fixture::default();
    fixture.add("default/sticky", Service { affinity_seconds: Some(100), ..service(5) }, endpoints);
    fixture
}

/// A sticky service with an external IP of this policy.
fn sticky_outside(policy: TrafficPolicy) -> Fixture {
    let mut fixture = Fixture::default();
    let service = Service {
        affinity_seconds: Some(100),
        external_ips: [ip("198.51.100.5")].into(),
        external_policy: policy,
        ..service(5)
    };
    fixture.add("default/sticky", service, &PODS);
    fixture
}

#[test]
fn pins_outlive_a_restart_and_those_of_gone_endpoints_do_not() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &sticky_fixture(&PODS), &[]);
    pin(reconciler.backend().transport(), [10, 244, 1, 99], [10, 244, 1, 11]);
    pin(reconciler.backend().transport(), [10, 244, 1, 98], [10, 244, 2, 21]);
    let simulator = reconciler.backend().transport().clone();
    // The agent starts again and one endpoint went meanwhile.
    let mut restarted = over(simulator);
    sync(&mut restarted, &sticky_fixture(&PODS[..2]), &[]);
    assert_eq!(pins(&mut restarted), 1);
}

#[test]
fn pins_of_upstreams_table_are_taken_over() {
    let mut simulator = Simulator::new();
    let mut batch = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
    batch.add_table("rules for kube-proxy");
    let clients = |batch: &mut Batch, endpoint: &str, client: [u8; 4], left_ms| {
        let name = format!("affinity-ABCDEFGH-default/sticky/tcp/http__{endpoint}/8080");
        let flags = nft::SetFlags { timeout: true, dynamic: true, ..nft::SetFlags::default() };
        let (key_type, key_length) = (7, 4);
        batch.add_set(&nft::Set {
            name: &name,
            key_type,
            key_length,
            data: None,
            flags,
            size: 0,
            user_data: &[],
        });
        batch.add_timed_element(&name, &client, ElementData::None, 100_000, left_ms);
    };
    clients(&mut batch, "10.244.1.11", [10, 244, 1, 99], 50_000);
    clients(&mut batch, "10.244.1.12", [10, 244, 1, 99], 40_000);
    clients(&mut batch, "10.244.9.9", [10, 244, 1, 98], 50_000);
    simulator.commit(&batch).unwrap();
    let mut reconciler = over(simulator);
    sync(&mut reconciler, &sticky_fixture(&PODS), &[]);
    let mut pins = Vec::new();
    let simulator = reconciler.backend().transport();
    simulator
        .dump_elements(nft::TableFamily::Ip, TABLE_NAME, "affinity", &mut |pin| {
            pins.push((pin.key[..4].to_vec(), format!("{:?}", pin.data), pin.timeout_ms, pin.expires_ms));
        })
        .unwrap();
    let endpoint = "Value([10, 244, 1, 11, 31, 144, 0, 0])".to_owned();
    assert_eq!(pins, [(vec![10, 244, 1, 99], endpoint, Some(100_000), Some(50_000))]);
}

#[test]
fn an_endpoint_that_goes_takes_its_pins_with_it() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &sticky_fixture(&PODS), &[]);
    pin(reconciler.backend().transport(), [10, 244, 1, 99], [10, 244, 1, 11]);
    pin(reconciler.backend().transport(), [10, 244, 1, 98], [10, 244, 2, 21]);
    sync(&mut reconciler, &sticky_fixture(&PODS[1..]), &["default/sticky"]);
    assert_eq!(pins(&mut reconciler), 1);
}

#[test]
fn turning_an_affine_service_local_forgets_its_pins() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &sticky_outside(TrafficPolicy::Cluster), &[]);
    pin(reconciler.backend().transport(), [192, 168, 60, 9], [10, 244, 2, 21]);
    sync(&mut reconciler, &sticky_outside(TrafficPolicy::Local), &["default/sticky"]);
    assert_eq!(pins(&mut reconciler), 0);
    assert_as_fresh(&mut reconciler, &sticky_outside(TrafficPolicy::Local), "in the end");
}

#[test]
fn a_flip_to_local_over_a_restart_forgets_pins_that_may_be_wrong() {
    let pin_external = |reconciler: &mut Simulated| {
        let mut batch = Batch::new(nft::TableFamily::Ip, TABLE_NAME);
        for (client, endpoint) in [(9, [10, 244, 2, 21]), (10, [10, 244, 1, 11])] {
            let key = [192, 168, 60, client, 198, 51, 100, 5, 6, 0, 0, 0, 0, 80, 0, 0];
            let data = [&endpoint[..], &[0x1f, 0x90, 0, 0]].concat();
            batch.add_element("affinity", &key, ElementData::Value(&data), None);
        }
        reconciler.backend().transport().commit(&batch).unwrap();
    };
    let mut before = reconciler();
    sync(&mut before, &sticky_outside(TrafficPolicy::Cluster), &[]);
    pin_external(&mut before);
    let mut restarted = over(before.backend().transport().clone());
    sync(&mut restarted, &sticky_outside(TrafficPolicy::Local), &[]);
    assert_eq!(pins(&mut restarted), 1, "only the endpoint on this node is right for any client");
    // A destination that was Local all along keeps its pins: a pod may well be pinned to a remote endpoint.
    pin_external(&mut restarted);
    let mut again = over(restarted.backend().transport().clone());
    sync(&mut again, &sticky_outside(TrafficPolicy::Local), &[]);
    assert_eq!(pins(&mut again), 2);
}

#[test]
fn an_error_that_passes_does_not_cost_the_pins() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &sticky_fixture(&PODS), &[]);
    pin(reconciler.backend().transport(), [10, 244, 1, 99], [10, 244, 1, 11]);
    reconciler.distrust(Family::V4);
    reconciler.backend().transport().fail_next(12);
    assert!(reconciler.sync(Family::V4, &[], &sticky_fixture(&PODS)).is_err());
    sync(&mut reconciler, &sticky_fixture(&PODS), &[]);
    assert_eq!(pins(&mut reconciler), 1);
}

/// A client that counted as a pod may be pinned to an endpoint that is none for a client outside.
#[test]
fn pins_do_not_outlive_a_change_of_what_is_local() {
    let mut reconciler = reconciler();
    sync(&mut reconciler, &sticky_fixture(&PODS), &[]);
    pin(reconciler.backend().transport(), [10, 244, 1, 99], [10, 244, 1, 11]);
    let detector = model::LocalDetector::Cidrs(vec!["10.9.0.0/16".parse().unwrap()]);
    let elsewhere = Setup {
        detector,
        masquerade_mark: MARK,
        drop_invalid: true,
        of_mode: model::ModeSettings::default(),
    };
    assert!(reconciler.configure(&elsewhere));
    assert!(sync(&mut reconciler, &sticky_fixture(&PODS), &[]).full);
    assert_eq!(pins(&mut reconciler), 0);
    // The same words again change nothing.
    pin(reconciler.backend().transport(), [10, 244, 1, 99], [10, 244, 1, 11]);
    assert!(!reconciler.configure(&elsewhere));
    assert!(!sync(&mut reconciler, &sticky_fixture(&PODS), &[]).full);
    assert_eq!(pins(&mut reconciler), 1);
}

#[test]
fn node_facts_follow() {
    struct Moved(Fixture);
    impl Planner for Moved {
        fn plan(&self, key: &ServiceKey, family: Family) -> Option<model::Planned> {
            self.0.plan(key, family)
        }
        fn services(&self) -> Vec<ServiceKey> {
            self.0.services()
        }
        fn node(&self, _: Family) -> model::NodePlan {
            model::NodePlan {
                nodeport_ips: vec![ip("192.168.50.7")],
                nodeports_everywhere: false,
                nodeport_loopback: Vec::new(),
                nodeport_listeners: Vec::new(),
                service_cidrs: vec!["10.97.0.0/16".parse().unwrap(), "255.255.255.0/24".parse().unwrap()],
                primary: None,
                addresses: Vec::new(),
            }
        }
    }
    let mut reconciler = reconciler();
    sync(&mut reconciler, &Fixture::default(), &[]);
    let synced = reconciler.sync(Family::V4, &[], &Moved(Fixture::default())).unwrap();
    assert!(!synced.full && synced.committed.bytes > 0);
    let held = elements(&mut reconciler);
    assert_eq!(held["nodeport-addresses"].len(), 1);
    // A start and an end; the last prefix of all has no end.
    assert_eq!(held["service-cidrs"].len(), 3);
}

#[test]
fn contests_are_told_once_and_so_is_their_end_also_by_a_rewrite() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    let external = |last| Service { external_ips: [ip("198.51.100.1")].into(), ..service(last) };
    fixture.add("default/aa", external(1), &PODS);
    fixture.add("default/web", external(2), &PODS);
    sync(&mut reconciler, &fixture, &[]);
    let pair = Pair { owner: "default/aa".into(), loser: "default/web".into() };
    let news = reconciler.contest_news(Family::V4).unwrap();
    assert_eq!((news.pairs.len(), &news.pairs[0].0, news.addresses), (1, &pair, 1));
    assert_eq!(reconciler.contest_news(Family::V4), None);
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &fixture, &[]);
    assert_eq!(reconciler.contest_news(Family::V4), None, "a rewrite changes nothing about it");
    fixture.services.remove("default/aa");
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &fixture, &[]);
    let news = reconciler.contest_news(Family::V4).unwrap();
    assert_eq!((news.pairs, news.addresses), (vec![(pair, None)], 0));
    assert_as_fresh(&mut reconciler, &fixture, "the owner is gone");
}
