//! What removes the rules of kube-proxy's iptables and ipvs modes, and nothing else.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kernel::iptables::{target, words};

use super::dialect::MARK_MASQ;
use super::frame;
use super::names::is_service_chain;
use super::rule::REFUSING;

/// Of both modes. The kubelet's own (KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT) are not among them.
const NAMES: [&str; 8] = [
    frame::SERVICES,
    frame::EXTERNAL_SERVICES,
    frame::NODE_PORTS,
    frame::POSTROUTING,
    frame::FORWARD,
    frame::FIREWALL,
    frame::CANARY,
    MARK_MASQ,
];
/// Of mode ipvs alone.
const OF_IPVS: [&str; 5] = [
    "KUBE-LOAD-BALANCER",
    "KUBE-NODE-PORT",
    "KUBE-SOURCE-RANGES-FIREWALL",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
];
fn is_ours(chain: &str) -> bool {
    NAMES.contains(&chain) || REFUSING.contains(&chain) || is_of_ipvs(chain) || is_service_chain(chain)
}

fn is_of_ipvs(chain: &str) -> bool {
    OF_IPVS.contains(&chain)
}

struct Table<'a> {
    name: &'a str,
    /// Whether a chain is to go.
    goes: fn(&str) -> bool,
    chains: BTreeSet<&'a str>,
    /// Rules of other chains that lead into ours, as they were added.
    jumps: Vec<&'a str>,
}

/// From what `iptables-save` prints to what `iptables-restore --noflush` does about it; `None` if nothing is there.
pub fn removal(saved: &str) -> Option<String> {
    removal_of(saved, is_ours)
}

/// The same for what only mode ipvs has: the rest is what mode iptables is made of, too.
pub fn removal_of_ipvs(saved: &str) -> Option<String> {
    removal_of(saved, is_of_ipvs)
}

fn removal_of(saved: &str, goes: fn(&str) -> bool) -> Option<String> {
    let mut script = String::new();
    let mut table = Table::new("", goes);
    for line in saved.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(first) if first.starts_with('*') => {
                table = Table::new(first, goes);
            }
            Some("COMMIT") => std::mem::replace(&mut table, Table::new("", goes)).write(&mut script),
            Some("-A") => table.see_rule(line),
            Some(first) => {
                let chain = first.strip_prefix(':').filter(|chain| goes(chain));
                table.chains.extend(chain);
            }
            None => {}
        }
    }
    (!script.is_empty()).then_some(script)
}

impl<'a> Table<'a> {
    fn new(name: &'a str, goes: fn(&str) -> bool) -> Table<'a> {
        Table { name, goes, chains: BTreeSet::new(), jumps: Vec::new() }
    }

    fn see_rule(&mut self, line: &'a str) {
        if words(line).nth(1).is_none_or(self.goes) {
            return;
        }
        match target(line) {
            // Other programs send packets there too.
            Some(MARK_MASQ) => drop(self.chains.remove(MARK_MASQ)),
            Some(target) if (self.goes)(target) => self.jumps.push(line),
            _ => {}
        }
    }

    /// Naming a chain empties it; it can go once nothing leads there.
    fn write(self, script: &mut String) {
        if self.chains.is_empty() {
            return;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(script, "{}", self.name);
        for chain in &self.chains {
            let _ = writeln!(script, ":{chain} - [0:0]");
        }
        for rule in &self.jumps {
            let _ = writeln!(script, "{}", rule.replacen("-A", "-D", 1));
        }
        for chain in &self.chains {
            let _ = writeln!(script, "-X {chain}");
        }
        script.push_str("COMMIT\n");
    }
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_cleanup.rs"]
mod tests;
