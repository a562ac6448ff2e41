//! The rules of upstream's kube-proxy in mode iptables.

use std::fmt::Write as _;
use std::net::SocketAddr;

use model::Family;
use sha2::{Digest, Sha256};

use super::super::places::at_cluster_ip;
use super::super::rig::OfUpstream;
use super::super::stage::{ENDPOINTS, POD_PORT, Stage};

/// Upstream's name for a chain: a prefix and the beginning of base32(sha256(text)).
pub(super) fn chain(prefix: &str, text: &str) -> String {
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

/// What it has for services, cluster IPs only, and a chain that an earlier life of it left.
pub(super) fn rules(stage: &Stage, family: Family, of: &[OfUpstream]) -> String {
    let mut text = format!("{FILTER}{NAT}");
    let cluster = match family {
        Family::V4 => sandbox::address::CLUSTER_V4.to_string(),
        Family::V6 => sandbox::address::CLUSTER_V6.to_string(),
    };
    let mut rules = String::new();
    for &OfUpstream { name, number, has_affinity } in of {
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
            let to = SocketAddr::new(stage.address(pod, family), POD_PORT);
            (to, chain("KUBE-SEP-", &format!("{port}tcp{to}")))
        });
        if has_affinity {
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
            let pin =
                if has_affinity { format!("-m recent --name {endpoint} --set ") } else { String::new() };
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
