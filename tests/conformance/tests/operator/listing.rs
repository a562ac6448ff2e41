//! What upstream has, kept as a list beside our table of compatibility: it must be what the real binary has.
//! `UPDATE_GOLDEN=1` writes it.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::ask::{PAGES, PROBES};
use crate::configurations::{in_crates, written};
use crate::exposition::{Families, parse};
use crate::flags::names;
use crate::pages::PATHS;
use crate::pair::Pair;

const FILE: &str = "agent/tests/unit/compatibility/upstream.txt";
const HEAD: &str = "# What upstream's kube-proxy 1.37.1 has. Made from the real binary by\n\
                    # UPDATE_GOLDEN=1 scripts/conformance \"the list of what upstream has\"\n";

/// Metrics that a run in nftables mode does not show: of failures, and of other modes. The binary holds their names.
const UNSEEN: &[(&str, &str, &str)] = &[
    ("iptables_ct_state_invalid_dropped_packets_total", "counter", ""),
    ("iptables_localhost_nodeports_accepted_packets_total", "counter", ""),
    ("nftables_localhost_nodeport_listener_creation_failures_total", "counter", "ip_family"),
    ("nftables_localhost_nodeport_listeners", "gauge", "ip_family"),
    ("nftables_localhost_nodeport_rejected_packets_total", "counter", "ip_family,protocol"),
    ("sync_proxy_rules_iptables_last", "gauge", "ip_family,table"),
    ("sync_proxy_rules_iptables_partial_restore_failures_total", "counter", "ip_family"),
    ("sync_proxy_rules_iptables_restore_failures_total", "counter", "ip_family"),
    ("sync_proxy_rules_iptables_total", "gauge", "ip_family,table"),
    ("sync_proxy_rules_nftables_cleanup_failures_total", "counter", "ip_family"),
    ("sync_proxy_rules_nftables_sync_failures_total", "counter", "ip_family"),
];

const EVENTS: &[&str] = &[
    "FailedToStartMetricServer",
    "FailedToStartProxierHealthcheck",
    "FailedToStartServiceHealthcheck",
    "IPVSDeprecation",
    "KubeProxyDefaultMode",
    "Starting",
];

/// These set fields that are written only if they are set.
const UNWRITTEN: [&str; 3] =
    ["--feature-gates=LoggingAlphaOptions=true", "--log-text-split-stream", "--log-json-split-stream"];

/// Flags that are not in the help text.
const HIDDEN: &[&str] = &["healthz-port", "metrics-port"];

pub(crate) fn compared(pair: &Pair) {
    let found = listing(pair);
    let path = in_crates(FILE);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == kept, "{} is not what the binary has, which is:\n{found}", path.display());
}

fn listing(pair: &Pair) -> String {
    let binary = std::fs::read(&pair.kit.upstream).unwrap();
    let holds = |word: &str| binary.windows(word.len()).any(|window| window == word.as_bytes());
    let mut lines = BTreeSet::new();
    let [_, help] = pair.outputs(&["--help".to_owned()]);
    lines.extend(names(&help).iter().map(|name| format!("flag {name}")));
    for name in HIDDEN {
        let [_, theirs] = written(pair, &[format!("--{name}=1")]);
        assert!(!theirs.contains_key("refused"), "{theirs:?}");
        lines.insert(format!("flag {name}"));
    }
    let full = format!("--config={}", in_crates("config/src/examples/full.yaml").display());
    for arguments in [Vec::new(), vec![full], UNWRITTEN.map(str::to_owned).to_vec()] {
        let [_, theirs] = written(pair, &arguments);
        lines.extend(theirs.keys().map(|path| format!("field {}", field(path))));
    }
    let page = pair.theirs.get(PAGES, "/metrics").body;
    lines.extend(gates(&page).map(|gate| format!("gate {gate}")));
    lines.extend(families("metric", &parse(&page)));
    lines.extend(families("sli", &parse(&pair.theirs.get(PAGES, "/metrics/slis").body)));
    for (name, kind, labels) in UNSEEN {
        assert!(holds(name), "upstream has no {name}");
        lines.insert(format!("metric kubeproxy_{name} {kind} {{{labels}}}"));
    }
    for (port, path) in PATHS {
        let status = pair.theirs.get(*port, path).status;
        let path = path.split('?').next().unwrap_or(path);
        if status != 404 {
            let server = if *port == PROBES { "probes" } else { "metrics" };
            lines.insert(format!("page {server} {path}"));
        }
    }
    for reason in EVENTS {
        assert!(holds(reason), "upstream has no event {reason}");
        lines.insert(format!("event {reason}"));
    }
    lines.iter().fold(HEAD.to_owned(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}

/// Gates are no fields of their own.
fn field(path: &str) -> &str {
    if path.starts_with("featureGates") { "featureGates" } else { path }
}

fn gates(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| {
        let name = line.strip_prefix("kubernetes_feature_enabled{name=\"")?;
        name.split('"').next()
    })
}

fn families<'a>(what: &'a str, families: &'a Families) -> impl Iterator<Item = String> + 'a {
    families.iter().map(move |(name, family)| {
        // They change with every release of Go, and are named as one.
        if name.starts_with("go_") {
            return format!("{what} go_*");
        }
        let labels: Vec<&str> = family.labels.iter().map(String::as_str).collect();
        format!("{what} {name} {} {{{}}}", family.kind, labels.join(","))
    })
}
