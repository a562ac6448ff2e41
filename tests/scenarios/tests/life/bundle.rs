//! `kube-proxy bundle` in every mode: the rules in it are those that the kernel has.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use model::{Family, Protocol};
use serde_json::Value;
use test_support::{Carrier, Case};

use super::rig::every_mode;
use super::stage::{BINARY, PROMPT, Stage};

/// Files with rules, of which each mode has its own.
const RULES: [&str; 4] = ["ruleset.json", "virtual-servers.json", "iptables-save.txt", "ip6tables-save.txt"];

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("a bundle has the rules and facts of its mode", complete)
}

fn complete(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.folder.put_service(&stage.service("empty", 2, Protocol::Tcp));
    stage.start_with(&[PROMPT]);
    stage.await_pools(1, &["a", "c"]);
    let files = bundle(&stage);
    assert!(!files.contains_key("problems.txt"), "{}", files["problems.txt"]);
    let facts: Value = serde_json::from_str(&files["facts.json"]).unwrap();
    assert_eq!((&facts["mode"], &facts["node"]), (&carrier.mode().into(), &"node-1".into()));
    let services: Value = serde_json::from_str(&files["services.json"]).unwrap();
    assert_eq!(services["services"].as_array().map(Vec::len), Some(2), "{services}");
    for (file, part) in [
        ("configz.json", format!("\"mode\":\"{}\"", carrier.mode())),
        ("log.txt", "Proxying for this node".to_owned()),
        ("metrics.txt", "kubernetes_build_info{".to_owned()),
        ("statusz.txt", "Binary version: ".to_owned()),
    ] {
        assert!(files[file].contains(&part), "{part} is missing in {file}:\n{}", files[file]);
    }
    let found: Vec<&str> = RULES.into_iter().filter(|name| files.contains_key(*name)).collect();
    assert_eq!(found, stage.rig().bundled());
    let rules: String = found.iter().map(|name| files[*name].as_str()).collect();
    for family in Family::BOTH {
        let destinations = stage.rig().destinations(&stage, family);
        assert!(!destinations.is_empty());
        for (at, pool) in destinations {
            let endpoints = pool.iter().map(|endpoint| endpoint.ip());
            // A rig may put one that is none in the place of a process that chooses.
            for ip in endpoints.filter(|ip| !ip.is_unspecified()).chain([at.ip()]) {
                assert!(rules.contains(&ip.to_string()), "{ip} is missing in {found:?}:\n{rules}");
            }
        }
    }
}

/// The files of a bundle, by name.
fn bundle(stage: &Stage) -> BTreeMap<String, String> {
    let file = stage.folder.path().join("bundle.tar");
    let mut command = Command::new(BINARY.get().expect("main has found the binary"));
    command.arg("bundle").arg(&file);
    stage.sandbox.node.enter(&mut command).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), stage.log());
    let names = tar(&["-t"], &file, None);
    let named = names.lines().map(|name| {
        let short = name.strip_prefix("pointsman-bundle/").unwrap().to_owned();
        (short, tar(&["-x", "-O"], &file, Some(name)))
    });
    named.collect()
}

fn tar(arguments: &[&str], file: &Path, name: Option<&str>) -> String {
    let output = Command::new("tar").args(arguments).arg("-f").arg(file).args(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
