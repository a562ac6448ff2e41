//! The word on what is not simply the same.

use super::What::{self, Event, Field, Flag, Gate, Metric, Page};
use State::{Absent, Better, More, Otherwise};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Both have it, and ours does more.
    Better,
    /// Both have it, and it is not quite the same.
    Otherwise,
    /// Only upstream has it.
    Absent,
    /// Only we have it.
    More,
}

#[derive(Debug)]
pub(super) struct Note {
    pub(super) what: What,
    /// A star at its end stands for anything.
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) word: &'static str,
}

const fn note(what: What, name: &'static str, state: State, word: &'static str) -> Note {
    Note { what, name, state, word }
}

const OF_LIBRARIES: &str = "of the apiserver's libraries, which upstream links; zero in a kube-proxy";
const OF_THE_METRICS: &str = "about upstream's metrics library itself";
const OF_CLIENT_GO: &str = "about the inside of upstream's client library";
const OF_GO: &str = "about Go's runtime; 501, with these words";
const NOTHING_TO_REFRESH: &str =
    "accepted; there is nothing to refresh, because a watch that falls behind lists anew";
const AT_ONCE: &str = "the most a change waits: an idle agent syncs at once";

pub(super) const ALL: &[Note] = &[
    note(Flag, "config", Better, "a change takes effect without a restart, or is refused with an event"),
    note(Flag, "config-sync-period", Otherwise, NOTHING_TO_REFRESH),
    note(Flag, "feature-gates", Better, "a typing error gets a suggestion"),
    note(Flag, "help", Better, "grouped, and honest on what has no effect"),
    note(Flag, "init-only", Better, "ends with an error if anything was left undone"),
    note(Flag, "iptables-min-sync-period", Better, AT_ONCE),
    note(Field, "configSyncPeriod", Otherwise, NOTHING_TO_REFRESH),
    note(Field, "iptables.minSyncPeriod", Better, AT_ONCE),
    note(Field, "nftables.minSyncPeriod", Better, AT_ONCE),
    note(
        Field,
        "mode",
        Otherwise,
        "unset means nftables where the kernel has it, else iptables; upstream: iptables",
    ),
    note(
        Flag,
        "proxy-mode",
        Otherwise,
        "unset means nftables where the kernel has it, else iptables; upstream: iptables",
    ),
    note(Gate, "KubeProxyIPVS", Otherwise, "accepted; mode ipvs is not in this build"),
    note(Metric, "go_*", Absent, "about Go's runtime"),
    note(Metric, "aggregator_*", Absent, OF_LIBRARIES),
    note(Metric, "apiserver_*", Absent, OF_LIBRARIES),
    note(Metric, "cardinality_enforcement_unexpected_categorizations_total", Absent, OF_THE_METRICS),
    note(Metric, "disabled_metrics_total", Absent, OF_THE_METRICS),
    note(Metric, "hidden_metrics_total", Absent, OF_THE_METRICS),
    note(Metric, "registered_metrics_total", Absent, OF_THE_METRICS),
    note(Metric, "rest_client_exec_plugin_*", Absent, OF_CLIENT_GO),
    note(Metric, "rest_client_transport_*", Absent, OF_CLIENT_GO),
    note(Metric, "rest_client_response_size_bytes", Absent, "answers are read as streams, as they come"),
    note(
        Metric,
        "kubernetes_feature_enabled",
        Otherwise,
        "only the gates that concern a proxy, not all that the binary knows",
    ),
    note(
        Metric,
        "pointsman_service_packets_total",
        More,
        "packets of a service port, with `--service-counters`",
    ),
    note(Metric, "pointsman_service_bytes_total", More, "bytes of a service port, with `--service-counters`"),
    note(Metric, "pointsman_service_connections_total", More, "its connections, with `--service-counters`"),
    note(Page, "probes /readyz", More, "200 once both families are programmed; says what is awaited"),
    note(Page, "metrics /", More, "names the pages"),
    note(Page, "metrics /debug/pprof/cmdline", More, "the command line"),
    note(Page, "metrics /debug/pprof/goroutine", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/threadcreate", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/block", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/mutex", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/trace", Absent, OF_GO),
    note(Event, "IPVSDeprecation", Absent, "mode ipvs is not in this build"),
    note(Event, "KubeProxyDefaultMode", Better, "says which mode was taken, why, and how to keep it"),
    note(
        Metric,
        "pointsman_affinity_pins",
        More,
        "clients that ClientIP affinity has pinned; from Linux 6.16 on",
    ),
    note(Metric, "pointsman_affinity_pins_limit", More, "how many there is room for"),
    note(Event, "ServiceTooLarge", More, "on a Service: it asks for more than one service may have"),
    note(Event, "AddressClaimedTwice", More, "on a Service: another service keeps an address that it claims"),
    note(Event, "ConfigurationChanged", More, "on the Node: what is in force now"),
    note(Event, "ConfigurationRefused", More, "on the Node: why the old configuration stays"),
    note(
        Event,
        "IgnoredEntries",
        More,
        "on a Service, EndpointSlice, Node or ServiceCIDR: entries of it cannot be used",
    ),
    note(
        Event,
        "UnusableObject",
        More,
        "on a Service, EndpointSlice, Node or ServiceCIDR: it cannot be used; its last usable version stays",
    ),
    note(
        Event,
        "RulesOfOtherMode",
        More,
        "on the Node: rules of another mode that an earlier kube-proxy left and that could not be removed",
    ),
    note(
        Event,
        "readOnlySysFS",
        More,
        "on the Node, as older releases of upstream: the table of flows keeps its size",
    ),
];
