//! The table of packet flows against the rules of every mode, under every variant of the settings. Needs no
//! privilege.

use std::process::ExitCode;

use cluster::ClusterState;
use dataplane::iptables::Iptables;
use dataplane::nftables::Nftables;
use model::Family;
use scenarios::flows::{self, Flow, judge::judge};
use scenarios::interpreted::{Walks, load, program};
use scenarios::simulated::{Rules, Simulated};
use scenarios::world::World;
use scenarios::{Case, ManifestFolder, Report, SettingsVariant, Verdict};

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let world = World::new();
    let folder = ManifestFolder::create();
    world.write_to(&folder);
    let state = load(&folder);
    in_mode::<Nftables<simulate::nft::Simulator>>(&mut report, &world, &state, &SettingsVariant::ALL);
    in_mode::<Iptables<simulate::iptables::Simulator>>(
        &mut report,
        &world,
        &state,
        &SettingsVariant::OF_EVERY_MODE,
    );
    report.finish()
}

fn in_mode<B: Simulated>(
    report: &mut Report,
    world: &World,
    state: &ClusterState,
    variants: &[SettingsVariant],
) {
    let flows = flows::all();
    for variant in variants {
        let rules = program::<B>(state, *variant);
        let cases: Vec<Case<'_>> =
            flows.iter().flat_map(|flow| cases::<B>(flow, *variant, &rules, world)).collect();
        report.run(&cases, 2);
    }
}

fn cases<'a, B: Simulated>(
    flow: &'a Flow,
    variant: SettingsVariant,
    rules: &'a Rules,
    world: &'a World,
) -> impl Iterator<Item = Case<'a>> {
    flow.families.iter().map(move |family| {
        let name = format!("{}, {}: {}", B::MODE, variant.name(), flow.name(*family));
        Case::new(name, move || ask(flow, variant, rules, world, *family))
    })
}

fn ask(flow: &Flow, variant: SettingsVariant, rules: &Rules, world: &World, family: Family) -> Verdict {
    let mut walks = Walks::new(rules, world, flow, family);
    match judge(flow, variant, family, &mut walks) {
        Ok(()) => Verdict::Passed,
        Err(problem) => Verdict::Failed(format!("{problem}\n    {}", walks.trace.join("\n    "))),
    }
}
