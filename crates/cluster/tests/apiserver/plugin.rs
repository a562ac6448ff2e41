//! Exec plugins that hang, fail, or issue something else the second time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::Kind;
use cluster::apiserver::{Encoding, Settings, Timing};
use serde_json::json;

use super::log;
use super::server::{Answer, Asked, End, Scripts, Server};
use super::source::{Source, settings};
use super::spell::{event, service, stream};

/// A plugin that runs `then` from its second time on, and a kubeconfig with it.
struct Plugin {
    folder: PathBuf,
}

impl Plugin {
    fn new(name: &str) -> Plugin {
        let folder = std::env::temp_dir().join(format!("exec-plugin-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Plugin { folder }
    }

    fn runs(&self) -> usize {
        runs_in(&self.folder)
    }

    /// It takes the credentials once, refuses them until the plugin was run so often, and then takes them again.
    fn server_until_runs(&self, runs: usize) -> Server {
        let folder = self.folder.clone();
        moody_server(move |_| runs_in(&folder) >= runs)
    }

    fn settings(&self, server: &Server, then: &str) -> Settings {
        let runs = self.folder.join("runs").display().to_string();
        let first = r#"echo '{"status": {"token": "one"}}'"#;
        let script =
            format!("echo run >> {runs}; if [ $(wc -l < {runs}) = 1 ]; then {first}; else {then}; fi");
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", script],
            "interactiveMode": "Never",
        });
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{}", server.address)}}],
            "users": [{"name": "test", "user": {"exec": exec}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        let path = self.folder.join("kubeconfig");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        with_kubeconfig(server, &path)
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).ok();
    }
}

fn runs_in(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

fn with_kubeconfig(server: &Server, path: &Path) -> Settings {
    let settings = settings(server.address, Encoding::Protobuf);
    Settings { kubeconfig: Some(path.to_owned()), master: None, ..settings }
}

/// It takes the credentials once, refuses them until this holds of a request, and then takes them again.
fn moody_server(until: impl Fn(&Asked) -> bool + Send + Sync + 'static) -> Server {
    let encoding = Encoding::Protobuf;
    let mut answers =
        vec![Answer::ok(encoding, stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), End::Cut)];
    answers.push(Answer::refusal(401, "Unauthorized").until(until));
    let changed = event(encoding, "MODIFIED", &service("a", "10.0.0.2", 12));
    answers.push(Answer::ok(encoding, changed, End::Silence));
    Server::start(Scripts::from([(Kind::Service, answers.into())]))
}

/// The old credentials go on being used, and the other kinds are not held up either.
#[test]
fn a_plugin_that_hangs_holds_nobody_up() {
    let plugin = Plugin::new("hangs");
    let (refused, folder) = (AtomicUsize::new(0), plugin.folder.clone());
    let server = moody_server(move |_| refused.fetch_add(1, Ordering::Relaxed) >= 6 && runs_in(&folder) >= 2);
    let source = Source::start(server.clone(), plugin.settings(&server, "sleep 60"), Timing::default());
    source.await_services("a=10.0.0.2");
    assert_eq!(plugin.runs(), 2, "one that hangs is enough");
    let asked = server.asked(Kind::Service);
    assert!(asked.iter().all(|asked| asked.authorization == "bearer one"), "{asked:#?}");
}

#[test]
fn a_plugin_that_hangs_is_killed_and_named() {
    let plugin = Plugin::new("killed");
    let server = plugin.server_until_runs(3);
    // Time enough for the first run, which hands out credentials.
    let timing = Timing { exec_plugin: Duration::from_secs(4), ..Timing::default() };
    let source = Source::start(server.clone(), plugin.settings(&server, "sleep 60"), timing);
    source.await_services("a=10.0.0.2");
    let said = log::complaints(&[&server.address.to_string(), "/bin/sh", "did not finish within 4 s"]);
    assert_eq!(said.len(), 1, "{said:#?}");
}

#[test]
fn a_plugin_that_fails_is_named_once() {
    let plugin = Plugin::new("fails");
    let server = plugin.server_until_runs(4);
    let then = "echo no session >&2; exit 3";
    let source = Source::start(server.clone(), plugin.settings(&server, then), Timing::default());
    source.await_services("a=10.0.0.2");
    let said = log::complaints(&[&server.address.to_string(), "/bin/sh", "no session"]);
    assert_eq!(said.len(), 1, "{said:#?}");
}

#[test]
fn refused_credentials_are_issued_again() {
    let plugin = Plugin::new("again");
    let server = moody_server(|asked| asked.authorization == "bearer two");
    let then = r#"echo '{"status": {"token": "two"}}'"#;
    let source = Source::start(server.clone(), plugin.settings(&server, then), Timing::default());
    source.await_services("a=10.0.0.2");
    assert_eq!(server.asked(Kind::Service)[0].authorization, "bearer one");
}
