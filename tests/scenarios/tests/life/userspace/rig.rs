//! The table that leads to the forwarder, as `nft` shows and damages it, and the route to it. Which endpoints the forwarder
//! knows, only its answers show.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use model::Family;
use test_support::tools;

use super::super::nft;
use super::super::nftables::NftablesRig;
use super::super::rig::{Damage, Destinations, OfUpstream, Rig};
use super::super::stage::Stage;

pub(crate) struct UserspaceRig;

/// Signs our routes.
const ROUTES: [&str; 6] = ["route", "show", "table", "local", "proto", "85"];

impl Rig for UserspaceRig {
    fn obstacle(&self) -> Option<String> {
        (!tools::is_installed("ip")).then(|| "the tool ip is not installed".to_owned())
    }

    fn destinations(&self, stage: &Stage, family: Family) -> Destinations {
        let found = NftablesRig.destinations(stage, family);
        found.into_iter().map(|(at, pool)| (at, self.shown(pool))).collect()
    }

    /// Of each pool the forwarder is left, wherever it listens.
    fn shown(&self, pool: BTreeSet<SocketAddr>) -> BTreeSet<SocketAddr> {
        let forwarder = SocketAddr::from(([0, 0, 0, 0], 1));
        pool.into_iter().map(|_| forwarder).collect()
    }

    fn bundled(&self) -> &'static [&'static str] {
        &["ruleset.json"]
    }

    fn rules(&self, stage: &Stage, family: Family) -> Vec<String> {
        let table = nft::table(&stage.sandbox.node, family).filter(|table| nft::has_forwarder(table));
        let mut lines: Vec<String> = table.unwrap_or_default().lines().map(str::to_owned).collect();
        lines.extend(routes(stage, family));
        lines
    }

    fn damages(&self, stage: &Stage, family: Family) -> Vec<Damage> {
        let mut damages = NftablesRig.damages(stage, family);
        damages.push(Damage::new("the route to the forwarder deleted", move |stage| {
            for route in routes(stage, family) {
                let words: Vec<&str> = ["route", "del"].into_iter().chain(route.split_whitespace()).collect();
                let words = [&[version(family)], &words[..], &["table", "local"]].concat();
                tools::run(&stage.sandbox.node, &stage.folder.lock(), "ip", &words, "").unwrap();
            }
        }));
        damages
    }

    fn slight_damage(&self, family: Family) -> Damage {
        NftablesRig.slight_damage(family)
    }

    fn grave_damages(&self) -> Vec<Damage> {
        NftablesRig.grave_damages()
    }

    fn tells_of_damage(&self, line: &str) -> bool {
        NftablesRig.tells_of_damage(line) || line.contains("or the route to the forwarder")
    }

    /// There is no userspace mode upstream any more.
    fn write_as_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) {
        NftablesRig.write_as_upstream(stage, family, services);
    }

    fn left_of_upstream(&self, stage: &Stage, family: Family, services: &[OfUpstream]) -> Vec<String> {
        NftablesRig.left_of_upstream(stage, family, services)
    }

    /// A client may have to wait for a second after each end of the agent.
    fn rounds(&self, of_transactions: u16) -> u16 {
        of_transactions / 4
    }
}

fn version(family: Family) -> &'static str {
    if family == Family::V4 { "-4" } else { "-6" }
}

fn routes(stage: &Stage, family: Family) -> Vec<String> {
    let words = [&[version(family)], &ROUTES[..]].concat();
    let found = tools::run(&stage.sandbox.node, &stage.folder.lock(), "ip", &words, "").unwrap_or_default();
    found.lines().map(|line| line.trim().to_owned()).collect()
}
