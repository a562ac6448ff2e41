//! Every flag with the value it has on a command line, given or not: what `/flagz` tells.

use std::collections::BTreeMap;

use super::orders::{ORDERS, Orders};
use super::read;
use crate::{Node, settings};

/// By name, as Kubernetes' own components write values. `mask` takes the password out of a URL.
pub fn values(arguments: &[String], mask: fn(&str) -> String) -> BTreeMap<&'static str, String> {
    let mut line = read::read(arguments.to_vec());
    let mut values: BTreeMap<&'static str, String> = ORDERS
        .iter()
        .map(|order| (order.usage.name, order_value(order.usage.name, &line.orders, mask)))
        .collect();
    for setting in settings::all() {
        if let Some(usage) = setting.flag {
            values.insert(usage.name, text(&setting.value(&mut line.configuration).show()));
        }
    }
    values
}

fn order_value(name: &str, orders: &Orders, mask: fn(&str) -> String) -> String {
    let port = |port: Option<super::orders::Port>, usual: i32| port.map_or(usual, |port| port.0).to_string();
    match name {
        "manifests" => orders.manifests.clone(),
        "master" => mask(&orders.master),
        "config" => orders.config.clone(),
        "write-config-to" => orders.write_config_to.clone(),
        "cleanup" => orders.cleanup.to_string(),
        "cleanup-and-wait" => orders.cleanup_and_wait.to_string(),
        "init-only" => orders.init_only.to_string(),
        "service-counters" => orders.service_counters.to_string(),
        "healthz-port" => port(orders.healthz_port, 10256),
        "metrics-port" => port(orders.metrics_port, 10249),
        "version" if orders.version.is_empty() => "false".into(),
        "version" => orders.version.clone(),
        "help" => orders.help.to_string(),
        _ => String::new(),
    }
}

fn text(node: &Node) -> String {
    match node {
        // A list that was not given.
        Node::Null => "[]".to_owned(),
        Node::Bool(value) => value.to_string(),
        Node::Number(text) | Node::Text(text) => text.clone(),
        Node::List(items) if matches!(items.first(), None | Some(Node::Map(_))) => modules(items),
        Node::List(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Node::Map(fields) => {
            let pairs: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
            pairs.join(",")
        }
    }
}

/// `--vmodule=sync*=4,run=2`
fn modules(items: &[Node]) -> String {
    let pair = |item: &Node| match item {
        Node::Map(fields) => fields.values().map(text).collect::<Vec<_>>().join("="),
        other => text(other),
    };
    items.iter().map(pair).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_value() {
        let arguments =
            ["--masquerade-all", "--nodeport-addresses=10.0.0.0/8,primary", "-v4", "--oom-score-adj=5"];
        let more = [
            "--vmodule=sync*=4,run=2",
            "--feature-gates=ComponentFlagz=true",
            "--master=https://me:secret@host:6443/x@y",
        ];
        let arguments: Vec<String> = arguments.iter().chain(&more).map(|text| (*text).to_owned()).collect();
        let values = values(&arguments, |url| url.replace("me:secret@", ""));
        for (name, value) in [
            ("masquerade-all", "true"),
            ("nodeport-addresses", "[10.0.0.0/8,primary]"),
            ("v", "4"),
            ("oom-score-adj", "5"),
            ("service-counters", "false"),
            ("feature-gates", "ComponentFlagz=true"),
            ("master", "https://host:6443/x@y"),
            ("cleanup", "false"),
            ("healthz-port", "10256"),
            ("iptables-sync-period", "30s"),
            ("proxy-mode", ""),
            ("ipvs-exclude-cidrs", "[]"),
            ("vmodule", "sync*=4,run=2"),
            ("config", ""),
        ] {
            assert_eq!(values.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(ORDERS.iter().all(|order| values.contains_key(order.usage.name)));
    }
}
