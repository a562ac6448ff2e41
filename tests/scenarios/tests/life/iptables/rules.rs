//! What `iptables-save` prints, as a witness that shares no code with the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::super::rig::{Destinations, difference};

/// Rules of all tables, chain by chain, without counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    chains: BTreeMap<(String, String), Vec<String>>,
}

impl Rules {
    pub(super) fn read(text: &str) -> Rules {
        let (mut rules, mut table) = (Rules::default(), String::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                name.clone_into(&mut table);
            } else if let Some(chain) = line.strip_prefix(':').and_then(|line| line.split(' ').next()) {
                rules.chains.entry((table.clone(), chain.to_owned())).or_default();
            } else if let Some((chain, rule)) = line.strip_prefix("-A ").and_then(|rule| rule.split_once(' '))
            {
                let place = (table.clone(), chain.to_owned());
                rules.chains.entry(place).or_default().push(rule.to_owned());
            }
        }
        rules
    }

    /// In the kernel's own chains the order of our rules among each other does not matter.
    pub(super) fn comparable(mut self) -> Rules {
        let own = self.chains.iter_mut().filter(|((_, chain), _)| !chain.starts_with("KUBE-"));
        own.for_each(|(_, rules)| rules.sort());
        self
    }

    pub(super) fn chain(&self, table: &str, chain: &str) -> &[String] {
        self.chains.get(&(table.to_owned(), chain.to_owned())).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn has_chain(&self, table: &str, chain: &str) -> bool {
        self.chains.contains_key(&(table.to_owned(), chain.to_owned()))
    }

    /// Chains that a kube-proxy has for services, in any table.
    pub(super) fn service_chains(&self) -> Vec<&str> {
        let prefixes = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-FW-"];
        let is_service = |chain: &&str| prefixes.iter().any(|prefix| chain.starts_with(prefix));
        self.chains.keys().map(|(_, chain)| chain.as_str()).filter(is_service).collect()
    }

    /// The rule in nat that a packet to this TCP port of a cluster IP meets, and the chain that it stands in.
    pub(super) fn leaf(&self, to: SocketAddr) -> Option<(&str, &str)> {
        let length = if to.is_ipv4() { 32 } else { 128 };
        let (address, port) = (format!("-d {}/{length} ", to.ip()), format!("--dport {} ", to.port()));
        let mut all = self.chains.iter().filter(|((table, _), _)| table == "nat");
        all.find_map(|((_, chain), rules)| {
            let rule = rules.iter().find(|rule| rule.starts_with(&address) && rule.contains(&port))?;
            Some((chain.as_str(), rule.as_str()))
        })
    }

    /// The chain of the service that has this cluster IP and TCP port.
    pub(super) fn service_chain(&self, to: SocketAddr) -> Option<&str> {
        self.leaf(to)?.1.rsplit_once("-j ").map(|(_, chain)| chain)
    }

    /// Where packets that come into a service's chain are translated to.
    fn pool(&self, chain: &str) -> BTreeSet<SocketAddr> {
        let targets = self.chain("nat", chain).iter().filter_map(|rule| rule.split_once("--to-destination "));
        targets.filter_map(|(_, target)| target.trim().parse().ok()).collect()
    }

    /// Cluster IPs with their ports, and where packets to them are translated to; those in filter are refused.
    pub(super) fn destinations(&self) -> Destinations {
        let mut all = Destinations::new();
        for ((table, _), rules) in &self.chains {
            for (at, target) in rules.iter().filter_map(|rule| destination(rule)) {
                match (table.as_str(), target) {
                    ("nat", chain) if chain.starts_with("KUBE-SVC-") => {
                        drop(all.insert(at, self.pool(chain)))
                    }
                    ("filter", "KUBE-NO-ENDPOINTS") => drop(all.entry(at).or_default()),
                    _ => {}
                }
            }
        }
        all
    }

    /// Line by line, each with its chain.
    pub(super) fn lines(&self) -> Vec<String> {
        let chains = self.chains.iter().flat_map(|((table, chain), rules)| {
            let rules = rules.iter().map(move |rule| format!("{table} {chain} {rule}"));
            std::iter::once(format!("{table} {chain}")).chain(rules)
        });
        chains.collect()
    }

    /// What one has and the other does not.
    pub(super) fn difference(&self, wanted: &Rules) -> String {
        difference(&self.lines(), &wanted.lines())
    }
}

/// The address and port that a rule is about, and where it sends their packets.
fn destination(rule: &str) -> Option<(SocketAddr, &str)> {
    let (ip, length) = rule.strip_prefix("-d ")?.split_once(' ')?.0.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let port = rule.split_once("--dport ")?.1.split(' ').next()?.parse().ok()?;
    let target = rule.rsplit_once("-j ")?.1.split(' ').next()?;
    let is_one = length == if ip.is_ipv4() { "32" } else { "128" };
    is_one.then_some((SocketAddr::new(ip, port), target))
}
