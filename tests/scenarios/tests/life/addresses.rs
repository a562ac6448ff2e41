//! Node ports answer on the node's addresses as they come and go.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use kernel::link::Links;
use model::{Family, Protocol};
use sandbox::address;
use test_support::{Carrier, Case, ServiceManifest, wait_until};

use super::places::{at_node_port, cluster_ip};
use super::rig::every_mode;
use super::stage::{From, SOON, Stage};

const NODE_PORT: u16 = 30080;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases =
        every_mode("node ports follow the node's addresses, all of them", |of| follow(of, "all", true));
    cases.extend(every_mode("node ports follow the node's addresses, those of a prefix", |of| {
        follow(of, "192.168.77.0/24,fd00:77::/64", false);
    }));
    cases
}

fn extra(family: Family) -> IpAddr {
    match family {
        Family::V4 => [192, 168, 77, 5].into(),
        Family::V6 => [0xfd00, 0x77, 0, 0, 0, 0, 0, 5].into(),
    }
}

/// The client sends all it does not know to the node, so a new address there is reachable at once.
fn follow(carrier: Carrier, addresses: &str, everywhere: bool) {
    let mut stage = Stage::of(carrier);
    let ips = Family::BOTH.map(|family| cluster_ip(1, family));
    let web =
        ServiceManifest::new("web", &ips).with("type", "NodePort").port("main", Protocol::Tcp, 80, NODE_PORT);
    stage.folder.put_service(&web);
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    let (mode, addresses) =
        (format!("--proxy-mode={}", carrier.mode()), format!("--nodeport-addresses={addresses}"));
    // Not beside the flags of the mode, which name addresses too.
    stage.start_exactly(&[], &[&mode, &addresses]).unwrap_or_else(|why| panic!("{why}"));
    for family in Family::BOTH {
        let to = SocketAddr::new(extra(family), NODE_PORT);
        let answers = |to| stage.answers(From::Outside, to);
        assert_eq!(answers(at_node_port(NODE_PORT, family)), everywhere, "the primary address");
        assert!(!answers(to), "an address the node does not have");
        let net = IpNet::from(extra(family));
        stage.sandbox.node.run(|| Links::open().unwrap().add_address(address::NODE_OUTSIDE, net).unwrap());
        assert!(wait_until(SOON, || answers(to)), "{to} was added\n{}", stage.log());
        let inside = stage.tcp(From::Guest, to);
        assert!(inside.by().is_some(), "a pod asks {to}: {inside:?}");
        stage.sandbox.node.run(|| Links::open().unwrap().delete_address(address::NODE_OUTSIDE, net).unwrap());
        assert!(wait_until(SOON, || !answers(to)), "{to} was removed\n{}", stage.log());
        assert_eq!(answers(at_node_port(NODE_PORT, family)), everywhere, "the primary address, afterwards");
    }
    assert_eq!(stage.agent().probe("/healthz"), Some(200));
}
