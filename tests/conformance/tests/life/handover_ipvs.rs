//! From upstream's kube-proxy to our agent and back, both in mode ipvs, under traffic. Skipped where the kernel has no
//! IPVS; in a virtual machine: `make test-vm`.

use std::path::PathBuf;
use std::process::Command;

use conformance_support::log::end_of;
use conformance_support::{Service, Traffic, User};
use model::Family;
use test_support::netstat::sent_again;
use test_support::node_agent::lock_beside;
use test_support::{Carrier, NodeAgent, SOON, tools, wait_until};

use crate::handover::use_every_set;
use crate::world::World;

/// What upstream's rules and sets are called, and nothing of ours.
const SIGN: &str = "KUBE-";

pub(crate) fn there_and_back(world: &mut World) {
    if let Some(why) = Carrier::Ipvs.obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let node = Node { world };
    let (steady, full) = (Service::tcp("steady-ipvs", 67), Service::tcp("full-ipvs", 68));
    for service in [steady, full] {
        world.create(service, "a");
    }
    use_every_set(world, full);

    let mut upstream = world.upstream_as(Carrier::Ipvs);
    for service in [steady, full] {
        world.await_answer(service, "a");
    }
    assert!(!node.servers().is_empty(), "upstream has no virtual server");
    assert!(!node.of_upstream().is_empty(), "no rules and sets of upstream are found");
    let client = &world.ground.sandbox.client;
    let lost = sent_again(client);
    let traffic = Traffic::start(client, Family::BOTH.map(|family| steady.at(family)));
    traffic.go_on(50);
    upstream.stop().unwrap();

    let mut ours = node.ours("ipvs-from-upstream");
    traffic.go_on(50);
    for service in [steady, full] {
        world.point_at(service, "b");
        world.await_answer(service, "b");
    }
    assert!(wait_until(SOON, || node.of_upstream().is_empty()), "left are {:?}", node.of_upstream());
    ours.stop().unwrap();

    let mut upstream = world.upstream_as(Carrier::Ipvs);
    traffic.go_on(50);
    for service in [steady, full] {
        world.point_at(service, "a");
        world.await_answer(service, "a");
    }
    let log = upstream.daemon().log();
    assert!(!log.contains("Failed to execute"), "upstream cannot write over our rules:\n{}", end_of(&log));
    upstream.stop().unwrap();

    // Once more in this direction: what we left at first is there beside what upstream made.
    let mut ours = node.ours("ipvs-from-upstream-again");
    traffic.go_on(50);
    world.point_at(steady, "b");
    world.await_answer(steady, "b");
    let asked = traffic.finish();
    assert_eq!(sent_again(client), lost, "first packets were lost, in {asked} connections");
    println!("{asked} connections during three handovers, none failed");
    ours.stop().unwrap();
    world.delete(steady);
    world.delete(full);
    node.clean();
}

struct Node<'a> {
    world: &'a World,
}

impl Node<'_> {
    fn ours(&self, case: &str) -> NodeAgent {
        let kubeconfig = self.world.plane.kubeconfig(User::PROXY).unwrap();
        let flags = Carrier::Ipvs.flags();
        self.world.agent_with(case, &kubeconfig, &flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// All virtual servers, as the kernel lists them.
    fn servers(&self) -> Vec<String> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/ip_vs").unwrap();
        let text = self.world.ground.sandbox.node.run(read);
        let is_server = |line: &&str| ["TCP ", "UDP ", "SCTP "].iter().any(|word| line.starts_with(word));
        text.lines().filter(is_server).map(str::to_owned).collect()
    }

    /// Rules of iptables and sets; the addresses on the device go with them.
    fn of_upstream(&self) -> Vec<String> {
        let listed =
            [("iptables-save", ""), ("ip6tables-save", ""), ("ipset", "list -n")].map(|(tool, words)| {
                let words: Vec<&str> = words.split_whitespace().collect();
                tools::run(&self.world.ground.sandbox.node, &self.lock(), tool, &words, "").unwrap()
            });
        let lines = listed.iter().flat_map(|text| text.lines());
        lines.filter(|line| line.contains(SIGN)).map(str::to_owned).collect()
    }

    fn lock(&self) -> PathBuf {
        lock_beside(&self.world.log_of("any"))
    }

    fn clean(&self) {
        let mut command = Command::new(self.world.kube_proxy());
        command.arg("--cleanup").env("XTABLES_LOCKFILE", self.lock());
        self.world.ground.sandbox.node.enter(&mut command).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let left = [self.servers(), self.of_upstream()].concat();
        assert!(left.is_empty(), "left are {left:?}");
    }
}
