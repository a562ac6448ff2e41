//! What the rules depend on besides the services, and the words that say it.

use std::fmt::Write as _;

use model::{Family, LocalDetector, NodePlan};

use super::Counters;
use super::matches::Lacks;
use super::rule::UNALLOCATED;

/// Other programs send packets here too, to have them masqueraded.
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";

#[derive(Clone, Debug)]
pub(super) struct Dialect {
    pub(super) family: Family,
    pub(super) detector: LocalDetector,
    pub(super) masquerade_mark: u32,
    pub(super) drop_invalid: bool,
    pub(super) counters: Counters,
    pub(super) random_fully: bool,
    pub(super) lacks: Lacks,
}

impl Dialect {
    /// The words that tell pods of this node (or everybody else) by where a packet comes from; `None` without a detector.
    pub(super) fn if_pod(&self, pod: bool) -> Option<String> {
        let not = if pod { "" } else { " !" };
        match &self.detector {
            LocalDetector::None => None,
            LocalDetector::Cidrs(nets) => {
                let net = nets.iter().find(|net| Family::of_net(net) == self.family)?;
                match (net.prefix_len(), pod) {
                    (0, true) => Some(String::new()),
                    // No client is outside, and the nf_tables variant takes no rule that says so.
                    (0, false) => None,
                    _ => Some(format!("{not} -s {net}")),
                }
            }
            LocalDetector::Bridge(name) => Some(format!("{not} -i {name}")),
            LocalDetector::InterfacePrefix(prefix) => Some(format!("{not} -i {prefix}+")),
        }
    }

    pub(super) fn loopback(&self) -> &'static str {
        match self.family {
            Family::V4 => "127.0.0.0/8",
            Family::V6 => "::1/128",
        }
    }

    /// What the root of the services in nat does after its tree: hand over to node ports.
    pub(super) fn nodeport_jumps(&self, node: &NodePlan, to: &str) -> Vec<String> {
        let comment = comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain");
        let addresses = node.nodeport_ips.iter().map(|ip| format!(" -d {ip}/{}", self.whole()));
        let loopback = node.nodeport_loopback.iter().map(|net| format!(" -d {net}"));
        // Addresses that the node has by a route alone are meant too.
        let all = match node.nodeport_loopback.is_empty() {
            true => format!(" ! -d {} -m addrtype --dst-type LOCAL", self.loopback()),
            false => " -m addrtype --dst-type LOCAL".to_owned(),
        };
        let at: Vec<String> = match node.nodeports_everywhere {
            true => vec![all],
            false => addresses.chain(loopback).collect(),
        };
        at.into_iter().map(|at| format!("{at}{comment} -j {to}")).collect()
    }

    /// What the root of the services in filter does after its tree: no service has these addresses.
    pub(super) fn unallocated(&self, node: &NodePlan) -> Vec<String> {
        let comment = comment("no service has this address");
        node.service_cidrs.iter().map(|net| format!(" -d {net}{comment} -j {UNALLOCATED}")).collect()
    }

    fn whole(&self) -> u8 {
        match self.family {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }
}

/// The comment of a rule. Names of objects are checked by the apiserver; in manifests they may be anything,
/// and must not become words of the rule.
pub(super) fn comment(text: &str) -> String {
    /// The kernel keeps 256 bytes with the end.
    const LONGEST: usize = 255;
    let mut words = String::from(" -m comment --comment \"");
    let harmless = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '\'') || c == ' ';
    for c in text.chars().take(LONGEST) {
        let _ = words.write_char(if harmless(c) { c } else { '?' });
    }
    words.push('"');
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_stays_a_comment() {
        assert_eq!(comment("ns/web:http cluster IP"), " -m comment --comment \"ns/web:http cluster IP\"");
        assert_eq!(comment("a\" -j ACCEPT\n\\ü"), " -m comment --comment \"a? -j ACCEPT???\"");
        assert_eq!(comment(&"x".repeat(999)).len(), comment("").len() + 255);
    }
}
