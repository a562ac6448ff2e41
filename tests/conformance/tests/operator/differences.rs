//! Where we differ from upstream's kube-proxy 1.37.1, and why. Nothing else may differ, and what is listed must.

use Topic::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Metrics,
    Slis,
    Probes,
    Pages,
    Configz,
    Written,
    Flags,
}

struct Difference {
    topic: Topic,
    /// How the difference is reported; what follows a star at the end may be anything.
    what: &'static str,
    why: &'static str,
}

const fn differs(topic: Topic, what: &'static str, why: &'static str) -> Difference {
    Difference { topic, what, why }
}

const OF_APISERVERS: &str =
    "belongs to libraries of the apiserver that upstream links, and stays zero in a kube-proxy";
const OF_THE_LIBRARY: &str = "about upstream's metrics library itself";
const OF_CLIENT_GO: &str = "about the inside of upstream's client library";
const OF_GO: &str = "about the runtime of Go programs";
const DROPPED: &str = "upstream drops it from a file; ours keeps what it was given";
const OTHER_MODE: &str = "a setting of another mode, which upstream writes as unset; unset means the default";

const DIFFERENCES: &[Difference] = &[
    differs(Metrics, "no go_*", OF_GO),
    differs(Metrics, "no aggregator_*", OF_APISERVERS),
    differs(Metrics, "no apiserver_*", OF_APISERVERS),
    differs(Metrics, "no cardinality_enforcement_unexpected_categorizations_total", OF_THE_LIBRARY),
    differs(Metrics, "no disabled_metrics_total", OF_THE_LIBRARY),
    differs(Metrics, "no hidden_metrics_total", OF_THE_LIBRARY),
    differs(Metrics, "no registered_metrics_total", OF_THE_LIBRARY),
    differs(Metrics, "no rest_client_exec_plugin_*", OF_CLIENT_GO),
    differs(Metrics, "no rest_client_transport_*", OF_CLIENT_GO),
    differs(Metrics, "no rest_client_response_size_bytes", "answers are read as streams, as they come"),
    differs(Pages, "10256/readyz: (404,*", "ours: ready only after the first sync"),
    differs(Pages, "10249/: (404,*", "ours: an index"),
    differs(Pages, "10249/debug/flags: (200, \"text/html;*", "text, not HTML"),
    differs(Pages, "10249/debug/flags/: (200, \"text/html;*", "text, not HTML"),
    differs(Pages, "10249/debug/pprof: (302, \"text/html;*", "text, not HTML"),
    differs(Pages, "10249/debug/pprof/: (200, \"text/html;*", "text, not HTML"),
    differs(
        Pages,
        "10249/debug/pprof/cmdline: (404,*",
        "ours: every Go program has it, but upstream leaves it out",
    ),
    differs(Pages, "10249/debug/pprof/goroutine: (200,*", OF_GO),
    differs(Pages, "10249/debug/pprof/threadcreate: (200,*", OF_GO),
    differs(Pages, "10249/debug/pprof/block: (200,*", OF_GO),
    differs(Pages, "10249/debug/pprof/mutex: (200,*", OF_GO),
    differs(Pages, "10249/debug/pprof/trace?seconds=1: (200,*", OF_GO),
    differs(
        Configz,
        "kubeproxy.config.k8s.io.iptables.minSyncPeriod: \"0s\" upstream, \"1s\" here",
        OTHER_MODE,
    ),
    differs(
        Configz,
        "kubeproxy.config.k8s.io.iptables.syncPeriod: \"0s\" upstream, \"30s\" here",
        OTHER_MODE,
    ),
    differs(Configz, "kubeproxy.config.k8s.io.ipvs.syncPeriod: \"0s\" upstream, \"30s\" here", OTHER_MODE),
    differs(Written, "iptables.masqueradeAll: false upstream, true here*", OTHER_MODE),
    differs(Written, "iptables.minSyncPeriod: \"0s\" upstream*", OTHER_MODE),
    differs(Written, "iptables.syncPeriod: \"0s\" upstream*", OTHER_MODE),
    differs(Written, "ipvs.minSyncPeriod: \"0s\" upstream*", OTHER_MODE),
    differs(Written, "ipvs.syncPeriod: \"0s\" upstream*", OTHER_MODE),
    differs(Written, "nftables.minSyncPeriod: \"0s\" upstream*", OTHER_MODE),
    differs(Written, "nftables.syncPeriod: \"0s\" upstream*", OTHER_MODE),
    differs(Written, "mode: \"iptables\" upstream, \"nftables\" here*", "what an unset mode means"),
    differs(
        Written,
        "nodePortAddresses: null upstream, [\"primary\"] here*",
        "goes with mode nftables, upstream too",
    ),
    differs(Written, "hostnameOverride: \"*", "upstream writes in small letters what we read so"),
    differs(Written, "logging.options.json.splitStream: nothing upstream, true here*", DROPPED),
    differs(Written, "logging.options.text.splitStream: nothing upstream, true here*", DROPPED),
    differs(Written, "portRange: \"\" upstream, \"30000-32000\" here*", DROPPED),
    differs(
        Written,
        "refused upstream: *",
        "an address without a port: upstream takes it for a run, as we do, and not for this",
    ),
    differs(
        Written,
        "udpIdleTimeout: nothing upstream, *",
        "ours: mode userspace, which upstream no longer has",
    ),
    differs(Written, "userspaceDrainTimeout: nothing upstream, *", "ours: mode userspace"),
    differs(Flags, "more: --udp-idle-timeout", "ours: mode userspace, which upstream no longer has"),
    differs(Flags, "more: --userspace-drain-timeout", "ours: mode userspace"),
    differs(Flags, "more: --manifests", "ours: a source without an apiserver"),
    differs(Flags, "more: --service-counters", "ours: traffic of every service"),
    differs(Flags, "more: --cleanup-and-wait", "ours: cleaning up as a DaemonSet"),
    differs(Flags, "more: --healthz-port", "upstream takes it, and hides it"),
    differs(Flags, "more: --metrics-port", "upstream takes it, and hides it"),
];

impl Difference {
    fn covers(&self, topic: Topic, found: &str) -> bool {
        self.topic == topic
            && match self.what.strip_suffix('*') {
                Some(start) => found.starts_with(start),
                None => found == self.what,
            }
    }
}

/// Fail on what is found and not listed, and on what is listed and not found.
pub(crate) fn review(topic: Topic, found: impl IntoIterator<Item = String>) {
    let found: Vec<String> = found.into_iter().collect();
    let unlisted: Vec<&String> =
        found.iter().filter(|found| !DIFFERENCES.iter().any(|known| known.covers(topic, found))).collect();
    let gone: Vec<&str> = DIFFERENCES
        .iter()
        .filter(|known| known.topic == topic && !found.iter().any(|found| known.covers(topic, found)))
        .map(|known| known.what)
        .collect();
    assert!(unlisted.is_empty(), "not as upstream, and not listed:\n{unlisted:#?}");
    assert!(gone.is_empty(), "as upstream now; strike these off the list:\n{gone:#?}");
    for known in DIFFERENCES.iter().filter(|known| known.topic == topic) {
        println!("differs from upstream, {topic:?}: {}: {}", known.what, known.why);
    }
}
