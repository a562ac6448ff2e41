//! The node's rules through one variant's tools, as another program would use them.

use std::net::SocketAddr;

use model::{Family, Protocol};
use test_support::{Carrier, tools};

use super::super::churn::crowd_ip;
use super::super::places::at_cluster_ip;
use super::super::rig::{Damage, Destinations, OfUpstream, Rig};
use super::super::stage::Stage;
use super::rules::Rules;
use super::upstream;

pub(crate) struct IptablesRig;

impl Rig for IptablesRig {
    fn destinations(&self, stage: &Stage, family: Family) -> Destinations {
        stage.tables(family).destinations()
    }

    fn bundled(&self) -> &'static [&'static str] {
        &["iptables-save.txt", "ip6tables-save.txt"]
    }

    fn rules(&self, stage: &Stage, family: Family) -> Vec<String> {
        let rules = stage.tables(family).comparable().lines();
        // Of a kubelet are others.
        let is_ours =
            |line: &String| line.contains("KUBE-") && !line.starts_with("mangle KUBE-IPTABLES-HINT");
        rules.into_iter().filter(is_ours).collect()
    }

    fn damages(&self, stage: &Stage, family: Family) -> Vec<Damage> {
        let rules = stage.tables(family);
        let service = rules.service_chain(at_cluster_ip(2, family)).unwrap().to_owned();
        let branch = rules.leaf(SocketAddr::new(crowd_ip(0, family), 80)).unwrap().0.to_owned();
        assert!(branch.starts_with("KUBE-SVC-"), "no tree, but {branch}");
        let last = rules.chain("nat", "KUBE-POSTROUTING").len();
        let other = format!("{}", SocketAddr::new(stage.address("d", family), 8080));
        let run = |what, commands: &[String]| commands_of(what, family, commands);
        let nat = |what, command: String| run(what, &[format!("-t nat {command}")]);
        let filter = |what, command: &str| run(what, &[format!("-t filter {command}")]);
        let flush = ["-t nat -F", "-t filter -F"].map(str::to_owned);
        let delete = ["-t nat -X", "-t filter -X"].map(str::to_owned);
        vec![
            run("all rules flushed", &flush),
            run("all rules and chains gone", &[flush.clone(), delete].concat()),
            nat("a service's rule removed", format!("-D {service} 2")),
            nat("the root's rule removed", "-D KUBE-SERVICES 1".to_owned()),
            nat("a branch's rule removed", format!("-D {branch} 1")),
            nat("masquerade removed", format!("-D KUBE-POSTROUTING {last}")),
            // Of another size than the rule that was there.
            nat(
                "a rule replaced",
                format!("-R {service} 2 -p tcp -m comment --comment x -j DNAT --to-destination {other}"),
            ),
            nat("a rule added", format!("-I {service} -j RETURN")),
            filter("a rule added to filter", "-A KUBE-SERVICES -p tcp -j DROP"),
            nat("the way in removed", "-D PREROUTING 1".to_owned()),
            filter("the way into filter removed", "-D FORWARD 1"),
            filter("a chain of filter flushed", "-F KUBE-FORWARD"),
            nat("the canary removed", "-X KUBE-PROXY-CANARY".to_owned()),
        ]
    }

    fn slight_damage(&self, family: Family) -> Damage {
        commands_of("a chain of filter flushed", family, &["-t filter -F KUBE-FORWARD".to_owned()])
    }

    fn grave_damages(&self) -> Vec<Damage> {
        let flush = ["-t nat -F", "-t filter -F"].map(str::to_owned);
        vec![
            commands_of("all rules of IPv6 flushed", Family::V6, &flush),
            Damage::new("all rules flushed", move |stage| {
                Family::BOTH
                    .into_iter()
                    .for_each(|family| drop(flush.each_ref().map(|of| stage.run(family, of))));
            }),
        ]
    }

    /// Each look that finds damage makes the next one come later, up to this.
    fn steady(&self) -> &'static [&'static str] {
        &["--iptables-sync-period=1s"]
    }

    fn tells_of_damage(&self, line: &str) -> bool {
        line.contains("Another process changed our rules")
    }

    fn write_as_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) {
        stage.restore(family, &upstream::rules(stage, family, services));
    }

    /// Services keep the name of their chain; nothing else of it stays.
    fn left_of_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) -> Vec<String> {
        let rules = stage.tables(family);
        let is_left = |name: &&str| name.starts_with("KUBE-SEP-") || name.contains("STALE");
        let mut left: Vec<String> =
            rules.service_chains().into_iter().filter(is_left).map(str::to_owned).collect();
        for OfUpstream { name, number, .. } in services {
            let chain = upstream::chain("KUBE-SVC-", &format!("default/{name}:maintcp"));
            let found = rules.service_chain(at_cluster_ip(*number, family));
            if found != Some(chain.as_str()) {
                left.push(format!("{found:?} instead of {chain}"));
            }
        }
        left
    }

    fn rounds(&self, of_transactions: u16) -> u16 {
        of_transactions.div_ceil(4)
    }
}

fn commands_of(what: &'static str, family: Family, commands: &[String]) -> Damage {
    let commands = commands.to_vec();
    Damage::new(what, move |stage| commands.iter().for_each(|command| drop(stage.run(family, command))))
}

impl Stage {
    /// With the service `web` of number 1, served by these pods, and the agent over it.
    pub(super) fn with_web(carrier: Carrier, pods: &[&str], flags: &[&str]) -> Stage {
        let mut stage = Stage::of(carrier);
        stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
        stage.put_endpoints("web", Protocol::Tcp, pods);
        stage.start_with(flags);
        stage
    }

    /// `iptables ARGUMENTS`, as another program runs it on the node; they are separated by spaces.
    pub(super) fn run(&self, family: Family, arguments: &str) -> String {
        let words: Vec<&str> = arguments.split(' ').collect();
        self.tool(family, "", &words, "").unwrap_or_else(|why| panic!("{why}"))
    }

    /// What `iptables-save` prints, counters included where asked for.
    pub(super) fn save(&self, family: Family, arguments: &[&str]) -> String {
        self.tool(family, "-save", arguments, "").unwrap_or_else(|why| panic!("{why}"))
    }

    pub(super) fn restore(&self, family: Family, script: &str) {
        let arguments = ["--noflush", "--counters", "-w", "5"];
        self.tool(family, "-restore", &arguments, script).unwrap_or_else(|why| panic!("{why}\n{script}"));
    }

    fn tool(&self, family: Family, kind: &str, arguments: &[&str], input: &str) -> Result<String, String> {
        let tool = self.carrier.tool(family == Family::V6, kind);
        tools::run(&self.sandbox.node, &self.folder.lock(), &tool, arguments, input)
    }

    pub(super) fn tables(&self, family: Family) -> Rules {
        Rules::read(&self.save(family, &[]))
    }
}
