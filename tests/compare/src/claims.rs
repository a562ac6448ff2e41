//! What the project claims in each mode, and whether a run bears it out. Claims are about some sizes only.

use bench_support::variant::ToolVariant;

use crate::cases::Case;
use crate::contestant::Mode;
use crate::results::{Measured, Results, SizeResult};

pub(crate) struct Claim {
    pub(crate) what: &'static str,
    pub(crate) measured: String,
    pub(crate) limit: String,
    pub(crate) holds: bool,
}

/// The claims about one case.
pub(crate) struct Judged {
    pub(crate) case: Case,
    pub(crate) claims: Vec<Claim>,
}

type Pick = fn(&Measured) -> f64;

struct Claims {
    case: Case,
    /// Ours is at most such a part of upstream's.
    parts: &'static [(&'static str, Part, Pick)],
    /// Ours is at most so much.
    limits: &'static [(&'static str, f64, &'static str, Pick)],
}

/// A ratio, in the form in which it reads best.
#[derive(Clone, Copy)]
enum Part {
    OneOf(f64),
    Share(f64),
}

const NFTABLES: &[Claims] = &[Claims {
    case: Case { services: 10_000, variant: None },
    parts: &[
        ("start to first packet through a service", Part::OneOf(25.0), |m| m.start.ms),
        ("CPU time until then", Part::OneOf(25.0), |m| m.start.cpu_ms),
        ("memory", Part::OneOf(8.0), Measured::resident_mb),
        ("change to traffic, median", Part::OneOf(20.0), |m| m.moved_ms(0.5)),
        ("CPU time of a change", Part::OneOf(50.0), |m| m.cpu_per_change_ms),
    ],
    limits: &[
        ("memory", 20.0, "MB", Measured::resident_mb),
        ("change to traffic with default settings, median", 20.0, "ms", |m| m.default_moved_ms(0.5)),
    ],
}];

const IPTABLES: &[Claims] = &[
    Claims {
        case: Case { services: 3_000, variant: Some(ToolVariant::Legacy) },
        parts: &[
            ("start to first packet through a service", Part::Share(0.6), |m| m.start.ms),
            ("CPU time until then", Part::Share(0.5), |m| m.start.cpu_ms),
            ("change to traffic, median", Part::Share(0.5), |m| m.moved_ms(0.5)),
            ("CPU time of a change", Part::Share(0.4), |m| m.cpu_per_change_ms),
            ("memory", Part::OneOf(5.0), Measured::resident_mb),
        ],
        limits: &[],
    },
    Claims {
        case: Case { services: 10_000, variant: Some(ToolVariant::Nft) },
        parts: &[],
        limits: &[("start to first packet through a service", 60.0, "s", |m| m.start.ms / 1e3)],
    },
];

/// Measured on an emulated machine, where only ratios mean anything.
const IPVS: &[Claims] = &[Claims {
    case: Case { services: 1_000, variant: None },
    parts: &[
        ("start to first packet through a service", Part::Share(0.3), |m| m.start.ms),
        ("change to traffic, median", Part::Share(0.1), |m| m.moved_ms(0.5)),
        ("CPU time of a change", Part::Share(0.1), |m| m.cpu_per_change_ms),
    ],
    limits: &[],
}];

impl Part {
    fn limit(self) -> f64 {
        match self {
            Part::OneOf(parts) => 1.0 / parts,
            Part::Share(share) => share,
        }
    }

    fn judge(self, what: &'static str, ratio: f64) -> Claim {
        let (measured, limit) = match self {
            Part::OneOf(parts) => (format!("1/{:.1}", ratio.recip()), format!("1/{parts}")),
            Part::Share(share) if ratio < 0.05 => (format!("1/{:.0}", ratio.recip()), share.to_string()),
            Part::Share(share) => (format!("{ratio:.2}"), share.to_string()),
        };
        Claim {
            what,
            measured: format!("{measured} of upstream's"),
            limit: format!("at most {limit}"),
            holds: ratio <= self.limit(),
        }
    }
}

fn of(mode: Mode) -> &'static [Claims] {
    match mode {
        Mode::Nftables => NFTABLES,
        Mode::Iptables => IPTABLES,
        Mode::Ipvs => IPVS,
    }
}

/// Without the sizes that were not measured.
pub(crate) fn judge(results: &Results) -> Vec<Judged> {
    of(results.mode).iter().filter_map(|claims| claims.judge(results.find(claims.case)?)).collect()
}

/// The case in which both are compared; it stands for the mode in pictures.
pub(crate) fn shown(results: &Results) -> Option<&SizeResult> {
    let claimed = of(results.mode).iter().filter(|claims| !claims.parts.is_empty());
    let mut found = claimed.filter_map(|claims| results.find(claims.case));
    found.next().or_else(|| results.sizes.iter().rfind(|size| size.upstream.is_some()))
}

impl Claims {
    fn judge(&self, size: &SizeResult) -> Option<Judged> {
        let part = |(what, part, pick): &(&'static str, Part, Pick)| {
            let upstream = size.upstream.as_ref()?;
            Some(part.judge(what, pick(&size.ours) / pick(upstream)))
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
        let claims: Vec<Claim> =
            self.parts.iter().filter_map(part).chain(self.limits.iter().map(absolute)).collect();
        (!claims.is_empty()).then_some(Judged { case: self.case, claims })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    fn holds(mode: Mode, case: Case, ours_mb: f64, ours_ms: f64) -> Vec<bool> {
        let results = sample(mode, case, ours_mb, ours_ms);
        judge(&results).iter().flat_map(|judged| &judged.claims).map(|claim| claim.holds).collect()
    }

    #[test]
    fn at_the_limit_a_claim_holds_and_beyond_it_does_not() {
        let case = NFTABLES[0].case;
        assert_eq!(holds(Mode::Nftables, case, 20.0, 4.0), [true; 7]);
        // A fifth of the memory, and too much in itself; a tenth of the times, and too long in themselves.
        assert_eq!(holds(Mode::Nftables, case, 80.0, 40.0), [false; 7]);
        assert!(holds(Mode::Nftables, Case { services: 500, ..case }, 20.0, 4.0).is_empty());
    }

    #[test]
    fn iptables_is_judged_at_its_own_sizes_and_variants() {
        let [beside, alone] = [IPTABLES[0].case, IPTABLES[1].case];
        assert_eq!(holds(Mode::Iptables, beside, 80.0, 160.0), [true; 5]);
        assert_eq!(holds(Mode::Iptables, beside, 81.0, 201.0), [true, false, false, false, false]);
        assert_eq!(holds(Mode::Iptables, alone, 500.0, 60_000.0), [true]);
        assert_eq!(holds(Mode::Iptables, alone, 500.0, 60_001.0), [false]);
        assert!(holds(Mode::Iptables, Case { variant: None, ..beside }, 1.0, 1.0).is_empty());
    }
}
