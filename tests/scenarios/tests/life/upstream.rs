//! Taking over from upstream's kube-proxy in nftables mode: its table becomes ours without a lost packet, and
//! clients with affinity stay where they are.

use std::fmt::Write as _;
use std::net::SocketAddr;

use model::{Family, Protocol};
use scenarios::{Case, wait_until};
use serde_json::json;

use super::case;
use super::nft::{self, TABLE};
use super::places::{PORT, at_cluster_ip};
use super::stage::{ENDPOINTS, From, POD_PORT, SOON, Stage};
use super::traffic::Traffic;

const CLIENTS: u8 = 10;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![case("upstream's table is replaced without a lost packet, pins included", take_over)]
}

/// The pod to which upstream had pinned a client.
fn pod_of(client: u8) -> &'static str {
    ENDPOINTS[usize::from(client) % ENDPOINTS.len()]
}

/// What upstream programs for two services: `web` with affinity and `plain` without, cluster IPs only.
fn upstream_table(stage: &Stage, family: Family) -> String {
    let (word, address_type) = match family {
        Family::V4 => ("ip", "ipv4_addr"),
        Family::V6 => ("ip6", "ipv6_addr"),
    };
    let mut text = format!("table {word} {TABLE} {{\n comment \"rules for kube-proxy\"\n");
    let mut services = Vec::new();
    for (name, number, affine) in [("web", 1, true), ("plain", 2, false)] {
        let service = format!("default/{name}/tcp/main");
        let ip = at_cluster_ip(number, family).ip();
        services.push(format!("{ip} . tcp . {PORT} : goto service-ULMVA6XW-{service}"));
        let mut choices = Vec::new();
        let mut pinned = String::new();
        for (slot, pod) in ENDPOINTS.into_iter().enumerate() {
            let ip = stage.address(pod, family);
            let dotted = ip.to_string().replace(':', ".");
            let id = format!("HQZAAB3{slot}-{service}__{dotted}/{POD_PORT}");
            let target =
                if family == Family::V4 { format!("{ip}:{POD_PORT}") } else { format!("[{ip}]:{POD_PORT}") };
            let mut record = String::new();
            if affine {
                let clients: Vec<String> = (0..CLIENTS)
                    .filter(|client| pod_of(*client) == pod)
                    .map(|client| source(client, family))
                    .collect();
                writeln!(
                    text,
                    " set affinity-{id} {{ type {address_type}; flags dynamic,timeout; timeout 3h; elements = {{ {} }}; }}",
                    clients.join(", ")
                )
                .unwrap();
                record = format!("update @affinity-{id} {{ {word} saddr }};");
                writeln!(pinned, "  {word} saddr @affinity-{id} goto endpoint-{id}").unwrap();
            }
            writeln!(text, " chain endpoint-{id} {{ {record} meta l4proto tcp dnat to {target}; }}").unwrap();
            choices.push(format!("{slot} : goto endpoint-{id}"));
        }
        writeln!(
            text,
            " chain service-ULMVA6XW-{service} {{\n{pinned}  numgen random mod {} vmap {{ {} }}\n }}",
            ENDPOINTS.len(),
            choices.join(", ")
        )
        .unwrap();
    }
    write!(
        text,
        " map service-ips {{ type {address_type} . inet_proto . inet_service : verdict; elements = {{ {} }}; }}
 chain services {{ {word} daddr . meta l4proto . th dport vmap @service-ips; }}
 chain nat-prerouting {{ type nat hook prerouting priority dstnat; jump services; }}
 chain nat-output {{ type nat hook output priority -100; jump services; }}
 chain nat-postrouting {{ type nat hook postrouting priority srcnat; meta mark & 0x4000 != 0 masquerade; }}
}}\n",
        services.join(", ")
    )
    .unwrap();
    text
}

fn source(client: u8, family: Family) -> String {
    let to = at_cluster_ip(1, family);
    From::OutsideAs(client).source(to).unwrap().to_string()
}

fn take_over() {
    let mut stage = Stage::new();
    for family in Family::BOTH {
        stage.add_clients(family, CLIENTS);
        nft::load(&stage.sandbox.node, &upstream_table(&stage, family));
    }
    let affine = stage
        .service("web", 1, Protocol::Tcp)
        .with("sessionAffinity", "ClientIP")
        .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    stage.folder.put_service(&affine);
    stage.folder.put_service(&stage.service("plain", 2, Protocol::Tcp));
    for service in ["web", "plain"] {
        stage.put_endpoints(service, Protocol::Tcp, &ENDPOINTS);
    }
    assert_pinned(&stage, "under upstream's rules");
    let mut pairs: Vec<(From, SocketAddr)> = Vec::new();
    for family in Family::BOTH {
        pairs.extend([
            (From::Guest, at_cluster_ip(2, family)),
            (From::OutsideAs(0), at_cluster_ip(1, family)),
        ]);
    }
    let traffic = Traffic::start(&stage, &pairs);
    let before = traffic.asked();
    assert!(wait_until(SOON, || traffic.asked() > before + 40));
    stage.start();
    let before = traffic.asked();
    assert!(wait_until(SOON, || traffic.asked() > before + 40));
    println!("taking over from upstream: {} connections", traffic.finish());
    assert_pinned(&stage, "under ours");
    for family in Family::BOTH {
        let sets = ["list", "sets", nft::family_word(family)];
        let sets = nft::run(&stage.sandbox.node, &sets).unwrap();
        assert!(!sets.contains("default/web"), "{family}: upstream's sets are still there");
    }
}

fn assert_pinned(stage: &Stage, when: &str) {
    for family in Family::BOTH {
        for client in 0..CLIENTS {
            let by = stage.who(Protocol::Tcp, From::OutsideAs(client), at_cluster_ip(1, family));
            assert_eq!(by, pod_of(client), "client {client}, {family}, {when}");
        }
    }
}
