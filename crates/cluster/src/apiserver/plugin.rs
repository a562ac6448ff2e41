//! Exec plugins: programs that hand out credentials (`client.authentication.k8s.io`), run with a deadline and killed at it.
//!
//! In the background of requests: a plugin that hangs must not keep credentials from use that are still good.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::kubeconfig::Exec;
use super::wording::last_complaint;
use crate::timestamp::parse_millis;

/// How often a plugin that runs is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// No credentials are longer, nor is what a plugin has to complain about.
const LARGEST_OUTPUT: u64 = 1 << 20;

/// What a plugin handed out.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) token: Option<String>,
    /// A certificate and its key, as PEM.
    pub(super) certificate: Option<(String, String)>,
    /// In milliseconds since the epoch; `None`: until they are refused.
    pub(super) expires: Option<i64>,
}

#[derive(Deserialize)]
struct Answer {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

/// Run it on a thread of its own; `cluster` is what it is told if it wants to know. If the caller stops waiting, the deadline still applies.
pub(super) async fn ask(exec: Exec, cluster: Value, deadline: Duration) -> Result<Credentials, String> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let name = exec.command.clone().unwrap_or_default();
    let started = std::thread::Builder::new().name("exec-plugin".into()).spawn(move || {
        // The caller may have stopped waiting.
        let _ = answer.send(run(&exec, &cluster, deadline));
    });
    let outcome = match started {
        Ok(_) => answered.await.unwrap_or_else(|_| Err("could not be run".to_owned())),
        Err(error) => Err(format!("could not be run: {error}")),
    };
    outcome.map_err(|why| format!("the exec plugin {name:?} of the kubeconfig {why}"))
}

fn run(exec: &Exec, cluster: &Value, deadline: Duration) -> Result<Credentials, String> {
    let until = Instant::now() + deadline;
    let mut child =
        command(exec, cluster)?.spawn().map_err(|error| format!("could not be started: {error}"))?;
    let (output, errors) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let left = || until.saturating_duration_since(Instant::now());
    // A process that it left behind may hold its output open.
    let output = has_ended(&child, until).then(|| output.recv_timeout(left()).ok()).flatten();
    if output.is_none() {
        end(&mut child);
    }
    let status = child.wait().map_err(|error| format!("could not be waited for: {error}"))?;
    match output {
        None => Err(format!("did not finish within {} s and was killed", deadline.as_secs())),
        Some(output) if status.success() => read(&output),
        Some(_) => {
            let complaint = errors.recv_timeout(left()).unwrap_or_default();
            Err(format!("failed ({status}): {}", last_complaint(&complaint)))
        }
    }
}

fn command(exec: &Exec, cluster: &Value) -> Result<Command, String> {
    let Some(program) = &exec.command else { return Err("has no command".to_owned()) };
    if exec.interactive_mode.as_deref() == Some("Always") {
        return Err(
            "requires a terminal (interactiveMode: Always), which kube-proxy does not have".to_owned()
        );
    }
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        spec["cluster"] = cluster.clone();
    }
    let info = json!({"kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec});
    let variables = exec.env.iter().flatten().map(|variable| (&variable.name, &variable.value));
    let mut command = Command::new(program);
    command
        .args(exec.args.iter().flatten())
        .envs(variables)
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts ends with it.
        .process_group(0);
    Ok(command)
}

/// Read in the background, so that it never waits for us to read.
fn collect(source: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let _ = std::thread::Builder::new().name("exec-plugin".into()).spawn(move || {
        let mut text = Vec::new();
        if let Some(mut source) = source {
            // What is cut off or could not be read makes no sense later.
            let _ = (&mut source).take(LARGEST_OUTPUT).read_to_end(&mut text);
            let _ = sender.send(text);
            let _ = io::copy(&mut source, &mut io::sink());
        }
    });
    receiver
}

fn process_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Wait for its end. It is not reaped by that, so its number stays its own. By looking now and then: a pidfd would tell
/// at once, but filters of system calls and old kernels refuse it.
fn has_ended(child: &Child, until: Instant) -> bool {
    let Some(id) = process_of(child) else { return false };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that there is no process left to wait for.
    while matches!(waitid(WaitId::Pid(id), options), Ok(None) | Err(rustix::io::Errno::INTR)) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(BETWEEN_LOOKS));
    }
    true
}

/// With everything that it started, unless that left its group. Either fails only if there is nothing left to end.
fn end(child: &mut Child) {
    let _ = process_of(child).map(|id| kill_process_group(id, Signal::KILL));
    let _ = child.kill();
}

