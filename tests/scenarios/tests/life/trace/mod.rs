//! `kube-proxy trace`: what it tells of real packets, and that nothing of it stays.

mod lifecycle;
mod seen;
mod watching;

use test_support::Case;

pub(crate) use watching::Watching;

pub(crate) fn cases() -> Vec<Case<'static>> {
    seen::cases().into_iter().chain(lifecycle::cases()).collect()
}
