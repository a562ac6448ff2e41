//! `kube-proxy bundle`: the archive for a bug report, and the rules in it beside what the `nft` tool prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use model::{Family, Protocol};
use serde_json::{Value, json};
use test_support::{Case, EndpointManifest, ServiceManifest, SliceManifest, Verdict, manifest};

use crate::case;
use crate::commands::run;
use crate::site::{NODE, PAGES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("a bundle has what a bug report needs", complete),
        Case::new("the rules in a bundle are what nft prints", as_nft_prints),
        case("a bundle in mode iptables has the saved tables", of_iptables),
        case("a bundle overwrites nothing by accident and leaves no half of one", careful),
    ]
}

/// With something in most sets.
fn site(flags: &[&str]) -> Site {
    let site = Site::start(flags);
    let service = ServiceManifest::new("web", &["10.96.0.1".parse().unwrap(), "fd00:96::1".parse().unwrap()])
        .port("http", Protocol::Tcp, 80, 30080)
        .port("dns", Protocol::Udp, 53, 0)
        .with("type", "LoadBalancer")
        .with("externalTrafficPolicy", "Local")
        .with("sessionAffinity", "ClientIP")
        .with("loadBalancerSourceRanges", json!(["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/33"]))
        .balancer_ip("192.0.2.7".parse().unwrap(), "VIP");
    site.folder.put_service(&service);
    for (family, near, far) in [(Family::V4, "10.1.0.1", "10.1.0.2"), (Family::V6, "fd00:1::1", "fd00:1::2")]
    {
        let slice = SliceManifest::new("web", "1", family)
            .port("http", Protocol::Tcp, 8080)
            .endpoint(&EndpointManifest::new(near.parse().unwrap(), NODE))
            .endpoint(&EndpointManifest::new(far.parse().unwrap(), "node-2"));
        site.folder.put_slice(&slice);
    }
    let cidrs = ["10.96.0.0/12", "fd00:96::/112"].map(|cidr| cidr.parse().unwrap());
    site.folder.put("cidrs", &manifest::service_cidr("cidrs", &cidrs));
    site.await_reply(PAGES, "/pointsman/v1/services", |reply| {
        let service = &reply.json()["services"][0];
        service["pending"] == false && service["ports"][0]["endpoints"]["IPv6"]["usable"] == 2
    });
    site
}

