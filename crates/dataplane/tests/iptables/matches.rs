//! Kernels that lack a match that some services need.

use dataplane::{Backend as _, Shortfall};
use model::{Protocol, Service, ServicePort};
use simulate::iptables::Fault;

use super::*;
use crate::common::service;

fn shortfalls(reconciler: &mut Simulated) -> Vec<(String, bool)> {
    let news = reconciler.backend().take_shortfalls(Family::V4);
    let said = |Shortfall { service, note, is_over }: Shortfall| {
        assert!(note.contains("xt_"), "{note}");
        (service.to_string(), is_over)
    };
    news.into_iter().map(said).collect()
}

fn over_a_kernel_without(name: &'static str) -> Simulated {
    Reconciler::new(backend(empty(Family::V4).without_match(name)).trying_matches())
}

fn sticky() -> Service {
    Service { affinity_seconds: Some(100), ..service(1) }
}

fn with_sctp() -> Service {
    let port =
        |name: &str, protocol, port| ServicePort { name: name.into(), protocol, port, node_port: None };
    let ports = [port("web", Protocol::Tcp, 80), port("signals", Protocol::Sctp, 81)];
    Service { ports: ports.into(), ..service(1) }
}

/// One service that needs what the kernel lacks, and one that does not.
fn others_are_served(lacking: &'static str, needy: &Service, frugal: &Service) {
    let mut cluster = Fixture::default();
    cluster.add("default/other", service(2), &PODS);
    cluster.add("default/needy", needy.clone(), &PODS);
    let news = |is_over| vec![("default/needy".to_owned(), is_over)];
    let mut wanted = Fixture::default();
    wanted.add("default/other", service(2), &PODS);
    wanted.add("default/needy", frugal.clone(), &PODS);
    let begins_with_it = || {
        let mut rules = over_a_kernel_without(lacking);
        sync(&mut rules, &cluster, &[]);
        rules
    };
    let comes_later = || {
        let mut rules = over_a_kernel_without(lacking);
        sync(&mut rules, &wanted, &[]);
        sync(&mut rules, &cluster, &["default/needy"]);
        rules
    };
    for mut rules in [begins_with_it(), comes_later()] {
        assert_eq!(shortfalls(&mut rules), news(false), "without {lacking}");
        assert_as_fresh_but(&mut rules, &wanted, lacking);
        let restores = tables(&mut rules).restores();
        cluster.add("default/needy", needy.clone(), &PODS[1..]);
        sync(&mut rules, &cluster, &["default/needy"]);
        assert_eq!(tables(&mut rules).restores(), restores + 1, "it is known by now");
        cluster.add("default/needy", needy.clone(), &PODS);
        sync(&mut rules, &cluster, &["default/needy"]);
        // Damage: all is written again.
        rules.distrust(Family::V4);
        sync(&mut rules, &cluster, &[]);
        assert_as_fresh_but(&mut rules, &wanted, lacking);
        assert_eq!(shortfalls(&mut rules), [], "nothing new");
        sync(&mut rules, &wanted, &["default/needy"]);
        assert_eq!(shortfalls(&mut rules), news(true), "it needs no more than there is");
        // Another time, from the start.
        sync(&mut rules, &cluster, &["default/needy"]);
    }
}

/// The tables hold what they would for this cluster, whatever the services ask for.
fn assert_as_fresh_but(held: &mut Simulated, wanted: &Fixture, when: &str) {
    let mut fresh = reconciler();
    sync(&mut fresh, wanted, &[]);
    assert_eq!(contents(tables(held)), contents(tables(&mut fresh)), "{when}");
}

#[test]
fn a_kernel_without_recent_serves_all_services_and_pins_no_client() {
    others_are_served("recent", &sticky(), &service(1));
}

#[test]
fn a_kernel_without_sctp_leaves_these_ports_out_and_serves_all_others() {
    let mut frugal = with_sctp();
    frugal.ports = frugal.ports[..1].into();
    others_are_served("sctp", &with_sctp(), &frugal);
}

#[test]
fn a_kernel_that_has_a_match_is_asked_once_and_only_if_it_is_needed() {
    let mut cluster = Fixture::default();
    cluster.add("default/web", service(2), &PODS);
    let mut rules = Reconciler::new(backend(empty(Family::V4)).trying_matches());
    sync(&mut rules, &cluster, &[]);
    assert_eq!(tables(&mut rules).restores(), 1);
    cluster.add("default/web", sticky(), &PODS);
    sync(&mut rules, &cluster, &["default/web"]);
    assert_eq!(tables(&mut rules).restores(), 4, "a rule, its end, and the change");
    rules.distrust(Family::V4);
    sync(&mut rules, &cluster, &[]);
    assert_eq!(tables(&mut rules).restores(), 5);
    assert_as_fresh(&mut rules, &cluster, "asked");
}

#[test]
fn an_accident_says_nothing_about_a_match() {
    let mut cluster = Fixture::default();
    cluster.add("default/web", sticky(), &PODS);
    for fault in [Fault::Locked, Fault::AtCommit(Table::Filter)] {
        let mut rules = Reconciler::new(backend(empty(Family::V4)).trying_matches());
        tables(&mut rules).fail_next(fault);
        sync(&mut rules, &cluster, &[]);
        assert_as_fresh(&mut rules, &cluster, "after an accident");
        assert_eq!(shortfalls(&mut rules), []);
    }
}
