//! Names of chains, as Kubernetes' own kube-proxy gives them: people and tools look services up by them.

use std::fmt;
use std::net::SocketAddr;

use model::{PlannedEndpoint, Pool, Protocol};
use sha2::{Digest, Sha256};

/// What the kernel takes for the name of a chain.
pub(super) const LONGEST_NAME: usize = 28;
const HASH_LENGTH: usize = 16;
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// How the names of chains of services begin, of ours and of upstream's, also of earlier versions.
const PREFIXES: [&str; 6] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-"];

/// Whether a chain belongs to a service or an endpoint, or is a branch that leads there.
pub(super) fn is_service_chain(chain: &str) -> bool {
    PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

/// A chain that belongs to one port of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ServiceChain {
    pub(super) kind: ChainKind,
    hash: [u8; HASH_LENGTH],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ChainKind {
    /// Clients from outside, before it is known to which pool they go.
    External,
    /// Clients of a load-balancer address, before it is known whether they may come in.
    Firewall,
    /// The endpoints for policy Cluster.
    Cluster,
    /// Those of this node.
    Local,
}

impl ChainKind {
    fn prefix(self) -> &'static str {
        match self {
            ChainKind::External => "KUBE-EXT-",
            ChainKind::Firewall => "KUBE-FW-",
            ChainKind::Cluster => "KUBE-SVC-",
            ChainKind::Local => "KUBE-SVL-",
        }
    }
}

impl From<Pool> for ChainKind {
    fn from(pool: Pool) -> ChainKind {
        match pool {
            Pool::Cluster => ChainKind::Cluster,
            Pool::Local => ChainKind::Local,
        }
    }
}

impl fmt::Display for ServiceChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.prefix())?;
        f.write_str(std::str::from_utf8(&self.hash).unwrap_or_default())
    }
}

/// A service port as people write it, and the part of its chains' names that they share.
#[derive(Clone, Debug)]
pub(super) struct PortName {
    /// `namespace/name:port`, or without the port's name if it has none.
    pub(super) text: String,
    protocol: Protocol,
    hash: [u8; HASH_LENGTH],
}

impl PortName {
    pub(super) fn new(service: &str, port: &str, protocol: Protocol) -> PortName {
        let text = match port {
            "" => service.to_owned(),
            port => format!("{service}:{port}"),
        };
        let hash = hash(&[&text, &protocol.to_string()]);
        PortName { text, protocol, hash }
    }

    pub(super) fn chain(&self, kind: ChainKind) -> ServiceChain {
        ServiceChain { kind, hash: self.hash }
    }

    /// The list in which the kernel keeps the clients that are pinned to an endpoint. Named as upstream's, so that a
    /// change from one to the other keeps every client.
    pub(super) fn pins(&self, backend: &PlannedEndpoint) -> String {
        let endpoint = SocketAddr::new(backend.ip, backend.port).to_string();
        let hash = hash(&[&self.text, &self.protocol.to_string(), &endpoint]);
        format!("KUBE-SEP-{}", std::str::from_utf8(&hash).unwrap_or_default())
    }
}

/// A name that fits: the text itself, or a hash of it.
pub(super) fn fitting(prefix: &str, text: &str) -> String {
    if prefix.len() + text.len() <= LONGEST_NAME {
        return format!("{prefix}{text}");
    }
    let hash = hash(&[text]);
    let mut name = format!("{prefix}IP-{}", std::str::from_utf8(&hash).unwrap_or_default());
    name.truncate(LONGEST_NAME);
    name
}

/// The first 80 bits of SHA-256 in base32.
fn hash(parts: &[&str]) -> [u8; HASH_LENGTH] {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    let digest = digest.finalize();
    let mut bits = digest.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    std::array::from_fn(|_| {
        let five = bits.by_ref().take(5).fold(0, |value, bit| value << 1 | bit);
        BASE32[usize::from(five)]
    })
}

#[cfg(test)]
#[path = "../../tests/unit/iptables_names.rs"]
mod tests;
