//! Flags that are no part of the configuration: what to do, and with which source.

use crate::settings::{Group, Usage};
use crate::{Refusal, Value, Whole};

/// 0 turns the server off.
pub(super) type Port = Whole<0, 65535>;

#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    pub(super) manifests: String,
    pub(super) master: String,
    pub(super) service_counters: bool,
    pub(super) config: String,
    pub(super) write_config_to: String,
    pub(super) cleanup: bool,
    pub(super) cleanup_and_wait: bool,
    pub(super) init_only: bool,
    pub(super) healthz_port: Option<Port>,
    pub(super) metrics_port: Option<Port>,
    pub(super) version: String,
    pub(super) help: bool,
}

type Read = fn(&mut Orders, &str) -> Result<(), Refusal>;

pub(super) struct Order {
    pub(super) usage: Usage,
    pub(super) read: Read,
    /// What the flag means without a value, if it may stand alone.
    pub(super) alone: Option<&'static str>,
}

const fn order(
    group: Group,
    name: &'static str,
    value: &'static str,
    help: &'static str,
    read: Read,
) -> Order {
    let alone = if value.is_empty() { Some("true") } else { None };
    Order { usage: Usage { name, value, help, group }, read, alone }
}

fn read_port(place: &mut Option<Port>, text: &str) -> Result<(), Refusal> {
    let mut port: Port = Whole(0);
    port.read_flag(text)?;
    *place = Some(port);
    Ok(())
}

pub(super) const ORDERS: &[Order] = &[
    order(
        Group::Source,
        "manifests",
        "PATH",
        "Read Service, EndpointSlice, Node and ServiceCIDR objects from this file or folder of YAML/JSON instead of \
         an apiserver; it is watched.",
        |o, text| o.manifests.read_flag(text),
    ),
    order(
        Group::Source,
        "master",
        "URL",
        "The apiserver, instead of the one in the kubeconfig.",
        |o, text| o.master.read_flag(text),
    ),
    order(
        Group::Serving,
        "service-counters",
        "",
        "Count packets, bytes and connections of every service port in the kernel, and show them on /metrics. In \
         mode nftables this adds a small cost per packet; mode userspace counts only refused packets; in mode iptables it \
         has no effect.",
        |o, text| o.service_counters.read_flag(text),
    ),
    order(
        Group::Serving,
        "healthz-port",
        "PORT",
        "Deprecated: the port of --healthz-bind-address if that has none; 0 disables the probes.",
        |o, text| read_port(&mut o.healthz_port, text),
    ),
    order(
        Group::Serving,
        "metrics-port",
        "PORT",
        "Deprecated: the port of --metrics-bind-address if that has none; 0 disables the metrics.",
        |o, text| read_port(&mut o.metrics_port, text),
    ),
    order(
        Group::General,
        "config",
        "FILE",
        "A KubeProxyConfiguration (YAML or JSON). With it, only the flags for logging, --hostname-override, \
         --master, --manifests, --service-counters and the commands below have an effect.",
        |o, text| o.config.read_flag(text),
    ),
    order(
        Group::General,
        "write-config-to",
        "FILE",
        "Write the configuration, defaults included, as YAML and exit.",
        |o, text| o.write_config_to.read_flag(text),
    ),
    order(
        Group::General,
        "cleanup",
        "",
        "Remove all rules of this or any other kube-proxy, of every mode and both address families, and exit.",
        |o, text| o.cleanup.read_flag(text),
    ),
    order(
        Group::General,
        "cleanup-and-wait",
        "",
        "As --cleanup, then wait to be terminated. For a pod per node, whose roll-out is done when every node is clean.",
        |o, text| o.cleanup_and_wait.read_flag(text),
    ),
    order(
        Group::General,
        "init-only",
        "",
        "Set up the node (conntrack's limits and timeouts) and exit, with an error if a setting could not be \
         applied. For a privileged init container of an agent with fewer rights.",
        |o, text| o.init_only.read_flag(text),
    ),
    Order {
        alone: Some("true"),
        ..order(Group::General, "version", "", "Print the version.", |o, text| o.version.read_flag(text))
    },
    order(Group::General, "help", "", "Print this help.", |o, text| o.help.read_flag(text)),
];
