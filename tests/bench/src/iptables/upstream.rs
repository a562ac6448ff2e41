//! The layout of the yardstick as scripts for `iptables-restore`: one chain that names every service, a chain for
//! each service and one for each endpoint. Made from facts about that layout in clusters of more than 1,000
//! endpoints, where only the rules of the first chain and of masquerading carry comments.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};

use model::Family;

use crate::world;

/// What is made once, before any service, and not written again.
pub(crate) const JUMPS: &str = "\
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A INPUT -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A FORWARD -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES
COMMIT
*nat
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
COMMIT
";

/// Written whole at every change.
const FILTER: &str = "\
*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
";
const NAT_CHAINS: &str = "\
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
";
const NAT_RULES: &str = "\
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
";
const NODE_PORTS: &str = "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\nCOMMIT\n";

pub(crate) struct Layout {
    pub(crate) services: u32,
    /// `tcp` or `udp`.
    pub(crate) protocol: &'static str,
    /// Without them services name their endpoints themselves: as long a way for a packet but one step, and loaded in
    /// less than a minute by the nft variant too.
    pub(crate) endpoint_chains: bool,
}

/// What a script carries of one table.
#[derive(Default)]
struct Lines {
    chains: String,
    rules: String,
}

impl Layout {
    /// Everything.
    pub(crate) fn full(&self) -> String {
        self.script(|service| Some(world::pods(service)))
    }

    /// After a change of one service's endpoints: its own chains, and the chain that names every service.
    pub(crate) fn change(&self, service: u32, pods: &[u32]) -> String {
        self.script(|one| (one == service).then(|| pods.to_vec()))
    }

    /// `pods` of those services whose own chains are written.
    fn script(&self, pods: impl Fn(u32) -> Option<Vec<u32>>) -> String {
        let mut lines = Lines::default();
        for service in 0..self.services {
            self.dispatch(&mut lines, service);
            if let Some(pods) = pods(service) {
                self.service(&mut lines, service, &pods);
            }
        }
        let Lines { chains, rules } = lines;
        [FILTER, NAT_CHAINS, &chains, NAT_RULES, &rules, NODE_PORTS].concat()
    }

    // Writing into a String cannot fail.

    fn dispatch(&self, lines: &mut Lines, service: u32) {
        let (matched, chain) = (self.matched(service), chain("SVC", &name(service)));
        let _ = writeln!(lines.rules, "-A KUBE-SERVICES {matched} -j {chain}");
    }

    fn service(&self, lines: &mut Lines, service: u32, pods: &[u32]) {
        let (name, pod_cidr) = (name(service), world::POD_CIDRS[0]);
        let (matched, chain) = (self.matched(service), chain("SVC", &name));
        let _ = writeln!(lines.chains, ":{chain} - [0:0]");
        let _ = writeln!(lines.rules, "-A {chain} {matched} ! -s {pod_cidr} -j KUBE-MARK-MASQ");
        for (place, pod) in pods.iter().enumerate() {
            let chance = match pods.len() - place {
                1 => String::new(),
                left => format!(" -m statistic --mode random --probability {:.10}", 1.0 / left as f64),
            };
            let target = match self.endpoint_chains {
                true => format!("-j {}", endpoint_chain(&name, *pod)),
                false => self.translation(*pod),
            };
            let _ = writeln!(lines.rules, "-A {chain}{chance} {target}");
        }
        if self.endpoint_chains {
            pods.iter().for_each(|pod| self.endpoint(lines, &name, *pod));
        }
    }

    fn endpoint(&self, lines: &mut Lines, service: &str, pod: u32) {
        let (chain, ip) = (endpoint_chain(service, pod), world::pod_ip(Family::V4, pod));
        let _ = writeln!(lines.chains, ":{chain} - [0:0]");
        let translation = self.translation(pod);
        let _ = write!(lines.rules, "-A {chain} -s {ip} -j KUBE-MARK-MASQ\n-A {chain} {translation}\n");
    }

    fn translation(&self, pod: u32) -> String {
        let (ip, port, protocol) = (world::pod_ip(Family::V4, pod), world::POD_PORT, self.protocol);
        format!("-m {protocol} -p {protocol} -j DNAT --to-destination {ip}:{port}")
    }

    fn matched(&self, service: u32) -> String {
        let (name, ip) = (name(service), world::cluster_ip(Family::V4, service));
        let (protocol, port) = (self.protocol, world::SERVICE_PORT);
        format!(
            "-m comment --comment \"{name} cluster IP\" -m {protocol} -p {protocol} -d {ip}/32 --dport {port}"
        )
    }
}

fn name(service: u32) -> String {
    format!("{}:{}", world::key(service), world::PORT_NAME)
}

fn endpoint_chain(service: &str, pod: u32) -> String {
    chain("SEP", &format!("{service}{}:{}", world::pod_ip(Family::V4, pod), world::POD_PORT))
}

/// Sixteen letters end the name, as chains of that layout have them.
fn chain(kind: &str, of: &str) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    let bits = hasher.finish();
    let letters: String = (0..16).map(|place| char::from(b'A' + (bits >> (place * 4) & 15) as u8)).collect();
    format!("KUBE-{kind}-{letters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str, start: &str) -> usize {
        text.lines().filter(|line| line.starts_with(start)).count()
    }

    #[test]
    fn a_chain_for_each_service_and_endpoint() {
        let layout = Layout { services: 3, protocol: "tcp", endpoint_chains: true };
        let full = layout.full();
        assert_eq!((count(&full, ":KUBE-SVC-"), count(&full, ":KUBE-SEP-")), (3, 15));
        assert_eq!((count(&full, "-A KUBE-SVC-"), count(&full, "-A KUBE-SEP-")), (3 * 6, 30));
        assert_eq!(full.matches("--probability").count(), 3 * 4);
        assert_eq!(count(&full, "-A KUBE-SERVICES"), 3 + 1);
        let flat = Layout { endpoint_chains: false, ..layout }.full();
        assert_eq!((count(&flat, ":KUBE-SEP-"), flat.matches("DNAT --to").count()), (0, 15));
    }

    #[test]
    fn a_change_names_every_service_and_one_services_endpoints() {
        let layout = Layout { services: 3, protocol: "tcp", endpoint_chains: true };
        let change = layout.change(1, &[7, 8]);
        assert_eq!((count(&change, ":KUBE-SVC-"), count(&change, ":KUBE-SEP-")), (1, 2));
        assert_eq!(count(&change, "-A KUBE-SERVICES"), 3 + 1);
        assert_eq!(change.matches("COMMIT").count(), 2);
    }
}
