//! The kube-proxies that a cluster can have: Pointsman by its chart, upstream's as kubeadm installs it.

use std::fmt;

use crate::address;
use crate::cluster::Cluster;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Nftables,
    Iptables,
}

impl Mode {
    pub const ALL: [Mode; 2] = [Mode::Nftables, Mode::Iptables];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Nftables => "nftables",
            Mode::Iptables => "iptables",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The apiserver as nodes reach it before any Service works.
pub fn server() -> String {
    format!("https://{}:6443", address::CONTROL_PLANE.0)
}

/// The DaemonSet of upstream's kube-proxy, in kube-system, with `more` lines of configuration; returns when all of its
/// pods run.
pub fn install_upstream(cluster: &Cluster, mode: Mode, more: &[&str]) -> Result<(), String> {
    apply_upstream(cluster, mode.name(), more)
}

/// The same as kubeadm leaves it: with no mode, which upstream's takes for iptables.
pub fn install_kubeadms(cluster: &Cluster) -> Result<(), String> {
    apply_upstream(cluster, "\"\"", &[])
}

fn apply_upstream(cluster: &Cluster, mode: &str, more: &[&str]) -> Result<(), String> {
    let more: String = more.iter().map(|line| format!("\n    {line}")).collect();
    let manifest = include_str!("../manifests/kube-proxy.yaml")
        .replace("IMAGE", &cluster.images.kube_proxy)
        .replace("SERVER", &server())
        .replace("PODS", address::PODS)
        .replace("mode: MODE", &format!("mode: {mode}{more}"));
    cluster.apply(&manifest)?;
    cluster.await_rollout("ds/kube-proxy")
}

/// The chart, and the release that it is installed as.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/helm/pointsman");
const RELEASE: &str = "pointsman";

/// Values of the chart that every installation here needs; `more` are of the form `name=value`.
fn values(mode: Mode, more: &[&str]) -> Vec<String> {
    let mut values = vec![
        // As `make image` names it.
        "image.repository=registry.example.com/pointsman/kube-proxy".to_owned(),
        format!("apiServer={}", server()),
        format!("mode={mode}"),
        format!("clusterCIDR={}", address::PODS.replace(',', r"\,")),
        // Its limit belongs to the whole machine, not to a node's namespaces.
        "config.conntrack.maxPerCore=0".to_owned(),
        // The agent's own profile, which the nodes have.
        "seccomp.type=Localhost".to_owned(),
        // One node after the other.
        "updateStrategy.rollingUpdate.maxUnavailable=1".to_owned(),
    ];
    values.extend(more.iter().map(|value| (*value).to_owned()));
    values.into_iter().map(|value| format!("--set={value}")).collect()
}

/// Pointsman by its chart, or other values for it; returns when it is ready on every node.
pub fn install(cluster: &Cluster, mode: Mode, more: &[&str]) -> Result<(), String> {
    let values = values(mode, more);
    let mut words = vec!["-n", "kube-system", "upgrade", "--install", RELEASE, CHART];
    words.extend(values.iter().map(String::as_str));
    cluster.helm(&words)?;
    cluster.await_rollout("ds/pointsman")
}

/// Away with it, but not with its rules.
pub fn uninstall(cluster: &Cluster) -> Result<(), String> {
    cluster.helm(&["-n", "kube-system", "uninstall", RELEASE, "--wait"]).map(drop)
}

/// Away with it and with all its rules, as the chart's notes describe it.
pub fn uninstall_with_rules(cluster: &Cluster, mode: Mode) -> Result<(), String> {
    let values = values(mode, &["cleanup.enabled=true"]);
    let mut words = vec!["-n", "kube-system", "upgrade", RELEASE, CHART];
    words.extend(values.iter().map(String::as_str));
    cluster.helm(&words)?;
    cluster.await_rollout("ds/pointsman")?;
    uninstall(cluster)
}
