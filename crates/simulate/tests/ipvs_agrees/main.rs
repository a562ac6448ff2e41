//! The simulated IPVS against the kernel's: the same commands, the same refusals, the same servers and destinations
//! afterwards, and the same destinations for the same connections.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod picks;

use std::net::SocketAddr;

use kernel::ipvs::{Batch, Connection, Destination, Error, Protocol, Settings, Transport, VirtualServer};
use kernel::netns::{Namespace, privileged_test};
use simulate::ipvs::Simulator;

use cases::{CASES, Case};

pub(crate) fn server(text: &str) -> VirtualServer {
    let (address, protocol) = text.rsplit_once('/').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        other => panic!("{other}"),
    };
    VirtualServer { address: address.ip(), protocol, port: address.port() }
}

pub(crate) fn destination(text: &str) -> Destination {
    let address: SocketAddr = text.parse().unwrap();
    Destination { address: address.ip(), port: address.port() }
}

/// The error numbers of a batch by place; every server with its settings and its destinations in the kernel's order.
type Effect = (Vec<(usize, i32)>, Vec<(VirtualServer, Settings, Vec<(Destination, u32)>)>);

fn effect(transport: &mut dyn Transport, batch: fn(&mut Batch)) -> Effect {
    let mut commands = Batch::new();
    batch(&mut commands);
    let failures = transport.commit(&commands).unwrap();
    let mut servers = transport.services().unwrap();
    servers.sort_by_key(|one| one.server);
    let contents = servers.into_iter().map(|one| {
        assert_eq!(transport.service(one.server).unwrap().as_ref(), Some(&one));
        let pool = transport.destinations(one.server).unwrap();
        let pool = pool.into_iter().map(|real| (real.destination, real.weight)).collect();
        (one.server, one.settings, pool)
    });
    let contents = contents.collect();
    (failures.into_iter().map(|one| (one.index, one.errno)).collect(), contents)
}

#[test]
fn the_simulator_refuses_what_it_should() {
    for Case { name, batch, failures } in CASES {
        let found = effect(&mut Simulator::new(), *batch).0;
        assert_eq!(found, *failures, "{name}");
    }
}

#[test]
fn the_kernel_answers_the_same() {
    privileged_test(|| {
        let mut wrong = Vec::new();
        for case in CASES {
            let found = Namespace::new().unwrap().run(|| match Connection::open() {
                Ok(mut connection) => Some(effect(&mut connection, case.batch)),
                Err(error @ Error::NotAvailable) => {
                    println!("SKIPPED: {error}");
                    None
                }
                Err(error) => panic!("{error}"),
            });
            let Some(real) = found else { return };
            let simulated = effect(&mut Simulator::new(), case.batch);
            if real != simulated {
                wrong.push(format!("{}:\n   kernel {real:?}\nsimulator {simulated:?}", case.name));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
    });
}
