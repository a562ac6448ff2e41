//! Persistence, hashing and the end of connections.

use std::net::IpAddr;

use kernel::ipvs::{Batch, Destination, Protocol, Settings, Transport, VirtualServer, flags};

use super::{Choice, Simulator};

const WEB: VirtualServer = VirtualServer {
    address: IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 1)),
    protocol: Protocol::Tcp,
    port: 80,
};

fn at(last: u8) -> Destination {
    Destination { address: IpAddr::from([10, 0, 0, last]), port: 8080 }
}

fn client(number: u32) -> IpAddr {
    IpAddr::from((0xc000_0200 + number).to_be_bytes())
}

fn change<T>(simulator: &mut Simulator, fill: impl FnOnce(&mut Batch) -> T) {
    let mut batch = Batch::new();
    let _place = fill(&mut batch);
    assert_eq!(simulator.commit(&batch).unwrap(), []);
}

fn with(settings: &Settings, pool: u8) -> Simulator {
    let mut simulator = Simulator::new();
    change(&mut simulator, |batch| {
        batch.new_service(WEB, settings);
        for last in 1..=pool {
            batch.new_destination(WEB, at(last), 1);
        }
    });
    simulator
}

fn pick(simulator: &mut Simulator, from: u32, port: u16) -> Destination {
    match simulator.take(WEB, client(from), port, true) {
        Choice::To(to) => to,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bound_client_stays_until_its_time_is_up() {
    let mut simulator = with(&Settings::new("rr").persistent(6), 3);
    let first = pick(&mut simulator, 1, 1000);
    assert_eq!(pick(&mut simulator, 1, 1001), first);
    assert_ne!(pick(&mut simulator, 2, 1000), first);
    let bound: u32 = simulator.destinations(WEB).unwrap().iter().map(|one| one.persistent).sum();
    assert_eq!(bound, 2);
    simulator.set_now(60_000);
    assert_eq!(pick(&mut simulator, 1, 1002), first, "its connections live");
    for port in 1000..1003 {
        assert!(simulator.end(WEB, client(1), port));
    }
    simulator.set_now(120_000);
    assert_ne!(pick(&mut simulator, 1, 1003), first);
}

#[test]
fn a_bound_client_leaves_a_quiescent_destination_if_told_so() {
    for expires in [false, true] {
        let mut simulator = with(&Settings::new("rr").persistent(60), 2);
        simulator.sysctls.expire_quiescent_template = expires;
        let first = pick(&mut simulator, 1, 1000);
        change(&mut simulator, |batch| batch.set_destination(WEB, first, 0));
        assert_eq!(pick(&mut simulator, 1, 1001) != first, expires);
        change(&mut simulator, |batch| batch.delete_destination(WEB, first));
        assert_ne!(pick(&mut simulator, 1, 1002), first);
    }
}

#[test]
fn sources_are_spread_and_each_keeps_its_destination() {
    for scheduler in ["sh", "mh"] {
        let mut simulator = with(&Settings::new(scheduler), 3);
        let mut chosen: Vec<Destination> = Vec::new();
        for from in 0..60 {
            let first = pick(&mut simulator, from, 1000);
            assert_eq!(pick(&mut simulator, from, 1001), first, "{scheduler}");
            chosen.push(first);
        }
        for last in 1..=3 {
            assert!(chosen.iter().filter(|one| **one == at(last)).count() >= 5, "{scheduler}: {chosen:?}");
        }
    }
}

#[test]
fn ports_count_and_clients_fall_back_where_asked_for() {
    let mut simulator = with(&Settings::new("sh").with_flags(flags::HASH_PORT), 3);
    let first = pick(&mut simulator, 1, 1000);
    assert!((1001..1060).any(|port| pick(&mut simulator, 1, port) != first));

    for (settings, expected) in [
        (Settings::new("sh"), Choice::Refused),
        (Settings::new("sh").with_flags(flags::HASH_FALLBACK), Choice::To(at(2))),
    ] {
        let mut simulator = with(&settings, 2);
        let from = (0..60).find(|from| pick(&mut simulator, *from, 1000) == at(1)).unwrap();
        change(&mut simulator, |batch| batch.set_destination(WEB, at(1), 0));
        assert_eq!(simulator.take(WEB, client(from), 1001, true), expected);
    }
}

#[test]
fn a_connection_to_a_deleted_destination_vanishes_and_lives_again_with_it() {
    let mut simulator = with(&Settings::new("rr"), 2);
    let first = pick(&mut simulator, 1, 1000);
    change(&mut simulator, |batch| batch.delete_destination(WEB, first));
    assert_eq!(simulator.take(WEB, client(1), 1000, false), Choice::Vanished);
    assert_eq!(simulator.take(WEB, client(1), 1000, false), Choice::Vanished);
    change(&mut simulator, |batch| batch.new_destination(WEB, first, 1));
    assert_eq!(simulator.take(WEB, client(1), 1000, false), Choice::To(first));

    simulator.sysctls.expire_nodest_conn = true;
    change(&mut simulator, |batch| batch.delete_service(WEB));
    assert_eq!(simulator.take(WEB, client(1), 1000, false), Choice::Vanished);
    assert_eq!(simulator.take(WEB, client(1), 1000, false), Choice::NotTaken);
}

#[test]
fn datagrams_are_never_active() {
    let dns = VirtualServer { protocol: Protocol::Udp, ..WEB };
    let mut simulator = with(&Settings::new("rr"), 0);
    change(&mut simulator, |batch| {
        batch.new_service(dns, &Settings::new("rr"));
        batch.new_destination(dns, at(1), 1);
    });
    assert_eq!(simulator.take(dns, client(1), 1000, true), Choice::To(at(1)));
    simulator.establish(dns, client(1), 1000);
    let found = simulator.destinations(dns).unwrap()[0];
    assert_eq!((found.active, found.inactive), (0, 1));
}

#[test]
fn a_failure_is_told_once() {
    let mut simulator = with(&Settings::new("rr"), 1);
    simulator.fail_next(libc::ENOBUFS);
    assert!(simulator.services().unwrap_err().is_retryable());
    assert_eq!(simulator.services().unwrap().len(), 1);
}
