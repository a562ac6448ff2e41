//! The constant part of both tables: chains that no service owns, and how the kernel's own chains lead to them.
//! Names, conditions and comments are upstream's, so that each finds in place what the other left.

use kernel::iptables::Table;
use model::{Family, NodePlan, Refusal};

use super::dialect::{Dialect, MARK_MASQ, comment};
use super::rule::{NO_ENDPOINTS, NO_LOCAL_ENDPOINTS, REJECT, SOURCE_RANGE, UNALLOCATED};
use super::tree::Chain;
use super::{INVALID_COUNTER, LOCALHOST_COUNTER, refusal_counter};

pub(super) const SERVICES: &str = "KUBE-SERVICES";
pub(super) const EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";
pub(super) const NODE_PORTS: &str = "KUBE-NODEPORTS";
pub(super) const FIREWALL: &str = "KUBE-PROXY-FIREWALL";
pub(super) const HAIRPIN: &str = "KUBE-SVC-HAIRPIN";
pub(super) const CLOSED_NODE_PORTS: &str = "KUBE-EXT-NODEPORTS";
pub(super) const POSTROUTING: &str = "KUBE-POSTROUTING";
pub(super) const FORWARD: &str = "KUBE-FORWARD";
/// A flush of all tables removes it too.
pub(super) const CANARY: &str = "KUBE-PROXY-CANARY";
/// The kubelet's as well: never emptied here.
pub(super) const MARTIANS: &str = "KUBE-FIREWALL";

/// What each chain that refuses does so for.
const REFUSALS: [(&str, Refusal); 5] = [
    (REJECT, Refusal::UnlistedPort),
    (NO_ENDPOINTS, Refusal::NoEndpoints),
    (NO_LOCAL_ENDPOINTS, Refusal::NoLocalEndpoints),
    (SOURCE_RANGE, Refusal::SourceRange),
    (UNALLOCATED, Refusal::UnallocatedAddress),
];

const NEW: &str = " -m conntrack --ctstate NEW";

/// A rule in a chain of the kernel's, or in one that is shared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    pub(super) chain: &'static str,
    /// What follows the chain's name.
    pub(super) words: String,
}

impl Dialect {
    /// Chains of the table besides trees and those of services.
    pub(super) fn frame(&self, table: Table) -> Vec<Chain> {
        match table {
            Table::Nat => vec![self.mark_masq(), self.postrouting(), Chain::new(CANARY)],
            Table::Filter => {
                let mut chains = vec![self.forward(), Chain::new(CANARY)];
                chains.extend(REFUSALS.map(|(name, why)| self.refusing(name, why)));
                chains
            }
        }
    }

    fn mark_masq(&self) -> Chain {
        let mut chain = Chain::new(MARK_MASQ);
        let mark = self.masquerade_mark;
        chain.rule(format_args!(" -j MARK --set-xmark {mark:#x}/{mark:#x}"));
        chain
    }

    fn postrouting(&self) -> Chain {
        let mut chain = Chain::new(POSTROUTING);
        let mark = self.masquerade_mark;
        chain.rule(format_args!(" -m conntrack --ctstate DNAT -j {HAIRPIN}"));
        chain.rule(format_args!(" -m mark ! --mark {mark:#x}/{mark:#x} -j RETURN"));
        if self.counters.localhost && self.family == Family::V4 {
            let from = self.loopback();
            chain.rule(format_args!(
                " -m conntrack --ctorigdst {from} -m nfacct --nfacct-name {LOCALHOST_COUNTER}"
            ));
        }
        // A packet that passes here again is not masqueraded twice.
        chain.rule(format_args!(" -j MARK --set-xmark {mark:#x}/0x0"));
        let about = comment("kubernetes service traffic requiring SNAT");
        let random = if self.random_fully { " --random-fully" } else { "" };
        chain.rule(format_args!("{about} -j MASQUERADE{random}"));
        chain
    }

