//! What an operator gets for a mistake: the end and one line if only he can mend it, else one line and patience.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use conformance_support::log::{end_of, errors, lines};
use conformance_support::site::SOON;
use conformance_support::{Scratch, User};
use sandbox::Namespace;
use serde_json::{Value, json};
use test_support::{LEAVE_ALONE, wait_until};

use crate::world::World;

/// A kubeconfig with all that is needed, to be spoiled.
fn complete() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "test", "user": {"token": "some"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    })
}

fn spoiled(spoil: impl Fn(&mut Value)) -> String {
    let mut config = complete();
    spoil(&mut config);
    config.to_string()
}

/// Only the operator can mend these.
pub(crate) fn kubeconfigs(world: &mut World) {
    let scratch = Scratch::create().unwrap();
    let cluster = |field: &'static str, value: Value| {
        spoiled(move |config| config["clusters"][0]["cluster"][field] = value.clone())
    };
    let missing = scratch.path().join("nowhere").display().to_string();
    assert_refused(world, &scratch.path().join("nowhere"), &["nowhere", "No such file"]);
    assert_refused(world, scratch.path(), &["directory"]);
    for (name, text, words) in [
        ("empty", String::new(), &["empty"][..]),
        ("malformed", "clusters: [{name: test, cluster: }".to_owned(), &["line 1"]),
        ("no-server", cluster("server", Value::Null), &["server"]),
        ("context", spoiled(|config| config["current-context"] = "elsewhere".into()), &["elsewhere"]),
        ("no-context", spoiled(|config| config["current-context"] = Value::Null), &["context"]),
        ("no-cluster", spoiled(|config| config["clusters"] = json!([])), &["cluster", "test"]),
        ("no-user", spoiled(|config| config["users"] = json!([])), &["user", "test"]),
        ("no-scheme", cluster("server", "10.0.0.1:6443".into()), &["10.0.0.1:6443", "https://"]),
        ("no-url", cluster("server", "not a url".into()), &["server", "not a URL"]),
        ("authority", cluster("certificate-authority", missing.clone().into()), &[&missing, "No such file"]),
        ("garbage", cluster("certificate-authority-data", "Z2FyYmFnZQ==".into()), &["certificate"]),
        (
            "token-file",
            spoiled(|config| config["users"][0]["user"] = json!({"tokenFile": missing})),
            &[&missing, "No such file"],
        ),
        (
            "client-certificate",
            spoiled(|config| {
                config["users"][0]["user"] = json!({"client-certificate": missing, "client-key": missing});
            }),
            &[&missing, "No such file"],
        ),
    ] {
        let path = scratch.write(name, &text).unwrap();
        // Where another file is at fault, that one is named.
        let file = if words.contains(&&*missing) { &missing } else { path.to_str().unwrap() };
        assert_refused(world, &path, &[&[file], words].concat());
    }
}

/// Exit code 1 and one line with all of these words.
fn assert_refused(world: &World, kubeconfig: &Path, words: &[&str]) {
    let mut run = Run::start(world, &Namespace::new().unwrap(), kubeconfig);
    let code = run.await_end();
    let text = run.log();
    assert_eq!(code, Some(1), "{}: {}", kubeconfig.display(), end_of(&text));
    let told: Vec<&str> = text.lines().filter(|line| !line.starts_with('I')).collect();
    assert_eq!(told.len(), 1, "{}: {}", kubeconfig.display(), end_of(&text));
    for word in words {
        assert!(told[0].contains(word), "no {word:?} in {}", told[0]);
    }
}

/// Time may mend these, so it is tried again; one line says what is wrong.
fn assert_patient(world: &World, kubeconfig: &Path, words: &[&str]) {
    let mut run = Run::start(world, &world.ground.sandbox.node, kubeconfig);
    let tries = || lines(&run.log(), &["Still failing to list or watch the apiserver"]).len();
    let tried = wait_until(SOON, || tries() >= 8);
    let text = run.log();
    assert!(tried, "{}", end_of(&text));
    let told = errors(&text);
    assert_eq!(told.len(), 1, "{told:#?}");
    for word in words {
        assert!(told[0].contains(word), "no {word:?} in {}", told[0]);
    }
    assert_eq!(run.child.try_wait().unwrap(), None, "it gave up\n{}", end_of(&text));
}

pub(crate) fn dead_server(world: &mut World) {
    let text = spoiled(|config| config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into());
    let path = write(world, "dead", &text);
    assert_patient(world, &path, &["https://127.0.0.1:1", "cannot be reached", "refused", "retrying"]);
}

pub(crate) fn rejected_token(world: &mut World) {
    let usual = fs::read_to_string(world.plane.kubeconfig(User::PROXY).unwrap()).unwrap();
    let mut config: Value = serde_json::from_str(&usual).unwrap();
    config["users"][0]["user"] = json!({"token": "forged"});
    let path = write(world, "forged", &config.to_string());
    assert_patient(world, &path, &["rejected (401)", "check the token", "retrying"]);
}

pub(crate) fn other_authority(world: &mut World) {
    let usual = fs::read_to_string(world.plane.kubeconfig(User::PROXY).unwrap()).unwrap();
    let mut config: Value = serde_json::from_str(&usual).unwrap();
    let authority = write(world, "other-authority", &another_authority());
    config["clusters"][0]["cluster"]["certificate-authority"] = json!(authority);
    let path = write(world, "stranger", &config.to_string());
    assert_patient(world, &path, &["https://127.0.0.1:6443", "certificate", "authority", "retrying"]);
}

fn another_authority() -> String {
    let mut params = rcgen::CertificateParams::new([]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "somebody else");
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

fn write(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.plane.folder().join(format!("{name}.input"));
    fs::write(&path, text).unwrap();
    path
}

/// An agent that may never get ready; dropping it kills it.
struct Run {
    child: Child,
    log: PathBuf,
}

impl Run {
    fn start(world: &World, namespace: &Namespace, kubeconfig: &Path) -> Run {
        let log = world.plane.folder().join("bad-input.out");
        let mut command = Command::new(world.kube_proxy());
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--hostname-override=node-1", "-v=4"])
            .args(LEAVE_ALONE);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        kernel::process::die_with_parent(&mut command, kernel::process::Signal::Kill);
        namespace.enter(&mut command).unwrap();
        Run { child: command.spawn().unwrap(), log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn await_end(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until(SOON, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
