//! What an operator writes: manifests, a configuration file, a command line.

use std::path::Path;

use cluster::{ClusterState, ObjectChange};
use config::flags::Command;

use super::{Target, spell};
use crate::Limits;

pub(super) const MANIFESTS: Target = Target {
    name: "manifests",
    run: manifests,
    // The parser of YAML records what an anchor names, up to a limit of its own, and expands aliases up to another.
    limits: Limits { fixed: 16 << 20, per_byte: 2048 },
    seeds: manifest_seeds,
    dictionary: spell::WORDS,
    longest: 4096,
};

pub(super) const CONFIGURATION: Target = Target {
    name: "configuration",
    run: configuration,
    limits: Limits { fixed: 16 << 20, per_byte: 2048 },
    seeds: configuration_seeds,
    dictionary: &[
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n",
        "kind: KubeProxyConfiguration\n",
        "bindAddress: ",
        "clusterCIDR: ",
        "conntrack:\n  ",
        "featureGates:\n  ",
        "detectLocalMode: ",
        "nodePortAddresses: [",
        "metricsBindAddress: ",
        "iptables: {",
        "nftables: {",
        "syncPeriod: ",
        "1h2m3.5s",
        "BridgeInterface",
        "0.0.0.0:10256",
        "[::]:10256",
        "&a ",
        "*a ",
    ],
    longest: 4096,
};

pub(super) const FLAGS: Target = Target {
    name: "flags",
    run: flags,
    limits: Limits { fixed: 4 << 20, per_byte: 2048 },
    seeds: flag_seeds,
    dictionary: &[
        "--config=x\n",
        "--cluster-cidr=",
        "--nodeport-addresses=",
        "--feature-gates=",
        "--proxy-mode=",
        "--bind-address=",
        "--conntrack-tcp-timeout-established=",
        "--iptables-min-sync-period=",
        "--masquerade-all",
        "--v=4",
        "-v9",
        "--vmodule=",
        "--manifests=x\n",
        "completion\n",
        "demo\n",
        "true",
        "1h2m3.5s",
        "10.0.0.0/8,fd00::/8",
    ],
    longest: 1024,
};

/// The first byte says whether the file is JSON.
fn manifests(input: &[u8]) {
    let Some((first, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let path = if first % 2 == 0 { "web.yaml" } else { "web.json" };
    let (objects, _problems) = cluster::manifests::fuzz::manifest(Path::new(path), text);
    let mut state = ClusterState::default();
    objects.into_iter().for_each(|object| state.change(ObjectChange::Apply(object)));
}

fn manifest_seeds() -> Vec<Vec<u8>> {
    let yaml = [
        include_str!("../../../../examples/manifests/web.yaml"),
        include_str!("../../../../examples/manifests/cluster.yaml"),
        "apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: Node, metadata: {name: n}}\n- *a\n",
    ];
    let json = [
        r#"{"apiVersion":"v1","kind":"ServiceList","items":[{"metadata":{"name":"a"},"spec":{"clusterIP":"10.96.0.1"}}]}"#,
    ];
    let yaml = yaml.iter().map(|text| [b"\0", text.as_bytes()].concat());
    yaml.chain(json.iter().map(|text| [b"\x01", text.as_bytes()].concat())).collect()
}

/// What is written of a configuration is read again as the same.
fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let write = |text: &str| command(&["--config=x", "--write-config-to=y"], Some(text));
    let _run = command(&["--config=x"], Some(text));
    if let Ok(Command::WriteConfig { yaml, .. }) = write(text) {
        assert_written_again(&yaml, write(&yaml));
    }
}

fn configuration_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        include_str!("../../../../crates/config/src/examples/full.yaml"),
        include_str!("../../../../crates/config/src/examples/kubeadm.yaml"),
        include_str!("../../../../crates/config/src/examples/kind.yaml"),
    ];
    seeds.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// One argument to a line. What flags would write as a configuration is read again as the same.
fn flags(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let arguments: Vec<&str> = text.split('\n').collect();
    let _run = command(&arguments, None);
    let written = command(&[&["--write-config-to=y"], &arguments[..]].concat(), None);
    if let Ok(Command::WriteConfig { yaml, .. }) = written {
        assert_written_again(&yaml, command(&["--config=x", "--write-config-to=y"], Some(&yaml)));
    }
}

fn flag_seeds() -> Vec<Vec<u8>> {
    let lines: [&[&str]; 5] = [
        &[
            "--cluster-cidr=10.244.0.0/16,fd00::/48",
            "--masquerade-all",
            "--v",
            "4",
            "--nodeport-addresses",
            "primary",
        ],
        &["-proxy-mode=iptables", "--iptables-min-sync-period=1h2m3.5s", "--feature-gates=AllAlpha=true"],
        &["--bind-address=::", "--healthz-bind-address=[::]:10256", "--metrics-bind-address", "0.0.0.0:0"],
        &["completion", "bash"],
        &["--help"],
    ];
    lines.iter().map(|line| line.join("\n").into_bytes()).collect()
}

fn command(arguments: &[&str], file: Option<&str>) -> Result<Command, String> {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    config::fuzz::command(arguments, file.map(str::to_owned)).map(|parsed| parsed.command)
}

fn assert_written_again(yaml: &str, again: Result<Command, String>) {
    match again {
        Ok(Command::WriteConfig { yaml: second, .. }) => assert_eq!(second, *yaml, "rewritten it differs"),
        other => panic!("what was written is not read: {other:?}\n{yaml}"),
    }
}
