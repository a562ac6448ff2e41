//! The shortest proof that harness and proxies work together, with streaming lists and without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use conformance::{ControlPlane, Kit, Options, Running, paths};
use model::{Family, Protocol};
use sandbox::{Outcome, address, probe};
use scenarios::directory::{MAIN_PORT, NODE, ZONE, address_of, node_of};
use scenarios::packets::Ground;
use scenarios::world::{Range, address_in};
use scenarios::{
    Case, EndpointManifest, Report, ServiceManifest, SliceManifest, Variant, Verdict, manifest, wait_until,
};

const SOON: Duration = Duration::from_secs(20);
const NUMBER: u16 = 99;

type Start = fn(&Kit, &ControlPlane, &sandbox::Namespace, Variant) -> Result<Running, String>;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let kit = if report.is_list_only() { Err(Verdict::Passed) } else { Kit::find() };
    let proxies: [(&str, Start); 2] = [("us", Running::ours), ("upstream", Running::upstream)];
    let mut cases = Vec::new();
    for (who, start) in proxies {
        for streaming_lists in [true, false] {
            let how = if streaming_lists { "granted" } else { "refused" };
            let name =
                format!("a service created through the API is programmed by {who}, streaming lists {how}");
            let kit = &kit;
            cases.push(Case::new(name, move || match kit {
                Ok(kit) => programmed(kit, start, streaming_lists),
                Err(verdict) => verdict.clone(),
            }));
        }
    }
    report.run(&cases, 1);
    report.finish()
}

fn programmed(kit: &Kit, start: Start, streaming_lists: bool) -> Verdict {
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
    create_service(&plane, NUMBER);
    let proxy = start(kit, &plane, node, Variant::ClusterCidr).unwrap();
    create_service(&plane, NUMBER + 1);
    for number in [NUMBER, NUMBER + 1] {
        Family::BOTH.into_iter().for_each(|family| await_answer(&ground, number, family, &proxy));
    }
    Verdict::Passed
}

/// The server does as it was told.
fn expect_streaming(plane: &ControlPlane, granted: bool) {
    let wish = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let answer = plane.api().text(&format!("{}?{wish}&allowWatchBookmarks=true", paths::SERVICES));
    assert_eq!(answer.is_ok(), granted, "{answer:?}");
}

fn await_answer(ground: &Ground, number: u16, family: Family, proxy: &Running) {
    let to = SocketAddr::new(address_in(Range::Cluster, number, family), 80);
    let guest = &ground.sandbox.pod("guest").unwrap().namespace;
    let mut outcome = Outcome::TimedOut;
    let answered = wait_until(SOON, || {
        outcome = probe::tcp(guest, None, to, Duration::from_secs(1));
        outcome.by() == Some("a")
    });
    assert!(answered, "{to}: {outcome:?}\n{}", proxy.log());
}

fn create_service(plane: &ControlPlane, number: u16) {
    let name = format!("smoke-{number}");
    let ips = Family::BOTH.map(|family| address_in(Range::Cluster, number, family));
    let service = ServiceManifest::new(&name, &ips).port("main", Protocol::Tcp, 80, 0);
    plane.api().create(paths::SERVICES, &service.to_json()).unwrap();
    for family in Family::BOTH {
        let endpoint = EndpointManifest::new(address_of("a", family), node_of("a"));
        let slice = SliceManifest::new(&name, "1", family).port("main", Protocol::Tcp, MAIN_PORT);
        plane.api().create(paths::SLICES, &slice.endpoint(&endpoint).to_json()).unwrap();
    }
}
