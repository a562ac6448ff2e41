//! The table of packet flows against the real binary and the real kernel, in network namespaces: all of it
//! under the base settings, and under each variant the flows that it changes.

use std::path::Path;
use std::process::ExitCode;

use model::{Family, Protocol};
use scenarios::flows::{self, Flow, judge::judge};
use scenarios::packets::{Calls, Rig, no_sctp};
use scenarios::world::World;
use scenarios::{Case, Report, Variant, Verdict, binary};

/// Most of them wait for silence.
const AT_ONCE: usize = 24;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    // Before any thread is started: a process of several threads cannot enter a user namespace.
    let binary = binary::kube_proxy();
    let privilege = kernel::netns::acquire();
    let world = World::new();
    let flows = flows::all();
    for variant in Variant::ALL {
        let asked = asked_in(variant, &flows);
        if asked.iter().all(|(flow, family)| !report.wants(&name(variant, flow, *family))) {
            continue;
        }
        match (&privilege, &binary) {
            (Err(denied), _) => give_up(&mut report, variant, &asked, &Verdict::Skipped(denied.to_string())),
            (_, Err(problem)) => give_up(&mut report, variant, &asked, &Verdict::Failed(problem.clone())),
            (Ok(_), Ok(binary)) => run(&mut report, variant, &asked, &world, binary),
        }
    }
    report.finish()
}

type Asked<'a> = Vec<(&'a Flow, Family)>;

fn asked_in(variant: Variant, flows: &[Flow]) -> Asked<'_> {
    let asked = flows.iter().filter(|flow| variant == Variant::ClusterCidr || flow.differs_in(variant));
    asked.flat_map(|flow| flow.families.iter().map(move |family| (flow, *family))).collect()
}

fn name(variant: Variant, flow: &Flow, family: Family) -> String {
    format!("{}: {}", variant.name(), flow.name(family))
}

fn give_up(report: &mut Report, variant: Variant, asked: &Asked<'_>, verdict: &Verdict) {
    let case = |(flow, family): &(&Flow, Family)| {
        let verdict = verdict.clone();
        Case::new(name(variant, flow, *family), move || verdict.clone())
    };
    report.run(&asked.iter().map(case).collect::<Vec<_>>(), 1);
}

fn run(report: &mut Report, variant: Variant, asked: &Asked<'_>, world: &World, binary: &Path) {
    let rig = match Rig::start(binary, world, variant) {
        Ok(rig) => rig,
        Err(problem) => return give_up(report, variant, asked, &Verdict::Failed(problem)),
    };
    let sctp = no_sctp();
    let cases: Vec<Case<'_>> = asked
        .iter()
        .map(|&(flow, family)| {
            let (rig, sctp) = (&rig, &sctp);
            Case::new(name(variant, flow, family), move || match flow.protocol {
                Protocol::Sctp => Verdict::Skipped(sctp.clone()),
                Protocol::Tcp | Protocol::Udp => ask(rig, world, flow, variant, family),
            })
        })
        .collect();
    let failed_before = report.failures();
    report.run(&cases, AT_ONCE);
    if report.failures() > failed_before {
        println!("the log of kube-proxy, {}:\n{}", variant.name(), rig.agent.log());
    }
}

fn ask(rig: &Rig, world: &World, flow: &Flow, variant: Variant, family: Family) -> Verdict {
    match judge(flow, variant, family, &mut Calls::new(rig, world, flow, variant, family)) {
        Ok(()) => Verdict::Passed,
        Err(problem) => Verdict::Failed(problem),
    }
}
