//! The node in mode ipvs as `ipvsadm`, `ip` and `nft` show and damage it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use model::Family;
use serde_json::Value;
use test_support::tools;

use super::super::nft::{self, TABLE, family_word};
use super::super::places::{PORT, at_cluster_ip};
use super::super::rig::{Damage, Destinations, OfUpstream, Rig};
use super::super::stage::{POD_PORT, Stage};
use super::servers::{TOOL, is_cluster_ip};
use super::{QUICK, upstream};

pub(crate) struct IpvsRig;

pub(super) const DEVICE: &str = "kube-ipvs0";
/// Signs our routes and rules.
const PROTOCOL: &str = "proto 84";
/// Everything is local in it.
const LOCAL_TABLE: u32 = 27504;

impl Rig for IpvsRig {
    fn obstacle(&self) -> Option<String> {
        let missing = [TOOL, "ip"].into_iter().find(|tool| !tools::is_installed(tool))?;
        Some(format!("the tool {missing} is not installed"))
    }

    fn destinations(&self, stage: &Stage, family: Family) -> Destinations {
        let refused =
            nft::elements(&stage.sandbox.node, family, "no-endpoint-reject-ips").unwrap_or_default();
        let refused = refused.keys().map(|key| (address(key), BTreeSet::new()));
        let servers = stage.servers(family).into_iter();
        let pools = servers.map(|((_, at), server)| (at, server.in_use().copied().collect::<BTreeSet<_>>()));
        // One that only drains leads nobody anywhere.
        let pools = pools.filter(|(at, pool)| is_cluster_ip(at.ip()) && !pool.is_empty());
        pools.chain(refused).collect()
    }

    fn bundled(&self) -> &'static [&'static str] {
        &["ruleset.json", "virtual-servers.json"]
    }

    fn rules(&self, stage: &Stage, family: Family) -> Vec<String> {
        let table = nft::table(&stage.sandbox.node, family).filter(|table| nft::is_beside_ipvs(table));
        let mut lines: Vec<String> = table.unwrap_or_default().lines().map(str::to_owned).collect();
        for ((_, at), server) in stage.servers(family) {
            // What drains is there for the sake of connections.
            let pool: Vec<&SocketAddr> = server.in_use().collect();
            if !pool.is_empty() {
                lines.push(server.line.clone());
            }
            lines.extend(pool.into_iter().map(|to| format!("{at} to {to} weighs {}", server.weights[to])));
        }
        lines.extend(ground(stage, family));
        lines
    }

    fn damages(&self, stage: &Stage, family: Family) -> Vec<Damage> {
        let word = family_word(family);
        let (at, option) = (at_cluster_ip(2, family), if family == Family::V4 { "-4" } else { "-6" });
        let [a, d] = ["a", "d"].map(|pod| SocketAddr::new(stage.address(pod, family), POD_PORT));
        let network = match family {
            Family::V4 => sandbox::address::SERVICES_V4.to_string(),
            Family::V6 => sandbox::address::SERVICES_V6.to_string(),
        };
        let rules =
            |what, text: String| Damage::new(what, move |stage| nft::load(&stage.sandbox.node, &text));
        let servers =
            |what, arguments: String| Damage::new(what, move |stage| drop(stage.ipvsadm(&arguments)));
        // The first family's damage may be the other's, too.
        let routing =
            |what, arguments: String| Damage::new(what, move |stage| drop(stage.try_tool("ip", &arguments)));
        vec![
            rules("flush ruleset", "flush ruleset".to_owned()),
            rules("the table deleted", format!("delete table {word} {TABLE}")),
            rules("a set flushed", format!("flush set {word} {TABLE} cluster-ips")),
            servers("a virtual server deleted", format!("-D -t {at}")),
            servers("all virtual servers cleared", "-C".to_owned()),
            servers("a destination deleted", format!("-d -t {at} -r {a}")),
            servers("a destination added", format!("-a -t {at} -r {d} -m -w 1")),
            servers("a weight changed", format!("-e -t {at} -r {a} -m -w 0")),
            servers("another scheduler", format!("-E -t {at} -s wlc")),
            routing("the device deleted", format!("link delete {DEVICE}")),
            routing("the device set down", format!("link set {DEVICE} down")),
            routing("a route deleted", format!("{option} route delete local {network} table local")),
            routing("a rule deleted", format!("{option} rule delete pref 90")),
        ]
    }

    fn slight_damage(&self, family: Family) -> Damage {
        let command = format!("flush set {} {TABLE} cluster-ips", family_word(family));
        Damage::new("a set flushed", move |stage| nft::load(&stage.sandbox.node, &command))
    }

    fn grave_damages(&self) -> Vec<Damage> {
        // Without its virtual server a connection ends, so that no damage to these is here.
        ["delete table ip6 kube-proxy", "flush ruleset"]
            .map(|text| Damage::new(text, move |stage| nft::load(&stage.sandbox.node, text)))
            .into()
    }

    fn steady(&self) -> &'static [&'static str] {
        &[QUICK]
    }

    fn tells_of_damage(&self, line: &str) -> bool {
        line.contains("Another process changed our virtual servers, routes or rules")
    }

    fn pins(&self, stage: &Stage, family: Family) -> Option<usize> {
        Some(stage.templates(family))
    }

    fn write_as_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) {
        upstream::write(stage, family, services);
    }

    fn left_of_upstream(&self, stage: &Stage, family: Family, _: &[OfUpstream]) -> Vec<String> {
        upstream::left(stage, family)
    }

    fn rounds(&self, of_transactions: u16) -> u16 {
        of_transactions.div_ceil(2)
    }
}

/// The device, our routes and our routing rules.
pub(super) fn ground(stage: &Stage, family: Family) -> Vec<String> {
    let option = if family == Family::V4 { "-4" } else { "-6" };
    // The tool fails where there is no such device or table.
    let ask = |arguments: &str| stage.try_tool("ip", arguments).unwrap_or_default();
    let device = ask(&format!("-o link show up dev {DEVICE}"));
    let rules = ask(&format!("{option} rule show"));
    let local = ask(&format!("{option} route show table local {PROTOCOL}"));
    let marked = ask(&format!("{option} route show table {LOCAL_TABLE}"));
    let rules = rules.lines().filter(|line| line.contains(PROTOCOL));
    let device = (!device.trim().is_empty()).then_some(DEVICE);
    let lines = device.into_iter().chain(rules).chain(local.lines()).chain(marked.lines());
    lines.map(|line| line.trim().to_owned()).collect()
}

/// The address and the port in the key of an element.
fn address(element: &str) -> SocketAddr {
    let element: Value = serde_json::from_str(element).unwrap();
    let parts = element["concat"].as_array().unwrap();
    let ip = parts[0].as_str().unwrap().parse().unwrap();
    let port = parts.iter().skip(1).find_map(Value::as_u64).unwrap_or(u64::from(PORT));
    SocketAddr::new(ip, u16::try_from(port).unwrap())
}
