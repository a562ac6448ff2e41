//! What is fuzzed: one function over bytes each, which panics if something is wrong.

mod cluster_objects;
mod files;
mod found;
mod kernel_answers;
mod objects;
mod spell;
mod states;
mod tools;

use crate::Limits;

pub use states::{Reached, reached};

/// One reader, or one chain of them.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub limits: Limits,
    /// Inputs to begin with. More are in `corpus`.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of the format.
    pub dictionary: &'static [&'static str],
    /// Longer inputs find nothing new.
    pub longest: usize,
}

pub const ALL: &[Target] = &[
    objects::PROTOBUF_OBJECT,
    objects::JSON_OBJECT,
    objects::PROTOBUF_WATCH,
    objects::JSON_WATCH,
    objects::PROTOBUF_LIST,
    objects::JSON_LIST,
    files::MANIFESTS,
    files::CONFIGURATION,
    files::FLAGS,
    kernel_answers::NETLINK,
    tools::IPTABLES_SAVE,
    found::FOUND_TABLE,
    states::NFTABLES,
    states::IPTABLES,
    states::IPVS,
    states::USERSPACE,
];

pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
