//! The kustomize bases and the chart say the same: there is one truth, written twice.

use serde_json::{Map, Value};

use crate::helm::{Helm, of_kind, read, root};

pub(crate) fn base(helm: &Helm) {
    compare(helm, &[], base_objects());
}

pub(crate) fn iptables(helm: &Helm) {
    let mut objects = base_objects();
    for file in ["deploy/iptables/config.yaml", "deploy/iptables/tools.yaml"] {
        patch(&mut objects, file);
    }
    compare(helm, &["mode=iptables"], objects.iter().map(with_tag).collect());
}

pub(crate) fn seccomp(helm: &Helm) {
    let mut usual = base_objects();
    patch(&mut usual, "deploy/seccomp/profile.yaml");
    compare(helm, &["seccomp.type=Localhost"], usual);
    let mut tools = base_objects();
    for file in ["iptables/config.yaml", "iptables/tools.yaml", "seccomp-iptables/profile.yaml"] {
        patch(&mut tools, &format!("deploy/{file}"));
    }
    let tools = tools.iter().map(with_tag).collect();
    compare(helm, &["mode=iptables", "seccomp.type=Localhost"], tools);
}

fn compare(helm: &Helm, values: &[&str], expected: Vec<Value>) {
    let rendered = helm.objects(values);
    for wanted in &expected {
        let kind = wanted["kind"].as_str().unwrap();
        let (found, wanted) = (plain(of_kind(&rendered, kind)), plain(wanted));
        assert_eq!(found, wanted, "{kind} of the chart with {values:?} (left) and of deploy/ (right)");
    }
    let own: Vec<&Value> = rendered.iter().filter(|object| object["kind"] != "Pod").collect();
    assert_eq!(own.len(), expected.len(), "the chart has objects that the base has not");
}

fn base_objects() -> Vec<Value> {
    let parts = ["rbac", "config", "daemonset"].map(|name| written(&format!("deploy/base/{name}.yaml")));
    parts.into_iter().flatten().collect()
}

fn written(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.split("\n---\n").map(read).collect()
}

/// As kustomize sets the tag of the overlay.
fn with_tag(object: &Value) -> Value {
    let tag = concat!("kube-proxy:", env!("CARGO_PKG_VERSION"));
    let text = object.to_string().replace(tag, &format!("{tag}-iptables"));
    serde_json::from_str(&text).unwrap()
}

fn patch(objects: &mut [Value], file: &str) {
    for change in written(file) {
        let target = objects.iter_mut().find(|object| object["kind"] == change["kind"]);
        merge(target.unwrap(), &change);
    }
}

/// A strategic merge as far as our patches need it: lists of named things are merged by name, others replaced.
fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(change)) if change.iter().all(|item| item.is_object()) => {
            for item in change {
                let key = if item.get("mountPath").is_some() { "mountPath" } else { "name" };
                match into.iter_mut().find(|other| other[key] == item[key]) {
                    Some(other) => merge(other, item),
                    None => into.push(item.clone()),
                }
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// Without what only Helm adds, and with the configuration as values instead of text.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(about) = object["metadata"].as_object_mut() {
        about.remove("labels");
    }
    if let Some(Value::Object(template)) = object.pointer_mut("/spec/template/metadata") {
        template.remove("annotations");
    }
    for list in ["containers", "initContainers"] {
        let containers = object.pointer_mut(&format!("/spec/template/spec/{list}"));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            container.as_object_mut().unwrap().remove("imagePullPolicy");
        }
    }
    if let Some(Value::Object(data)) = object.get_mut("data") {
        let parsed: Map<String, Value> =
            data.iter().map(|(name, text)| (name.clone(), read(text.as_str().unwrap()))).collect();
        *data = parsed;
    }
    object
}
