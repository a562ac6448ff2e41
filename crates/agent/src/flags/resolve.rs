//! From flags to [`Options`]: every value read, and checked against the others.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use model::{Family, LocalDetector, NodePortAddresses, Settings};

use super::Raw;
use crate::{ApiserverOptions, DetectLocal, Options, Source};

const DEFAULT_HEALTHZ_PORT: u16 = 10256;

pub(crate) fn resolve(raw: &Raw, errors: &mut Vec<String>) -> Option<Options> {
    let mut found = Errors(errors);
    let source = found.take("--manifests", source(raw));
    found.take("--proxy-mode", proxy_mode(&raw.proxy_mode));
    let node_name = found.take("--hostname-override", node_name(&raw.hostname_override));
    let detect_local = detect_local(raw).map_err(|problem| found.0.push(problem)).ok();
    let nodeport_addresses = found.take("--nodeport-addresses", nodeport_addresses(&raw.nodeport_addresses));
    let healthz = found.take("--healthz-bind-address", bind_address(&raw.healthz_bind_address));
    if raw.sync_period.is_zero() {
        found.0.push("--iptables-sync-period: must be greater than 0".into());
    }
    if raw.min_sync_period > raw.sync_period {
        found.0.push(format!(
            "--iptables-min-sync-period: {:?} is longer than --iptables-sync-period, {:?}",
            raw.min_sync_period, raw.sync_period
        ));
    }
    Some(Options {
        source: source?,
        node_name: node_name?,
        detect_local: detect_local?,
        nodeport_addresses: nodeport_addresses?,
        settings: Settings { masquerade_all: raw.masquerade_all },
        mode_is_default: raw.proxy_mode.is_empty(),
        masquerade_mark: 1 << raw.masquerade_bit,
        sync_period: raw.sync_period,
        min_sync_period: raw.min_sync_period,
        healthz_bind_address: healthz?,
        bind_address_hard_fail: raw.bind_address_hard_fail,
        verbosity: raw.verbosity,
    })
}

struct Errors<'a>(&'a mut Vec<String>);

impl Errors<'_> {
    fn take<T>(&mut self, flag: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.0.push(format!("{flag}: {problem}"))).ok()
    }
}

fn source(raw: &Raw) -> Result<Source, String> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (kubeconfig, master) = (given(&raw.kubeconfig).map(PathBuf::from), given(&raw.master));
    match given(&raw.manifests) {
        None => Ok(Source::Apiserver(ApiserverOptions {
            kubeconfig,
            master,
            content_type: raw.content_type,
            qps: raw.qps,
            burst: raw.burst,
        })),
        Some(_) if kubeconfig.is_some() || master.is_some() => Err(
            "objects come from manifests or from the apiserver; drop this flag, or --kubeconfig and --master"
                .into(),
        ),
        Some(path) => Ok(Source::Manifests(path.into())),
    }
}

fn proxy_mode(mode: &str) -> Result<(), String> {
    match mode {
        "" | "nftables" => Ok(()),
        "iptables" | "ipvs" | "userspace" => {
            Err(format!("mode {mode} is not in this build; use nftables (Linux 5.13 or later)"))
        }
        other => Err(format!("{other:?} is not a proxy mode; use nftables")),
    }
}

fn node_name(given: &str) -> Result<String, String> {
    let name = match given {
        "" => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_err(|error| format!("the host name cannot be read ({error}); give one"))?,
        given => given.to_owned(),
    };
    match name.trim().to_lowercase() {
        name if name.is_empty() => Err("the host name is empty; give one".into()),
        name => Ok(name),
    }
}

fn detect_local(raw: &Raw) -> Result<DetectLocal, String> {
    match raw.detect_local_mode.as_str() {
        "NodeCIDR" => Ok(DetectLocal::NodeCidr),
        mode => detector(raw, mode).map(DetectLocal::Fixed),
    }
}

fn detector(raw: &Raw, mode: &str) -> Result<LocalDetector, String> {
    match mode {
        "ClusterCIDR" if raw.cluster_cidr.is_empty() => Ok(LocalDetector::None),
        "ClusterCIDR" => cluster_cidrs(&raw.cluster_cidr).map(LocalDetector::Cidrs),
        "BridgeInterface" => {
            interface(&raw.pod_bridge_interface, "--pod-bridge-interface").map(LocalDetector::Bridge)
        }
        "InterfaceNamePrefix" => interface(&raw.pod_interface_name_prefix, "--pod-interface-name-prefix")
            .map(LocalDetector::InterfacePrefix),
        other => Err(format!(
            "--detect-local-mode: {other:?} is not a mode; use ClusterCIDR, NodeCIDR, BridgeInterface or \
                 InterfaceNamePrefix"
        )),
    }
}

fn cluster_cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    let nets = text.split(',').map(|item| prefix(item, "--cluster-cidr")).collect::<Result<Vec<_>, _>>()?;
    for family in Family::BOTH {
        if nets.iter().filter(|net| Family::of_net(net) == family).count() > 1 {
            return Err(format!(
                "--cluster-cidr names more than one {family} prefix; give at most one a family"
            ));
        }
    }
    Ok(nets)
}

fn interface(name: &str, flag: &str) -> Result<String, String> {
    match name.len() {
        0 => Err(format!("--detect-local-mode: this mode needs {flag}")),
        1..=15 => Ok(name.to_owned()),
        _ => Err(format!("{flag}: {name:?} is longer than the 15 bytes of an interface name")),
    }
}

fn nodeport_addresses(text: &str) -> Result<NodePortAddresses, String> {
    match text {
        "" | "primary" => Ok(NodePortAddresses::Primary),
        "all" => Ok(NodePortAddresses::All),
        list => {
            let nets: Result<Vec<IpNet>, String> =
                list.split(',').map(|item| prefix(item, "each item")).collect();
            let nets = nets?;
            match nets.iter().all(|net| net.prefix_len() == 0) {
                true => Ok(NodePortAddresses::All),
                false => Ok(NodePortAddresses::Within(nets)),
            }
        }
    }
}

fn prefix(item: &str, what: &str) -> Result<IpNet, String> {
    IpNet::from_str(item.trim())
        .map(|net| net.trunc())
        .map_err(|_| format!("{what} must be a prefix such as 10.244.0.0/16; {item:?} is none"))
}

/// `IP:PORT`, `[IPv6]:PORT`, or a bare IP with the usual port. Empty: serve nothing.
fn bind_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let bare = || IpAddr::from_str(text).ok().map(|ip| SocketAddr::new(ip, DEFAULT_HEALTHZ_PORT));
    let address = SocketAddr::from_str(text).ok().or_else(bare);
    address.map(Some).ok_or_else(|| format!("{text:?} is not an address such as 0.0.0.0:10256 or [::]:10256"))
}
