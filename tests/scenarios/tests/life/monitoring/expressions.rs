//! The expressions of the alerts and of the dashboard, as they are shipped.

use std::path::PathBuf;

use serde_json::Value;

pub(super) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/monitoring"))
}

/// With what Grafana would put in place of its variables.
pub(super) fn of_dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(folder().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let filled = |target: &Value| {
        let expression = target["expr"].as_str().unwrap();
        let expression = expression.replace("$__rate_interval", "1m");
        let expression = expression.replace("$job", "kube-proxy").replace("$instance", ".*");
        assert!(!expression.contains('$'), "{expression}");
        expression
    };
    targets.map(filled).collect()
}

/// The words of an expression that are names of our metrics.
pub(super) fn names(expression: &str) -> Vec<&str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let prefixes = ["kubeproxy_", "pointsman_", "rest_client_", "process_", "kubernetes_"];
    words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))).collect()
}