    /// Counts what it refuses, where the kernel can.
    fn refusing(&self, name: &'static str, why: Refusal) -> Chain {
        let mut chain = Chain::new(name);
        if self.counters.refusals {
            let counter = refusal_counter(self.family, why);
            chain.rule(format_args!(" -m nfacct --nfacct-name {counter}"));
        }
        match why {
            Refusal::NoEndpoints | Refusal::UnlistedPort | Refusal::NotCarried => {
                // A reset is not subject to the kernel's limit of ICMP errors.
                chain.rule(format_args!(" -p tcp -j REJECT --reject-with tcp-reset"));
                chain.rule(format_args!(" -j REJECT"));
            }
            Refusal::NoLocalEndpoints | Refusal::SourceRange | Refusal::UnallocatedAddress => {
                chain.rule(format_args!(" -j DROP"));
            }
        }
        chain
    }

    fn forward(&self) -> Chain {
        let mut chain = Chain::new(FORWARD);
        let mark = self.masquerade_mark;
        if self.drop_invalid {
            // Passed on, such a packet makes its receiver reset the connection.
            let count = match self.counters.invalid {
                true => format!(" -m nfacct --nfacct-name {INVALID_COUNTER}"),
                false => String::new(),
            };
            chain.rule(format_args!(" -m conntrack --ctstate INVALID{count} -j DROP"));
        }
        let about = comment("kubernetes forwarding rules");
        chain.rule(format_args!("{about} -m mark --mark {mark:#x}/{mark:#x} -j ACCEPT"));
        let about = comment("kubernetes forwarding conntrack rule");
        let known = " -m conntrack --ctstate RELATED,ESTABLISHED";
        chain.rule(format_args!("{about}{known} -j ACCEPT"));
        chain
    }

    /// How packets come to our chains, in the order in which they meet them.
    pub(super) fn hooks(&self, table: Table, node: &NodePlan) -> Vec<Hook> {
        let hook = |chain, about: &str, when: &str, to: &str| Hook {
            chain,
            words: format!("{when}{} -j {to}", comment(about)),
        };
        let services = |chain, when| hook(chain, "kubernetes service portals", when, SERVICES);
        let mut hooks = match table {
            Table::Nat => vec![
                services("PREROUTING", ""),
                services("OUTPUT", ""),
                hook("POSTROUTING", "kubernetes postrouting rules", "", POSTROUTING),
            ],
            Table::Filter => {
                let firewall = |chain| hook(chain, "kubernetes load balancer firewall", NEW, FIREWALL);
                let external = "kubernetes externally-visible service portals";
                let external = |chain| hook(chain, external, NEW, EXTERNAL_SERVICES);
                vec![
                    firewall("INPUT"),
                    hook("INPUT", "kubernetes health check service ports", "", NODE_PORTS),
                    external("INPUT"),
                    firewall("FORWARD"),
                    hook("FORWARD", "kubernetes forwarding rules", "", FORWARD),
                    // An external address may lie in the range of cluster IPs, where the rest is refused.
                    external("FORWARD"),
                    services("FORWARD", NEW),
                    firewall("OUTPUT"),
                    external("OUTPUT"),
                    services("OUTPUT", NEW),
                ]
            }
        };
        if self.guards_loopback(table, node) {
            let words = format!(" -j {MARTIANS}");
            hooks.extend(["INPUT", "OUTPUT"].map(|chain| Hook { chain, words: words.clone() }));
            hooks.push(Hook { chain: MARTIANS, words: martians() });
        }
        hooks
    }

    /// Where the kernel routes to 127.0.0.0/8, neighbours on the network must not come in that way
    /// (kubernetes/kubernetes 90259).
    fn guards_loopback(&self, table: Table, node: &NodePlan) -> bool {
        table == Table::Filter && self.family == Family::V4 && !node.nodeport_loopback.is_empty()
    }
}

/// The kubelet writes the same rule.
fn martians() -> String {
    let about = comment("block incoming localnet connections");
    let known = " -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT";
    format!(" ! -s 127.0.0.0/8 -d 127.0.0.0/8{about}{known} -j DROP")
}
