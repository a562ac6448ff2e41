//! Endpoints go when their connections have ended; what is not ours stays.

use super::*;
use crate::common::{ip, service};
use kernel::ipvs::{Batch, Settings};
use model::TrafficPolicy;

const WEB: &str = "10.96.0.1";

fn connect(machine: &SharedMachine, port: u16) -> Destination {
    let mut machine = machine.machine();
    let (to, client) = (server(WEB, 80), ip("10.244.1.99"));
    let simulate::ipvs::Choice::To(at) = machine.ipvs.take(to, client, port, true) else { panic!() };
    machine.ipvs.establish(to, client, port);
    at
}

/// A service with live connections to all its endpoints, of which the first then goes.
fn drained() -> (Simulated, Fixture, u16) {
    let (mut reconciler, mut fixture) = (reconciler(), Fixture::default());
    fixture.add("default/web", service(1), &PODS);
    sync(&mut reconciler, &fixture, &[]);
    let machine = machine(&mut reconciler);
    let port = (1000..1003).find(|port| connect(&machine, *port) == at("10.244.1.11")).unwrap();
    fixture.add("default/web", service(1), &PODS[1..]);
    sync(&mut reconciler, &fixture, &["default/web"]);
    (reconciler, fixture, port)
}

#[test]
fn a_removed_endpoint_stays_while_it_is_in_use_and_takes_nobody_new() {
    let (mut reconciler, fixture, port) = drained();
    let machine = machine(&mut reconciler);
    assert_eq!(pool(&machine, server(WEB, 80)).unwrap()[&at("10.244.1.11")], 0);
    assert!((2000..2020).all(|port| connect(&machine, port) != at("10.244.1.11")));
    assert!(!is_noticed(&mut reconciler), "what drains is no damage");
    assert!(pool(&machine, server(WEB, 80)).unwrap().contains_key(&at("10.244.1.11")));
    assert!(machine.machine().ipvs.end(server(WEB, 80), ip("10.244.1.99"), port));
    assert!(!is_noticed(&mut reconciler));
    assert_as_fresh(&mut reconciler, &fixture, "its connection has ended");
}

/// Another process may have removed it, or a clean-up that failed half-way.
#[test]
fn an_endpoint_that_returns_is_served_though_its_destination_is_gone() {
    let (mut reconciler, mut fixture, _) = drained();
    let mut batch = Batch::new();
    batch.delete_destination(server(WEB, 80), at("10.244.1.11"));
    Transport::commit(&mut machine(&mut reconciler).machine().ipvs, &batch).unwrap();
    fixture.add("default/web", service(1), &PODS);
    sync(&mut reconciler, &fixture, &["default/web"]);
    assert_as_fresh(&mut reconciler, &fixture, "it is back");
}

#[test]
fn a_restart_takes_over_what_drains() {
    let (mut before, fixture, port) = drained();
    let machine = machine(&mut before);
    let mut restarted = over(&machine, IpvsSettings::default());
    sync(&mut restarted, &fixture, &[]);
    assert_eq!(pool(&machine, server(WEB, 80)).unwrap()[&at("10.244.1.11")], 0);
    assert!(machine.machine().ipvs.end(server(WEB, 80), ip("10.244.1.99"), port));
    assert!(!is_noticed(&mut restarted));
    assert_as_fresh(&mut restarted, &fixture, "its connection has ended");
}

#[test]
fn a_deleted_service_goes_at_once_unless_somebody_is_connected() {
    let (mut reconciler, mut fixture, _) = drained();
    let machine = machine(&mut reconciler);
    fixture.services.clear();
    sync(&mut reconciler, &fixture, &["default/web"]);
    assert!(pool(&machine, server(WEB, 80)).unwrap().values().all(|weight| *weight == 0));
    machine.machine().ipvs.end_all();
    assert!(!is_noticed(&mut reconciler));
    assert_eq!(pool(&machine, server(WEB, 80)), None);
    fixture.add("default/web", service(1), &PODS);
    sync(&mut reconciler, &fixture, &["default/web"]);
    fixture.services.clear();
    sync(&mut reconciler, &fixture, &["default/web"]);
    assert_eq!(pool(&machine, server(WEB, 80)), None, "nobody was connected");
}

#[test]
fn a_failure_to_remove_what_has_drained_is_made_up_for() {
    let (mut reconciler, fixture, _) = drained();
    let machine = machine(&mut reconciler);
    machine.machine().ipvs.end_all();
    // The list of destinations is read first.
    machine.fail_after(1);
    reconciler.check(Family::V4);
    assert!(pool(&machine, server(WEB, 80)).unwrap().contains_key(&at("10.244.1.11")));
    assert!(!is_noticed(&mut reconciler));
    assert_as_fresh(&mut reconciler, &fixture, "tried again");
}

#[test]
fn virtual_servers_of_others_stay() {
    let machine = empty();
    let (foreign, excluded) = (server("10.50.0.1", 80), server("10.9.0.1", 80));
    let mut batch = Batch::new();
    for (server, settings) in [
        (foreign, Settings::new("wlc")),
        // It looks like ours.
        (excluded, Settings::new("rr").with_flags(kernel::ipvs::flags::SCHEDULER_3)),
    ] {
        batch.new_service(server, &settings);
        batch.new_destination(server, at("10.0.0.1"), 5);
    }
    assert_eq!(machine.machine().ipvs.commit(&batch).unwrap(), []);
    let before = held(&machine).0;
    let exclude_cidrs = vec!["10.9.0.0/16".parse().unwrap()];
    let mut reconciler = over(&machine, IpvsSettings { exclude_cidrs, ..IpvsSettings::default() });
    let mut fixture = Fixture::everything();
    sync(&mut reconciler, &fixture, &[]);
    fixture.services.clear();
    reconciler.distrust(Family::V4);
    sync(&mut reconciler, &fixture, &[]);
    assert!(!is_noticed(&mut reconciler));
    assert_eq!(held(&machine).0, before);
}

/// Addresses on the device show that a kube-proxy was here before.
#[test]
fn what_another_kube_proxy_left_goes_and_is_left_alone_without_a_sign_of_one() {
    let left = [server("10.96.9.9", 80), server("192.168.50.2", 31_999)];
    let own = server("192.168.50.2", 8443);
    for has_sign in [true, false] {
        let machine = empty();
        let mut batch = Batch::new();
        for server in left.into_iter().chain([own]) {
            batch.new_service(server, &Settings::new("rr"));
            batch.new_destination(server, at("10.0.0.1"), 1);
        }
        assert_eq!(machine.machine().ipvs.commit(&batch).unwrap(), []);
        let mut reconciler = over(&machine, IpvsSettings::default());
        if has_sign {
            reconciler.backend().ground().foreign.insert(left[0].address);
        }
        sync(&mut reconciler, &Fixture::everything(), &[]);
        assert_eq!(left.map(|server| pool(&machine, server).is_none()), [has_sign; 2]);
        assert!(pool(&machine, own).is_some());
    }
}

#[test]
fn a_policy_that_turns_local_lets_the_others_drain() {
    let (mut reconciler, mut fixture, _) = drained();
    let machine = machine(&mut reconciler);
    let local = model::Service { internal_policy: TrafficPolicy::Local, ..service(1) };
    fixture.add("default/web", local, &PODS[1..]);
    sync(&mut reconciler, &fixture, &["default/web"]);
    let pool = pool(&machine, server(WEB, 80)).unwrap();
    assert_eq!((pool[&at("10.244.1.12")], pool[&at("10.244.2.21")]), (1, 0));
}
