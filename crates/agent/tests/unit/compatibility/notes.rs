//! The note on each name that is not simply the same.

use super::What::{self, Event, Field, Flag, Metric, Page};
use State::{Absent, Better, Different, More};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Both have it, and ours does more.
    Better,
    /// Both have it, and it is not quite the same.
    Different,
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

const OF_LIBRARIES: &str =
    "from the apiserver's libraries, which upstream links; always zero in a kube-proxy";
const OF_THE_METRICS: &str = "describes upstream's metrics library";
const OF_CLIENT_GO: &str = "describes the internals of upstream's client library";
const OF_GO: &str = "describes Go's runtime; answered with 501 and this reason";
const NOTHING_TO_REFRESH: &str =
    "accepted; there is nothing to refresh, because a watch that falls behind lists again";
const AT_ONCE: &str = "the longest that a change waits; an idle agent syncs at once";
const OF_KUBE_PROXIES: &str =
    "virtual servers outside these prefixes are also left alone, unless a kube-proxy made them";
const CHECKED_SCHEDULER: &str = "an unknown name, or a kernel without its module, is an error that says so";
const LOOKS: &str =
    "all virtual servers are checked once in this time; routes, routing rules and nf_tables at once";

const IDLE_UDP: &str = "of mode userspace, as old releases of upstream had it, and of listeners on loopback addresses in other modes; 30s by \
     default instead of 250ms";
const DRAINING: &str = "how long mode userspace waits for open connections when it stops";