/// As JSON or, as client-go takes it too, as YAML.
fn read(output: &[u8]) -> Result<Credentials, String> {
    let answer: Answer = serde_saphyr::from_slice(output)
        .map_err(|_| "failed: its output is not an ExecCredential".to_owned())?;
    let status = answer.status.ok_or("failed: its ExecCredential has no status")?;
    let certificate = status.client_certificate_data.zip(status.client_key_data);
    if status.token.is_none() && certificate.is_none() {
        return Err(
            "failed: its ExecCredential holds neither a token nor a certificate with its key".to_owned()
        );
    }
    let expires = match status.expiration_timestamp {
        Some(text) => {
            Some(parse_millis(&text).ok_or("failed: its expirationTimestamp is not an RFC 3339 time")?)
        }
        None => None,
    };
    Ok(Credentials { token: status.token, certificate, expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Exec {
        let config = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", text],
            "env": [{"name": "GIVEN", "value": "abc"}], "interactiveMode": "IfAvailable",
        });
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn a_plugin_is_told_what_is_wanted_and_hands_out_credentials() {
        let text = r#"case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 3;; esac
            echo '{"status": {"token": "'$GIVEN'", "expirationTimestamp": "2024-03-01T00:00:00Z"}}'"#;
        let credentials =
            run(&script(text), &Value::Null, Duration::from_secs(20)).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(credentials.token.as_deref(), Some("abc"));
        assert_eq!(credentials.expires, Some(1_709_251_200_000));
        let text = "printf 'status:\\n  clientCertificateData: c\\n  clientKeyData: k\\n'";
        let credentials =
            run(&script(text), &Value::Null, Duration::from_secs(20)).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(credentials.certificate, Some(("c".into(), "k".into())));
    }

    #[test]
    fn what_fails_says_why_and_shows_no_secret() {
        for (text, expected) in [
            ("echo one >&2; echo no session >&2; echo SECRET; exit 1", "failed (exit status: 1): no session"),
            ("echo 'SECRET: ['", "failed: its output is not an ExecCredential"),
            ("echo '{}'", "failed: its ExecCredential has no status"),
            ("echo '{\"status\": {}}'", "failed: its ExecCredential holds neither a token"),
            (
                "echo '{\"status\": {\"token\": \"SECRET\", \"expirationTimestamp\": \"soon\"}}'",
                "failed: its expirationTimestamp is not an RFC 3339 time",
            ),
        ] {
            let said = run(&script(text), &Value::Null, Duration::from_secs(20)).err().unwrap_or_default();
            assert!(said.starts_with(expected) && !said.contains("SECRET"), "{text}: {said}");
        }
        let nowhere = Exec { command: Some("/nowhere".into()), ..script("") };
        let said = run(&nowhere, &Value::Null, Duration::from_secs(20)).err().unwrap_or_default();
        assert!(said.starts_with("could not be started: No such file"), "{said}");
    }

    /// Also what it started, and also if that holds its output open.
    #[test]
    fn one_that_hangs_is_killed_at_its_deadline() {
        let file = std::env::temp_dir().join(format!("exec-plugin-children-{}", std::process::id()));
        for ending in ["sleep 600", "true"] {
            let text = format!("sleep 600 & echo $! > {}; {ending}", file.display());
            let said = run(&script(&text), &Value::Null, Duration::from_secs(3)).err();
            assert_eq!(said.as_deref(), Some("did not finish within 3 s and was killed"), "{ending}");
            let child = std::fs::read_to_string(&file).unwrap();
            let deadline = Instant::now() + Duration::from_secs(60);
            while is_alive(child.trim()) {
                assert!(Instant::now() < deadline, "{ending}: {child} was not killed");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        std::fs::remove_file(&file).ok();
    }

    /// A process that has not been reaped yet is dead.
    fn is_alive(process: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        status.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    }

    /// As on kernels before 5.3, and under filters that do not list the call.
    #[test]
    fn no_pidfd_is_needed() {
        let filter = json!({"plugin": {
            "mismatch_action": "allow", "match_action": {"errno": 38},
            "filter": [{"syscall": "pidfd_open"}, {"syscall": "pidfd_send_signal"}],
        }});
        let architecture = std::env::consts::ARCH.try_into().unwrap();
        let filters = seccompiler::compile_from_json(filter.to_string().as_bytes(), architecture).unwrap();
        // It holds for the thread and what it starts.
        let confined = std::thread::spawn(move || {
            seccompiler::apply_filter(&filters["plugin"]).unwrap();
            run(&script("echo '{\"status\": {\"token\": \"abc\"}}'"), &Value::Null, Duration::from_secs(20))
        });
        let credentials = confined.join().unwrap().unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(credentials.token.as_deref(), Some("abc"));
    }
}
