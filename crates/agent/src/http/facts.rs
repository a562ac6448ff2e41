//! `/pointsman/v1/facts`: what this node is, as far as rules depend on it.

use std::time::SystemTime;

use cluster::apiserver::masked;
use cluster::timestamp::format_micros;
use config::{Options, flags, version};
use kernel::sysctl::Root;
use serde_json::{Map, Value, json};

use super::Context;

/// Settings that decide what becomes of packets.
const SYSCTLS: [&str; 32] = [
    "net/ipv4/ip_forward",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_nonlocal_bind",
    "net/ipv4/conf/all/arp_announce",
    "net/ipv4/conf/all/arp_ignore",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/default/rp_filter",
    "net/ipv4/vs/conn_reuse_mode",
    "net/ipv4/vs/conntrack",
    "net/ipv4/vs/expire_nodest_conn",
    "net/ipv4/vs/expire_quiescent_template",
    "net/ipv4/vs/run_estimation",
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/default/disable_ipv6",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-call-iptables",
    "net/core/somaxconn",
    "net/netfilter/nf_conntrack_acct",
    "net/netfilter/nf_conntrack_buckets",
    "net/netfilter/nf_conntrack_count",
    "net/netfilter/nf_conntrack_events",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_udp_timeout",
    "net/netfilter/nf_conntrack_udp_timeout_stream",
    "kernel/osrelease",
    "kernel/version",
];
/// Modules that have to do with packets begin like this.
const MODULES: [&str; 9] =
    ["nf_", "nft_", "nfnetlink", "ip_vs", "xt_", "ip_tables", "ip6_tables", "iptable_", "br_netfilter"];
const MOST_MODULES: usize = 300;

/// What does not change while these options hold.
#[derive(Clone)]
pub(super) struct About {
    node: String,
    mode: &'static str,
    flags: Map<String, Value>,
    started: SystemTime,
}

impl About {
    pub(super) fn new(options: &Options, context: &Context) -> About {
        About {
            node: options.node_name.clone(),
            mode: options.mode.word(),
            flags: flag_values(&context.arguments),
            started: context.started,
        }
    }

    /// Reads files of the kernel.
    pub(super) fn read(&self) -> Value {
        let root = Root::system();
        let sysctls = SYSCTLS.iter().filter_map(|name| {
            let value = root.read(&format!("/proc/sys/{name}")).ok()?;
            Some((name.replace('/', "."), Value::from(value)))
        });
        let release = root.read("/etc/os-release").unwrap_or_default();
        let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        json!({
            "version": version::FULL,
            "platform": version::platform(),
            "node": self.node,
            "mode": self.mode,
            "started": format_micros(self.started),
            "now": format_micros(SystemTime::now()),
            "image": system.map(|name| name.trim_matches('"')),
            "flags": self.flags,
            "sysctls": sysctls.collect::<Map<_, _>>(),
            "modules": modules(&root.read("/proc/modules").unwrap_or_default()),
        })
    }
}

/// A password in a URL stays out.
fn flag_values(arguments: &[String]) -> Map<String, Value> {
    flags::values(arguments, masked)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}

fn modules(text: &str) -> Vec<&str> {
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let mut names: Vec<&str> =
        names.filter(|name| MODULES.iter().any(|start| name.starts_with(start))).take(MOST_MODULES).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_told() {
        let flags = flag_values(&["--master=https://me:sesame@host:6443".to_owned()]);
        assert_eq!(flags["master"], "https://host:6443");
    }

    #[test]
    fn only_modules_for_packets_are_named() {
        let text = "xt_recent 20480 0 - Live 0x0\nkvm 1 0 - Live 0x0\nbr_netfilter 32768 0 - Live 0x0\n";
        assert_eq!(modules(text), ["br_netfilter", "xt_recent"]);
    }
}
