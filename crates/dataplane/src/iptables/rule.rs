//! The rules that stand in trees.

use std::fmt::Write as _;

use super::dialect::{MARK_MASQ, comment};
use super::key::Key;
use super::names::ServiceChain;
use super::tree::Leaf;

/// Refuse whatever comes, each for its reason: TCP by a reset, the rest by ICMP.
pub(super) const REJECT: &str = "KUBE-REJECT";
pub(super) const NO_ENDPOINTS: &str = "KUBE-NO-ENDPOINTS";
/// The same without an answer.
pub(super) const NO_LOCAL_ENDPOINTS: &str = "KUBE-NO-LOCAL-ENDPOINTS";
pub(super) const SOURCE_RANGE: &str = "KUBE-SOURCE-RANGE";
pub(super) const UNALLOCATED: &str = "KUBE-UNALLOCATED";
/// All of them.
pub(super) const REFUSING: [&str; 5] = [REJECT, NO_ENDPOINTS, NO_LOCAL_ENDPOINTS, SOURCE_RANGE, UNALLOCATED];

/// What happens at a key; the text is the comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// On to a chain of a service.
    To(ServiceChain, Box<str>),
    /// The service has no endpoint.
    Reject(Box<str>),
    /// It has none here, and its policy is Local.
    DropRemote(Box<str>),
    /// The client is outside its source ranges.
    DropSource(Box<str>),
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
            Rule::Reject(text) => write!(rule, "{} -j {NO_ENDPOINTS}", comment(text)),
            Rule::DropRemote(text) => write!(rule, "{} -j {NO_LOCAL_ENDPOINTS}", comment(text)),
            Rule::DropSource(text) => write!(rule, "{} -j {SOURCE_RANGE}", comment(text)),
            Rule::Accept(text) => write!(rule, "{} -j ACCEPT", comment(text)),
            Rule::RejectRest => write!(rule, " -j {REJECT}"),
            Rule::Hairpin => match key.ip {
                Some(ip) => write!(rule, " -s {ip} -j {MARK_MASQ}"),
                None => Ok(()),
            },
        };
    }
}
