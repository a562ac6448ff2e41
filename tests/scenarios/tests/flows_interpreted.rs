//! The table of packet flows against the rules, under every variant of the settings. Needs no privilege.

use std::process::ExitCode;

use kernel::nft::simulate::Simulator;
use model::Family;
use scenarios::flows::{self, Flow, judge::judge};
use scenarios::interpreted::{Walks, load, program};
use scenarios::world::World;
use scenarios::{Case, ManifestFolder, Report, Variant, Verdict};

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let world = World::new();
    let folder = ManifestFolder::create();
    world.write_to(&folder);
    let state = load(&folder);
    let flows = flows::all();
    for variant in Variant::ALL {
        let simulator = program(&state, variant);
        let cases: Vec<Case<'_>> =
            flows.iter().flat_map(|flow| cases(flow, variant, &simulator, &world)).collect();
        report.run(&cases, 2);
    }
    report.finish()
}

fn cases<'a>(
    flow: &'a Flow,
    variant: Variant,
    simulator: &'a Simulator,
    world: &'a World,
) -> impl Iterator<Item = Case<'a>> {
    flow.families.iter().map(move |family| {
        let name = format!("{}: {}", variant.name(), flow.name(*family));
        Case::new(name, move || ask(flow, variant, simulator, world, *family))
    })
}

fn ask(flow: &Flow, variant: Variant, simulator: &Simulator, world: &World, family: Family) -> Verdict {
    let mut walks = Walks::new(simulator, world, flow, family);
    match judge(flow, variant, family, &mut walks) {
        Ok(()) => Verdict::Passed,
        Err(problem) => Verdict::Failed(format!("{problem}\n    {}", walks.trace.join("\n    "))),
    }
}
