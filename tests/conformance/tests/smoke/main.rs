//! The shortest proof that harness and agents work together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::ExitCode;
use std::time::Duration;

use conformance::{ControlPlane, Kit, Options, Upstream, User, paths};
use model::{Family, Protocol};
use sandbox::{Outcome, address, probe};
use scenarios::directory::{MAIN_PORT, NODE, ZONE, address_of, node_of};
use scenarios::packets::Ground;
use scenarios::world::{Range, address_in};
use scenarios::{Case, EndpointManifest, Report, ServiceManifest, SliceManifest, Variant, Verdict, manifest};

const SOON: Duration = Duration::from_secs(20);
const NUMBER: u16 = 99;

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let kit = if report.is_list_only() { Err(Verdict::Passed) } else { Kit::find() };
    let name = "a service created through the API is programmed, by upstream's kube-proxy";
    let case = Case::new(name, || match &kit {
        Ok(kit) => programmed_by_upstream(kit),
        Err(verdict) => verdict.clone(),
    });
    report.run(&[case], 1);
    report.finish()
}

fn programmed_by_upstream(kit: &Kit) -> Verdict {
    let ground = Ground::new().unwrap();
    let node = &ground.sandbox.node;
    let started = std::time::Instant::now();
    let plane = ControlPlane::start(kit, node, &Options::default()).unwrap();
    println!("the control plane was ready after {:.1} s", started.elapsed().as_secs_f64());
    let node_object = manifest::node(NODE, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
    plane.api().create(paths::NODES, &node_object).unwrap();
    let kubeconfig = plane.kubeconfig(User::PROXY).unwrap();
    let flags = Upstream::flags(Variant::ClusterCidr);
    let upstream = Upstream::start(&kit.upstream, node, &kubeconfig, NODE, &flags, plane.folder()).unwrap();

    create_service(&plane);
    for family in Family::BOTH {
        let to = std::net::SocketAddr::new(address_in(Range::Cluster, NUMBER, family), 80);
        let guest = &ground.sandbox.pod("guest").unwrap().namespace;
        let mut outcome = Outcome::TimedOut;
        let answered = scenarios::wait_until(SOON, || {
            outcome = probe::tcp(guest, None, to, Duration::from_secs(1));
            outcome.by() == Some("a")
        });
        assert!(answered, "{to}: {outcome:?}\n{}", upstream.daemon().log());
    }
    Verdict::Passed
}

fn create_service(plane: &ControlPlane) {
    let ips = Family::BOTH.map(|family| address_in(Range::Cluster, NUMBER, family));
    let service = ServiceManifest::new("smoke", &ips).port("main", Protocol::Tcp, 80, 0);
    plane.api().create(paths::SERVICES, &service.to_json()).unwrap();
    for family in Family::BOTH {
        let endpoint = EndpointManifest::new(address_of("a", family), node_of("a"));
        let slice = SliceManifest::new("smoke", "1", family).port("main", Protocol::Tcp, MAIN_PORT);
        plane.api().create(paths::SLICES, &slice.endpoint(&endpoint).to_json()).unwrap();
    }
}
