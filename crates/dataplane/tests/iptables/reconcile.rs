//! Full and partial syncs, and what a failure is followed by.

use std::error::Error as _;

use dataplane::iptables::NoTools;
use kernel::iptables::{Tables, ToolError};
use model::{NodePlan, Planned, Service, TrafficPolicy};
use simulate::iptables::Fault;

use super::common::{ip, service};
use super::*;

/// The lines of the last script that are rules.
fn written(reconciler: &mut Simulated) -> Vec<String> {
    let script = tables(reconciler).last_script();
    script.lines().filter(|line| line.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn the_first_sync_is_full_and_nothing_to_do_runs_no_program() {
    let (mut reconciler, fixture) = (reconciler(), Fixture::everything());
    let first = sync(&mut reconciler, &fixture, &[]);
    assert!(first.full && first.committed.rules.total[1] > 30, "{first:?}");
    assert_eq!(first.committed.rules.total, first.committed.rules.written);
    let nothing = sync(&mut reconciler, &fixture, &["default/plain"]);
    assert_eq!((nothing.full, nothing.services, nothing.committed.bytes), (false, 0, 0));
    assert_eq!(tables(&mut reconciler).restores(), 1);
}

#[test]
fn one_changed_endpoint_touches_one_chain() {
    let (mut reconciler, mut fixture) = synced();
    fixture.add("default/plain", service(1), &[("10.244.1.11", "here"), ("10.244.2.22", "there")]);
    let replaced = sync(&mut reconciler, &fixture, &["default/plain"]);
    assert_eq!((replaced.full, replaced.services), (false, 1));
    let script = tables(&mut reconciler).last_script().to_owned();
    let chain = chain_of(tables(&mut reconciler), Table::Nat, "default/plain:http cluster IP");
    let declared: Vec<&str> = script.lines().filter(|line| line.starts_with(':')).collect();
    assert_eq!(declared, [format!(":{chain} - [0:0]")], "{script}");
    let rules = written(&mut reconciler);
    assert!(
        rules.len() == 3 && rules.iter().all(|rule| rule.starts_with(&format!("-A {chain} "))),
        "{script}"
    );
    assert_eq!(replaced.committed.rules.written, [0, 3]);
    assert_as_fresh(&mut reconciler, &fixture, "one replaced");
}

#[test]
fn what_a_change_costs_does_not_grow_with_the_cluster() {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    for number in 0..1000_u32 {
        let address = std::net::Ipv4Addr::from_bits(0x0a60_0100 + number);
        let service = Service { cluster_ips: [address.into()].into(), ..service(1) };
        fixture.add(&format!("default/s{number}"), service, &PODS);
    }
    let first = sync(&mut reconciler, &fixture, &[]);
    fixture.add("default/s77", Service { cluster_ips: [ip("10.96.1.77")].into(), ..service(1) }, &PODS[..2]);
    let second = sync(&mut reconciler, &fixture, &["default/s77"]);
    assert!(second.committed.bytes * 500 < first.committed.bytes, "{} bytes", second.committed.bytes);
    fixture.services.remove("default/s78");
    let third = sync(&mut reconciler, &fixture, &["default/s78"]);
    assert!(third.committed.bytes * 20 < first.committed.bytes, "{} bytes", third.committed.bytes);
    assert_as_fresh(&mut reconciler, &fixture, "in the end");
}

#[test]
fn rules_are_counted() {
    let (mut reconciler, mut fixture) = synced();
    fixture.add("default/plain", service(1), &PODS);
    let counted = sync(&mut reconciler, &fixture, &["default/plain"]).committed.rules.total;
    let mut fresh = super::reconciler();
    assert_eq!(counted, sync(&mut fresh, &fixture, &[]).committed.rules.total);
    let held = tables(&mut fresh);
    let of_ours = |table: Table| -> usize {
        let ours = held.chains(table).into_iter().filter(|chain| chain.starts_with("KUBE-"));
        ours.map(|chain| held.rules(table, chain).unwrap().len()).sum()
    };
    assert_eq!(counted, Table::BOTH.map(of_ours));
}

#[test]
fn changes_lead_to_what_a_rewrite_would_write() {
    let (mut reconciler, mut fixture) = synced();
    let sticky = Service { affinity_seconds: Some(77), ..service(1) };
    let guarded = Service {
        load_balancer_ips: [ip("203.0.113.77")].into(),
        source_ranges: ["192.168.60.0/24".parse().unwrap()].into(),
        ..service(1)
    };
    let open = Service { source_ranges: [].into(), ..guarded.clone() };
    let checked = Service {
        health_check_node_port: std::num::NonZeroU16::new(32000),
        external_policy: TrafficPolicy::Local,
        ..open.clone()
    };
    type Step<'a> = (&'static str, Option<&'a Service>, &'static [(&'static str, &'static str)]);
    let (plain, local) = (service(1), Service { internal_policy: TrafficPolicy::Local, ..service(1) });
    let new = service(99);
    let steps: [Step<'_>; 14] = [
        ("default/plain", Some(&plain), &PODS),
        ("default/plain", Some(&plain), &PODS[..2]),
        ("default/plain", Some(&sticky), &PODS),
        ("default/plain", Some(&local), &PODS[2..]),
        ("default/plain", Some(&guarded), &PODS),
        ("default/plain", Some(&guarded), &[]),
        ("default/plain", Some(&open), &[]),
        ("default/plain", Some(&checked), &PODS[2..]),
        ("default/plain", Some(&checked), &PODS),
        ("default/plain", Some(&plain), &[]),
        ("default/new", Some(&new), &PODS),
        ("default/guarded", None, &[]),
        ("default/sticky-local", None, &[]),
        ("default/plain", None, &[]),
    ];
    for (number, (name, service, endpoints)) in steps.into_iter().enumerate() {
        match service {
            Some(service) => fixture.add(name, service.clone(), endpoints),
            None => drop(fixture.services.remove(name)),
        }
        sync(&mut reconciler, &fixture, &[name]);
        assert_as_fresh(&mut reconciler, &fixture, &format!("step {number}"));
    }
}

#[test]
fn whatever_fails_is_followed_by_a_rewrite() {
    let faults =
        [Fault::Locked, Fault::AtLine(2), Fault::AtCommit(Table::Filter), Fault::AtCommit(Table::Nat)];
    for fault in faults {
        for first in [true, false] {
            let (mut reconciler, mut fixture) =
                if first { (reconciler(), Fixture::everything()) } else { synced() };
            fixture.add("default/plain", service(1), &[]);
            let before = contents(tables(&mut reconciler));
            tables(&mut reconciler).fail_next(fault);
            assert!(reconciler.sync(Family::V4, &["default/plain".into()], &fixture).is_err(), "{fault:?}");
            assert!(reconciler.is_unknown(Family::V4));
            if matches!(fault, Fault::Locked | Fault::AtLine(_)) {
                assert_eq!(contents(tables(&mut reconciler)), before, "{fault:?}");
            }
            // No mark is left of the dirty service: the rewrite covers it.
            assert!(sync(&mut reconciler, &fixture, &[]).full);
            assert_as_fresh(&mut reconciler, &fixture, &format!("{fault:?}"));
        }
    }
}

#[test]
fn one_family_fails_alone() {
    let (mut reconciler, fixture) = (reconciler(), Fixture::everything());
    tables(&mut reconciler).fail_next(Fault::Locked);
    assert!(reconciler.sync(Family::V4, &[], &fixture).is_err());
    assert!(reconciler.sync(Family::V6, &[], &fixture).unwrap().full);
    assert!(reconciler.is_unknown(Family::V4) && !reconciler.is_unknown(Family::V6));
}

/// Without a service's name an operator would have to search a script that is gone.
#[test]
fn the_error_names_the_service_at_whose_rules_it_stopped() {
    let mut fixture = Fixture::default();
    fixture.add("default/plain", service(1), &PODS);
    let mut first = reconciler();
    sync(&mut first, &fixture, &[]);
    let chain = chain_of(tables(&mut first), Table::Nat, "default/plain:http cluster IP");
    let script = tables(&mut first).last_script().to_owned();
    for (rule, owner) in
        [(format!("-A {chain} -p tcp"), Some("default/plain")), ("-A KUBE-MARK-MASQ".to_owned(), None)]
    {
        let line = script.lines().position(|line| line.starts_with(&rule)).unwrap() + 1;
        let mut again = reconciler();
        tables(&mut again).fail_next(Fault::AtLine(line));
        let error = again.sync(Family::V4, &[], &fixture).unwrap_err();
        match error.source().and_then(|source| source.downcast_ref()) {
            Some(ToolError::Refused { line: at, .. }) => {
                assert_eq!((error.service().map(|key| &**key), *at), (owner, Some(line)), "{script}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_family_without_tools_fails_once_it_has_services() {
    let mut reconciler = Reconciler::new(Iptables::new([Some(Simulator::default()), None], &setup()));
    assert!(reconciler.sync(Family::V6, &[], &Fixture::default()).is_ok());
    reconciler.distrust(Family::V6);
    let error = reconciler.sync(Family::V6, &[], &Fixture::everything()).unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref());
    assert!(matches!(source, Some(NoTools(Family::V6))), "{error}");
    assert!(reconciler.sync(Family::V4, &[], &Fixture::everything()).is_ok());
}

#[test]
fn old_tools_are_asked_for_nothing_they_do_not_know() {
    let mut reconciler = over(empty(Family::V4).without_random_fully());
    sync(&mut reconciler, &Fixture::everything(), &[]);
    let saved = tables(&mut reconciler).save(Table::Nat).unwrap();
    assert!(saved.contains("-j MASQUERADE\n") && !saved.contains("--random-fully"), "{saved}");
}

struct Moved(Fixture);

impl Planner for Moved {
    fn plan(&self, key: &ServiceKey, family: Family) -> Option<Planned> {
        self.0.plan(key, family)
    }

    fn services(&self) -> Vec<ServiceKey> {
        self.0.services()
    }

    fn node(&self, _: Family) -> NodePlan {
        NodePlan {
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

#[test]
fn node_facts_follow() {
    let (mut reconciler, fixture) = synced();
    let moved = Moved(fixture);
    let synced = sync(&mut reconciler, &moved, &[]);
    assert!(!synced.full && synced.committed.bytes > 0);
    assert_as_fresh(&mut reconciler, &moved, "moved");
}

#[test]
fn mark_and_detector_follow() {
    let (mut reconciler, fixture) = synced();
    assert!(!reconciler.configure(&setup()));
    let marked = Setup { masquerade_mark: 0x100, ..setup() };
    assert!(reconciler.configure(&marked));
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    let saved = tables(&mut reconciler).save(Table::Nat).unwrap();
    assert!(saved.contains("0x100/0x100") && !saved.contains("0x4000"), "{saved}");
    let detector = model::LocalDetector::Bridge("cni0".to_owned());
    assert!(reconciler.configure(&Setup { detector, ..marked }));
    assert!(sync(&mut reconciler, &fixture, &[]).full);
    let saved = tables(&mut reconciler).save(Table::Nat).unwrap();
    assert!(saved.contains("! -i cni0") && !saved.contains("10.244.0.0/16"), "{saved}");
}
