//! A stage whose node is served by mode iptables, and one variant's tools as another program would use them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use model::{Family, Protocol};
use scenarios::{Carrier, carrier, wait_until};

use super::super::places::at_cluster_ip;
use super::super::stage::{From, POD_PORT, SOON, Stage};
use super::rules::Rules;

pub(super) struct Rig {
    pub(super) stage: Stage,
    pub(super) carrier: Carrier,
}

impl Deref for Rig {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut Stage {
        &mut self.stage
    }
}

impl Rig {
    /// Everything but the agent.
    pub(super) fn new(carrier: Carrier) -> Rig {
        let stage = Stage::new();
        carrier.prepare(&stage.sandbox.node, &stage.folder.lock()).unwrap();
        Rig { stage, carrier }
    }

    /// With the service `web` of number 1, served by these pods, and the agent over it.
    pub(super) fn with_web(carrier: Carrier, pods: &[&str], flags: &[&str]) -> Rig {
        let mut rig = Rig::new(carrier);
        rig.folder.put_service(&rig.service("web", 1, Protocol::Tcp));
        rig.put_endpoints("web", Protocol::Tcp, pods);
        rig.start(flags);
        rig
    }

    /// Start the agent in this mode; of a flag given twice the last one counts.
    pub(super) fn start(&mut self, flags: &[&str]) {
        self.start_by(&[], flags).unwrap_or_else(|why| panic!("{why}"));
    }

    pub(super) fn start_by(&mut self, launcher: &[String], flags: &[&str]) -> Result<(), String> {
        let own = self.carrier.flags();
        let all: Vec<&str> = own.iter().map(String::as_str).chain(flags.iter().copied()).collect();
        self.stage.start_by(launcher, &all)
    }

    /// `iptables ARGUMENTS`, as another program runs it on the node; they are separated by spaces.
    pub(super) fn try_run(&self, family: Family, arguments: &str) -> Result<String, String> {
        let words: Vec<&str> = arguments.split(' ').collect();
        self.tool(family, "", &words, "")
    }

    pub(super) fn run(&self, family: Family, arguments: &str) -> String {
        self.try_run(family, arguments).unwrap_or_else(|why| panic!("{why}"))
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
        carrier::run(&self.sandbox.node, &self.folder.lock(), &tool, arguments, input)
    }

    pub(super) fn rules(&self, family: Family) -> Rules {
        Rules::read(&self.save(family, &[]))
    }

    /// Wait until the rules of a cluster IP lead to just these pods: the change has reached traffic.
    pub(super) fn await_pods(&self, number: u8, family: Family, pods: &[&str]) {
        let wanted: BTreeSet<SocketAddr> =
            pods.iter().map(|pod| SocketAddr::new(self.address(pod, family), POD_PORT)).collect();
        let pool = || self.rules(family).pool(at_cluster_ip(number, family));
        assert!(await_that(SOON, || pool() == wanted), "{:?}, not {wanted:?}\n{}", pool(), self.log());
    }

    /// The same in both families.
    pub(super) fn await_pods_of(&self, number: u8, pods: &[&str]) {
        Family::BOTH.into_iter().for_each(|family| self.await_pods(number, family, pods));
    }

    /// Whether services of these numbers answer, in both families.
    pub(super) fn assert_answers(&self, numbers: &[u8], when: &str) {
        for (family, number) in
            Family::BOTH.into_iter().flat_map(|family| numbers.iter().map(move |n| (family, *n)))
        {
            let outcome = self.tcp(From::Guest, at_cluster_ip(number, family));
            assert!(
                outcome.by().is_some(),
                "service {number}, {family}, {when}: {outcome:?}\n{}",
                self.log()
            );
        }
    }

    pub(super) fn await_said(&self, words: &str) {
        self.await_said_within(SOON, words);
    }

    pub(super) fn await_said_within(&self, limit: Duration, words: &str) {
        assert!(await_that(limit, || self.log().contains(words)), "never said: {words}\n{}", self.log());
    }

    /// A series of the page of metrics, by its whole name.
    pub(super) fn metric(&mut self, series: &str) -> Option<f64> {
        let page = self.agent().metrics().unwrap_or_default();
        let line =
            page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
        line?.trim().parse().ok()
    }
}

/// Ask again until the condition holds. Not too often: most conditions run a tool.
pub(super) fn await_that(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let pause = Duration::from_millis(50);
    wait_until(limit, || {
        let holds = condition();
        if !holds {
            std::thread::sleep(pause);
        }
        holds
    })
}
