//! The table of packet flows while its world is in the API of a real control plane: asked of our agent, and of
//! upstream's kube-proxy, which holds the table itself to the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod differences;
mod proxy;
mod scene;

use std::process::ExitCode;

use conformance_support::{Kit, release};
use test_support::flows::{self, Flow};
use test_support::packets::table::{AT_ONCE, asked_in, cases, name};
use test_support::world::World;
use test_support::{Report, SettingsVariant, Verdict};

use proxy::Proxy;
use scene::Scene;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    if report.is_list_only() {
        return report.finish();
    }
    let kit = Kit::find();
    for proxy in Proxy::ALL {
        let is_for_it = if proxy == Proxy::Upstream { release::is_reference() } else { Ok(()) };
        match kit.as_ref().map_err(Clone::clone).and_then(|kit| is_for_it.map(|()| kit)) {
            Ok(kit) => ask(&mut report, kit, proxy),
            Err(verdict) => report.count(&format!("flows of {}", proxy.name()), verdict),
        }
    }
    report.finish()
}

fn ask(report: &mut Report, kit: &Kit, proxy: Proxy) {
    let (world, flows) = (World::new(), flows::all());
    let wanted: Vec<SettingsVariant> =
        SettingsVariant::ALL.into_iter().filter(|v| wants(report, proxy, *v, &flows)).collect();
    if wanted.is_empty() {
        return;
    }
    let scene = match Scene::set(kit, &world) {
        Ok(scene) => scene,
        Err(problem) => {
            return report.count(&format!("the scene of {}", proxy.name()), Verdict::Failed(problem));
        }
    };
    report.count(&format!("the world of {} is in the API", proxy.name()), scene.verdict());
    if proxy == Proxy::Upstream {
        differences::lines().for_each(|line| println!("{line}"));
    }
    for variant in wanted {
        if let Err(problem) = ask_in(report, &scene, kit, proxy, variant, &world, &flows) {
            let name = format!("{}: {}", proxy.name(), variant.name());
            report.count(&name, Verdict::Failed(problem));
        }
    }
}

fn wants(report: &Report, proxy: Proxy, variant: SettingsVariant, flows: &[Flow]) -> bool {
    let full = |flow, family| format!("{}: {}", proxy.name(), name(variant, flow, family));
    asked_in(variant, flows).iter().any(|(flow, family)| report.wants(&full(flow, *family)))
}

fn ask_in(
    report: &mut Report,
    scene: &Scene,
    kit: &Kit,
    proxy: Proxy,
    variant: SettingsVariant,
    world: &World,
    flows: &[Flow],
) -> Result<(), String> {
    scene.clear()?;
    let mut running = proxy.start(kit, scene, variant)?;
    let review = |flow: &Flow, verdict| proxy.review(flow, verdict);
    let asked = asked_in(variant, flows);
    let prefix = format!("{}: ", proxy.name());
    let failed_before = report.failures();
    report.run(&cases(&prefix, &scene.ground, world, variant, &asked, &review), AT_ONCE);
    if report.failures() > failed_before {
        println!("the log of {}, {}:\n{}", proxy.name(), variant.name(), running.log());
    }
    running.stop()
}
