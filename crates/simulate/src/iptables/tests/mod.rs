//! What scripts do to the tables, and what the rules do with packets.

mod packets;
mod recent;
mod scripts;

use std::net::IpAddr;

use kernel::iptables::{Table, Tables, ToolError};

use super::Simulator;
use crate::{Host, Journey, Origin, Outcome, Packet, Protocol, Xorshift, walk};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn host() -> Host {
    Host::new([ip("192.168.50.2"), ip("fd00:50::2")])
}

/// Both tables from the lines of each.
fn holding(nat: &str, filter: &str) -> Simulator {
    let mut simulator = Simulator::default();
    restore(&mut simulator, nat, filter).unwrap();
    simulator
}

fn restore(simulator: &mut Simulator, nat: &str, filter: &str) -> Result<(), ToolError> {
    simulator.restore(&format!("*nat\n{nat}\nCOMMIT\n*filter\n{filter}\nCOMMIT\n"))
}

/// At which line a script of table nat is refused, its first line being the second.
fn refused_at(simulator: &mut Simulator, nat: &str) -> Option<usize> {
    match simulator.restore(&format!("*nat\n{nat}\nCOMMIT\n")) {
        Ok(()) => None,
        Err(ToolError::Refused { line, .. }) => line,
        Err(other) => panic!("{other}"),
    }
}

fn packet(from: &str, to: &str, port: u16) -> Packet {
    Packet {
        protocol: Protocol::Tcp,
        source: ip(from),
        source_port: 40_000,
        destination: ip(to),
        destination_port: port,
        mark: 0,
        origin: Origin::Interface("eth0".to_owned()),
    }
}

fn send(simulator: &mut Simulator, packet: Packet) -> Journey {
    let mut random = Xorshift::new(1);
    walk(simulator, &host(), packet, &mut |below| random.draw(below))
}

fn rules(simulator: &Simulator, table: Table, chain: &str) -> Vec<String> {
    simulator.rules(table, chain).unwrap_or_else(|| panic!("no chain {chain}"))
}

/// Where a packet came out: address, port, and the source seen there.
fn arrived(journey: &Journey) -> (IpAddr, u16, IpAddr) {
    match journey.outcome {
        Outcome::Delivered(delivery) | Outcome::Local(delivery) => {
            (delivery.to, delivery.port, delivery.source)
        }
        other => panic!("{other:?}: {:#?}", journey.trace),
    }
}
