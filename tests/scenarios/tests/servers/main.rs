//! What the agent serves over HTTP, asked of the real binary in a namespace of its own: probes, pages, the health
//! checks of services, and that no client can block it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ask;
mod browser;
mod bundle;
mod checks;
mod clicked;
mod commands;
mod flood;
mod page;
mod pages;
mod plugin;
mod probes;
mod site;
mod taken;
mod unanswered;

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
    match (binary::kube_proxy(), kernel::netns::acquire()) {
        (Err(why), _) => report.count("build", Verdict::Failed(why)),
        (_, Err(denied)) => report.count("servers", Verdict::Skipped(denied.to_string())),
        (Ok(path), Ok(_)) => {
            drop(site::BINARY.set(path));
            report.run(&cases, 2);
        }
    }
    report.finish()
}

fn cases() -> Vec<Case<'static>> {
    let modules = [
        flood::cases(),
        taken::cases(),
        checks::cases(),
        probes::cases(),
        pages::cases(),
        page::cases(),
        clicked::cases(),
        commands::cases(),
        bundle::cases(),
        plugin::cases(),
        unanswered::cases(),
    ];
    modules.into_iter().flatten().collect()
}

/// A case that fails by panicking.
fn case(name: &'static str, run: fn()) -> Case<'static> {
    Case::new(name, move || {
        run();
        Verdict::Passed
    })
}
