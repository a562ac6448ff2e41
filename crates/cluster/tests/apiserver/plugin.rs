//! Exec plugins that hang, fail, or issue something else the second time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::Kind;
use cluster::apiserver::{Encoding, Settings, Timing};
use serde_json::json;

use super::log;
use super::server::{Answer, End, Scripts, Server};
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
        fs::read_to_string(self.folder.join("runs")).unwrap_or_default().lines().count()
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

fn with_kubeconfig(server: &Server, path: &Path) -> Settings {
    let settings = settings(server.address, Encoding::Protobuf);
    Settings { kubeconfig: Some(path.to_owned()), master: None, ..settings }
}

/// It takes the credentials once, refuses them so often, and then takes them again.
fn moody_server(refusals: usize) -> Server {
    let encoding = Encoding::Protobuf;
    let mut answers =
        vec![Answer::ok(encoding, stream(encoding, 10, &[service("a", "10.0.0.1", 3)]), End::Cut)];
    answers.extend(vec![Answer::refusal(401, "Unauthorized"); refusals]);
    let changed = event(encoding, "MODIFIED", &service("a", "10.0.0.2", 12));
    answers.push(Answer::ok(encoding, changed, End::Silence));
    Server::start(Scripts::from([(Kind::Service, answers.into())]))
}

/// The old credentials go on being used, and the other kinds are not held up either.
#[test]
fn a_plugin_that_hangs_holds_nobody_up() {
    let plugin = Plugin::new("hangs");
    let server = moody_server(6);
    let source = Source::start(server.clone(), plugin.settings(&server, "sleep 60"), Timing::default());
    source.await_services("a=10.0.0.2");
    assert_eq!(plugin.runs(), 2, "one that hangs is enough");
    let asked = server.asked(Kind::Service);
    assert!(asked.iter().all(|asked| asked.authorization == "bearer one"), "{asked:#?}");
}

#[test]
fn a_plugin_that_hangs_is_ended_and_named() {
    let plugin = Plugin::new("ended");
    let server = moody_server(6);
    let timing = Timing { exec_plugin: Duration::from_millis(300), ..Timing::default() };
    let source = Source::start(server.clone(), plugin.settings(&server, "sleep 60"), timing);
    source.await_services("a=10.0.0.2");
    assert!(plugin.runs() > 2, "it was never run again");
    let said = log::complaints(&[&server.address.to_string(), "/bin/sh", "gave no answer within 0 s"]);
    assert_eq!(said.len(), 1, "{said:#?}");
}

#[test]
fn a_plugin_that_fails_is_named_once() {
    let plugin = Plugin::new("fails");
    let server = moody_server(6);
    let then = "echo no session >&2; exit 3";
    let source = Source::start(server.clone(), plugin.settings(&server, then), Timing::default());
    source.await_services("a=10.0.0.2");
    let said = log::complaints(&[&server.address.to_string(), "/bin/sh", "no session"]);
    assert_eq!(said.len(), 1, "{said:#?}");
}

#[test]
fn refused_credentials_are_issued_again() {
    let plugin = Plugin::new("again");
    let server = moody_server(4);
    let then = r#"echo '{"status": {"token": "two"}}'"#;
    let source = Source::start(server.clone(), plugin.settings(&server, then), Timing::default());
    source.await_services("a=10.0.0.2");
    let asked = server.asked(Kind::Service);
    assert_eq!(asked[0].authorization, "bearer one");
    assert_eq!(asked.last().unwrap().authorization, "bearer two");
}
