//! Mode userspace: its rig, and the cases that are about this mode alone: what becomes of connections.

mod carried;
pub(crate) mod faults;
mod peers;
mod rig;

use test_support::{Carrier, Case};

use super::rig::in_mode;

pub(crate) use rig::UserspaceRig;

pub(crate) fn cases() -> Vec<Case<'static>> {
    [carried::cases(), faults::cases()].into_iter().flatten().collect()
}

/// A case of this mode; it fails by panicking.
fn case(name: &str, run: fn(Carrier)) -> Case<'static> {
    in_mode(Carrier::Userspace, name, run)
}