/// The files of a bundle, by name.
fn bundle(site: &Site, name: &str) -> BTreeMap<String, String> {
    let file = site.folder.path().join(name);
    let (code, out, problems) = run(site, &["bundle", &file.display().to_string()]);
    assert_eq!((code, problems.as_str()), (Some(0), ""), "{}", site.agent.log());
    assert_eq!(out, format!("{}\n", file.display()));
    let read = |arguments: &[&str]| {
        let output = Command::new("tar").args(arguments).arg("-f").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let names = read(&["-t"]);
    let content = |name: &str| {
        let output = Command::new("tar").args(["-x", "-O", "-f"]).arg(&file).arg(name).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    names.lines().map(|name| (short(name), content(name))).collect()
}

fn short(name: &str) -> String {
    name.strip_prefix("pointsman-bundle/").unwrap().to_owned()
}

fn complete() {
    let site = site(&[]);
    let files = bundle(&site, "all.tar");
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let wanted = [
        "configz.json",
        "facts.json",
        "log.txt",
        "metrics.txt",
        "ruleset.json",
        "services.json",
        "statusz.txt",
    ];
    assert_eq!(names, wanted, "{:?}", files.get("problems.txt"));
    for (file, part) in [
        ("configz.json", "\"mode\":\"nftables\""),
        ("facts.json", "\"net.ipv4.ip_forward\""),
        ("facts.json", "\"kernel.osrelease\""),
        ("log.txt", "\"Proxying for this node\""),
        ("metrics.txt", "kubernetes_build_info{"),
        ("services.json", "\"name\": \"web\""),
        ("statusz.txt", "Binary version: "),
    ] {
        assert!(files[file].contains(part), "{part} is missing in {file}:\n{}", files[file]);
    }
}

fn as_nft_prints() -> Verdict {
    if Command::new("nft").arg("--version").output().is_err() {
        return Verdict::Skipped("no nft on the PATH".to_owned());
    }
    for flags in [&["--proxy-mode=nftables", "--service-counters"][..], &["--proxy-mode=userspace"]] {
        let site = site(flags);
        let ours = bundle(&site, "rules.tar").remove("ruleset.json").unwrap();
        let mut command = Command::new("nft");
        command.args(["-j", "list", "ruleset"]);
        site.namespace.enter(&mut command).unwrap();
        let theirs = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (ours, theirs) = (objects(&ours), objects(&theirs));
        assert!(theirs.len() > 200, "{flags:?}: nft prints {} objects", theirs.len());
        let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{flags:?}");
        for (name, wanted) in &theirs {
            assert_eq!(&ours[name], wanted, "{flags:?}: {name}");
        }
    }
    Verdict::Passed
}

/// By kind, family and handle. Elements are in the order of their text, and what nft of this version cannot say as JSON is
/// left out on both sides.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let document: Value = serde_json::from_str(text).unwrap();
    let mut found = BTreeMap::new();
    for object in document["nftables"].as_array().unwrap() {
        let (kind, content) = object.as_object().unwrap().iter().next().unwrap();
        let mut content = content.clone();
        if kind == "metainfo" {
            continue;
        }
        if let Some(elements) = content.get_mut("elem").and_then(Value::as_array_mut) {
            elements.sort_by_key(Value::to_string);
        }
        if let Some(statements) = content.get_mut("expr").and_then(Value::as_array_mut) {
            // Updates of maps from packets: text in nft 1.0, `map` in later versions.
            statements
                .retain(|one| !one.is_string() && one.get("map").is_none_or(|map| map.get("op").is_none()));
        }
        if kind == "table" {
            // nft 1.0 does not print it.
            content.as_object_mut().unwrap().remove("comment");
        }
        found.insert(format!("{kind} {} {}", content["family"], content["handle"]), content);
    }
    found
}

fn of_iptables() {
    let site = site(&["--proxy-mode=iptables"]);
    let files = bundle(&site, "iptables.tar");
    assert!(!files.contains_key("ruleset.json") && !files.contains_key("problems.txt"), "{:?}", files.keys());
    for (file, part) in [("iptables-save.txt", "-A KUBE-SERVICES"), ("ip6tables-save.txt", "fd00:96::1")] {
        assert!(files[file].contains(part), "{part} is missing in\n{}", files[file]);
    }
    assert!(files["iptables-save.txt"].contains("*filter") && files["iptables-save.txt"].contains("*nat"));
}

fn careful() {
    let site = site(&[]);
    let path = site.folder.path().join("once.tar");
    let name = path.display().to_string();
    let line = |words: &[&str]| {
        let (code, out, problems) = run(&site, words);
        assert_eq!((code, out.as_str(), problems.lines().count()), (Some(1), "", 1), "{words:?}: {problems}");
        problems
    };
    assert!(line(&["bundle", &name, "--agent", "127.0.0.1:1"]).contains("connection refused"));
    assert!(!path.exists(), "nothing was collected");
    assert!(line(&["bundle", "/nowhere/x.tar"]).contains("cannot write /nowhere/x.tar: "));
    std::fs::write(&path, "mine").unwrap();
    assert!(line(&["bundle", &name]).contains("exists; name another file, or overwrite it with --force"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let (code, ..) = run(&site, &["bundle", &name, "--force"]);
    assert_eq!(code, Some(0));
    let (code, archive, problems) = run(&site, &["bundle", "-"]);
    assert!(code == Some(0) && archive.contains("ustar") && problems.is_empty(), "{problems}");
    bundle(&site, "fresh.tar");
    assert_eq!(mode(&site.folder.path().join("fresh.tar")) & 0o077, 0, "for the owner alone");
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode()
}
