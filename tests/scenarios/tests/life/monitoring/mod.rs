//! What the agent says of itself on `/metrics`, and that Prometheus, the alerts and the dashboard can use it.

mod alerts;
mod expressions;
mod page;
mod prometheus;
mod tools;

use std::time::{Duration, SystemTime};

use cluster::timestamp::format_micros;
use model::{Family, Protocol};
use serde_json::Value;
use test_support::{Case, wait_until};

use super::case;
use super::nft::{self, TABLE};
use super::stage::{PROMPT, SOON, Stage, list, slices};
use page::Page;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = vec![
        case("metrics: changes are counted, timed and shown", changes),
        case("metrics: a repair is counted", repair),
        case("metrics: the way from a trigger to traffic is measured once", triggers),
    ];
    cases.extend(tools::cases());
    cases.extend(alerts::cases());
    cases.extend(prometheus::cases());
    cases
}

/// One service with two endpoints, and the agent over it.
fn start() -> Stage {
    let mut stage = Stage::new();
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.start_with(&[PROMPT]);
    stage
}

impl Stage {
    fn metrics(&mut self) -> Page {
        let text = self.agent().page("/metrics").expect("an answer to GET /metrics");
        Page(text)
    }

    /// Wait until a series has a value; the page that shows it.
    fn await_value(&mut self, series: &str, wanted: f64) -> Page {
        let mut page = Page::default();
        let reached = wait_until(SOON, || {
            page = self.metrics();
            page.value(series) == Some(wanted)
        });
        assert!(reached, "{series} is {:?}, not {wanted}\n{}", page.value(series), self.log());
        page
    }
}

fn changes() {
    let mut stage = start();
    let page = stage.await_value("pointsman_programmed_services{ip_family=\"IPv4\"}", 1.0);
    assert_eq!(page.value("pointsman_programmed_endpoints{ip_family=\"IPv6\"}"), Some(2.0));
    assert!(page.value("pointsman_programmed_elements{ip_family=\"IPv4\"}").unwrap() >= 4.0);
    let full = "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}";
    let partial = "kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}";
    assert_eq!((page.value(full), page.value(partial)), (Some(1.0), Some(0.0)));
    let services = page.value("kubeproxy_sync_proxy_rules_service_changes_total").unwrap();
    let last = page.value("kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}").unwrap();
    assert!(last > 1.7e9);
    stage.folder.put_service(&stage.service("api", 2, Protocol::Tcp).with("internalTrafficPolicy", "Local"));
    stage.put_endpoints("api", Protocol::Tcp, &["c"]);
    let dropped =
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"internal\",ip_family=\"IPv6\"}";
    let page = stage.await_value(dropped, 1.0);
    assert_eq!(page.value("kubeproxy_sync_proxy_rules_service_changes_total"), Some(services + 1.0));
    // The other family follows at its own pace.
    let counted = wait_until(SOON, || stage.metrics().value(partial).unwrap() >= 1.0);
    assert!(counted, "no partial sync was timed\n{}", stage.log());
    assert_eq!(page.value(full), Some(1.0), "nothing was rewritten");
    let page = stage.await_value("kubeproxy_sync_proxy_rules_endpoint_changes_pending", 0.0);
    assert_eq!(page.value("kubeproxy_sync_proxy_rules_service_changes_pending"), Some(0.0));
    let since = page.value("kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}").unwrap();
    assert!(since > last);
}

fn repair() {
    let mut stage = start();
    let page = stage.metrics();
    assert_eq!(page.value("pointsman_drift_repairs_total{ip_family=\"IPv4\"}"), Some(0.0));
    nft::load(&stage.sandbox.node, &format!("delete table ip {TABLE}"));
    let page = stage.await_value("pointsman_drift_repairs_total{ip_family=\"IPv4\"}", 1.0);
    assert_eq!(page.value("pointsman_drift_repairs_total{ip_family=\"IPv6\"}"), Some(0.0));
}

fn with_trigger(mut slice: Value, at: SystemTime) -> Value {
    slice["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"] =
        format_micros(at).into();
    slice
}

fn triggers() {
    let mut stage = start();
    let name = "kubeproxy_network_programming_duration_seconds_count";
    let (v4, v6) = (format!("{name}{{ip_family=\"IPv4\"}}"), format!("{name}{{ip_family=\"IPv6\"}}"));
    let put = |stage: &Stage, pod: &str, at: SystemTime| {
        let [of_v4, of_v6] = slices("web", Protocol::Tcp, &[stage.addresses(pod)], &["node-1"]);
        stage.folder.put("slices-web", &list([with_trigger(of_v4, at), of_v6]));
    };
    let page = stage.metrics();
    assert_eq!((page.value(&v4), page.value(&v6)), (Some(0.0), Some(0.0)));
    put(&stage, "a", SystemTime::now() - Duration::from_secs(3600));
    stage.await_pool(1, Family::V4, &["a"]);
    put(&stage, "b", SystemTime::now());
    let page = stage.await_value(&v4, 1.0);
    assert_eq!(page.value(&v6), Some(0.0), "its slice says nothing of a trigger");
    let sum = page.value(&v4.replace("_count", "_sum")).unwrap();
    assert!(sum < 3000.0, "{sum}: what was triggered before the agent started does not count");
}
