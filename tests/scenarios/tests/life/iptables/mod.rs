//! Mode iptables with each variant of its tools: its rig, and the cases that are about this mode alone, such as rules of
//! others in shared tables and tools that fail.

mod errors;
mod fakes;
mod foreign;
mod guard;
mod localhost;
mod readable;
mod reconfigure;
mod rig;
mod rules;
mod upstream;

use test_support::{Carrier, Case};

use super::rig::in_mode;

pub(crate) use rig::IptablesRig;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let modules = [
        errors::cases(),
        foreign::cases(),
        localhost::cases(),
        reconfigure::cases(),
        guard::cases(),
        readable::cases(),
    ];
    modules.into_iter().flatten().collect()
}

/// A case for each variant; it fails by panicking.
fn both(name: &str, run: fn(Carrier)) -> Vec<Case<'static>> {
    let variants = Carrier::ALL.into_iter().filter(|carrier| carrier.has_tools());
    variants.map(|carrier| in_mode(carrier, name, run)).collect()
}
