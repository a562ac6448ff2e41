//! The counters of packets that rules refuse, by reason. They belong to the constant rules, and outlive rewrites.

use model::Refusal;

/// The counter of packets that are refused for a reason.
pub const fn counter(why: Refusal) -> &'static str {
    match why {
        Refusal::NoEndpoints | Refusal::NotCarried => "rejected-no-endpoints",
        Refusal::NoLocalEndpoints => "dropped-no-local-endpoints",
        Refusal::SourceRange => "dropped-source-range",
        Refusal::UnlistedPort => "rejected-unlisted-port",
        Refusal::UnallocatedAddress => "dropped-unallocated-address",
    }
}

/// All of them.
pub(crate) fn counters() -> [&'static str; 5] {
    Refusal::COUNTED.map(counter)
}
