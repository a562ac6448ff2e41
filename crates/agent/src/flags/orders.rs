//! Flags that are no part of the configuration: what to do, and with which source.

use crate::config::settings::{Group, Usage};
use crate::config::{Value, Whole};

/// 0 turns the server off.
pub(super) type Port = Whole<0, 65535>;

#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    pub(super) manifests: String,
    pub(super) master: String,
    pub(super) config: String,
    pub(super) write_config_to: String,
    pub(super) cleanup: bool,
    pub(super) init_only: bool,
    pub(super) healthz_port: Option<Port>,
    pub(super) metrics_port: Option<Port>,
    pub(super) version: String,
    pub(super) help: bool,
}

pub(super) struct Order {
    pub(super) usage: Usage,
    pub(super) place: fn(&mut Orders) -> &mut dyn Value,
    /// What the flag means without a value, if it may stand alone.
    pub(super) alone: Option<&'static str>,
}

const fn order(
    group: Group,
    name: &'static str,
    value: &'static str,
    help: &'static str,
    place: fn(&mut Orders) -> &mut dyn Value,
) -> Order {
    let alone = if value.is_empty() { Some("true") } else { None };
    Order { usage: Usage { name, value, help, group }, place, alone }
}

pub(super) const ORDERS: &[Order] = &[
    order(
        Group::Source,
        "manifests",
        "PATH",
        "Instead of an apiserver: a file or folder of YAML/JSON with Service, EndpointSlice, Node and ServiceCIDR \
         objects; watched.",
        |o| &mut o.manifests,
    ),
    order(Group::Source, "master", "URL", "The apiserver, instead of the one in the kubeconfig.", |o| {
        &mut o.master
    }),
    order(
        Group::Serving,
        "healthz-port",
        "PORT",
        "Deprecated: the port of --healthz-bind-address where that names none; 0 serves no probes.",
        |o| &mut o.healthz_port,
    ),
    order(
        Group::Serving,
        "metrics-port",
        "PORT",
        "Deprecated: the port of --metrics-bind-address where that names none; 0 serves no metrics.",
        |o| &mut o.metrics_port,
    ),
    order(
        Group::General,
        "config",
        "FILE",
        "A KubeProxyConfiguration (YAML or JSON). Of the other flags only those for logging, --hostname-override, \
         --master, --manifests and the orders below then count.",
        |o| &mut o.config,
    ),
    order(
        Group::General,
        "write-config-to",
        "FILE",
        "Write the configuration, defaults included, as YAML and exit.",
        |o| &mut o.write_config_to,
    ),
    order(
        Group::General,
        "cleanup",
        "",
        "Remove all rules of this program, of both address families, and exit.",
        |o| &mut o.cleanup,
    ),
    order(
        Group::General,
        "init-only",
        "",
        "Do what needs full privileges and exit. There is nothing of that kind in this build: it checks the \
         settings and succeeds.",
        |o| &mut o.init_only,
    ),
    Order {
        alone: Some("true"),
        ..order(Group::General, "version", "", "Print the version.", |o| &mut o.version)
    },
    order(Group::General, "help", "", "Print this help.", |o| &mut o.help),
];
