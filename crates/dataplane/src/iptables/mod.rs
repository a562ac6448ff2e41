//! iptables mode. For now only how to remove its rules, which kube-proxy may have left on a node.

mod cleanup;

pub use cleanup::removal;
