//! Feature gates. Every gate that Kubernetes' own kube-proxy knows is accepted, because clusters hand the same
//! list to all their components; a few of them are about the proxy.

use std::collections::BTreeMap;

use super::address::items;
use super::node::Node;
use super::refusal::Refusal;
use super::value::{Scalar, Value};
use crate::suggest::did_you_mean;

/// The names that kube-proxy v1.37 knows, one a line.
const KNOWN: &str = include_str!("gates.txt");
/// The names that Kubernetes 1.31 to 1.36 knew and 1.37 does not, one a line: lists that are older than a cluster's last
/// upgrade still hold them.
const GONE: &str = include_str!("gates_gone.txt");

/// Whether `externalIPs` of Services are served.
pub(super) const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";
/// Whether `/flagz` is served.
pub(super) const FLAGZ: &str = "ComponentFlagz";
/// Whether `/statusz` is served.
pub(super) const STATUSZ: &str = "ComponentStatusz";
/// Whether settings under `logging.options` are admitted.
pub(super) const LOGGING_ALPHA: &str = "LoggingAlphaOptions";
/// Whether mode ipvs may be chosen.
pub(super) const IPVS: &str = "KubeProxyIPVS";
/// Whether lines may be JSON.
pub(super) const LOGGING_BETA: &str = "LoggingBetaOptions";

/// Whether node ports answer on loopback addresses in modes nftables and ipvs.
pub(super) const LOCALHOST: &str = "KubeProxyNFTablesLocalhostNodePorts";
const HISTOGRAMS: &str = "NativeHistograms";
const CONTEXTUAL: &str = "ContextualLogging";

/// How grown a gate is in Kubernetes 1.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Alpha,
    Beta,
    Stable,
    Deprecated,
}

impl Stage {
    /// As metrics spell it.
    pub fn word(self) -> &'static str {
        match self {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Stable => "",
            Stage::Deprecated => "DEPRECATED",
        }
    }

    /// The gate that switches all of this stage which are not named themselves.
    fn all(self) -> Option<&'static str> {
        match self {
            Stage::Alpha => Some("AllAlpha"),
            Stage::Beta => Some("AllBeta"),
            Stage::Stable | Stage::Deprecated => None,
        }
    }
}

/// A gate that is about a proxy.
pub struct Gate {
    pub name: &'static str,
    pub stage: Stage,
    pub default: bool,
    /// Whether it changes anything in this build.
    pub(super) has_effect: bool,
}

const fn gate(name: &'static str, stage: Stage, default: bool, has_effect: bool) -> Gate {
    Gate { name, stage, default, has_effect }
}

/// The gates that are about a proxy.
pub const OF_A_PROXY: &[Gate] = &[
    gate(EXTERNAL_IPS, Stage::Stable, true, true),
    gate(FLAGZ, Stage::Beta, true, true),
    gate(STATUSZ, Stage::Beta, true, true),
    gate(CONTEXTUAL, Stage::Beta, true, false),
    gate(IPVS, Stage::Deprecated, true, true),
    gate(LOCALHOST, Stage::Alpha, false, true),
    gate(LOGGING_ALPHA, Stage::Alpha, false, true),
    gate(LOGGING_BETA, Stage::Beta, true, true),
    gate(HISTOGRAMS, Stage::Beta, true, false),
];

/// The gates that somebody set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(pub BTreeMap<String, bool>);

impl FeatureGates {
    /// As it was set, by its name or with all of its stage; else its default. Of a gate that is not about a proxy: off.
    pub fn is_on(&self, name: &str) -> bool {
        let gate = OF_A_PROXY.iter().find(|gate| gate.name == name);
        let by_stage = gate.and_then(|gate| gate.stage.all()).and_then(|all| self.0.get(all));
        let set = self.0.get(name).or(by_stage).copied();
        set.unwrap_or(gate.is_some_and(|gate| gate.default))
    }

    /// Gates that were set against their default and change nothing here.
    pub fn ineffective(&self) -> impl Iterator<Item = &'static str> {
        let against = |gate: &&Gate| !gate.has_effect && self.is_on(gate.name) != gate.default;
        OF_A_PROXY.iter().filter(against).map(|gate| gate.name)
    }

    /// Gates that were set and that Kubernetes no longer has.
    pub fn gone(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| is_listed(GONE, name))
    }

    fn set(&mut self, name: &str, value: bool) -> Result<(), String> {
        if !is_listed(KNOWN, name) && !is_listed(GONE, name) {
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

fn is_listed(names: &str, name: &str) -> bool {
    names.lines().any(|listed| listed == name)
}

fn all(problems: Vec<String>) -> Result<(), Refusal> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ").into()) }
}

impl Value for FeatureGates {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        let pairs = items(text).filter(|pair| !pair.is_empty());
        all(pairs.filter_map(|pair| self.set_pair(pair).err()).collect())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        let Node::Map(gates) = node else {
            let given = node.describe();
            return Err(format!("must be a mapping of gates to true or false, not {given}").into());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> FeatureGates {
        let mut gates = FeatureGates::default();
        gates.read_flag(text).unwrap();
        gates
    }

    #[test]
    fn all_of_a_stage_are_switched_but_for_those_that_are_named() {
        assert!(!gates("").is_on(LOGGING_ALPHA) && gates("").is_on(FLAGZ));
        let all = gates("AllAlpha=true,AllBeta=false");
        assert!(all.is_on(LOGGING_ALPHA) && !all.is_on(FLAGZ) && all.is_on(EXTERNAL_IPS) && all.is_on(IPVS));
        let named = gates("AllAlpha=true,LoggingAlphaOptions=false,AllBeta=false,ComponentFlagz=true");
        assert!(!named.is_on(LOGGING_ALPHA) && named.is_on(FLAGZ) && !named.is_on(STATUSZ));
        assert!(gates("AllAlpha=true").is_on(LOCALHOST) && !gates("").is_on(LOCALHOST));
        assert_eq!(gates("AllAlpha=true").ineffective().count(), 0);
    }

    #[test]
    fn gates_of_older_releases_are_taken_and_told_apart() {
        let gates = gates("SidecarContainers=true,TopologyAwareHints=false,ContextualLogging=true");
        assert_eq!(gates.gone().collect::<Vec<_>>(), ["SidecarContainers", "TopologyAwareHints"]);
        for name in GONE.lines() {
            let mut gates = FeatureGates::default();
            gates.set(name, true).unwrap();
            assert_eq!(gates.gone().collect::<Vec<_>>(), [name]);
            assert!(!is_listed(KNOWN, name), "{name} is not gone");
        }
        for names in [KNOWN, GONE] {
            let names: Vec<&str> = names.lines().collect();
            assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
        }
        assert!(FeatureGates::default().set("SidecarContainer", true).is_err(), "it never existed");
    }
}