pub(super) const ALL: &[Note] = &[
    note(Flag, "config", Better, "a change takes effect without a restart, or is refused with an event"),
    note(Flag, "config-sync-period", Different, NOTHING_TO_REFRESH),
    note(Flag, "feature-gates", Better, "a misspelt gate gets a suggestion"),
    note(Flag, "help", Better, "grouped; says which flags have no effect"),
    note(Flag, "init-only", Better, "exits with an error if a setting could not be applied"),
    note(Flag, "iptables-min-sync-period", Better, AT_ONCE),
    note(Flag, "ipvs-exclude-cidrs", Better, OF_KUBE_PROXIES),
    note(Flag, "ipvs-min-sync-period", Better, AT_ONCE),
    note(Flag, "ipvs-scheduler", Better, CHECKED_SCHEDULER),
    note(Flag, "ipvs-sync-period", Better, LOOKS),
    note(Field, "ipvs.excludeCIDRs", Better, OF_KUBE_PROXIES),
    note(Field, "ipvs.minSyncPeriod", Better, AT_ONCE),
    note(Field, "ipvs.scheduler", Better, CHECKED_SCHEDULER),
    note(Field, "ipvs.syncPeriod", Better, LOOKS),
    note(Field, "configSyncPeriod", Different, NOTHING_TO_REFRESH),
    note(Field, "iptables.minSyncPeriod", Better, AT_ONCE),
    note(Field, "nftables.minSyncPeriod", Better, AT_ONCE),
    note(
        Field,
        "mode",
        Different,
        "unset means nftables where the kernel has it, else iptables; upstream: iptables",
    ),
    note(
        Flag,
        "proxy-mode",
        Different,
        "unset means nftables where the kernel has it, else iptables; upstream: iptables",
    ),
    note(Metric, "go_*", Absent, "describes Go's runtime"),
    note(Metric, "aggregator_*", Absent, OF_LIBRARIES),
    note(Metric, "apiserver_*", Absent, OF_LIBRARIES),
    note(Metric, "cardinality_enforcement_unexpected_categorizations_total", Absent, OF_THE_METRICS),
    note(Metric, "disabled_metrics_total", Absent, OF_THE_METRICS),
    note(Metric, "hidden_metrics_total", Absent, OF_THE_METRICS),
    note(Metric, "registered_metrics_total", Absent, OF_THE_METRICS),
    note(Metric, "rest_client_exec_plugin_*", Absent, OF_CLIENT_GO),
    note(Metric, "rest_client_transport_*", Absent, OF_CLIENT_GO),
    note(Metric, "rest_client_response_size_bytes", Absent, "responses are read as streams"),
    note(
        Metric,
        "kubernetes_feature_enabled",
        Different,
        "only the gates that concern a proxy, not all that the binary knows",
    ),
    note(
        Metric,
        "pointsman_service_packets_total",
        More,
        "packets of a service port, with `--service-counters`",
    ),
    note(
        Metric,
        "pointsman_service_refused_packets_total",
        More,
        "refused packets of a service port, with `--service-counters`",
    ),
    note(Metric, "pointsman_service_bytes_total", More, "bytes of a service port, with `--service-counters`"),
    note(
        Metric,
        "pointsman_service_connections_total",
        More,
        "connections of a service port, with `--service-counters`",
    ),
    note(Metric, "pointsman_ipvs_virtual_servers", More, "virtual servers of services, in mode ipvs"),
    note(
        Metric,
        "pointsman_ipvs_destinations",
        More,
        "destinations in use of all virtual servers, in mode ipvs",
    ),
    note(
        Metric,
        "pointsman_ipvs_draining_destinations",
        More,
        "destinations of removed endpoints that stay until their connections end, in mode ipvs",
    ),
    note(Page, "probes /readyz", More, "200 once both families are programmed; says what it waits for"),
    note(Page, "metrics /", More, "the agent to look at, with links to the other pages"),
    note(Page, "metrics /pointsman/page.css", More, "the style of that page"),
    note(Page, "metrics /pointsman/page.js", More, "its script"),
    note(Page, "metrics /pointsman/v1/diff", More, "what the kernel holds against what was written"),
    note(Page, "metrics /pointsman/v1/explain", More, "what happens to a packet, and why"),
    note(Page, "metrics /pointsman/v1/facts", More, "what this node is, for a bug report"),
    note(Page, "metrics /pointsman/v1/log", More, "the last lines of the log"),
    note(Page, "metrics /pointsman/v1/ruleset", More, "the rules in the kernel, as `nft -j` prints them"),
    note(Page, "metrics /pointsman/v1/services", More, "what is programmed for each service"),
    note(Page, "metrics /pointsman/v1/status", More, "node, mode, health and the last syncs"),
    note(Page, "metrics /pointsman/v1/trace", More, "new connections as the kernel sees them"),
    note(Page, "metrics /debug/service", More, "what is planned and programmed for a service"),
    note(Page, "metrics /debug/pprof/cmdline", More, "the command line"),
    note(Page, "metrics /debug/pprof/goroutine", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/threadcreate", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/block", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/mutex", Absent, OF_GO),
    note(Page, "metrics /debug/pprof/trace", Absent, OF_GO),
    note(Event, "IPVSDeprecation", Better, "says what to use instead, and when not to"),
    note(Event, "KubeProxyDefaultMode", Better, "says which mode was chosen, why, and how to keep it"),
    note(Metric, "pointsman_affinity_pins", More, "clients that ClientIP affinity has pinned"),
    note(Metric, "pointsman_dropped_packets_total", More, "packets to services that were dropped, by reason"),
    note(
        Metric,
        "pointsman_rejected_packets_total",
        More,
        "packets to services that were rejected, by reason",
    ),
    note(Metric, "pointsman_affinity_pins_limit", More, "maximum number of pinned clients"),
    note(
        Metric,
        "pointsman_userspace_*",
        More,
        "connections that mode userspace carries, and those turned away",
    ),
    note(Flag, "udp-idle-timeout", More, IDLE_UDP),
    note(Field, "udpIdleTimeout", More, IDLE_UDP),
    note(
        Metric,
        "pointsman_localhost_nodeport_left_out_listeners",
        More,
        "listeners on loopback addresses beyond the limit, which are not there",
    ),
    note(Flag, "userspace-drain-timeout", More, DRAINING),
    note(Field, "userspaceDrainTimeout", More, DRAINING),
    note(Event, "UserspaceModeIsSlow", More, "on the Node: what mode userspace costs, and when to use it"),
    note(
        Event,
        "PortNotServed",
        More,
        "on a Service: the mode cannot serve one of its ports, such as SCTP in mode userspace",
    ),
    note(Event, "ServiceTooLarge", More, "on a Service: it exceeds the limits for one service"),
    note(Event, "AddressClaimedTwice", More, "on a Service: another service keeps an address that it claims"),
    note(Event, "ConfigurationChanged", More, "on the Node: what changed"),
    note(Event, "ConfigurationRefused", More, "on the Node: why the old configuration stays in use"),
    note(
        Event,
        "IgnoredEntries",
        More,
        "on a Service, EndpointSlice, Node or ServiceCIDR: some of its entries cannot be used",
    ),
    note(
        Event,
        "UnusableObject",
        More,
        "on a Service, EndpointSlice, Node or ServiceCIDR: it cannot be used; its last usable version stays in use",
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
        "on the Node, as in older releases of upstream: the conntrack table keeps its size",
    ),
];
