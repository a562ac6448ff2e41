//! Mode nftables: its rig, and the cases that are about this mode alone.

mod affinity;
pub(crate) mod counters;
mod rewrite;
mod rig;
mod tables;
mod upstream;

use test_support::Case;

pub(crate) use rig::NftablesRig;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let modules = [rewrite::cases(), affinity::cases(), counters::cases(), tables::cases()];
    modules.into_iter().flatten().collect()
}
