//! The layout of the yardstick as text for `nft`: a chain for each service port and each endpoint, and
//! an anonymous verdict map in every service's chain. Made from facts about that layout, for IPv4 TCP services.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};

use model::Family;

use crate::world;

const BASE: &str = "\
add table ip kube-proxy { comment \"rules of the yardstick\" ; }
add set ip kube-proxy cluster-ips { type ipv4_addr ; }
add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; }
add map ip kube-proxy no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict ; }
add chain ip kube-proxy mark-for-masquerade
add rule ip kube-proxy mark-for-masquerade meta mark set meta mark or 0x4000
add chain ip kube-proxy masquerading
add rule ip kube-proxy masquerading meta mark and 0x4000 == 0 return
add rule ip kube-proxy masquerading meta mark set meta mark xor 0x4000
add rule ip kube-proxy masquerading masquerade fully-random
add chain ip kube-proxy services
add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips
add chain ip kube-proxy cluster-ips-check
add rule ip kube-proxy cluster-ips-check ip daddr @cluster-ips reject
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }
add rule ip kube-proxy nat-prerouting jump services
add chain ip kube-proxy nat-output { type nat hook output priority -100 ; }
add rule ip kube-proxy nat-output jump services
add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100 ; }
add rule ip kube-proxy nat-postrouting jump masquerading
add chain ip kube-proxy filter-forward { type filter hook forward priority -110 ; }
add rule ip kube-proxy filter-forward ct state new jump cluster-ips-check
add chain ip kube-proxy filter-output { type filter hook output priority -110 ; }
add rule ip kube-proxy filter-output ct state new jump cluster-ips-check
";

/// The whole transaction.
pub(crate) fn text(services: u32) -> String {
    let mut out = BASE.to_owned();
    (0..services).for_each(|number| write_service(&mut out, number));
    out
}

fn write_service(out: &mut String, number: u32) {
    let ip = world::cluster_ip(Family::V4, number);
    let name = format!("{}/tcp/{}", world::key(number), world::PORT_NAME);
    let service = format!("service-{}-{name}", short_hash(&name));
    let (port, pods) = (world::SERVICE_PORT, world::POD_CIDRS[0]);
    let mut choices = Vec::new();
    let mut lines = format!("add chain ip kube-proxy {service}\n");
    for (slot, pod) in world::pods(number).into_iter().enumerate() {
        let endpoint = write_endpoint(&mut lines, &name, pod);
        choices.push(format!("{slot} : goto {endpoint}"));
    }
    let (count, choices) = (choices.len(), choices.join(" , "));
    // Writing into a String cannot fail.
    let _ = write!(
        lines,
        "add rule ip kube-proxy {service} ip daddr {ip} tcp dport {port} ip saddr != {pods} jump mark-for-masquerade\n\
         add rule ip kube-proxy {service} numgen random mod {count} vmap {{ {choices} }}\n\
         add element ip kube-proxy cluster-ips {{ {ip} }}\n\
         add element ip kube-proxy service-ips {{ {ip} . tcp . {port} comment \"{name}\" : goto {service} }}\n"
    );
    out.push_str(&lines);
}

/// Returns the name of the endpoint's chain.
fn write_endpoint(lines: &mut String, service: &str, pod: u32) -> String {
    let (ip, port) = (world::pod_ip(Family::V4, pod), world::POD_PORT);
    let name = format!("{service}__{ip}/{port}");
    let chain = format!("endpoint-{}-{name}", short_hash(&name));
    let _ = write!(
        lines,
        "add chain ip kube-proxy {chain}\n\
         add rule ip kube-proxy {chain} ip saddr {ip} jump mark-for-masquerade\n\
         add rule ip kube-proxy {chain} meta l4proto tcp dnat to {ip}:{port}\n"
    );
    chain
}

/// Eight letters, as chains of that layout carry.
fn short_hash(name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let bits = hasher.finish();
    (0..8).map(|place| char::from(b'A' + (bits >> (place * 5) & 15) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_for_each_service_and_endpoint() {
        let text = text(3);
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("add chain ip kube-proxy service-"), 3);
        assert_eq!(count("add chain ip kube-proxy endpoint-"), 15);
        assert_eq!(text.matches("numgen random mod 5 vmap").count(), 3);
        assert_eq!(count("add element ip kube-proxy service-ips"), 3);
        assert_eq!(text.matches("4 : goto endpoint-").count(), 3);
    }
}
