//! Manifests that cannot be read, as a whole or in part.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kernel::nft::{self, Connection, Transport};
use sandbox::Namespace;
use test_support::{Case, ManifestFolder, NodeAgent, SOON, ServiceManifest, Verdict, wait_until};

use super::{BINARY, case, is_ready, is_root_outside, kube_proxy, open_to_all, public_copy, run, tables};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("manifests that do not exist", missing_manifests),
        case("manifests that cannot be reached", unreachable_manifests),
        Case::new("manifests that may not be read", forbidden_manifests),
        case("manifests of which every document is broken", broken_manifests),
        case("broken documents among good ones", partly_broken_manifests),
        case("a restart with broken manifests leaves the rules", restart_with_broken_manifests),
    ]
}

fn missing_manifests() {
    let mut command = kube_proxy();
    command.args(["--manifests", "/nonexistent/manifests"]);
    run(command).assert_refused(&["/nonexistent/manifests does not exist", "name a file or a folder"]);
}

/// A path through something that is no folder.
fn unreachable_manifests() {
    let folder = ManifestFolder::create();
    folder.put_text("file.yaml", "");
    let mut command = kube_proxy();
    command.arg("--manifests").arg(folder.path().join("file.yaml/inside"));
    run(command).assert_refused(&["file.yaml/inside cannot be read", "Not a directory"]);
}

/// The user nobody, but with CAP_NET_ADMIN: the manifests are all that stands in the way.
fn forbidden_manifests() -> Verdict {
    if !is_root_outside() {
        return Verdict::Skipped("needs root to become another user".into());
    }
    if Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Verdict::Skipped("needs setpriv of util-linux".into());
    }
    let (_keep, binary) = public_copy();
    let as_nobody = |manifests: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["--inh-caps=+net_admin", "--ambient-caps=+net_admin"]);
        command.arg(&binary).arg("--manifests").arg(manifests);
        run(command)
    };
    let folder = ManifestFolder::create();
    folder.put_text("file.yaml", "");
    let closed = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    open_to_all(folder.path());
    let file = folder.path().join("file.yaml");
    closed(&file);
    as_nobody(&file).assert_refused(&["file.yaml cannot be read", "Permission denied"]);
    closed(folder.path());
    as_nobody(folder.path()).assert_refused(&["cannot be read", "Permission denied"]);
    Verdict::Passed
}

const BROKEN: &str = "\
apiVersion: v1
kind: Service
metadata: {name: first, namespace: default}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{name: main, port: many}]}
---
apiVersion: v1
kind: Service
metadata: {name: second, namespace: default}
spec: {clusterIP: 10.96.0.2, clusterIPs: [nowhere], ports: [{name: main, port: 80}]}
---
this is no object
";

/// Documents, and the field each complains of; the last has none.
const PROBLEMS: [(&str, &str); 3] =
    [("document 1", "spec.ports[0].port"), ("document 2", "spec.clusterIPs[0]"), ("document 3", "")];

/// What each problem of a start ends in.
const UNTOUCHED: &str =
    "nothing is programmed until this is fixed or removed; rules of an earlier run stay as they are";

