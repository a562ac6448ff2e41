//! `kubectl pointsman`, with a kubectl that answers from files and runs what it is to execute beside the agent.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use model::Family;
use serde_json::{Value, json};
use test_support::{Case, SOON, patient};

use crate::case;
use crate::site::{BINARY, NODE, PAGES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("kubectl pointsman asks the agent of a pod's node, with its address", of_a_pod),
        case("kubectl pointsman writes a bundle where it is called", bundled),
        case("what kubectl pointsman started elsewhere ends with it", ended),
        case("kubectl pointsman says in one line what is missing", missing),
    ]
}

/// Notes each call. `get pod` and `get pods` are answered from files, `exec` by the program itself.
const KUBECTL: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
while [ $# -gt 0 ]; do
  case "$1" in
    get)
      [ -e "$here/forbidden" ] && { echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1; }
      exec cat "$here/$2.json" ;;
    exec)
      while [ "$1" != -- ]; do shift; done
      shift 2
      exec "$here/kube-proxy" "$@" ;;
    *) shift ;;
  esac
done
"#;

/// The plugin beside that kubectl, and an agent.
struct Stage {
    site: Site,
    folder: PathBuf,
}

fn stage() -> Stage {
    let site = Site::start(&["--cluster-cidr=10.1.0.0/16"]);
    site.put_checked("web", 32000);
    site.put_endpoints("web", Family::V4, 1);
    site.await_reply(PAGES, "/pointsman/v1/services", |reply| {
        let services = reply.json();
        services["services"][0]["pending"] == false
            && services["services"][0]["ports"][0]["endpoints"]["IPv4"]["usable"] == 2
    });
    // Not among the manifests.
    let folder = std::env::temp_dir()
        .join(format!("pointsman-plugin-{}", site.folder.path().file_name().unwrap().display()));
    fs::create_dir(&folder).unwrap();
    let binary = BINARY.get().expect("main has found the binary");
    for name in ["kube-proxy", "kubectl-pointsman"] {
        symlink(binary, folder.join(name)).unwrap();
    }
    fs::write(folder.join("kubectl"), KUBECTL).unwrap();
    fs::set_permissions(folder.join("kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
    let stage = Stage { site, folder };
    stage.answer("pods", &json!({ "items": [proxy("kube-proxy-abcde", NODE)] }));
    let status = json!({ "podIP": "10.1.0.9", "podIPs": [{ "ip": "10.1.0.9" }, { "ip": "fd00:1::9" }] });
    stage.answer("pod", &json!({ "spec": { "nodeName": NODE }, "status": status }));
    stage
}

fn proxy(name: &str, node: &str) -> Value {
    let container = json!({
        "name": "kube-proxy",
        "command": ["/usr/local/bin/kube-proxy", "--metrics-bind-address=127.0.0.1:10249", "-v=2"],
    });
    json!({
        "metadata": { "name": name },
        "spec": { "nodeName": node, "containers": [container] },
        "status": { "phase": "Running" },
    })
}

impl Stage {
    fn answer(&self, kind: &str, object: &Value) {
        fs::write(self.folder.join(format!("{kind}.json")), object.to_string()).unwrap();
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let _ = fs::remove_file(self.folder.join("calls"));
        let mut command = Command::new(self.folder.join("kubectl-pointsman"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(words)
            .env("PATH", format!("{}:{path}", self.folder.display()))
            .current_dir(&self.folder);
        self.site.namespace.enter(&mut command).unwrap();
        command
    }

    /// The exit code, and what is printed.
    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = self.output(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn of_a_pod() {
    let stage = stage();
    let words =
        ["--context", "prod", "explain", "service", "web:80", "--from", "pod/shop/cart", "-o", "json"];
    let (code, text, problems) = stage.run(&words);
    let exec = "--context=prod exec --namespace kube-system kube-proxy-abcde --container kube-proxy -- \
                /usr/local/bin/kube-proxy explain service default/web:80 --output=json --from 10.1.0.9 \
                --metrics-bind-address=127.0.0.1:10249";
    let wanted = [
        "--context=prod get pod cart --namespace shop --output json",
        "--context=prod get pods --namespace kube-system --selector k8s-app=kube-proxy --field-selector \
         spec.nodeName=node-1 --output json",
        exec,
    ];
    assert_eq!(stage.calls(), wanted, "{problems}");
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{problems}"));
    assert_eq!(
        (code, &document["explanations"][0]["clients"][0]["kind"]),
        (Some(0), &"pod".into()),
        "{text}"
    );
    let (code, text, problems) = stage.run(&["explain", "10.96.7.7:1", "--node", NODE]);
    assert_eq!(code, Some(3), "as the command ends: {text}{problems}");
    let (code, text, _) =
        stage.run(&["services", "-n", "default", "--selector=app=x", "--proxy-namespace", "net"]);
    assert!(code == Some(0) && text.contains("web"), "{text}");
    assert_eq!(
        stage.calls()[0],
        "get pods --namespace net --selector app=x --output json",
        "there is only one"
    );
}

fn bundled() {
    let stage = stage();
    let (code, text, problems) = stage.run(&["bundle", "here.tar", "--node", NODE]);
    assert_eq!((code, text.as_str()), (Some(0), "here.tar\n"), "{problems}");
    let archive = fs::read(stage.folder.join("here.tar")).unwrap();
    assert!(archive.len() > 10_000 && archive.len().is_multiple_of(512), "{} bytes", archive.len());
    let (code, _, problems) = stage.run(&["bundle", "here.tar", "--node", NODE]);
    assert!(code == Some(1) && problems.contains("exists"), "{problems}");
    let (code, ..) = stage.run(&["bundle", "here.tar", "--force", "--node", NODE]);
    assert_eq!(code, Some(0));
    stage.answer(
        "pods",
        &json!({ "items": [{ "metadata": { "name": "x" }, "spec": { "containers": [{
        "name": "kube-proxy", "command": ["kube-proxy", "--metrics-bind-address=127.0.0.1:1"],
    }] }, "status": { "phase": "Running" } }] }),
    );
    let (code, _, problems) = stage.run(&["bundle", "failed.tar"]);
    assert!(code == Some(1) && problems.contains("connection refused"), "{problems}");
    assert!(!stage.folder.join("failed.tar").exists());
}

/// Nothing but the end of its input reaches a process in another machine's container.
fn ended() {
    let stage = stage();
    for words in [&["services", "-w"][..], &["trace", "10.96.7.7", "--for", "5m", "-o", "json"]] {
        let mut command = stage.command(words);
        let mut plugin = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = plugin.stdout.take().unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(length) = out.read(&mut [0; 4096]) {
                if tell.send(length).is_err() || length == 0 {
                    return;
                }
            }
        });
        assert!(told.recv_timeout(patient(SOON)).unwrap() > 0, "{words:?}: it started");
        assert!(stage.calls().last().unwrap().contains("--stdin -- "), "{:?}", stage.calls());
        plugin.kill().unwrap();
        plugin.wait().unwrap();
        loop {
            let length = told.recv_timeout(patient(SOON)).expect("the process that it started ends");
            if length == 0 {
                break;
            }
        }
    }
}

fn missing() {
    let stage = stage();
    stage.answer("pods", &json!({ "items": [proxy("kp-1", "node-1"), proxy("kp-2", "node-2")] }));
    let line = |words: &[&str], start: &str| {
        let (code, out, problems) = stage.run(words);
        assert_eq!((code, out.as_str(), problems.lines().count()), (Some(1), "", 1), "{words:?}: {problems}");
        assert!(problems.starts_with(&format!("kubectl pointsman: {start}")), "{words:?}: {problems}");
    };
    line(
        &["explain", "10.96.0.1:80"],
        "which node? Give --node or --from pod/NAMESPACE/NAME; there are node-1, node-2",
    );
    line(&["explode"], "there is no command \"explode\"");
    line(&["explain", "10.96.0.1:80", "--frm", "x"], "unknown flag --frm");
    stage.answer("pods", &json!({ "items": [] }));
    line(&["services", "--node", "n9"], "no pod k8s-app=kube-proxy in namespace kube-system on node n9");
    fs::write(stage.folder.join("forbidden"), "").unwrap();
    line(&["diff", "--node", "n1"], "kubectl get pods: Error from server (Forbidden): pods is forbidden");
    fs::remove_file(stage.folder.join("kubectl")).unwrap();
    let mut command = Command::new(stage.folder.join("kubectl-pointsman"));
    let output = command.args(["diff", "--node", "n1"]).env("PATH", &stage.folder).output().unwrap();
    let problems = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), problems.as_str()),
        (Some(1), "kubectl pointsman: kubectl is not on the PATH\n")
    );
    let (code, text, _) = stage.run(&["--help"]);
    assert!(code == Some(0) && text.contains("kubectl pointsman explain "), "{text}");
}
