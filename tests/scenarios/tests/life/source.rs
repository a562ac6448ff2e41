//! The manifests: swapped as a ConfigMap mount swaps them, and broken.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use model::{Family, Protocol};
use serde_json::Value;
use test_support::{Case, wait_until};

use super::case;
use super::nft;
use super::places::at_cluster_ip;
use super::stage::{From, SOON, Stage, list, slices};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("a ConfigMap's swap of ..data is followed", swap),
        case("a slice that changes its service leaves the old one", relabelled_slice),
        case("a new ServiceCIDR takes effect by itself", new_service_cidr),
        case("a broken document leaves the rest working and its last good version in force", broken),
    ]
}

fn web(stage: &Stage, pod: &str) -> Vec<Value> {
    let slices = slices("web", Protocol::Tcp, &[stage.addresses(pod)], &["node-1"]);
    std::iter::once(stage.service("web", 1, Protocol::Tcp).to_json()).chain(slices).collect()
}

/// A version of the volume: a folder of its own, with a file in it.
fn write_version(folder: &Path, version: &str, content: &Value) {
    fs::create_dir(folder.join(version)).unwrap();
    fs::write(folder.join(version).join("web.json"), content.to_string()).unwrap();
}

/// What the kubelet does: a new link beside the old one, then a rename over it.
fn point_to(folder: &Path, version: &str) {
    symlink(version, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

fn swap() {
    let mut stage = Stage::new();
    let folder = stage.folder.path().to_owned();
    write_version(&folder, "..2025_01_01", &list(web(&stage, "a")));
    point_to(&folder, "..2025_01_01");
    symlink("..data/web.json", folder.join("web.json")).unwrap();
    stage.start();
    let to = at_cluster_ip(1, Family::V4);
    stage.await_answer(Protocol::Tcp, From::Guest, to, "a");
    let versions = ["..2025_01_01", "..2025_01_02", "..2025_01_03", "..2025_01_04"];
    for (pair, pod) in versions.windows(2).zip(["b", "c", "a"]) {
        write_version(&folder, pair[1], &list(web(&stage, pod)));
        point_to(&folder, pair[1]);
        fs::remove_dir_all(folder.join(pair[0])).unwrap();
        let took = stage.await_answer(Protocol::Tcp, From::Guest, to, pod);
        println!("a swap of ..data reached traffic after {took:?}");
    }
}

/// Three documents: the service `web`, its slices, and the service `other`.
fn documents(stage: &Stage, pod: &str, other_port: &str) -> String {
    let other = stage.service("other", 2, Protocol::Tcp).to_json().to_string();
    let other = other.replace("\"port\":80", &format!("\"port\":{other_port}"));
    let [service, v4, _] = <[Value; 3]>::try_from(web(stage, pod)).unwrap();
    format!("# JSON is YAML\n{service}\n---\n{v4}\n---\n{other}\n")
}

fn broken() {
    let mut stage = Stage::new();
    stage.put_endpoints("other", Protocol::Tcp, &["c"]);
    stage.folder.put_text("all.yaml", &documents(&stage, "a", "80"));
    stage.start();
    let [web, other] = [1, 2].map(|number| at_cluster_ip(number, Family::V4));
    assert_eq!(stage.who(Protocol::Tcp, From::Guest, web), "a");
    assert_eq!(stage.who(Protocol::Tcp, From::Guest, other), "c");
    for (text, document, field) in [
        (documents(&stage, "b", "\"many\""), "document 3", "spec.ports[0].port"),
        (
            documents(&stage, "b", "80").replace("\"addressType\":\"IPv4\"", "\"addressType\":4"),
            "document 2",
            "addressType",
        ),
    ] {
        stage.folder.put_text("all.yaml", &text);
        let reported = |line: &str| [document, field, "all.yaml"].iter().all(|part| line.contains(part));
        let said = || stage.log().lines().any(reported);
        assert!(wait_until(SOON, said), "no line with {document} and {field}\n{}", stage.log());
        // The broken document's object is as it was; the healthy ones of the same file are as they are now.
        assert_eq!(stage.who(Protocol::Tcp, From::Guest, other), "c", "{document}");
        let pod = if document == "document 2" { "a" } else { "b" };
        stage.await_answer(Protocol::Tcp, From::Guest, web, pod);
        // Other files still count.
        stage.put_endpoints("other", Protocol::Tcp, &["d"]);
        stage.await_answer(Protocol::Tcp, From::Guest, other, "d");
        stage.put_endpoints("other", Protocol::Tcp, &["c"]);
        stage.await_answer(Protocol::Tcp, From::Guest, other, "c");
        stage.folder.put_text("all.yaml", &documents(&stage, "a", "80"));
        stage.await_answer(Protocol::Tcp, From::Guest, web, "a");
    }
    stage.folder.put_text("all.yaml", &documents(&stage, "e", "81"));
    let repaired = std::net::SocketAddr::new(other.ip(), 81);
    stage.await_answer(Protocol::Tcp, From::Guest, repaired, "c");
    stage.await_answer(Protocol::Tcp, From::Guest, web, "e");
}

fn relabelled_slice() {
    let mut stage = Stage::new();
    for (name, number) in [("web", 1), ("other", 2)] {
        stage.folder.put_service(&stage.service(name, number, Protocol::Tcp));
    }
    stage.put_endpoints("other", Protocol::Tcp, &["c"]);
    let slice = |service: &str| {
        let mut slices = slices("web", Protocol::Tcp, &[stage.addresses("a")], &["node-1"]);
        for slice in &mut slices {
            slice["metadata"]["labels"]["kubernetes.io/service-name"] = service.into();
        }
        list(slices)
    };
    let (before, after) = (slice("web"), slice("other"));
    stage.folder.put("slices-web", &before);
    stage.start();
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), "a");
        assert_eq!(stage.who(Protocol::Tcp, From::Guest, at_cluster_ip(2, family)), "c");
    }
    stage.folder.put("slices-web", &after);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(2, family), "a");
        let outcome = stage.tcp(From::Guest, at_cluster_ip(1, family));
        assert_eq!(outcome, sandbox::Outcome::Refused, "{family}: the old service has no endpoint");
    }
}

fn new_service_cidr() {
    let mut stage = Stage::new();
    stage.start();
    let cidrs = ["10.99.0.0/16", "fd00:99::/112"].map(|net| net.parse::<ipnet::IpNet>().unwrap());
    stage.folder.put("more-cidrs", &test_support::manifest::service_cidr("more", &cidrs));
    for (family, net) in Family::BOTH.into_iter().zip(cidrs) {
        let known = || {
            let nets = nft::elements(&stage.sandbox.node, family, "service-cidrs").unwrap_or_default();
            nets.keys().any(|key| key.contains(&net.addr().to_string()))
        };
        assert!(wait_until(SOON, known), "{net} is not there\n{}", stage.log());
    }
}
