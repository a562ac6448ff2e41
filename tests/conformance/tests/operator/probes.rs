//! `/healthz` and `/livez`, as load balancers and the kubelet read them.

use std::collections::BTreeMap;

use conformance_support::site::SOON;
use serde_json::{Value, json};
use test_support::wait_until;

use crate::ask::PROBES;
use crate::differences::{Topic, review};
use crate::pair::{Pair, Side};

const LEAVING: &str = "ToBeDeletedByClusterAutoscaler";

pub(crate) fn compared(pair: &Pair) {
    let mut found = Vec::new();
    await_health(pair, 200);
    found.extend(differences(pair, "healthy", 200));
    pair.set_taints(&json!([{"key": LEAVING, "value": "1", "effect": "NoSchedule"}]));
    await_health(pair, 503);
    found.extend(differences(pair, "leaving", 503));
    pair.set_taints(&Value::Null);
    await_health(pair, 200);
    review(Topic::Probes, found);
}

fn await_health(pair: &Pair, status: u16) {
    for side in [&pair.ours, &pair.theirs] {
        let came = wait_until(SOON, || side.get(PROBES, "/healthz").status == status);
        assert!(came, "{}: {:?}", side.name, side.get(PROBES, "/healthz"));
    }
}

fn differences(pair: &Pair, case: &str, health: u16) -> Vec<String> {
    let mut found = Vec::new();
    for (path, status) in [("/healthz", health), ("/livez", 200)] {
        let [ours, theirs] = [&pair.ours, &pair.theirs].map(|side| seen(side, path, status));
        if ours != theirs {
            found.push(format!("{case} {path}: {theirs:?} upstream, {ours:?} here"));
        }
    }
    found
}

/// Content type, and every key with the type of its value; of booleans the value.
fn seen(side: &Side, path: &str, status: u16) -> (String, BTreeMap<String, String>) {
    let answer = side.get(PROBES, path);
    assert_eq!(answer.status, status, "{} {path}: {answer:?}", side.name);
    let mut keys = BTreeMap::new();
    collect(&serde_json::from_str(&answer.body).unwrap(), "", &mut keys);
    (answer.kind, keys)
}

fn collect(value: &Value, path: &str, keys: &mut BTreeMap<String, String>) {
    let told = match value {
        Value::Object(fields) => {
            return fields.iter().for_each(|(key, value)| collect(value, &format!("{path}/{key}"), keys));
        }
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect(),
        other => format!("{other:?}"),
    };
    // Fractions of a second are as long as they need to be.
    let told = if told.starts_with("0000-00-00T") { "a time".to_owned() } else { told };
    keys.insert(path.to_owned(), told);
}
