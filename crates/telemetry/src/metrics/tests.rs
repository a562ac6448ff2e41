//! Every metric by name, and the pages read back by a parser that forgives nothing.

mod documented;
mod strict;

use std::time::{Duration, SystemTime};

use cluster::apiserver::{Extent, Observer, Phase, RequestSeen};
use dataplane::metrics::label_text;
use dataplane::{Committed, Phases, Programmed, RuleCount, Synced, Unserved};
use model::Family;

use super::*;
use strict::Families;

const MODES: [(&str, &str); 3] = [
    ("nftables", include_str!("golden/nftables.txt")),
    ("iptables", include_str!("golden/iptables.txt")),
    ("ipvs", include_str!("golden/ipvs.txt")),
];

fn metrics() -> Metrics {
    Metrics::of_mode("nftables", &FeatureGates::default())
}

/// One line a metric: name, type, labels, bounds.
fn in_words(metrics: &Metrics) -> String {
    let all = metrics.0.registry.descriptions();
    let mut lines: Vec<String> = all
        .map(|about| {
            let labels = about.labels.join(",");
            let bounds = match about.kind {
                registry::Kind::Histogram(bounds) => format!(" {bounds:?}"),
                registry::Kind::Counter | registry::Kind::Gauge => String::new(),
            };
            format!("{} {} {{{labels}}}{bounds}\n", about.name, about.kind.word())
        })
        .collect();
    lines.sort_unstable();
    lines.concat()
}

#[test]
fn each_mode_has_its_metrics_with_these_labels_and_bounds() {
    for (name, golden) in MODES {
        let found = in_words(&Metrics::of_mode(name, &FeatureGates::default()));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let path = format!("{}/src/metrics/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, &found).unwrap();
        } else {
            assert_eq!(found, golden, "{name}; run with UPDATE_GOLDEN=1 and read the difference");
        }
    }
}

#[test]
fn the_gate_of_localhost_node_ports_adds_its_metrics() {
    let gates = FeatureGates([("KubeProxyNFTablesLocalhostNodePorts".to_owned(), true)].into());
    let with = in_words(&Metrics::of_mode("nftables", &gates));
    let added: Vec<&str> = with.lines().filter(|line| !MODES[0].1.contains(*line)).collect();
    let (theirs, ours): (Vec<&str>, Vec<&str>) =
        added.into_iter().partition(|line| line.starts_with("kubeproxy_nftables_localhost_nodeport_"));
    assert_eq!(theirs.len(), 3, "{theirs:?}");
    assert_eq!(ours, ["pointsman_localhost_nodeport_left_out_listeners gauge {ip_family}"]);
}

/// Everything that can be measured once, so that no family is missing.
fn busy() -> Metrics {
    let metrics = metrics();
    for family in Family::BOTH {
        let sync = metrics.sync().of(family);
        let phases = Phases { plan: Duration::from_millis(2), ..Phases::default() };
        sync.queued();
        sync.synced(&Synced { phases, ..Synced::default() }, Duration::from_millis(5));
        let unserved = Unserved { internal: 1, external: 2 };
        sync.programmed(&Programmed { services: 3, endpoints: 4, elements: 5, unserved });
        metrics.flows().of(family).walked(Duration::from_millis(1), 7);
    }
    let request = RequestSeen {
        method: "GET",
        host: "10.0.0.1:6443",
        code: Some(200),
        held_back: Duration::ZERO,
        took: Duration::from_millis(30),
        size: 0,
    };
    metrics.api().request(&request);
    metrics.api().request(&RequestSeen { code: None, ..request });
    for kind in cluster::Kind::ALL {
        metrics.api().phase(kind, Phase::Watching);
        metrics.api().heard(kind);
        metrics.api().passed_over(kind, Extent::Part);
        metrics.api().unusable(kind, Extent::Part, 1);
        metrics.api().unusable(kind, Extent::Whole, 0);
    }
    metrics.probes().checked("ping", "healthz", true);
    metrics
}

#[test]
fn the_pages_hold_every_metric_and_are_well_formed() {
    let metrics = busy();
    let page = Families::parse(&metrics.text()).unwrap();
    let described: Vec<&str> = metrics.0.registry.descriptions().map(|about| about.name).collect();
    assert_eq!(page.names(), described);
    let slis = Families::parse(&metrics.slis()).unwrap();
    assert_eq!(
        slis.names(),
        ["kubernetes_healthcheck", "kubernetes_healthchecks_total", "process_start_time_seconds"]
    );
}

