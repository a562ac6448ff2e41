//! Node ports on loopback addresses, in every mode, for TCP and UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use model::{Family, Protocol};
use test_support::{Carrier, Case, ServiceManifest, wait_until};

use super::places::{PORT, cluster_ip};
use super::rig::every_mode;
use super::stage::{From, PROMPT, SOON, Stage};

/// Of a service for each policy and protocol.
const NODE_PORTS: [(Protocol, &str, u16); 4] = [
    (Protocol::Tcp, "Cluster", 30081),
    (Protocol::Udp, "Cluster", 30082),
    (Protocol::Tcp, "Local", 30083),
    (Protocol::Udp, "Local", 30084),
];

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("node ports are served on 127.0.0.1 and ::1", served)
}

/// What turns it on, beside the flags of the mode.
fn flags(carrier: Carrier) -> Vec<&'static str> {
    let mut flags = vec![PROMPT, "--nodeport-addresses=localhost"];
    match carrier.mode() {
        "iptables" => flags.push("--iptables-localhost-nodeports=true"),
        "userspace" => {}
        _ => flags.push("--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"),
    }
    flags
}

fn localhost(family: Family, port: u16) -> SocketAddr {
    let ip: IpAddr = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, port)
}

fn served(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    for (number, (protocol, policy, port)) in (1..).zip(NODE_PORTS) {
        let name = format!("{policy}-{protocol}").to_lowercase();
        let service = ServiceManifest::new(&name, &Family::BOTH.map(|family| cluster_ip(number, family)))
            .with("type", "NodePort")
            .with("externalTrafficPolicy", policy)
            .port("main", protocol, PORT, port);
        stage.folder.put_service(&service);
        stage.put_endpoints(&name, protocol, &["a", "c"]);
    }
    stage.start_with(&flags(carrier));
    for (protocol, policy, port) in NODE_PORTS {
        for family in Family::BOTH {
            for _ in 0..4 {
                let outcome = stage.ask(protocol, From::Node, localhost(family, port));
                let by = outcome.by();
                // The node itself is asked from within, so that policy Local does not bind it.
                let is_right = by.is_some_and(|by| ["a", "c"].contains(&by));
                assert!(is_right, "{policy} {protocol} {family}: {outcome:?}\n{}", stage.log());
            }
        }
    }
    listeners_are_counted(carrier, &mut stage);
    // A port that goes is no longer served.
    stage.folder.remove("service-cluster-tcp");
    for family in Family::BOTH {
        let to = localhost(family, 30081);
        let is_gone = || stage.ask(Protocol::Tcp, From::Node, to).by().is_none();
        assert!(wait_until(SOON, is_gone), "{to} is still served\n{}", stage.log());
        assert!(stage.ask(Protocol::Udp, From::Node, localhost(family, 30082)).by().is_some());
    }
}

fn listeners_are_counted(carrier: Carrier, stage: &mut Stage) {
    let families: &[(Family, usize)] = match carrier.mode() {
        "nftables" | "ipvs" => &[(Family::V4, NODE_PORTS.len()), (Family::V6, NODE_PORTS.len())],
        // Its rules serve 127.0.0.1.
        "iptables" => &[(Family::V4, 0), (Family::V6, NODE_PORTS.len())],
        _ => &[],
    };
    for (family, count) in families {
        let series = format!("kubeproxy_nftables_localhost_nodeport_listeners{{ip_family=\"{family}\"}}");
        assert_eq!(stage.metric(&series), Some(*count as f64), "{family}\n{}", stage.log());
    }
}
