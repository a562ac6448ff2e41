//! Draining ends, within its bounds.

use super::*;
use kernel::ipvs::{Command, Protocol, Statistics};
use std::net::{IpAddr, Ipv4Addr};

fn server(port: u16) -> VirtualServer {
    VirtualServer { address: Ipv4Addr::new(10, 96, 0, 1).into(), protocol: Protocol::Tcp, port }
}

fn endpoint(last: u8) -> Destination {
    Destination { address: IpAddr::from([10, 0, 0, last]), port: 80 }
}

fn found(destination: Destination, active: u32) -> DumpedDestination {
    let statistics = Statistics::default();
    DumpedDestination {
        destination,
        weight: 0,
        masquerading: true,
        active,
        inactive: 0,
        persistent: 0,
        statistics,
    }
}

/// What has ended goes.
fn collect(draining: &mut Draining, found: &[DumpedDestination], now: Instant) -> Vec<Command> {
    let mut batch = Batch::new();
    let ended = draining.ended(server(80), found, now, &mut batch);
    let before = draining.len();
    let mut again = Batch::new();
    assert_eq!(draining.ended(server(80), found, now, &mut again), ended);
    assert_eq!((draining.len(), &again), (before, &batch), "nothing is lost before it is carried out");
    draining.forget(server(80), &ended);
    batch.commands().to_vec()
}

#[test]
fn a_destination_goes_with_its_last_connection_and_a_retired_server_with_its_last_destination() {
    let (mut draining, now) = (Draining::default(), Instant::now());
    assert!(draining.take_in(server(80), endpoint(1), now) && draining.take_in(server(80), endpoint(2), now));
    assert!(draining.retire(server(80)));
    let commands = collect(&mut draining, &[found(endpoint(1), 3), found(endpoint(2), 0)], now);
    assert_eq!(commands, [Command::DeleteDestination(server(80), endpoint(2))]);
    let commands = collect(&mut draining, &[found(endpoint(1), 0)], now);
    let last = [Command::DeleteDestination(server(80), endpoint(1)), Command::DeleteService(server(80))];
    assert_eq!(commands, last);
    assert_eq!(draining.len(), 0);
}

#[test]
fn draining_is_bounded_in_time_and_number() {
    let (mut draining, now) = (Draining::default(), Instant::now());
    draining.take_in(server(80), endpoint(1), now);
    assert_eq!(collect(&mut draining, &[found(endpoint(1), 1)], now + LONGEST).len(), 1);
    for port in 1..=MOST as u16 {
        assert!(draining.take_in(server(port), endpoint(1), now));
    }
    assert!(!draining.take_in(server(60_000), endpoint(1), now));
    assert_eq!(draining.len(), MOST);
}

#[test]
fn what_is_listed_again_keeps_its_time() {
    let (mut draining, now) = (Draining::default(), Instant::now());
    draining.take_in(server(80), endpoint(1), now);
    draining.begin_again();
    assert_eq!(draining.len(), 0);
    draining.take_in(server(80), endpoint(1), now + LONGEST / 2);
    let mut batch = Batch::new();
    draining.ended(server(80), &[found(endpoint(1), 1)], now + LONGEST, &mut batch);
    assert_eq!(batch.len(), 1);
}

#[test]
fn what_comes_back_and_drains_again_has_its_full_time() {
    let (mut draining, now) = (Draining::default(), Instant::now());
    draining.take_in(server(80), endpoint(1), now);
    draining.take_in(server(80), endpoint(2), now);
    draining.begin_again();
    draining.take_in(server(80), endpoint(1), now);
    draining.all_listed();
    assert!(draining.release(server(80), &endpoint(1)));
    for last in [1, 2] {
        draining.take_in(server(80), endpoint(last), now + LONGEST);
    }
    let open = [1, 2].map(|last| found(endpoint(last), 1));
    assert_eq!(collect(&mut draining, &open, now + LONGEST), []);
    assert_eq!(collect(&mut draining, &open, now + 2 * LONGEST).len(), 2);
}

#[test]
fn a_list_that_breaks_off_leaves_the_times_as_they_were() {
    let (mut draining, now) = (Draining::default(), Instant::now());
    draining.take_in(server(80), endpoint(1), now);
    draining.begin_again();
    draining.begin_again();
    draining.take_in(server(80), endpoint(1), now + LONGEST / 2);
    assert_eq!(collect(&mut draining, &[found(endpoint(1), 1)], now + LONGEST).len(), 1);
}

#[test]
fn servers_are_looked_at_in_turn() {
    let (mut draining, now) = (Draining::default(), Instant::now());
    for port in 1..=100 {
        draining.take_in(server(port), endpoint(1), now);
    }
    let first = draining.next();
    assert_eq!(first.len(), AT_ONCE);
    // As far as one got.
    first.iter().take(10).for_each(|server| draining.looks_at(*server));
    let second = draining.next();
    assert_eq!(second.first(), first.get(10));
    second.iter().for_each(|server| draining.looks_at(*server));
    let third = draining.next();
    assert_eq!((third.len(), third[26]), (AT_ONCE, server(1)), "and from the beginning");
}