#[test]
fn what_is_measured_shows() {
    let metrics = busy();
    let page = Families::parse(&metrics.text()).unwrap();
    let value =
        |series: &str| page.value(series).unwrap_or_else(|| panic!("no {series} in {}", metrics.text()));
    assert_eq!(value("kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}"), 1.0);
    assert_eq!(
        value("kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv6\",le=\"0.004\"}"),
        0.0
    );
    assert_eq!(
        value("kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv6\",le=\"0.008\"}"),
        1.0
    );
    assert_eq!(value("kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}"), 0.0);
    assert_eq!(value("kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}"), 1.0);
    let unserved =
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"external\",ip_family=\"IPv6\"}";
    assert_eq!(value(unserved), 2.0);
    assert_eq!(value("kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"}"), 7.0);
    assert_eq!(value("pointsman_programmed_elements{ip_family=\"IPv4\"}"), 5.0);
    assert_eq!(value("pointsman_reflector_state{kind=\"Node\",state=\"watching\"}"), 1.0);
    assert_eq!(value("pointsman_reflector_state{kind=\"Node\",state=\"listing\"}"), 0.0);
    let unusable = |extent| format!("pointsman_unusable_objects{{kind=\"Service\",extent=\"{extent}\"}}");
    assert_eq!((value(&unusable("part")), value(&unusable("whole"))), (1.0, 0.0));
    assert_eq!(value("pointsman_unusable_objects_total{kind=\"Service\",extent=\"part\"}"), 1.0);
    let requests =
        |code| format!("rest_client_requests_total{{code=\"{code}\",method=\"GET\",host=\"10.0.0.1:6443\"}}");
    assert_eq!(value(&requests("200")), 1.0);
    assert_eq!(value(&requests("<error>")), 1.0);
    assert_eq!(value("kubernetes_feature_enabled{name=\"AllowServiceExternalIPs\",stage=\"\"}"), 1.0);
    assert!(value("process_resident_memory_bytes") > 1e6 && value("process_open_fds") >= 3.0);
    assert!(metrics.text().contains("git_version=\"v1.37.1+pointsman."));
}

#[test]
fn failures_count_and_are_timed_like_any_sync() {
    let metrics = metrics();
    let sync = metrics.sync().of(Family::V4);
    sync.failed(true, Duration::from_secs(1));
    sync.synced(&Synced { full: true, ..Synced::default() }, Duration::from_secs(1));
    sync.left_behind();
    let page = Families::parse(&metrics.text()).unwrap();
    let value = |name: &str| page.value(&format!("kubeproxy_sync_{name}{{ip_family=\"IPv4\"}}")).unwrap();
    assert_eq!(value("proxy_rules_nftables_sync_failures_total"), 1.0);
    assert_eq!(value("proxy_rules_nftables_cleanup_failures_total"), 1.0);
    assert_eq!(value("full_proxy_rules_duration_seconds_count"), 2.0);
    assert_eq!(value("proxy_rules_duration_seconds_sum"), 2.0);
}

#[test]
fn rules_of_iptables_are_counted_by_table() {
    let metrics = Metrics::of_mode("iptables", &FeatureGates::default());
    let sync = metrics.sync().of(Family::V6);
    let rules = RuleCount { total: [7, 90], written: [0, 5] };
    let committed = Committed { bytes: 1, rules, ..Committed::default() };
    sync.synced(&Synced { committed, ..Synced::default() }, Duration::from_secs(1));
    // Nothing was to be done, and what was written stays.
    sync.synced(&Synced::default(), Duration::from_secs(1));
    [true, false, false].iter().for_each(|full| sync.failed(*full, Duration::from_secs(1)));
    let page = Families::parse(&metrics.text()).unwrap();
    let value = |series: &str| page.value(&format!("kubeproxy_sync_proxy_rules_iptables_{series}")).unwrap();
    assert_eq!(value("total{table=\"filter\",ip_family=\"IPv6\"}"), 7.0);
    assert_eq!(value("total{table=\"nat\",ip_family=\"IPv6\"}"), 90.0);
    assert_eq!(value("last{table=\"filter\",ip_family=\"IPv6\"}"), 0.0);
    assert_eq!(value("last{table=\"nat\",ip_family=\"IPv6\"}"), 5.0);
    assert_eq!(value("restore_failures_total{ip_family=\"IPv6\"}"), 3.0);
    assert_eq!(value("partial_restore_failures_total{ip_family=\"IPv6\"}"), 2.0);
}

#[test]
fn the_way_from_a_trigger_to_traffic_is_measured_and_never_negative() {
    let metrics = metrics();
    let now = clock::seconds(SystemTime::now()) * 1e3;
    metrics.sync().of(Family::V6).reached_traffic([now as i64 - 1_500, now as i64 + 60_000]);
    let page = Families::parse(&metrics.text()).unwrap();
    let bucket = |le: &str| {
        let name = "kubeproxy_network_programming_duration_seconds_bucket";
        page.value(&format!("{name}{{ip_family=\"IPv6\",le=\"{le}\"}}")).unwrap()
    };
    assert_eq!((bucket("0.25"), bucket("1"), bucket("60")), (1.0, 1.0, 2.0));
}

#[test]
fn changes_wait_until_traffic_follows() {
    let metrics = metrics();
    let count = |services, slices| cluster::ChangeCount { services, slices };
    metrics.changes().set(count(5, 9), count(3, 9));
    let page = Families::parse(&metrics.text()).unwrap();
    let value = |name: &str| page.value(&format!("kubeproxy_sync_proxy_rules_{name}")).unwrap();
    assert_eq!((value("service_changes_total"), value("service_changes_pending")), (5.0, 2.0));
    assert_eq!((value("endpoint_changes_total"), value("endpoint_changes_pending")), (9.0, 0.0));
}

const EXTRA: registry::Description = registry::Description {
    name: "extra_bytes_total",
    kind: registry::Kind::Counter,
    labels: &["service"],
    help: "Bytes",
};

struct Extra;

impl Collector for Extra {
    fn collect(&self, page: &mut Page) {
        page.family(&EXTRA);
        page.count(EXTRA.name, &label_text([("service", "a/b")]), 3);
    }
}

#[test]
fn others_may_add_their_own() {
    let metrics = metrics();
    metrics.extend(Arc::new(Extra));
    let page = Families::parse(&metrics.text()).unwrap();
    assert_eq!(page.value("extra_bytes_total{service=\"a/b\"}"), Some(3.0));
}
