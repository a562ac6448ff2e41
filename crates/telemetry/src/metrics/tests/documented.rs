//! `docs/metrics.md` describes every metric and every alert, and none that does not exist.

use std::collections::BTreeSet;

use super::*;

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap()
}

/// Of every mode, with every gate that brings some.
fn all() -> Vec<Metrics> {
    let gates = FeatureGates([("KubeProxyNFTablesLocalhostNodePorts".to_owned(), true)].into());
    MODES.map(|(mode, _)| Metrics::of_mode(mode, &gates)).into()
}

#[test]
fn every_metric_has_its_row() {
    let document = document();
    for metrics in all() {
        for about in metrics.0.registry.descriptions() {
            let labels = match about.labels {
                [] => " ".to_owned(),
                labels => format!(" {} ", labels.join(", ")),
            };
            let row = format!("\n| `{}` | {} |{labels}| ", about.name, about.kind.word());
            assert!(document.contains(&row), "docs/metrics.md lacks {row}");
        }
    }
}

#[test]
fn no_row_is_of_something_else() {
    let metrics = all();
    let known: BTreeSet<&str> = metrics
        .iter()
        .flat_map(|metrics| metrics.0.registry.descriptions())
        .map(|about| about.name)
        .chain(dataplane::MODES.into_iter().flat_map(|mode| mode.metrics().own).map(|about| about.name))
        .collect();
    let document = document();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let unknown: Vec<&str> =
        rows.map(|(name, _)| name).filter(|name| name.contains('_') && !known.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_alert_is_explained_with_its_severity() {
    let alerts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/monitoring/alerts.yaml");
    let alerts = std::fs::read_to_string(alerts).unwrap();
    let behind = |key: &'static str| {
        alerts.lines().filter_map(move |line| line.trim_start_matches([' ', '-']).strip_prefix(key))
    };
    let shipped: BTreeSet<String> = behind("alert: ")
        .zip(behind("severity: "))
        .map(|(name, severity)| format!("| `{name}` | {severity} | "))
        .collect();
    let document = document();
    let told = document.lines().filter(|line| line.starts_with("| `KubeProxy"));
    let head = |line: &str| line.splitn(4, '|').take(3).collect::<Vec<_>>().join("|") + "| ";
    assert_eq!(shipped, told.map(head).collect());
}