fn lines_about(log: &str, words: &[&str]) -> usize {
    log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

/// Every problem was logged, once, with what follows from it.
fn await_problems(log: impl Fn() -> String) {
    let last = ["broken.yaml", "document 3"];
    assert!(wait_until(SOON, || lines_about(&log(), &last) > 0), "no complaint:\n{}", log());
    for (document, field) in PROBLEMS {
        let words = ["broken.yaml", document, field, UNTOUCHED];
        assert_eq!(lines_about(&log(), &words), 1, "not one line about {words:?}:\n{}", log());
    }
}

/// An agent that need not get ready.
struct Launched {
    child: Child,
    log: PathBuf,
}

impl Launched {
    fn new(folder: &ManifestFolder, namespace: &Namespace) -> Launched {
        let log = folder.path().join(".log");
        let mut command = kube_proxy();
        command.arg("--manifests").arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        Launched { child: namespace.run(|| command.spawn()).unwrap(), log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// It complains, runs on, and has not touched anything.
    fn assert_waits(&mut self, namespace: &Namespace) {
        await_problems(|| self.log());
        assert_eq!(tables(namespace), [""; 0], "nothing may be programmed");
        assert!(!is_ready(namespace) && self.child.try_wait().unwrap().is_none(), "{}", self.log());
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service at 10.96.0.`number`.
fn service(name: &str, number: u8) -> ServiceManifest {
    ServiceManifest::new(name, &[[10, 96, 0, number].into()]).port("main", model::Protocol::Tcp, 80, 0)
}

/// The last octets of the cluster IPs in the rules, in order.
fn cluster_ips(namespace: &Namespace) -> Vec<u8> {
    let mut found = Vec::new();
    namespace.run(|| {
        let mut connection = Connection::open().unwrap();
        let mut take = |element: nft::DumpedElement<'_>| found.extend(element.key.last());
        connection.dump_elements(nft::TableFamily::Ip, "kube-proxy", "cluster-ips", &mut take).unwrap();
    });
    found.sort_unstable();
    found
}

fn broken_manifests() {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    folder.put_text("broken.yaml", BROKEN);
    let mut agent = Launched::new(&folder, &namespace);
    agent.assert_waits(&namespace);
    folder.put_text("broken.yaml", &service("first", 1).to_json().to_string());
    assert!(wait_until(SOON, || is_ready(&namespace)), "fixed, and not ready:\n{}", agent.log());
    assert_eq!(cluster_ips(&namespace), [1]);
    for (document, _) in PROBLEMS {
        let words = ["Resolved: ", "broken.yaml", document];
        assert_eq!(lines_about(&agent.log(), &words), 1, "{words:?}:\n{}", agent.log());
    }
}

fn partly_broken_manifests() {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    folder.put_text("broken.yaml", BROKEN);
    folder.put_service(&service("good", 9));
    let mut agent = Launched::new(&folder, &namespace);
    agent.assert_waits(&namespace);
    fs::remove_file(folder.path().join("broken.yaml")).unwrap();
    assert!(wait_until(SOON, || is_ready(&namespace)), "removed, and not ready:\n{}", agent.log());
    assert_eq!(cluster_ips(&namespace), [9]);
}

/// The rules of the objects that cannot be read now must survive, even if all others are fine.
fn restart_with_broken_manifests() {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    let whole = |port: &str| {
        let texts = [1, 2].map(|number| service(&format!("s{number}"), number).to_json().to_string());
        texts.join("\n---\n").replace("\"port\":80", &format!("\"port\":{port}"))
    };
    folder.put_text("broken.yaml", &whole("80"));
    folder.put_service(&service("good", 9));
    let binary = BINARY.get().unwrap();
    let agent = NodeAgent::start(binary, &namespace, &folder, "node-1", &[]);
    let mut agent = agent.unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(cluster_ips(&namespace), [1, 2, 9]);
    agent.stop().unwrap();
    folder.put_text("broken.yaml", BROKEN);
    agent.launch().unwrap();
    await_problems(|| agent.log());
    assert!(wait_until(SOON, || agent.probe("/readyz") == Some(503)), "{}", agent.log());
    assert_eq!(agent.probe("/healthz"), Some(200), "it is the manifests that are ill");
    // A change of a good file shows that the rules are not merely late.
    folder.put_service(&service("another", 8));
    folder.put_text("more.yaml", "kind: [");
    assert!(wait_until(SOON, || lines_about(&agent.log(), &["more.yaml"]) > 0), "{}", agent.log());
    assert_eq!(cluster_ips(&namespace), [1, 2, 9], "the rules of the earlier run");
    assert_eq!(agent.probe("/readyz"), Some(503));
    fs::remove_file(folder.path().join("more.yaml")).unwrap();
    folder.put_text("broken.yaml", &whole("81"));
    agent.await_ready().unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(cluster_ips(&namespace), [1, 2, 8, 9]);
}
