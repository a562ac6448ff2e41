//! The rules that stand in trees.

use std::fmt::Write as _;

use model::Protocol;

use super::dialect::{MARK_MASQ, comment};
use super::key::{Key, Ports};
use super::names::ServiceChain;
use super::tree::Leaf;

/// Refuses whatever comes: TCP by a reset, the rest by ICMP.
pub(super) const REJECT: &str = "KUBE-REJECT";

/// What happens at a key; the text is the comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// On to a chain of a service.
    To(ServiceChain, Box<str>),
    Reject(Box<str>),
    Drop(Box<str>),
    Accept(Box<str>),
    /// Ports of a live cluster IP that no rule before said anything about. There is one for each service: a comment
    /// would make the kernel's table twice as large.
    RejectRest,
    /// An endpoint that reached itself through its service.
    Hairpin,
}

impl Leaf for Rule {
    fn write(&self, key: &Key, rule: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Rule::To(chain, text) => write!(rule, "{} -j {chain}", comment(text)),
            Rule::Reject(text) => write!(rule, "{} -j REJECT{}", comment(text), reject_how(key)),
            Rule::Drop(text) => write!(rule, "{} -j DROP", comment(text)),
            Rule::Accept(text) => write!(rule, "{} -j ACCEPT", comment(text)),
            Rule::RejectRest => write!(rule, " -j {REJECT}"),
            Rule::Hairpin => match key.ip {
                Some(ip) => write!(rule, " -s {ip} -j {MARK_MASQ}"),
                None => Ok(()),
            },
        };
    }
}

/// A reset is not subject to the kernel's limit of ICMP errors.
fn reject_how(key: &Key) -> &'static str {
    match key.ports {
        Ports::One(Protocol::Tcp, _) => " --reject-with tcp-reset",
        _ => "",
    }
}
