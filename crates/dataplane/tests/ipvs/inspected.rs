//! One virtual server is read back, and damage to it is shown.

use std::net::SocketAddr;

use dataplane::{Inquiry, Inspection};
use kernel::ipvs::{Batch, Command};
use model::Client;

use super::*;
use crate::common::{ip, node};

fn inspect(reconciler: &mut Simulated, fixture: &Fixture, to: &str) -> Inspection {
    let client = Client { ip: Some(ip("10.244.1.99")), is_node: false, is_pod: Some(true) };
    let to: SocketAddr = to.parse().unwrap();
    let inquiry = Inquiry::new(model::Protocol::Tcp, to, vec![client]);
    reconciler.explain(&inquiry, fixture, &node()).look.unwrap().finish().unwrap()
}

#[test]
fn what_was_written_is_found_and_what_is_gone_or_new_is_shown() {
    let (mut reconciler, fixture) = synced();
    for to in ["10.96.0.1:80", "10.96.0.1:81", "10.96.0.2:80", "203.0.113.7:80", "198.51.100.6:80"] {
        let found = inspect(&mut reconciler, &fixture, to);
        assert!(found.compared > 0 && found.differences.is_empty(), "{to}: {found:?}");
    }
    let server = VirtualServer { address: ip("10.96.0.1"), protocol: Protocol::Tcp, port: 80 };
    let stray = Destination { address: ip("10.244.9.9"), port: 1 };
    let mut batch = Batch::new();
    batch.push(Command::NewDestination(server, stray, 1));
    Transport::commit(&mut machine(&mut reconciler), &batch).unwrap();
    let found = inspect(&mut reconciler, &fixture, "10.96.0.1:80");
    let place = "destination 10.244.9.9:1 of virtual server 10.96.0.1:80/tcp";
    assert!(found.differences.iter().any(|one| one.place == place && one.expected == "nothing"), "{found:?}");
    let mut batch = Batch::new();
    batch.push(Command::DeleteService(server));
    Transport::commit(&mut machine(&mut reconciler), &batch).unwrap();
    let found = inspect(&mut reconciler, &fixture, "10.96.0.1:80");
    assert!(found.differences.iter().any(|one| one.place == "virtual server 10.96.0.1:80/tcp"), "{found:?}");
}
