//! What the project claims, and whether a run bears it out. Claims are about one size only.

use crate::results::{Measured, Results, SizeResult};

const SERVICES: u32 = 10_000;

pub(crate) struct Claim {
    pub(crate) what: &'static str,
    pub(crate) measured: String,
    pub(crate) limit: String,
    pub(crate) holds: bool,
}

type Pick = fn(&Measured) -> f64;

/// Ours is at most one such part of upstream's.
const PARTS: &[(&str, f64, Pick)] = &[
    ("start to first packet through a service", 25.0, |m| m.start.ms),
    ("CPU time until then", 25.0, |m| m.start.cpu_ms),
    ("memory", 8.0, Measured::resident_mb),
    ("change to traffic, median", 20.0, |m| m.moved_ms(0.5)),
    ("CPU time of a change", 50.0, |m| m.cpu_per_change_ms),
];

/// Ours is at most so much.
const LIMITS: &[(&str, f64, &str, Pick)] = &[
    ("memory", 25.0, "MB", Measured::resident_mb),
    ("change to traffic with default settings, median", 20.0, "ms", |m| m.default_moved_ms(0.5)),
];

/// Empty if the size was not measured.
pub(crate) fn judge(results: &Results) -> Vec<Claim> {
    results.sizes.iter().filter(|size| size.services == SERVICES).flat_map(claims).collect()
}

fn claims(size: &SizeResult) -> Vec<Claim> {
    let part = |(what, limit, pick): &(&'static str, f64, Pick)| {
        let ratio = pick(&size.upstream) / pick(&size.ours);
        Claim {
            what,
            measured: format!("1/{ratio:.1} of upstream's"),
            limit: format!("at most 1/{limit}"),
            holds: ratio >= *limit,
        }
    };
    let absolute = |(what, limit, unit, pick): &(&'static str, f64, &str, Pick)| {
        let measured = pick(&size.ours);
        Claim {
            what,
            measured: format!("{measured:.1} {unit}"),
            limit: format!("at most {limit} {unit}"),
            holds: measured <= *limit,
        }
    };
    PARTS.iter().map(part).chain(LIMITS.iter().map(absolute)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_limit_a_claim_holds_and_beyond_it_does_not() {
        let holds = |ours_mb: f64, ours_ms: f64, services: u32| {
            let results = crate::results::sample(services, ours_mb, ours_ms);
            judge(&results).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert!(holds(20.0, 4.0, SERVICES).iter().all(|holds| *holds));
        // A fifth of the memory, and too much in itself; a tenth of the times, and too long in themselves.
        assert!(holds(80.0, 40.0, SERVICES).iter().all(|holds| !holds));
        assert!(holds(20.0, 4.0, 500).is_empty());
    }
}
