//! What the cases that run in every mode need of each: how its rules are read and damaged, what upstream leaves in it.
//!
//! A rig reads the kernel as another program would; it shares no code with the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use model::Family;
use test_support::{Carrier, Case, Verdict};

use super::iptables::IptablesRig;
use super::ipvs::IpvsRig;
use super::nftables::NftablesRig;
use super::stage::Stage;
use super::userspace::UserspaceRig;

/// The rig of each mode.
pub(crate) fn of(carrier: Carrier) -> &'static dyn Rig {
    match carrier {
        Carrier::Nftables => &NftablesRig,
        Carrier::IptablesLegacy | Carrier::IptablesNft => &IptablesRig,
        Carrier::Ipvs => &IpvsRig,
        Carrier::Userspace => &UserspaceRig,
    }
}

/// Why a mode cannot run on this machine, or its rig cannot look at it.
pub(crate) fn obstacle(carrier: Carrier) -> Option<String> {
    carrier.obstacle().or_else(|| of(carrier).obstacle())
}

/// Cluster IPs with their ports, and where packets to them are sent; nowhere: they are refused.
pub(crate) type Destinations = BTreeMap<SocketAddr, BTreeSet<SocketAddr>>;

/// Something that another program does to our rules.
pub(crate) struct Damage {
    pub(crate) what: &'static str,
    pub(crate) inflict: Box<dyn Fn(&Stage)>,
}

impl Damage {
    pub(crate) fn new(what: &'static str, inflict: impl Fn(&Stage) + 'static) -> Damage {
        Damage { what, inflict: Box::new(inflict) }
    }
}

/// A service with the cluster IP of its number, served by all endpoints.
#[derive(Clone, Copy)]
pub(crate) struct OfUpstream {
    pub(crate) name: &'static str,
    pub(crate) number: u8,
    pub(crate) has_affinity: bool,
}

pub(crate) trait Rig: Sync {
    /// What it needs and this machine lacks.
    fn obstacle(&self) -> Option<String> {
        None
    }

    fn destinations(&self, stage: &Stage, family: Family) -> Destinations;

    /// What [`Rig::destinations`] shows of a pool of endpoints: a process may know them that nobody else can ask.
    fn shown(&self, pool: BTreeSet<SocketAddr>) -> BTreeSet<SocketAddr> {
        pool
    }

    /// The files of a bundle that have the rules.
    fn bundled(&self) -> &'static [&'static str];

    /// All rules of ours as text that can be compared, without what packets write; empty if there are none.
    fn rules(&self, stage: &Stage, family: Family) -> Vec<String>;

    /// Each of another kind; the agent repairs all of them. Services 1 and 2 have endpoints `a`, and each a second one.
    fn damages(&self, stage: &Stage, family: Family) -> Vec<Damage>;

    /// One that no packet feels, and that makes the agent rewrite all rules.
    fn slight_damage(&self, family: Family) -> Damage;

    /// Those after which no packet is steered. While they last, a packet that the client cannot know ends its connection.
    fn grave_damages(&self) -> Vec<Damage>;

    /// Flags with which repeated damage is repaired as fast as the first.
    fn steady(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a line of the log says that somebody damaged our rules.
    fn tells_of_damage(&self, line: &str) -> bool;

    /// How many clients are pinned to endpoints of cluster IPs; `None` where the kernel does not say.
    fn pins(&self, _: &Stage, _: Family) -> Option<usize> {
        None
    }

    /// Write the rules that upstream's kube-proxy has for these services.
    fn write_as_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]);

    /// What is still there of them, after the agent has taken over.
    fn left_of_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) -> Vec<String>;

    /// How often something is repeated that one transaction does in this mode; others do it less often in the same time.
    fn rounds(&self, of_transactions: u16) -> u16;
}

/// A case for each mode; it fails by panicking.
pub(crate) fn every_mode(name: &str, run: fn(Carrier)) -> Vec<Case<'static>> {
    Carrier::ALL.into_iter().map(|carrier| in_mode(carrier, name, run)).collect()
}

/// The same for one of them.
pub(crate) fn in_mode(carrier: Carrier, name: &str, run: fn(Carrier)) -> Case<'static> {
    Case::new(format!("{}: {name}", carrier.name()), move || match obstacle(carrier) {
        Some(why) => Verdict::Skipped(why),
        None => {
            run(carrier);
            Verdict::Passed
        }
    })
}

/// What one has and the other does not.
pub(crate) fn difference(found: &[String], wanted: &[String]) -> String {
    let missing = wanted.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}"));
    let surplus = found.iter().filter(|line| !wanted.contains(line)).map(|line| format!("+ {line}"));
    missing.chain(surplus).take(10).collect::<Vec<_>>().join("\n")
}
