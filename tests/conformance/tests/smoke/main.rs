//! The shortest proof that harness and proxies work together, with streaming lists and without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use conformance_support::site::SOON;
use conformance_support::{ControlPlane, Kit, Options, Running, Service, paths};
use model::Family;
use sandbox::{Outcome, address, probe};
use test_support::directory::{NODE, ZONE};
use test_support::packets::Ground;
use test_support::{ANSWER, Report, SettingsVariant, manifest, patient, wait_until};

type Start = fn(&Kit, &ControlPlane, &sandbox::Namespace, SettingsVariant) -> Result<Running, String>;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let kit = Kit::find_for(&report);
    let proxies: [(&str, Start); 2] = [("us", Running::ours), ("upstream", Running::upstream)];
    let mut cases = Vec::new();
    for (who, start) in proxies {
        for streaming_lists in [true, false] {
            let how = if streaming_lists { "granted" } else { "refused" };
            let name =
                format!("a service created through the API is programmed by {who}, streaming lists {how}");
            cases.push(conformance_support::case(name, &kit, move |kit| {
                programmed(kit, start, streaming_lists)
            }));
        }
    }
    report.run(&cases, 1);
    report.finish()
}

fn programmed(kit: &Kit, start: Start, streaming_lists: bool) {
    let ground = Ground::new().unwrap();
    let node = &ground.sandbox.node;
    let started = Instant::now();
    let options = Options { streaming_lists, ..Options::default() };
    let plane = ControlPlane::start(kit, node, &options).unwrap();
    println!("the control plane was ready after {:.1} s", started.elapsed().as_secs_f64());
    expect_streaming(&plane, streaming_lists);
    let node_object = manifest::node(NODE, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
    plane.api().create(paths::NODES, &node_object).unwrap();
    // One service is there when the proxy lists, the other one comes by its watch.
    let [listed, watched] = [Service::tcp("listed", 99), Service::tcp("watched", 100)];
    create(&plane, listed);
    let proxy = start(kit, &plane, node, SettingsVariant::ClusterCidr).unwrap();
    create(&plane, watched);
    for service in [listed, watched] {
        Family::BOTH.into_iter().for_each(|family| await_answer(&ground, service.at(family), &proxy));
    }
}

/// The server does as configured.
fn expect_streaming(plane: &ControlPlane, granted: bool) {
    let wish = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let answer = plane.api().text(&format!("{}?{wish}&allowWatchBookmarks=true", paths::SERVICES));
    assert_eq!(answer.is_ok(), granted, "{answer:?}");
}

fn create(plane: &ControlPlane, service: Service<'_>) {
    service.create(plane.api());
    service.serve_by(plane.api(), &["a"]);
}

fn await_answer(ground: &Ground, to: SocketAddr, proxy: &Running) {
    let guest = &ground.sandbox.pod("guest").unwrap().namespace;
    let mut outcome = Outcome::TimedOut;
    let answered = wait_until(SOON, || {
        outcome = probe::tcp(guest, None, to, patient(ANSWER));
        outcome.by() == Some("a")
    });
    assert!(answered, "{to}: {outcome:?}\n{}", proxy.log());
}
