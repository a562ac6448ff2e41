//! From our agent to upstream's kube-proxy and back, both in mode iptables with the same variant of its tools, under
//! traffic.

use std::process::Command;

use conformance_support::log::end_of;
use conformance_support::{Service, Traffic, User};
use model::Family;
use sandbox::probe;
use test_support::netstat::sent_again;
use test_support::node_agent::lock_beside;
use test_support::{ANSWER, Carrier, SOON, patient, tools, wait_until};

use crate::handover::use_every_set;
use crate::world::World;

/// Enough for trees, in each of the tables.
const CROWD: u16 = 20;

pub(crate) fn legacy(world: &mut World) {
    there_and_back(world, Carrier::IptablesLegacy);
}

pub(crate) fn nft(world: &mut World) {
    there_and_back(world, Carrier::IptablesNft);
}

fn there_and_back(world: &World, carrier: Carrier) {
    let rules = Rules { world, carrier };
    rules.prepare();
    let names: Vec<String> = (0..CROWD).map(|number| format!("crowd-{number}")).collect();
    let crowd: Vec<Service<'_>> =
        (120..).zip(&names).map(|(number, name)| Service::tcp(name, number)).collect();
    crowd.iter().for_each(|service| world.create(*service, "c"));
    let [steady, full, sticky] = [
        Service::tcp("steady-iptables", 63),
        Service::tcp("full-iptables", 64),
        Service::tcp("sticky-iptables", 65),
    ];
    world.create(steady, "a");
    world.create(full, "a");
    use_every_set(world, full);
    let pinned = sticky.manifest().with("sessionAffinity", "ClientIP");
    sticky.create_as(world.api(), &pinned);
    sticky.serve_by(world.api(), &["a", "b", "c"]);

    let mut ours = rules.ours("iptables-from");
    world.await_answer(steady, "a");
    world.await_answer(full, "a");
    let pin = || Family::BOTH.map(|family| rules.ask(sticky, family));
    let first = pin();
    // A client of this one service alone: of two services with the same pods one may get a port that the other's
    // finished connection still has, and conntrack drops the first packet then, whichever proxy steers it.
    let client = &world.ground.sandbox.client;
    let lost = sent_again(client);
    let traffic = Traffic::start(client, Family::BOTH.map(|family| steady.at(family)));
    traffic.go_on(50);
    ours.stop().unwrap();
    assert!(
        rules.branches().iter().any(|name| name.starts_with("KUBE-SVC-10.")),
        "no trees: {:?}",
        rules.branches()
    );

    let mut upstream = world.upstream_as(carrier);
    traffic.go_on(50);
    for service in [steady, full] {
        world.point_at(service, "b");
        world.await_answer(service, "b");
    }
    assert_eq!(pin(), first, "upstream forgot who is pinned where");
    // It goes on: what comes is served, what goes is removed, and with it what we left.
    let late = Service::tcp("late-iptables", 66);
    world.create(late, "a");
    let is_written = || rules.saved().iter().all(|text| text.contains("late-iptables:tcp cluster IP"));
    // To ask before would lose packets without anyone's fault.
    assert!(wait_until(SOON, is_written), "upstream does not write a new service");
    world.await_answer(late, "a");
    world.delete(late);
    let is_left = |name: &str| rules.saved().iter().any(|text| text.contains(name));
    assert!(wait_until(SOON, || !is_left("late-iptables")), "upstream does not remove a service");
    assert!(wait_until(SOON, || rules.branches().is_empty()), "of ours are left {:?}", rules.branches());
    let log = upstream.daemon().log();
    for words in ["Failed to execute iptables", "Sync failed"] {
        assert!(!log.contains(words), "upstream cannot write over our rules:\n{}", end_of(&log));
    }
    upstream.stop().unwrap();

    let mut ours = rules.ours("iptables-to");
    traffic.go_on(50);
    world.point_at(steady, "a");
    world.await_answer(steady, "a");
    assert_eq!(pin(), first, "we forgot who is pinned where");
    let asked = traffic.finish();
    assert_eq!(sent_again(client), lost, "first packets were lost, in {asked} connections");
    println!("{}: {asked} connections during two handovers, none failed", carrier.name());
    assert!(!is_left(":KUBE-SEP-"), "chains of upstream are left");
    ours.stop().unwrap();
    for service in crowd.into_iter().chain([steady, full, sticky]) {
        world.delete(service);
    }
    rules.clean();
}

/// One variant's rules on the node.
struct Rules<'a> {
    world: &'a World,
    carrier: Carrier,
}

impl Rules<'_> {
    fn run(&self, tool: &str, arguments: &[&str]) -> Result<String, String> {
        let lock = lock_beside(&self.world.log_of("any"));
        tools::run(&self.world.ground.sandbox.node, &lock, tool, arguments, "")
    }

    /// The kubelet uses this variant, whatever an earlier case left.
    fn prepare(&self) {
        let (node, lock) = (&self.world.ground.sandbox.node, lock_beside(&self.world.log_of("any")));
        for other in Carrier::ALL {
            // Most often there is none.
            let _ = other.unprepare(node, &lock);
        }
        self.carrier.prepare(node, &lock).unwrap();
    }

    fn ours(&self, case: &str) -> test_support::NodeAgent {
        let kubeconfig = self.world.plane.kubeconfig(User::PROXY).unwrap();
        let flags = self.carrier.flags();
        self.world.agent_with(case, &kubeconfig, &flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Who answers a client with affinity.
    fn ask(&self, service: Service<'_>, family: Family) -> String {
        let outcome = probe::tcp(self.world.guest(), None, service.at(family), patient(ANSWER));
        outcome.by().unwrap_or_else(|| panic!("{} {family}: {outcome:?}", service.name)).to_owned()
    }

    /// All tables, by family.
    fn saved(&self) -> [String; 2] {
        [false, true].map(|is_ipv6| self.run(&self.carrier.tool(is_ipv6, "-save"), &[]).unwrap())
    }

    /// Chains in nat that upstream would take for those of services, and which are none: their names end in no hash.
    fn branches(&self) -> Vec<String> {
        let is_hash =
            |end: &str| end.len() == 16 && end.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
        let of_text = |text: String| -> Vec<String> {
            let nat = text.split_once("*nat\n").map_or("", |(_, rest)| rest);
            let nat = nat.split_once("COMMIT").map_or("", |(nat, _)| nat);
            let names = nat.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
            let branches =
                names.filter(|name| name.strip_prefix("KUBE-SVC-").is_some_and(|end| !is_hash(end)));
            branches.map(str::to_owned).collect()
        };
        self.saved().into_iter().flat_map(of_text).collect()
    }

    fn clean(&self) {
        let mut command = Command::new(self.world.kube_proxy());
        command.arg("--cleanup").env("XTABLES_LOCKFILE", lock_beside(&self.world.log_of("any")));
        self.world.ground.sandbox.node.enter(&mut command).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let left = |text: &String| text.lines().any(|line| line.starts_with(":KUBE-S"));
        assert!(!self.saved().iter().any(left), "{:?}", self.saved());
        self.run(&self.carrier.tool(false, ""), &["-t", "mangle", "-X", "KUBE-IPTABLES-HINT"]).unwrap();
    }
}
