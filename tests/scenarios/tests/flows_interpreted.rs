//! The table of packet flows against the rules of every mode, under every variant of the settings. Needs no
//! privilege.

use std::process::ExitCode;

use cluster::ClusterState;
use model::Family;
use test_support::flows::{self, Flow, judge::judge};
use test_support::interpreted::{Walks, load, program};
use test_support::modes::{InMode, for_each_simulated};
use test_support::simulated::{Rules, Simulated};
use test_support::world::World;
use test_support::{Case, ManifestFolder, Report, SettingsVariant, Verdict};

fn main() -> ExitCode {
    let world = World::new();
    let folder = ManifestFolder::create();
    world.write_to(&folder);
    let mut table = Table { report: Report::from_args(), state: load(&folder), world };
    for_each_simulated(&mut table);
    table.report.finish()
}

struct Table {
    report: Report,
    world: World,
    state: ClusterState,
}

impl InMode for Table {
    fn run<B: Simulated + 'static>(&mut self) {
        let flows = flows::of(B::CARRIER);
        for variant in B::CARRIER.variants() {
            let rules = program::<B>(&self.state, *variant);
            let cases: Vec<Case<'_>> =
                flows.iter().flat_map(|flow| cases::<B>(flow, *variant, &rules, &self.world)).collect();
            self.report.run(&cases, 2);
        }
    }
}

fn cases<'a, B: Simulated>(
    flow: &'a Flow,
    variant: SettingsVariant,
    rules: &'a Rules,
    world: &'a World,
) -> impl Iterator<Item = Case<'a>> {
    flow.families.iter().map(move |family| {
        let name = format!("{}, {}: {}", B::CARRIER.mode(), variant.name(), flow.name(*family));
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
