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

/// Without it the kubelet shows the last words of a container only to those who know which one to ask.
pub(crate) fn last_words(helm: &Helm) {
    for values in [&[][..], &["mode=iptables"], &["cleanup.enabled=true"]] {
        for object in helm.objects(values) {
            let of = |list: &str| object.pointer(&format!("{list}/containers")).cloned();
            let init = object.pointer("/spec/template/spec/initContainers").cloned();
            let lists = [of("/spec/template/spec"), of("/spec"), init];
            for container in lists.iter().flatten().filter_map(Value::as_array).flatten() {
                let name = &container["name"];
                assert_eq!(
                    container["terminationMessagePolicy"], "FallbackToLogsOnError",
                    "{values:?}: {name}"
                );
            }
        }
    }
}

/// Mode userspace drains connections before it ends.
pub(crate) fn grace_period(helm: &Helm) {
    let of = |values: &[&str]| {
        let objects = helm.objects(values);
        of_kind(&objects, "DaemonSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].clone()
    };
    assert_eq!(of(&[]), Value::Null, "Kubernetes' own, as in the base");
    assert_eq!(of(&["terminationGracePeriodSeconds=90"]), 90);
}
