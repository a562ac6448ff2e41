//! The Helm chart: a real Helm lints and renders it, a real apiserver accepts what comes out without a warning, wrong
//! values are refused in one line, and the kustomize bases say the same as the chart.
//!
//! Whether pods come up from it is not asked here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accepted;
mod bases;
mod helm;
mod refused;
mod rendered;

use std::process::ExitCode;
use std::sync::OnceLock;

use conformance_support::{Kit, case};
use helm::Helm;
use test_support::Report;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let kit = Kit::find_for(&report);
    let helm = Helm::find_for(&report);
    let both = match (&kit, &helm) {
        (Ok(kit), Ok(helm)) => Ok((kit.clone(), helm.clone())),
        (Err(verdict), _) | (_, Err(verdict)) => Err(verdict.clone()),
    };
    let shared = OnceLock::new();
    let mut cases = vec![
        case("the chart passes helm lint", &helm, accepted::lint),
        case("wrong values are refused in one clear line", &helm, refused::wrong_values),
        case("the base says the same as the chart", &helm, bases::base),
        case("the overlay of iptables says the same as the chart", &helm, bases::iptables),
        case("the seccomp components say the same as the chart", &helm, bases::seccomp),
        case("the iptables tools have a profile that lets them start", &helm, rendered::profile_of_the_tools),
        case("containers that fail show the end of their log", &helm, rendered::last_words),
        case("pods have the grace period that is asked for", &helm, rendered::grace_period),
    ];
    let shared = &shared;
    for variant in accepted::VARIANTS {
        let name = format!("the apiserver accepts the chart without a warning: {}", variant.name);
        cases.push(case(name, &both, move |(kit, helm)| {
            accepted::by_the_apiserver(shared.get_or_init(|| accepted::plane(kit, helm)), helm, variant);
        }));
    }
    cases.push(case("the level of Pod Security is the one that is documented", &both, move |(kit, helm)| {
        accepted::pod_security(shared.get_or_init(|| accepted::plane(kit, helm)), helm);
    }));
    report.run(&cases, 1);
    report.finish()
}
