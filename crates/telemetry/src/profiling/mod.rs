//! Profiles of the running agent, as `go tool pprof` reads them.
//!
//! Samples are taken in `kernel::profile`; here they get names ([`symbols`]) and a format ([`profile`],
//! [`report`]). Off, nothing of it runs.

pub mod collect;
mod elf;
pub mod profile;
mod proto;
pub mod report;
pub mod symbols;

/// Allocations are watched only while profiling is enabled. May be called again at any time.
pub fn apply(enabled: bool) {
    kernel::profile::heap::set_sampling(enabled);
}
