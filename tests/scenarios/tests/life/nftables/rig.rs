//! Our tables as the `nft` tool shows and damages them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use model::Family;
use serde_json::Value;

use super::super::nft::{self, TABLE, family_word};
use super::super::places::cluster_ip;
use super::super::rig::{Damage, Destinations, OfUpstream, Rig};
use super::super::stage::Stage;
use super::upstream;

pub(crate) struct NftablesRig;

/// Where no packet is ever sent: stands for a verdict and slots that contradict each other.
const CONTRADICTION: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Rig for NftablesRig {
    fn destinations(&self, stage: &Stage, family: Family) -> Destinations {
        let elements = |set| nft::elements(&stage.sandbox.node, family, set).unwrap_or_default();
        let mut slots = Destinations::new();
        for (key, endpoint) in elements("endpoints") {
            slots.entry(address(&key)).or_default().insert(address(&endpoint));
        }
        let mut all = Destinations::new();
        for (key, _) in elements("no-endpoint-reject-ips") {
            all.insert(address(&key), BTreeSet::new());
        }
        for (key, verdict) in elements("service-ips") {
            let mut pool = slots.remove(&address(&key)).unwrap_or_default();
            if size(&verdict) != Some(pool.len()) {
                pool.insert(CONTRADICTION);
            }
            all.insert(address(&key), pool);
        }
        // Slots that no verdict leads to.
        all.extend(slots.into_keys().map(|at| (at, BTreeSet::from([CONTRADICTION]))));
        all
    }

    fn bundled(&self) -> &'static [&'static str] {
        &["ruleset.json"]
    }

    fn rules(&self, stage: &Stage, family: Family) -> Vec<String> {
        let is_ours = |table: &String| !nft::is_beside_ipvs(table) && !nft::has_forwarder(table);
        let table = nft::table(&stage.sandbox.node, family).filter(is_ours);
        table.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn damages(&self, stage: &Stage, family: Family) -> Vec<Damage> {
        let word = family_word(family);
        let (vip, other) = (cluster_ip(2, family), stage.address("d", family));
        let slot = format!("{vip} . tcp . 80 . 0x00000000");
        let delete_slot = format!("delete element {word} {TABLE} endpoints {{ {slot} }}");
        let change_slot =
            format!("{delete_slot}\nadd element {word} {TABLE} endpoints {{ {slot} : {other} . 8080 }}");
        vec![
            commands("flush ruleset", "flush ruleset".to_owned()),
            commands("the table deleted", format!("delete table {word} {TABLE}")),
            commands(
                "an element deleted",
                format!("delete element {word} {TABLE} service-ips {{ {vip} . tcp . 80 }}"),
            ),
            commands("a slot deleted", delete_slot),
            commands("a slot changed", change_slot),
            Damage::new("a rule deleted", move |stage| {
                let rule = rule_handle(stage, family, "nat-prerouting");
                let command = format!("delete rule {word} {TABLE} nat-prerouting handle {rule}");
                nft::load(&stage.sandbox.node, &command);
            }),
            commands("a rule added", format!("add rule {word} {TABLE} services-prerouting drop")),
            commands("a chain flushed", format!("flush chain {word} {TABLE} services-prerouting")),
            commands("a set flushed", format!("flush set {word} {TABLE} cluster-ips")),
            commands("a map flushed", format!("flush map {word} {TABLE} service-ips")),
            commands(
                "an element added",
                format!("add element {word} {TABLE} no-endpoint-drop-ips {{ {vip} . tcp . 81 }}"),
            ),
        ]
    }

    fn slight_damage(&self, family: Family) -> Damage {
        commands("a set flushed", format!("flush set {} {TABLE} cluster-ips", family_word(family)))
    }

    fn grave_damages(&self) -> Vec<Damage> {
        vec![
            commands("the table of IPv6 deleted", format!("delete table ip6 {TABLE}")),
            commands("flush ruleset", "flush ruleset".to_owned()),
        ]
    }

    fn tells_of_damage(&self, line: &str) -> bool {
        line.contains("nft (pid ") && line.contains(") changed our table in nf_tables")
    }

    fn pins(&self, stage: &Stage, family: Family) -> Option<usize> {
        Some(nft::elements(&stage.sandbox.node, family, "affinity").map_or(0, |pins| pins.len()))
    }

    fn write_as_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) {
        nft::load(&stage.sandbox.node, &upstream::table(stage, family, services));
    }

    /// Its sets are named after services; ours are not.
    fn left_of_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) -> Vec<String> {
        let sets = nft::run(&stage.sandbox.node, &["list", "sets", family_word(family)]).unwrap();
        let is_named = |line: &str| services.iter().any(|of| line.contains(&format!("default/{}", of.name)));
        sets.lines().filter(|line| is_named(line)).map(|line| line.trim().to_owned()).collect()
    }

    fn rounds(&self, of_transactions: u16) -> u16 {
        of_transactions
    }
}

/// What a transaction of `nft` does.
fn commands(what: &'static str, text: String) -> Damage {
    Damage::new(what, move |stage| nft::load(&stage.sandbox.node, &text))
}

/// The address and the port in the key or the value of an element, beside which may be a protocol and a slot.
fn address(element: &str) -> SocketAddr {
    let element: Value = serde_json::from_str(element).unwrap();
    let parts = element["concat"].as_array().unwrap();
    let ip = parts[0].as_str().unwrap().parse().unwrap();
    let port = parts.iter().skip(1).find_map(Value::as_u64).unwrap();
    SocketAddr::new(ip, u16::try_from(port).unwrap())
}

/// How many slots a verdict draws from.
fn size(verdict: &str) -> Option<usize> {
    let verdict: Value = serde_json::from_str(verdict).unwrap();
    verdict["goto"]["target"].as_str()?.rsplit_once('-')?.1.parse().ok()
}

/// The handle of a chain's first rule.
fn rule_handle(stage: &Stage, family: Family, chain: &str) -> String {
    let arguments = ["-a", "list", "chain", family_word(family), TABLE, chain];
    let text = nft::run(&stage.sandbox.node, &arguments).unwrap();
    let handles: Vec<&str> = text.lines().filter_map(|line| Some(line.rsplit_once("# handle ")?.1)).collect();
    // The first handle is the chain's own.
    handles.get(1).unwrap_or_else(|| panic!("no rule in:\n{text}")).trim().to_owned()
}
