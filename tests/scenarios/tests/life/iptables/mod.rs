//! Life in mode iptables, with each variant of its tools: damage, foreign rules, take-overs, failing tools, churn.

mod affinity;
mod churn;
mod drift;
mod errors;
mod fakes;
mod foreign;
mod guard;
mod localhost;
mod readable;
mod reconfigure;
mod rig;
mod rules;
mod stale;
mod switch;
mod upstream;

use scenarios::{Carrier, Case, Verdict};

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for module in [
        drift::cases(),
        errors::cases(),
        churn::cases(),
        affinity::cases(),
        foreign::cases(),
        switch::cases(),
        localhost::cases(),
        reconfigure::cases(),
        guard::cases(),
        stale::cases(),
        upstream::cases(),
        readable::cases(),
    ] {
        cases.extend(module);
    }
    cases
}

/// A case for each variant; it fails by panicking.
fn both(name: &str, run: fn(Carrier)) -> Vec<Case<'static>> {
    Carrier::IPTABLES.into_iter().map(|carrier| one(carrier, name, run)).collect()
}

fn one(carrier: Carrier, name: &str, run: fn(Carrier)) -> Case<'static> {
    Case::new(format!("{}: {name}", carrier.name()), move || {
        if !fakes::are_installed(carrier) {
            return Verdict::Skipped(format!("the tools of {} are not installed", carrier.name()));
        }
        run(carrier);
        Verdict::Passed
    })
}
