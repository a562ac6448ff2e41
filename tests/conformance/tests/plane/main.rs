//! The control plane by itself: what the other tests rely on when they end, restart and compact its parts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use conformance_support::site::SOON;
use conformance_support::{Api, ApiError, ControlPlane, Kit, Options, User, paths};
use sandbox::Namespace;
use serde_json::json;
use test_support::{Report, ServiceManifest, wait_until};

type Run = fn(&Kit);

const CASES: &[(&str, Run)] = &[
    ("objects live through the death of each part", survives),
    ("what was compacted cannot be watched", compacts),
    ("users have the rights of their roles", knows_users),
];

fn main() -> ExitCode {
    let mut report = Report::from_args();
    // Each case has a control plane of its own.
    let _ = conformance_support::cases(&mut report, &[(CASES, 1)], |kit| kit);
    report.finish()
}

fn start(kit: &Kit, options: &Options) -> ControlPlane {
    ControlPlane::start(kit, &Namespace::new().unwrap(), options).unwrap()
}

/// The version of a new service.
fn create(api: &Api, name: &str) -> String {
    let service = ServiceManifest::new(name, &[]).with("clusterIPs", json!(["None"]));
    let service = service.with("ipFamilies", json!(["IPv4"])).port("main", model::Protocol::Tcp, 80, 0);
    let found = api.create(paths::SERVICES, &service.to_json()).unwrap();
    found["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn survives(kit: &Kit) {
    let mut plane = start(kit, &Options::default());
    let folder = plane.folder().to_owned();
    create(plane.api(), "kept");
    let path = format!("{}/kept", paths::SERVICES);
    plane.apiserver.kill();
    assert!(matches!(plane.api().get(&path), Err(ApiError::Unreachable(_))));
    plane.apiserver.start().unwrap();
    plane.api().get(&path).unwrap();
    plane.etcd.kill();
    plane.etcd.start().unwrap();
    stop_under_watch(&mut plane);
    plane.apiserver.start().unwrap();
    plane.api().get(&path).unwrap();
    let patched = plane.api().patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    assert_eq!(patched["metadata"]["labels"]["a"], "b");
    plane.api().delete(&path).unwrap();
    let gone = plane.api().get(&path);
    assert!(matches!(gone, Err(ApiError::Refused { status: 404, .. })), "{gone:?}");
    drop(plane);
    assert!(!folder.exists(), "{} is left behind", folder.display());
}

/// An open watch does not keep the apiserver from ending.
fn stop_under_watch(plane: &mut ControlPlane) {
    let watcher = plane.api_as(User::PROXY).unwrap();
    let version = plane.api().get(paths::SERVICES).unwrap()["metadata"]["resourceVersion"].clone();
    // Ends by itself, or a failure below would wait for it for long.
    let limit = 2 * SOON.as_secs();
    let path = format!(
        "{}?watch=true&resourceVersion={}&timeoutSeconds={limit}",
        paths::SERVICES,
        version.as_str().unwrap()
    );
    std::thread::scope(|scope| {
        let before = open_watches(plane.api());
        let watch = scope.spawn(move || watcher.text(&path));
        assert!(wait_until(SOON, || open_watches(plane.api()) > before), "no watch was opened");
        let started = Instant::now();
        plane.apiserver.stop().unwrap();
        let took = started.elapsed();
        assert!(took < SOON, "ending took {took:?}");
        println!("the apiserver ended after {:.1} s", took.as_secs_f64());
        // How a watch ends is the server's choice.
        drop(watch.join().unwrap());
    });
}

/// Watches of services, by the server's own count.
fn open_watches(api: &Api) -> u32 {
    let metrics = api.text("/metrics").unwrap();
    let lines = metrics.lines().filter(|line| line.starts_with("apiserver_longrunning_requests{"));
    let lines = lines.filter(|line| line.contains("resource=\"services\""));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).sum()
}

fn compacts(kit: &Kit) {
    let mut plane = start(kit, &Options::default());
    let old = create(plane.api(), "first");
    create(plane.api(), "second");
    let oldest = plane.etcd.compact().unwrap();
    assert!(oldest > old.parse().unwrap(), "{oldest} is not after {old}");
    // A running apiserver remembers more than etcd does.
    plane.apiserver.restart().unwrap();
    let watch = format!("{}?watch=true&resourceVersion={old}&timeoutSeconds=1", paths::SERVICES);
    let answer = plane.api().text(&watch);
    let expired = match &answer {
        Ok(events) => events.contains("\"code\":410"),
        Err(ApiError::Refused { status, .. }) => *status == 410,
        Err(_) => false,
    };
    assert!(expired, "{answer:?}");
}

fn knows_users(kit: &Kit) {
    let users = vec![User::new("nobody", &[])];
    let plane = start(kit, &Options { users, ..Options::default() });
    let proxy = plane.api_as(User::PROXY).unwrap();
    proxy.list(paths::SLICES).unwrap();
    let refused = |answer: Result<_, ApiError>| {
        assert!(matches!(answer, Err(ApiError::Refused { status: 403, .. })), "{answer:?}");
    };
    refused(proxy.delete(&format!("{}/kubernetes", paths::SERVICES)).map(drop));
    refused(plane.api_as("nobody").unwrap().list(paths::SERVICES).map(drop));
    let stranger = plane.api_as("stranger").unwrap().list(paths::SERVICES);
    assert!(matches!(stranger, Err(ApiError::Refused { status: 401, .. })), "{stranger:?}");
    let (config, token) = plane.kubeconfig_with_token_file("nobody").unwrap();
    let text = fs::read_to_string(config).unwrap();
    assert!(text.contains(token.to_str().unwrap()), "{text}");
}
