//! Feature gates. Every gate that Kubernetes' own kube-proxy knows is accepted, because clusters hand the same
//! list to all their components; a few of them are about the proxy.

use std::collections::BTreeMap;

use super::address::items;
use super::node::Node;
use super::value::{Scalar, Value};
use crate::suggest::did_you_mean;

/// The names that kube-proxy v1.37 knows, one a line.
const KNOWN: &str = include_str!("gates.txt");

/// Whether `externalIPs` of Services are served.
pub(super) const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";
/// Whether `/flagz` is served.
pub(crate) const FLAGZ: &str = "ComponentFlagz";
/// Whether `/statusz` is served.
pub(crate) const STATUSZ: &str = "ComponentStatusz";
/// Whether settings under `logging.options` are admitted.
pub(super) const LOGGING_ALPHA: &str = "LoggingAlphaOptions";
/// Whether mode ipvs may be chosen.
pub(super) const IPVS: &str = "KubeProxyIPVS";
/// Whether lines may be JSON.
pub(super) const LOGGING_BETA: &str = "LoggingBetaOptions";

/// Gates that would change what a proxy does, with their defaults, and that change nothing in this build.
const WITHOUT_EFFECT: &[(&str, bool)] =
    &[("KubeProxyNFTablesLocalhostNodePorts", false), ("NativeHistograms", true)];

/// The gates that are about a proxy, with their defaults.
pub(crate) const OF_A_PROXY: &[(&str, bool)] = &[
    (EXTERNAL_IPS, true),
    ("ComponentFlagz", true),
    ("ComponentStatusz", true),
    (IPVS, true),
    ("KubeProxyNFTablesLocalhostNodePorts", false),
    (LOGGING_ALPHA, false),
    (LOGGING_BETA, true),
    ("NativeHistograms", true),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(pub BTreeMap<String, bool>);

impl FeatureGates {
    pub fn is_on(&self, name: &str, default: bool) -> bool {
        self.0.get(name).copied().unwrap_or(default)
    }

    /// Gates that were set against their default and change nothing here.
    pub(crate) fn ineffective(&self) -> impl Iterator<Item = &'static str> {
        WITHOUT_EFFECT
            .iter()
            .filter(|(name, default)| self.is_on(name, *default) != *default)
            .map(|(name, _)| *name)
    }

    fn set(&mut self, name: &str, value: bool) -> Result<(), String> {
        if !KNOWN.lines().any(|known| known == name) {
            let meant = did_you_mean("", name, KNOWN.lines());
            return Err(format!(
                "{name:?} is not a feature gate of Kubernetes 1.37; remove or correct it{meant}"
            ));
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    fn set_pair(&mut self, pair: &str) -> Result<(), String> {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| format!("{pair:?} is not of the form Gate=true"))?;
        let value = bool::parse(value.trim()).map_err(|problem| format!("{}: {problem}", name.trim()))?;
        self.set(name.trim(), value)
    }
}

fn all(problems: Vec<String>) -> Result<(), String> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

impl Value for FeatureGates {
    fn read_flag(&mut self, text: &str) -> Result<(), String> {
        let pairs = items(text).filter(|pair| !pair.is_empty());
        all(pairs.filter_map(|pair| self.set_pair(pair).err()).collect())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), String> {
        let Node::Map(gates) = node else {
            return Err(format!("must be a mapping of gates to true or false, not {}", node.describe()));
        };
        let read = |(name, value): (&String, &Node)| match value {
            Node::Bool(value) => self.set(name, *value).err(),
            other => Some(format!("{name} must be true or false, not {}", other.describe())),
        };
        all(gates.iter().filter_map(read).collect())
    }

    fn show(&self) -> Node {
        Node::Map(self.0.iter().map(|(name, value)| (name.clone(), Node::Bool(*value))).collect())
    }

    fn words(&self) -> Vec<&'static str> {
        KNOWN.lines().collect()
    }
}
