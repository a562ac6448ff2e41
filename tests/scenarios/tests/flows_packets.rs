//! The table of packet flows against the real binary and the real kernel, in network namespaces, in every mode: all of
//! it under the base settings, and under each variant the flows that it changes; or a sample of it. What the agent explains
//! of each flow must say the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use model::Family;
use test_support::flows::{self, Flow, explained};
use test_support::packets::Rig;
use test_support::packets::table::{AT_ONCE, Asked, SAMPLE, asked_in, cases, name, sampled};
use test_support::world::World;
use test_support::{Carrier, Case, Report, SOON, SettingsVariant, Verdict, binary, wait_until};

/// Behind the name of a flow.
const EXPLAINED: &str = ", explained";
/// Fewer than may wait for an answer.
const EXPLAINED_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    // Before any thread is started: a process of several threads cannot enter a user namespace.
    let binary = binary::kube_proxy();
    let privilege = kernel::netns::acquire();
    let world = World::new();
    for carrier in Carrier::ALL {
        let flows = flows::of(carrier);
        let met = Mutex::default();
        for variant in carrier.variants().iter().copied() {
            let asked = match sampled(asked_in(variant, &flows)) {
                Ok(asked) => asked,
                Err(problem) => {
                    report.count("sample", Verdict::Failed(problem));
                    return report.finish();
                }
            };
            let part = Part { carrier, variant, asked, met: &met };
            if !part.is_wanted(&report) {
                continue;
            }
            match (&privilege, &binary, carrier.obstacle()) {
                (Err(denied), ..) => part.give_up(&mut report, &Verdict::Skipped(denied.to_string())),
                (_, Err(problem), _) => part.give_up(&mut report, &Verdict::Failed(problem.clone())),
                (.., Some(obstacle)) => part.give_up(&mut report, &Verdict::Skipped(obstacle)),
                (Ok(_), Ok(binary), None) => part.run(&mut report, &world, binary),
            }
        }
        every_reason(&mut report, carrier, &met);
    }
    report.finish()
}

/// Behind the name of a mode.
const EVERY_REASON: &str = "every reason that can be given is met";

/// No reason is given that no packet was sent for.
fn every_reason(report: &mut Report, carrier: Carrier, met: &Mutex<BTreeSet<String>>) {
    let name = format!("{}, {EVERY_REASON}", carrier.name());
    if !report.wants(&name) || report.is_list_only() {
        return;
    }
    let met = met.lock().unwrap_or_else(PoisonError::into_inner);
    let is_whole = report.wants("") && std::env::var_os(SAMPLE).is_none();
    let missing: Vec<&str> =
        explained::to_be_met(carrier).into_iter().filter(|reason| !met.contains(*reason)).collect();
    report.count(
        &name,
        match (carrier.obstacle(), is_whole, missing.is_empty()) {
            (Some(obstacle), ..) => Verdict::Skipped(obstacle),
            (_, false, _) => {
                Verdict::Skipped(format!("only a part of the table was asked, without {missing:?}"))
            }
            (.., true) => Verdict::Passed,
            (.., false) => Verdict::Failed(format!("never met: {missing:?}")),
        },
    );
}

/// The table as it is asked of one mode under one variant of the settings.
struct Part<'a> {
    carrier: Carrier,
    variant: SettingsVariant,
    asked: Asked<'a>,
    /// The reasons that were given so far.
    met: &'a Mutex<BTreeSet<String>>,
}

impl<'a> Part<'a> {
    fn prefix(&self) -> String {
        format!("{}, ", self.carrier.name())
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.asked.iter().flat_map(|(flow, family)| {
            let name = format!("{}{}", self.prefix(), name(self.variant, flow, *family));
            [name.clone(), format!("{name}{EXPLAINED}")]
        })
    }

    fn is_wanted(&self, report: &Report) -> bool {
        self.names().any(|name| report.wants(&name))
    }

    fn give_up(&self, report: &mut Report, verdict: &Verdict) {
        let case = |name| {
            let verdict = verdict.clone();
            Case::new(name, move || verdict.clone())
        };
        report.run(&self.names().map(case).collect::<Vec<_>>(), 1);
    }

    /// The agent says of a flow what became of its packets.
    fn explained(&self, flow: &'a Flow, family: Family, rig: &'a Rig, world: &'a World) -> Case<'a> {
        let (variant, met) = (self.variant, self.met);
        let name = format!("{}{}{EXPLAINED}", self.prefix(), name(variant, flow, family));
        Case::new(name, move || {
            let path = explained::path(flow, world, family);
            let mut page = String::new();
            // A machine that is slow enough makes the agent ask for patience.
            wait_until(SOON, || {
                page = rig.agent.page(&path).unwrap_or_default();
                !page.contains("try again later")
            });
            met.lock().unwrap_or_else(PoisonError::into_inner).extend(explained::met(&page));
            match explained::judge(flow, variant, &page) {
                Ok(()) => Verdict::Passed,
                Err(problem) => Verdict::Failed(problem),
            }
        })
    }

    fn run(&self, report: &mut Report, world: &World, binary: &Path) {
        let rig = match Rig::start(binary, world, self.carrier, self.variant) {
            Ok(rig) => rig,
            Err(problem) => return self.give_up(report, &Verdict::Failed(problem)),
        };
        let failed_before = report.failures();
        let cases = cases(&self.prefix(), &rig, world, self.variant, &self.asked, &|_, verdict| verdict);
        report.run(&cases, AT_ONCE);
        let explained: Vec<Case<'_>> =
            self.asked.iter().map(|&(flow, family)| self.explained(flow, family, &rig, world)).collect();
        report.run(&explained, EXPLAINED_AT_ONCE);
        if report.failures() > failed_before {
            let (carrier, variant) = (self.carrier.name(), self.variant.name());
            println!("the log of kube-proxy, {carrier}, {variant}:\n{}", rig.agent.log());
        }
    }
}
