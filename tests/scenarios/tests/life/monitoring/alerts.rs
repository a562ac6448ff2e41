//! The alerts are well formed, ask for metrics that there are, and each fires when it should and only then.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use test_support::Case;

use super::tools::{run, with_tool};
use super::{case, expressions, start};

/// Metrics that alerts name for the sake of other proxy modes.
const OF_OTHER_MODES: [&str; 1] = ["kubeproxy_sync_proxy_rules_iptables_restore_failures_total"];
/// Metrics that only a source with an apiserver fills.
pub(super) const OF_APISERVER: [&str; 3] =
    ["rest_client_", "pointsman_reflector_state", "pointsman_reflector_last_event_timestamp_seconds"];

const SITUATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/monitoring/alerts.test.yaml");

pub(super) fn cases() -> Vec<Case<'static>> {
    vec![
        with_tool("alerts: each fires in its situation", "promtool", |promtool| situations(&promtool)),
        case("alerts and dashboard ask for metrics that there are", names),
    ]
}

fn alerts() -> String {
    std::fs::read_to_string(expressions::folder().join("alerts.yaml")).unwrap()
}

fn words_after<'a>(text: &'a str, key: &str) -> BTreeSet<&'a str> {
    text.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix(key)).collect()
}

fn situations(promtool: &Path) {
    let (good, said) = run(
        Command::new(promtool)
            .args(["check", "rules", "--lint-fatal"])
            .arg(expressions::folder().join("alerts.yaml")),
        "",
    );
    assert!(good, "{said}");
    let (good, said) = run(Command::new(promtool).args(["test", "rules", SITUATIONS]), "");
    assert!(good, "{said}");
    let tested = std::fs::read_to_string(SITUATIONS).unwrap();
    assert_eq!(
        words_after(&tested, "alertname: "),
        words_after(&alerts(), "alert: "),
        "an alert without a test"
    );
}

fn names() {
    let page = start().metrics();
    let there = page.selectable();
    let is_there = |name: &str| {
        let excused =
            OF_OTHER_MODES.contains(&name) || OF_APISERVER.iter().any(|known| name.starts_with(known));
        excused || there.contains(name)
    };
    let all = expressions::of_dashboard().join("\n") + &alerts();
    let missing: BTreeSet<&str> =
        expressions::names(&all).into_iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
