//! Profiles of the running agent, as `go tool pprof` reads them: `/debug/pprof/` on the metrics server.
//!
//! Samples are taken in `kernel::profile`; here they get names ([`symbols`]) and a format ([`profile`],
//! [`report`]), and are served ([`pages`]). Off, nothing of it runs.

mod collect;
mod elf;
mod pages;
mod profile;
mod proto;
mod report;
mod symbols;

#[cfg(test)]
pub(crate) use pages::GO_ONLY;
pub(crate) use pages::respond;

/// Where the pages are.
pub(crate) const PREFIX: &str = "/debug/pprof/";

/// Allocations are watched only while profiling is enabled. May be called again at any time.
pub(crate) fn apply(enabled: bool) {
    kernel::profile::heap::set_sampling(enabled);
}
