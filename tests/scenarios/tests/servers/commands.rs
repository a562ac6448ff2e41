//! `kube-proxy explain` and `kube-proxy services`, as people call them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use model::{Family, Protocol};
use sandbox::Namespace;
use test_support::{
    Case, EndpointManifest, ManifestFolder, SOON, ServiceManifest, SliceManifest, wait_until,
};

use crate::case;
use crate::site::{BINARY, PAGES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("a packet is explained, with an exit code for scripts", explained),
        case("services are listed, with their problems", listed),
        case("what the kernel holds is compared with what was written", compared),
        case("manifests are checked without an agent", checked),
        case("questions without an answer are one line each", unanswered),
        case("a list is watched until nobody reads any more, and failed writes are failures", watched),
        case("hostile questions are refused as data", hostile),
        case("names of objects neither steer the terminal nor begin a line", terminal),
    ]
}

pub(crate) fn command(namespace: &Namespace, words: &[&str]) -> Output {
    let mut command = Command::new(BINARY.get().expect("main has found the binary"));
    command.args(words);
    namespace.enter(&mut command).unwrap();
    command.output().unwrap()
}

/// The exit code, and what is printed.
pub(crate) fn run(site: &Site, words: &[&str]) -> (Option<i32>, String, String) {
    let output = command(&site.namespace, words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A service with an endpoint here and one elsewhere, and one without any.
fn site(flags: &[&str]) -> Site {
    let site = Site::start(flags);
    site.put_checked("web", 32000);
    site.put_endpoints("web", Family::V4, 1);
    let empty =
        ServiceManifest::new("empty", &["10.96.1.1".parse().unwrap()]).port("x", Protocol::Udp, 53, 0);
    site.folder.put_service(&empty);
    site.await_reply(PAGES, "/pointsman/v1/services", |reply| {
        let services = reply.json();
        let services = services["services"].as_array().cloned().unwrap_or_default();
        services.len() == 2 && services.iter().all(|service| service["pending"] == false)
    });
    site
}

fn explained() {
    let site = site(&["--cluster-cidr=10.1.0.0/16"]);
    let web = site.get(PAGES, "/pointsman/v1/services?name=web").json();
    let ip = web["services"][0]["clusterIPs"][0].as_str().unwrap().to_owned();
    let (code, text, problems) = run(&site, &["explain", &format!("{ip}:80"), "--from", "10.1.0.100"]);
    assert_eq!((code, problems.as_str()), (Some(0), ""), "{text}");
    for line in [
        "Service    default/web, port main: this is its cluster IP\n",
        "From       10.1.0.100, a pod of this node: it is in 10.1.0.0/16\n",
        "Verdict    forwarded to one of 2 endpoints, each equally likely\n",
        "not used: terminating, and others are ready\n",
        "Kernel     holds what was written (",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let (code, text, _) = run(&site, &["explain", "udp:10.96.1.1:53"]);
    assert!(
        code == Some(3) && text.contains("To do      no EndpointSlice of this family has endpoints"),
        "{text}"
    );
    let (code, text, _) = run(&site, &["explain", "service", "default/web:80", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, document["verdict"].as_str()),
        (Some(3), Some("reject")),
        "IPv6 has no endpoints\n{text}"
    );
    assert!(document["explanations"].as_array().is_some_and(|each| each.len() == 2), "{text}");

    let guarded = ServiceManifest::new("empty", &["10.96.1.1".parse().unwrap()])
        .port("main", Protocol::Tcp, 80, 0)
        .with("type", "LoadBalancer")
        .with("loadBalancerSourceRanges", serde_json::json!(["192.0.2.0/24", "127.0.0.0/8"]))
        .balancer_ip("203.0.113.1".parse().unwrap(), "VIP");
    site.folder.put_service(&guarded);
    site.put_endpoints("empty", Family::V4, 1);
    let to = "/pointsman/v1/explain?to=203.0.113.1:80";
    let whole = site.await_reply(PAGES, to, |reply| reply.json()["verdict"] == "forward").json();
    assert_eq!(whole["explanations"][0]["clients"][0]["needsSourceRange"], true, "{whole}");
    let (code, text, _) = run(&site, &["explain", "203.0.113.1:80"]);
    assert!(code == Some(0) && text.contains("if its address is in the source ranges"), "{text}");
    for (from, wanted) in [("192.0.2.9", Some(0)), ("198.51.100.9", Some(3))] {
        let (code, text, _) = run(&site, &["explain", "203.0.113.1:80", "--from", from]);
        assert!(code == wanted && !text.contains("if its address is in"), "{text}");
    }
}

fn listed() {
    let site = site(&[]);
    let (code, text, _) = run(&site, &["services"]);
    assert!(code == Some(0) && text.starts_with("NAMESPACE  NAME") && text.contains("main:80/TCP"), "{text}");
    assert!(text.contains("x:53/UDP"), "{text}");
    let (code, text, _) = run(&site, &["services", "empty", "--problems"]);
    assert!(code == Some(3) && text.contains("rejects all clients: no endpoints"), "{text}");
    let (code, text, _) = run(&site, &["services", "10.96.1.1", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &document["services"][0]["name"]), (Some(0), &"empty".into()));
    let (code, text, _) = run(&site, &["services", "-n", "elsewhere"]);
    assert!(code == Some(0) && text.starts_with("No services found in namespace elsewhere; -A"), "{text}");
    let first = site.get(PAGES, "/pointsman/v1/services?limit=1").json();
    let next = first["continue"].as_str().unwrap();
    let second = site.get(PAGES, &format!("/pointsman/v1/services?limit=1&continue={next}")).json();
    assert_eq!(
        (&first["services"][0]["name"], &second["services"][0]["name"]),
        (&"empty".into(), &"web".into())
    );
    assert!(second["continue"].is_null());
}

fn compared() {
    for mode in ["nftables", "iptables", "userspace"] {
        let site = site(&[&format!("--proxy-mode={mode}")]);
        let (code, text, problems) = run(&site, &["diff"]);
        assert!(code == Some(0) && text.ends_with(" places compared: no difference\n"), "{text}{problems}");
        assert!(!text.starts_with("0 "), "{text}");
        let (code, _, problems) = run(&site, &["diff", "default/web", "-o", "json"]);
        assert_eq!(code, Some(0), "{problems}");
        let (code, text, problems) = run(&site, &["diff", "default/typo"]);
        let wanted = "kube-proxy: diff: there is no service default/typo here\n";
        assert_eq!((code, text.as_str(), problems.as_str()), (Some(1), "", wanted), "{mode}");
    }
}

fn checked() {
    let folder = ManifestFolder::create();
    let service = ServiceManifest::new("web", &["10.96.0.1".parse().unwrap()])
        .port("http", Protocol::Tcp, 80, 99)
        .with("type", "NodePort")
        .with("sesionAffinity", "ClientIP");
    folder.put_service(&service);
    let twin =
        ServiceManifest::new("twin", &["10.96.0.1".parse().unwrap()]).port("http", Protocol::Tcp, 80, 0);
    folder.put_service(&twin);
    let slice = SliceManifest::new("web", "1", Family::V4)
        .port("web", Protocol::Tcp, 8080)
        .endpoint(&EndpointManifest::new("10.1.0.1".parse().unwrap(), "node-2"));
    folder.put_slice(&slice);
    let namespace = Namespace::new().unwrap();
    let path = folder.path().display().to_string();
    let output = command(&namespace, &["check", &path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in [
        "spec.sesionAffinity: unknown field, which is ignored; did you mean sessionAffinity?\n",
        "Service default/web: node port 99 is outside 30000-32767",
        "Service default/web: port http (tcp): no slice has a port of this name and protocol, they have \"web\" (tcp)",
        "Service default/twin: port http (tcp): no EndpointSlice has endpoints for it",
        "10.96.0.1:80/tcp belongs to default/twin, whose claim takes precedence\n",
        "\nServices: 2, slices: 1, problems: 5\n",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let output = command(&namespace, &["check", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere does not exist"));
}

fn unanswered() {
    let site = site(&[]);
    for (words, line) in [
        (&["explain"][..], "kube-proxy: explain: which packet?"),
        (&["explain", "10.96.0.1"], "kube-proxy: explain: \"10.96.0.1\" is not an address and port"),
        (&["explain", "10.96.0.1:80", "--form", "x"], "kube-proxy: explain: unknown flag --form"),
        (
            &["explain", "10.96.0.1:80", "--from", "x"],
            "kube-proxy: explain: --from: \"x\" is not an IP address",
        ),
        (
            &["explain", "10.96.0.1:80", "--from", "::1"],
            "kube-proxy: explain: ::1 and 10.96.0.1 are of different",
        ),
        (
            &["explain", "service", "default/nope"],
            "kube-proxy: explain: there is no service default/nope here",
        ),
        (
            &["explain", "service", "default/web:9"],
            "kube-proxy: explain: service default/web has no port 9; it has 80",
        ),
        (&["explain", "service"], "kube-proxy: explain: which service?"),
        (
            &["explain", "default/web"],
            "kube-proxy: explain: \"default/web\" is not an address and port; to explain a service",
        ),
        (&["services", "nope"], "kube-proxy: services: there is no service default/nope here"),
        (&["services", "nope", "--problems"], "kube-proxy: services: there is no service default/nope here"),
        (
            &["services", "10.96.9.9", "-o", "json"],
            "kube-proxy: services: no service has the address 10.96.9.9",
        ),
        (
            &["services", "10.96.1.1:53"],
            "kube-proxy: services: \"10.96.1.1:53\" is not a service; expected NAME",
        ),
        (&["diff", "default/nope"], "kube-proxy: diff: there is no service default/nope here"),
        (
            &["explian", "10.96.0.1:80"],
            "kube-proxy: there is no command \"explian\"; the commands are bundle, check,",
        ),
        (&["services", "-o", "xml"], "kube-proxy: services: -o: \"xml\" is not one of"),
        (
            &["services", "--agent", "127.0.0.1:1"],
            "kube-proxy: services: no agent answers at 127.0.0.1:1: connection refused",
        ),
        (
            &["services", "--agent", "127.0.0.1:10256"],
            "kube-proxy: services: what answers at 127.0.0.1:10256 is not a kube-proxy",
        ),
        (&["trace"], "kube-proxy: trace: which connections?"),
        (&["trace", "web:80"], "kube-proxy: trace: \"web:80\" is not an address"),
        (
            &["trace", "10.96.0.1", "--for", "1h"],
            "kube-proxy: trace: --for: 1h must be above 0 and at most 600 s",
        ),
        (&["trace", "10.96.0.1", "--from", "::1"], "kube-proxy: trace: ::1 and 10.96.0.1 are of different"),
        (
            &["trace", "10.96.0.1", "--agent", "127.0.0.1:1"],
            "kube-proxy: trace: no agent answers at 127.0.0.1:1",
        ),
        (
            &["trace", "10.96.0.1", "--agent", "127.0.0.1:10256"],
            "kube-proxy: trace: what answers at 127.0.0.1:10256 is not a kube-proxy",
        ),
    ] {
        let (code, out, problems) = run(&site, words);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{words:?}: {problems}");
        assert!(problems.starts_with(line) && problems.lines().count() == 1, "{words:?}: {problems}");
    }
    let (code, out, _) = run(&site, &["explain", "--help"]);
    assert!(code == Some(0) && out.contains("Usage:\n  kube-proxy explain "), "{out}");
}

/// It ends by itself; else it is killed.
pub(crate) fn assert_ends(child: &mut Child, why: &str) -> Option<i32> {
    let ends = wait_until(SOON, || child.try_wait().unwrap().is_some());
    if !ends {
        child.kill().unwrap();
    }
    let code = child.wait().unwrap().code();
    assert!(ends, "it goes on: {why}");
    code
}

fn watched() {
    let site = site(&[]);
    let watch = |words: &[&str], input: Stdio| {
        let mut command = Command::new(BINARY.get().expect("main has found the binary"));
        command.args(words).stdin(input).stdout(Stdio::piped());
        site.namespace.enter(&mut command).unwrap();
        command.spawn().unwrap()
    };
    let list = ["services", "--watch"];
    let mut child = watch(&list, Stdio::null());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("NAMESPACE  NAME"));
    let later =
        ServiceManifest::new("later", &["10.96.1.2".parse().unwrap()]).port("x", Protocol::Tcp, 53, 0);
    site.folder.put_service(&later);
    assert!(lines.any(|line| line.contains("later")), "the list is printed again");
    drop(lines);
    assert_eq!(assert_ends(&mut child, "the reader left"), Some(0));

    for words in [&list[..], &["trace", "10.96.1.1", "--for", "5m"]] {
        let mut child = watch(words, Stdio::null());
        drop(child.stdout.take());
        assert_eq!(assert_ends(&mut child, "nobody ever read"), Some(0), "{words:?}");
        let mut child = watch(&[words, &["--ends-with-input"]].concat(), Stdio::piped());
        drop(child.stdin.take());
        assert_eq!(assert_ends(&mut child, "its input ended"), Some(0), "{words:?}");
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(BINARY.get().unwrap());
    command.args(["services", "-o", "json"]).stdout(full).stderr(Stdio::piped());
    site.namespace.enter(&mut command).unwrap();
    let mut child = command.spawn().unwrap();
    let mut problem = String::new();
    child.stderr.take().unwrap().read_to_string(&mut problem).unwrap();
    assert_eq!(assert_ends(&mut child, "the disk is full"), Some(1));
    assert!(problem.starts_with("kube-proxy: services: cannot write to standard output: "), "{problem}");
}

fn hostile() {
    let site = site(&[]);
    for query in ["to=%00", "to=10.96.0.1:80&from=%ff", "service=a/%3Cscript%3E", "to=1&to=2", ""] {
        let reply = site.get(PAGES, &format!("/pointsman/v1/explain?{query}"));
        assert_eq!(reply.code, 400, "{query}: {}", reply.body);
        assert_eq!(reply.header("Content-Type"), Some("application/json"));
        assert_eq!(reply.header("X-Content-Type-Options"), Some("nosniff"));
        assert!(reply.json()["error"].is_string(), "{}", reply.body);
    }
    assert_eq!(site.get(PAGES, "/pointsman/v1/services?limit=0").code, 400);
    for query in ["", "to=%00", "to=10.96.0.1&for=0s", "to=10.96.0.1&from=%ff", "to=10.96.0.1&for=99999h"] {
        assert_eq!(site.get(PAGES, &format!("/pointsman/v1/trace?{query}")).code, 400, "{query}");
    }
}

/// Manifests may have names that no apiserver takes.
fn terminal() {
    let site = Site::start(&[]);
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: \"a\\e[31m\\nVerdict    forged\", namespace: default}\n\
                spec: {clusterIP: 10.96.7.7, ports: [{port: 80, name: \"p\\e]0;x\\aq\\nKernel     forged\"}]}\n";
    let path = site.folder.path().join("terminal.yaml");
    std::fs::write(&path, text).unwrap();
    site.await_reply(PAGES, "/pointsman/v1/services", |reply| {
        reply.json()["services"][0]["pending"] == false
    });
    let shown = path.display().to_string();
    for words in [
        &["explain", "10.96.7.7:80"][..],
        &["explain", "10.96.7.7:81"],
        &["services", "-A"],
        &["check", &shown],
    ] {
        let (_, out, problems) = run(&site, words);
        let said = format!("{out}{problems}");
        assert!(said.contains("forged"), "{words:?}: {said}");
        assert!(!said.contains(['\u{1b}', '\u{7}']), "{words:?}: {said:?}");
        let is_forged =
            |line: &str| line.starts_with("Verdict    forged") || line.starts_with("Kernel     forged");
        assert!(!said.lines().any(is_forged), "{words:?}: {said}");
    }
}
