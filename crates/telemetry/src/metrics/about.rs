//! What this program is: its version and its feature gates.

use config::{FeatureGates, OF_A_PROXY, version};

use super::registry::{Description, Growing, Registry};

const BUILD_INFO: Description = Description::gauge(
    "kubernetes_build_info",
    &[
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ],
    "Always 1: the Kubernetes release whose kube-proxy this one replaces, and our own version after the plus sign",
);
const FEATURE: Description = Description::gauge(
    "kubernetes_feature_enabled",
    &["name", "stage"],
    "Feature gates that concern a proxy: 1 if enabled",
);

#[derive(Clone, Debug)]
pub(super) struct About {
    features: Growing,
}

impl About {
    pub(super) fn register(registry: &mut Registry) -> About {
        let (major, minor) = version::KUBERNETES;
        let platform = version::platform();
        // What has no counterpart here is empty: commit and state of the tree, date, the version of Go.
        let labels = [major, minor, version::FULL, "", "", "", "", "rustc", &platform];
        registry.gauge(BUILD_INFO, &labels).set(1.0);
        About { features: registry.growing(FEATURE) }
    }

    pub(super) fn gates(&self, gates: &FeatureGates) {
        for gate in OF_A_PROXY {
            let value = if gates.is_on(gate.name) { 1.0 } else { 0.0 };
            self.features.gauge(&[gate.name, gate.stage.word()]).set(value);
        }
    }
}
