//! The agent's life: changes, restarts, kills, damage by others, and what traffic notices of it (nothing).
//!
//! Each case has a sandbox of its own, real packets and the real binary; two cases run side by side. A promise that all
//! modes make is one text, run for each of them through its rig; what is about one mode alone is in that mode's folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addresses;
mod affinity;
mod balance;
mod bundle;
mod churn;
mod confined;
mod drift;
mod held;
mod iptables;
mod ipvs;
mod kill;
mod localhost;
mod monitoring;
mod nft;
mod nftables;
mod odd_endpoints;
mod places;
mod profiling;
mod reconfigure;
mod refused;
mod rig;
mod setup;
mod source;
mod stage;
mod stale;
mod start;
mod stop;
mod switch;
mod trace;
mod traffic;
mod upstream;
mod user;
mod userspace;

use std::process::ExitCode;

use test_support::{Case, Report, Verdict, binary};

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let cases = cases();
    if report.is_list_only() {
        report.run(&cases, 1);
        return report.finish();
    }
    // As the user whose build folder it is, hence before a user namespace is entered.
    match binary::kube_proxy() {
        Ok(path) => drop(stage::BINARY.set(path)),
        Err(why) => {
            report.count("build", Verdict::Failed(why));
            return report.finish();
        }
    }
    let obstacle = match kernel::netns::acquire() {
        Err(denied) => Some(denied.to_string()),
        Ok(_) if !nft::is_installed() => Some("the nft tool is not installed".to_owned()),
        Ok(_) => None,
    };
    match obstacle {
        Some(why) => report.count("life", Verdict::Skipped(why)),
        None => report.run(&cases, 2),
    }
    report.finish()
}

fn cases() -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    // The longest first, so that the two runners end together.
    for module in [
        kill::cases(),
        iptables::cases(),
        churn::cases(),
        profiling::cases(),
        affinity::cases(),
        odd_endpoints::cases(),
        drift::cases(),
        ipvs::cases(),
        nftables::cases(),
        userspace::cases(),
        localhost::cases(),
        held::cases(),
        switch::cases(),
        trace::cases(),
        reconfigure::cases(),
        stale::cases(),
        upstream::cases(),
        balance::cases(),
        bundle::cases(),
        refused::cases(),
        start::cases(),
        addresses::cases(),
        source::cases(),
        user::cases(),
        setup::cases(),
        confined::cases(),
        stop::cases(),
        monitoring::cases(),
    ] {
        cases.extend(module);
    }
    cases
}

/// A case that fails by panicking.
fn case(name: &'static str, run: fn()) -> Case<'static> {
    Case::new(name, move || {
        run();
        Verdict::Passed
    })
}
