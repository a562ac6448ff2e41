//! Mode ipvs: its rig, and the cases that are about this mode alone: connections that outlive their endpoint, schedulers,
//! virtual servers of others.

mod graceful;
mod others;
mod parting;
mod rig;
mod schedulers;
mod servers;
mod settings;
mod upstream;

use model::{Family, Protocol};
use test_support::{Carrier, Case};

use super::places::{PORT, external_ip};
use super::rig::in_mode;
use super::stage::{PROMPT, Stage};

pub(crate) use rig::IpvsRig;

const NODE_PORT: u16 = 30080;
/// A round of looks at all virtual servers: changes by others are found, and what has drained goes, within it.
const QUICK: &str = "--ipvs-sync-period=1s";

pub(crate) fn cases() -> Vec<Case<'static>> {
    let modules =
        [graceful::cases(), schedulers::cases(), others::cases(), parting::cases(), settings::cases()];
    modules.into_iter().flatten().collect()
}

/// A case of this mode; it fails by panicking.
fn case(name: &str, run: fn(Carrier)) -> Case<'static> {
    in_mode(Carrier::Ipvs, name, run)
}

/// The service `web` with addresses of every kind, served by these pods, and the agent over it.
fn start(carrier: Carrier, pods: &[&str], flags: &[&str]) -> Stage {
    let mut stage = Stage::of(carrier);
    let ports = serde_json::json!([{"name": "main", "protocol": "TCP", "port": PORT, "nodePort": NODE_PORT}]);
    let web = stage.service("web", 1, Protocol::Tcp).with("type", "NodePort").with("ports", ports);
    stage.folder.put_service(&web.external_ips(&Family::BOTH.map(external_ip)));
    stage.put_endpoints("web", Protocol::Tcp, pods);
    stage.start_with(&[&[PROMPT, QUICK], flags].concat());
    stage
}
