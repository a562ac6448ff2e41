//! Upstream's kube-proxy in nftables mode, to hold the table against another judge.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use sandbox::Namespace;
use scenarios::Variant;

use crate::daemon::Daemon;

const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Upstream {
    daemon: Daemon,
}

impl Upstream {
    /// Start it as node `name` and wait until both families have been synced once, which happens only when
    /// services and slices have been listed. Its log goes to `folder`.
    pub fn start(
        binary: &Path,
        namespace: &Namespace,
        kubeconfig: &Path,
        name: &str,
        flags: &[String],
        folder: &Path,
    ) -> Result<Upstream, String> {
        let mut all = vec![
            "--proxy-mode=nftables".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={name}"),
        ];
        // Some of these belong to the whole machine, not to the namespace.
        all.extend(["max-per-core", "min"].map(|limit| format!("--conntrack-{limit}=0")));
        all.extend(["established", "close-wait"].map(|state| format!("--conntrack-tcp-timeout-{state}=0")));
        all.extend_from_slice(flags);
        let mut daemon = Daemon::new("upstream-kube-proxy", binary, all, namespace, folder)?;
        daemon.start(|daemon| families_synced(daemon.namespace()) == 2)?;
        Ok(Upstream { daemon })
    }

    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    pub fn stop(&mut self) -> Result<(), String> {
        self.daemon.stop().map(drop)
    }

    /// The flags of a variant as upstream spells them.
    pub fn flags(variant: Variant) -> Vec<String> {
        let spell = |flag: String| match &*flag {
            "--nodeport-addresses=all" => "--nodeport-addresses=0.0.0.0/0,::/0".to_owned(),
            _ => flag,
        };
        variant.flags().into_iter().map(spell).collect()
    }
}

/// In how many families a sync has ended.
fn families_synced(namespace: &Namespace) -> usize {
    let text = namespace.run(metrics).unwrap_or_default();
    let stamps = text.lines().filter(|line| {
        line.starts_with("kubeproxy_sync_proxy_rules_last_timestamp_seconds{") && !line.ends_with(" 0")
    });
    stamps.count()
}

fn metrics() -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&METRICS, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: node\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
