//! What single values come to in the objects that the chart renders.

use serde_json::Value;

use crate::helm::{Helm, of_kind};

/// The narrow profile would let no tool start, in whatever mode they are asked for.
pub(crate) fn profile_of_the_tools(helm: &Helm) {
    for mode in ["nftables", "iptables", "ipvs"] {
        let values = [&format!("mode={mode}"), "image.iptablesTools=true", "seccomp.type=Localhost"];
        let objects = helm.objects(&values);
        let container = &of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
        let profile = &container["securityContext"]["seccompProfile"]["localhostProfile"];
        assert_eq!(profile, "profiles/pointsman-kube-proxy-iptables.json", "mode {mode}");
    }
}
