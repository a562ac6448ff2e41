//! A node of its own for an agent, with pods and clients around it, and what packets show there.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use model::Protocol;
use sandbox::{Namespace, Outcome, probe};
pub use test_support::SOON;
use test_support::packets::Ground;
use test_support::{ANSWER, NodeAgent, Source, patient, wait_until};

use crate::control_plane::ControlPlane;
use crate::gateway::Gateway;
use crate::kit::Kit;

/// How long to listen to what may be silence, and then to make sure of it: a slow machine answers late.
const SILENCE: Duration = Duration::from_millis(300);
const LASTING_SILENCE: Duration = Duration::from_secs(2);
/// Questions after which every endpoint out of two or three has answered, and a wrong one as well.
const QUESTIONS: usize = 12;

/// Parts are dropped in this order.
pub struct Site {
    _gateway: Gateway,
    pub ground: Ground,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A pod of the node.
    Pod(&'static str),
    /// A client outside, from this address or from its usual one.
    Outside(Option<IpAddr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect<'a> {
    /// Each of these answers, and no other.
    By(&'a [&'a str]),
    Refused,
    Silence,
}

impl Site {
    pub fn open(plane: &ControlPlane) -> Site {
        let ground = Ground::new().unwrap();
        let gateway = Gateway::open(&ground.sandbox.node, plane.etcd.daemon().namespace());
        Site { _gateway: gateway, ground }
    }

    pub fn node(&self) -> &Namespace {
        &self.ground.sandbox.node
    }

    /// Start an agent here and wait until all rules are in place. The thread that calls must live as long as it.
    pub fn agent(&self, kit: &Kit, log: &Path, kubeconfig: &Path, name: &str, flags: &[String]) -> NodeAgent {
        let flag = format!("--kubeconfig={}", kubeconfig.display());
        let source = Source { flag, log: log.to_owned() };
        NodeAgent::start(&kit.kube_proxy, self.node(), source, name, flags).unwrap()
    }

    pub fn ask(&self, caller: Caller, protocol: Protocol, to: SocketAddr, patience: Duration) -> Outcome {
        let (from, source) = match caller {
            Caller::Pod(pod) => (&self.ground.sandbox.pod(pod).unwrap().namespace, None),
            Caller::Outside(source) => (&self.ground.sandbox.client, source),
        };
        match protocol {
            Protocol::Tcp => probe::tcp(from, source, to, patience),
            _ => probe::udp(from, source, to, patience),
        }
    }

    /// Wait until packets are treated like this.
    pub fn expect(&self, caller: Caller, protocol: Protocol, to: SocketAddr, expected: Expect<'_>) {
        let mut seen = String::new();
        let came = wait_until(SOON, || {
            seen = match expected {
                Expect::By(_) => self.spread(caller, protocol, to),
                Expect::Refused => describe(&self.ask(caller, protocol, to, patient(ANSWER))),
                Expect::Silence => describe(&self.listen(caller, protocol, to)),
            };
            seen == expected.description()
        });
        assert!(came, "{caller:?} asks {to} over {protocol}: {seen}, not {}", expected.description());
    }

    /// Silence counts only if it lasts.
    fn listen(&self, caller: Caller, protocol: Protocol, to: SocketAddr) -> Outcome {
        match self.ask(caller, protocol, to, SILENCE) {
            Outcome::TimedOut => self.ask(caller, protocol, to, patient(LASTING_SILENCE)),
            outcome => outcome,
        }
    }

    /// Wait until the client is seen like this by the answering pod.
    pub fn expect_seen_as(&self, caller: Caller, to: SocketAddr, expected: impl Fn(IpAddr) -> bool) {
        let mut last = Outcome::Closed;
        let came = wait_until(SOON, || {
            last = self.ask(caller, Protocol::Tcp, to, patient(ANSWER));
            last.seen_as().is_some_and(&expected)
        });
        assert!(came, "{caller:?} asks {to}: {last:?}");
    }

    fn spread(&self, caller: Caller, protocol: Protocol, to: SocketAddr) -> String {
        let mut answers = BTreeSet::new();
        for _ in 0..QUESTIONS {
            let outcome = self.ask(caller, protocol, to, patient(ANSWER));
            match outcome.by() {
                Some(by) => answers.insert(by.to_owned()),
                None => return describe(&outcome),
            };
        }
        by(answers)
    }
}

impl Expect<'_> {
    fn description(self) -> String {
        match self {
            Expect::By(names) => by(names.iter().map(|name| (*name).to_owned()).collect()),
            Expect::Refused => describe(&Outcome::Refused),
            Expect::Silence => describe(&Outcome::TimedOut),
        }
    }
}

fn describe(outcome: &Outcome) -> String {
    outcome.by().map_or_else(|| format!("{outcome:?}"), |name| by([name.to_owned()].into()))
}

fn by(names: BTreeSet<String>) -> String {
    format!("answers by {}", names.into_iter().collect::<Vec<_>>().join(" "))
}
