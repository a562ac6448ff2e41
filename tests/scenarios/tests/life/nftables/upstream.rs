//! The table of upstream's kube-proxy in mode nftables.

use std::fmt::Write as _;

use model::Family;

use super::super::nft::TABLE;
use super::super::places::{PORT, at_cluster_ip};
use super::super::rig::OfUpstream;
use super::super::stage::{ENDPOINTS, POD_PORT, Stage};

/// What upstream programs for services, cluster IPs only.
pub(super) fn table(stage: &Stage, family: Family, of: &[OfUpstream]) -> String {
    let (word, address_type) = match family {
        Family::V4 => ("ip", "ipv4_addr"),
        Family::V6 => ("ip6", "ipv6_addr"),
    };
    let mut text = format!("table {word} {TABLE} {{\n comment \"rules for kube-proxy\"\n");
    let mut services = Vec::new();
    for &OfUpstream { name, number, has_affinity } in of {
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
            if has_affinity {
                writeln!(
                    text,
                    " set affinity-{id} {{ type {address_type}; flags dynamic,timeout; timeout 3h; }}"
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
