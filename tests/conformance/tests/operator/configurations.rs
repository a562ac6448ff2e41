//! `--write-config-to`: the same keys and the same defaults, whatever was given.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use conformance_support::Scratch;
use serde_json::Value;

use crate::differences::{Topic, review};
use crate::pair::Pair;

const COMBINATIONS: &[&[&str]] = &[
    &["--proxy-mode=nftables"],
    &[
        "--proxy-mode=nftables",
        "--masquerade-all",
        "--iptables-sync-period=10s",
        "--iptables-min-sync-period=0",
    ],
    &["--proxy-mode=nftables", "--bind-address=::", "--nodeport-addresses=10.0.0.0/8,fd00::/8"],
    &["--proxy-mode=nftables", "--bind-address=::"],
    &[
        "--proxy-mode=nftables",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=0.0.0.0:9999",
    ],
    &["--proxy-mode=nftables", "--healthz-port=1234", "--metrics-port=0"],
    &["--proxy-mode=nftables", "--feature-gates=ComponentFlagz=false,KubeProxyIPVS=true"],
    &["--proxy-mode=nftables", "--v=4", "--logging-format=json"],
    &[
        "--proxy-mode=nftables",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-udp-timeout=30s",
    ],
    &["--proxy-mode=nftables", "--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cbr0"],
    &[
        "--proxy-mode=nftables",
        "--detect-local-mode=NodeCIDR",
        "--cluster-cidr=10.0.0.0/8,fd00::/8",
        "--hostname-override= Node-A ",
    ],
    &[
        "--proxy-mode=nftables",
        "--kube-api-qps=50.5",
        "--kube-api-burst=0",
        "--oom-score-adj=0",
        "--config-sync-period=1h",
    ],
    &["--proxy-mode=iptables", "--iptables-localhost-nodeports=false", "--iptables-masquerade-bit=3"],
    &[
        "--proxy-mode=ipvs",
        "--ipvs-scheduler=lc",
        "--ipvs-strict-arp",
        "--ipvs-exclude-cidrs=10.0.0.0/24",
        "--ipvs-tcp-timeout=15m",
    ],
    &["--profiling", "--bind-address-hard-fail", "--show-hidden-metrics-for-version=1.36"],
];

pub(crate) fn in_crates(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates").join(name)
}

/// Arguments for what was found in clusters, by the name of its file.
fn inputs() -> Vec<(String, Vec<String>)> {
    let mut inputs = Vec::new();
    for folder in ["agent/tests/golden", "config/src/examples"] {
        for entry in std::fs::read_dir(in_crates(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".flags") {
                let flags = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
                inputs.push((name, flags));
            } else if name.ends_with(".yaml") {
                inputs.push((name, vec![format!("--config={}", path.display())]));
            }
        }
    }
    assert!(inputs.len() >= 10, "{inputs:?}");
    inputs.sort();
    inputs
}

pub(crate) fn compared(pair: &Pair) {
    let mut all: Vec<(String, Vec<String>)> = vec![("no flags".to_owned(), Vec::new())];
    all.extend(
        COMBINATIONS
            .iter()
            .map(|flags| (flags.join(" "), flags.iter().map(|flag| (*flag).to_owned()).collect())),
    );
    all.extend(inputs());
    let mut found = BTreeSet::new();
    for (name, arguments) in &all {
        let [ours, theirs] = written(pair, arguments);
        found.extend(differences(&ours, &theirs).into_iter().map(|what| format!("{what} [{name}]")));
    }
    review(Topic::Written, found);
}

/// What the two write, flat; or only `refused`, and why.
pub(crate) fn written(pair: &Pair, arguments: &[String]) -> [BTreeMap<String, String>; 2] {
    let scratch = Scratch::create().unwrap();
    let file = scratch.path().join("written.yaml");
    [&pair.kit.kube_proxy, &pair.kit.upstream].map(|binary| {
        let output = std::process::Command::new(binary)
            .args(arguments)
            .arg(format!("--write-config-to={}", file.display()))
            .output()
            .unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return [("refused".to_owned(), said.trim_end().to_owned())].into();
        }
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        flat(&serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    })
}

/// Each value by its path.
pub(crate) fn flat(value: &Value) -> BTreeMap<String, String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().for_each(|(key, value)| walk(value, &format!("{path}.{key}"), found));
            }
            other => drop(found.insert(path.trim_start_matches('.').to_owned(), other.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    walk(value, "", &mut found);
    found
}

pub(crate) fn differences(ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>) -> Vec<String> {
    let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    if let [Some(why), None] = [theirs.get("refused"), ours.get("refused")] {
        return vec![format!("refused upstream: {why}")];
    }
    let differing = paths.into_iter().filter(|path| ours.get(*path) != theirs.get(*path));
    let told = |value: Option<&String>| value.cloned().unwrap_or_else(|| "nothing".to_owned());
    differing
        .map(|path| format!("{path}: {} upstream, {} here", told(theirs.get(path)), told(ours.get(path))))
        .collect()
}
