//! Taking over from upstream's kube-proxy in mode iptables: its rules become ours without a lost packet, clients with
//! affinity stay where they are, and nothing of it is left.

use std::fmt::Write as _;
use std::net::SocketAddr;

use model::{Family, Protocol};
use scenarios::{Carrier, Case, wait_until};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::places::at_cluster_ip;
use super::super::stage::{ENDPOINTS, From, POD_PORT, SOON};
use super::super::traffic::Traffic;
use super::both;
use super::rig::Rig;

const CLIENTS: u8 = 10;
/// Services without and with affinity.
const SERVICES: [(&str, u8, bool); 2] = [("plain", 2, false), ("web", 1, true)];

pub(crate) fn cases() -> Vec<Case<'static>> {
    both("upstream's rules are replaced without a lost packet, pins included", take_over)
}

/// Upstream's name for a chain: a prefix and the beginning of base32(sha256(text)).
fn chain(prefix: &str, text: &str) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let digest = Sha256::digest(text);
    let bits: Vec<u8> = digest.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let letter =
        |five: &[u8]| char::from(alphabet[usize::from(five.iter().fold(0, |sum, bit| sum << 1 | bit))]);
    let hash: String = bits.chunks(5).take(16).map(letter).collect();
    format!("{prefix}{hash}")
}

/// What does not depend on services, as upstream writes it.
const FILTER: &str = "\
*mangle
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding rules\" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding conntrack rule\" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
";
const NAT: &str = "\
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-STALESTALESTALE0 - [0:0]
:KUBE-SEP-STALESTALESTALE0 - [0:0]
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE
-A KUBE-SVC-STALESTALESTALE0 -j KUBE-SEP-STALESTALESTALE0
";

fn upstream_rules(rig: &Rig, family: Family) -> String {
    let mut text = format!("{FILTER}{NAT}");
    let cluster = match family {
        Family::V4 => sandbox::address::CLUSTER_V4.to_string(),
        Family::V6 => sandbox::address::CLUSTER_V6.to_string(),
    };
    let mut rules = String::new();
    for (name, number, affine) in SERVICES {
        let port = format!("default/{name}:main");
        let service = chain("KUBE-SVC-", &format!("{port}tcp"));
        let at = at_cluster_ip(number, family);
        writeln!(text, ":{service} - [0:0]").unwrap();
        let about = format!("-m comment --comment \"{port} cluster IP\"");
        writeln!(
            rules,
            "-A KUBE-SERVICES {about} -m tcp -p tcp -d {} --dport {} -j {service}",
            at.ip(),
            at.port()
        )
        .unwrap();
        writeln!(rules, "-A {service} {about} ! -s {cluster} -d {} -j KUBE-MARK-MASQ", at.ip()).unwrap();
        let endpoints = ENDPOINTS.map(|pod| {
            let to = SocketAddr::new(rig.address(pod, family), POD_PORT);
            (to, chain("KUBE-SEP-", &format!("{port}tcp{to}")))
        });
        if affine {
            for (to, endpoint) in &endpoints {
                writeln!(rules, "-A {service} -m comment --comment \"{port} -> {to}\" -m recent --name {endpoint} --rcheck --seconds 10800 --reap -j {endpoint}").unwrap();
            }
        }
        for (slot, (to, endpoint)) in endpoints.iter().enumerate() {
            let left = ENDPOINTS.len() - slot;
            let draw = match left {
                1 => String::new(),
                _ => format!("-m statistic --mode random --probability {:.10} ", 1.0 / left as f64),
            };
            let pin = if affine { format!("-m recent --name {endpoint} --set ") } else { String::new() };
            let about = format!("-m comment --comment {port}");
            writeln!(text, ":{endpoint} - [0:0]").unwrap();
            writeln!(rules, "-A {service} -m comment --comment \"{port} -> {to}\" {draw}-j {endpoint}")
                .unwrap();
            writeln!(rules, "-A {endpoint} {about} -s {} -j KUBE-MARK-MASQ", to.ip()).unwrap();
            writeln!(rules, "-A {endpoint} {about} {pin}-m tcp -p tcp -j DNAT --to-destination {to}")
                .unwrap();
        }
    }
    // The last rule of upstream's chain of services.
    let local = "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS";
    writeln!(rules, "-A KUBE-SERVICES {local}").unwrap();
    format!("{text}{rules}COMMIT\n")
}

/// Where each client's next connection to the service with affinity goes.
fn pins(rig: &Rig, family: Family) -> Vec<String> {
    (0..CLIENTS)
        .map(|client| rig.who(Protocol::Tcp, From::OutsideAs(client), at_cluster_ip(1, family)))
        .collect()
}

fn take_over(carrier: Carrier) {
    let mut rig = Rig::new(carrier);
    for family in Family::BOTH {
        rig.add_clients(family, CLIENTS);
        rig.restore(family, &upstream_rules(&rig, family));
    }
    for (name, number, affine) in SERVICES {
        let mut service = rig.service(name, number, Protocol::Tcp);
        if affine {
            service = service
                .with("sessionAffinity", "ClientIP")
                .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        rig.folder.put_service(&service);
        rig.put_endpoints(name, Protocol::Tcp, &ENDPOINTS);
    }
    let before = Family::BOTH.map(|family| pins(&rig, family));
    assert_eq!(Family::BOTH.map(|family| pins(&rig, family)), before, "upstream's rules pin nobody");
    let mut pairs: Vec<(From, SocketAddr)> = Vec::new();
    for family in Family::BOTH {
        pairs.extend([
            (From::Guest, at_cluster_ip(2, family)),
            (From::OutsideAs(0), at_cluster_ip(1, family)),
        ]);
    }
    let traffic = Traffic::start(&rig, &pairs);
    let go_on = |traffic: &Traffic| {
        let before = traffic.asked();
        assert!(wait_until(SOON, || traffic.asked() > before + 40));
    };
    go_on(&traffic);
    rig.start(&[]);
    go_on(&traffic);
    println!("{}: taking over from upstream: {} connections", carrier.name(), traffic.finish());
    assert_eq!(Family::BOTH.map(|family| pins(&rig, family)), before, "pins were lost");
    for family in Family::BOTH {
        let rules = rig.rules(family);
        let chains = rules.service_chains();
        let left: Vec<_> =
            chains.iter().filter(|name| name.starts_with("KUBE-SEP-") || name.contains("STALE")).collect();
        assert!(left.is_empty(), "{family}: of upstream are left {left:?}");
        for (name, number, _) in SERVICES {
            let service = chain("KUBE-SVC-", &format!("default/{name}:maintcp"));
            assert_eq!(
                rules.service_chain(at_cluster_ip(number, family)),
                Some(service.as_str()),
                "{family}"
            );
        }
    }
}
