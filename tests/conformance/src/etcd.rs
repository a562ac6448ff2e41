//! etcd: one member, in memory as far as it goes.

use std::path::Path;

use sandbox::Namespace;
use serde_json::{Value, json};
use test_support::{SOON, patient};

use crate::daemon::Daemon;

pub(crate) const CLIENTS: &str = "http://127.0.0.1:2379";
const PEERS: &str = "http://127.0.0.1:2380";

#[derive(Debug)]
pub struct Etcd {
    daemon: Daemon,
}

impl Etcd {
    pub(crate) fn start_new(binary: &Path, namespace: &Namespace, folder: &Path) -> Result<Etcd, String> {
        let flags = vec![
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls={CLIENTS}"),
            format!("--advertise-client-urls={CLIENTS}"),
            format!("--listen-peer-urls={PEERS}"),
            format!("--initial-advertise-peer-urls={PEERS}"),
            format!("--initial-cluster=default={PEERS}"),
            // It need not survive the machine, only its own death.
            "--unsafe-no-fsync".to_owned(),
            // A single member elects itself as soon as it times out.
            "--heartbeat-interval=20".to_owned(),
            "--election-timeout=200".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let mut etcd = Etcd { daemon: Daemon::new("etcd", binary, flags, namespace, folder)? };
        etcd.start()?;
        Ok(etcd)
    }

    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Start it again after [`Etcd::kill`] or [`Etcd::stop`], and wait until it answers.
    pub fn start(&mut self) -> Result<(), String> {
        self.daemon.start(|daemon| ask(daemon.namespace(), "/v3/kv/range", &json!({"key": "AA=="})).is_ok())
    }

    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    pub fn stop(&mut self) -> Result<(), String> {
        self.daemon.stop().map(drop)
    }

    pub fn restart(&mut self) -> Result<(), String> {
        self.stop()?;
        self.start()
    }

    pub fn revision(&self) -> Result<u64, String> {
        let answer = ask(self.daemon.namespace(), "/v3/kv/range", &json!({"key": "AA=="}))?;
        let revision = answer.pointer("/header/revision").and_then(Value::as_str);
        revision.and_then(|text| text.parse().ok()).ok_or_else(|| format!("etcd tells no revision: {answer}"))
    }

    /// Forget everything older than now; the revision that is the oldest one from here on.
    pub fn compact(&self) -> Result<u64, String> {
        let revision = self.revision()?;
        let wish = json!({"revision": revision.to_string(), "physical": true});
        ask(self.daemon.namespace(), "/v3/kv/compaction", &wish)?;
        Ok(revision)
    }
}

/// etcd's JSON gateway.
fn ask(namespace: &Namespace, path: &str, wish: &Value) -> Result<Value, String> {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(patient(SOON))).proxy(None).build().into();
    let sent = namespace.try_run(|| {
        let mut answer = agent.post(format!("{CLIENTS}{path}")).send(wish.to_string())?;
        answer.body_mut().read_to_string()
    });
    let text = sent.map_err(|e| e.to_string())?.map_err(|e: ureq::Error| format!("etcd, {path}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("etcd, {path}: {e}: {text}"))
}
