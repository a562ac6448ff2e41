//! Upstream's kube-proxy, to hold the table against another judge and to take over from.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use sandbox::Namespace;
use test_support::node_agent::lock_beside;
use test_support::{Carrier, SOON, SettingsVariant, patient};

use crate::daemon::Daemon;

const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);

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
        Upstream::start_as(Carrier::Nftables, binary, namespace, kubeconfig, name, flags, folder)
    }

    /// The same in another mode. Of iptables it finds just the variant in question, as in upstream's own images.
    pub fn start_as(
        carrier: Carrier,
        binary: &Path,
        namespace: &Namespace,
        kubeconfig: &Path,
        name: &str,
        flags: &[String],
        folder: &Path,
    ) -> Result<Upstream, String> {
        let mut all = vec![
            format!("--proxy-mode={}", carrier.mode()),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={name}"),
        ];
        // Some of these belong to the whole machine, not to the namespace.
        all.extend(["max-per-core", "min"].map(|limit| format!("--conntrack-{limit}=0")));
        all.extend(["established", "close-wait"].map(|state| format!("--conntrack-tcp-timeout-{state}=0")));
        all.extend_from_slice(flags);
        let mut daemon = Daemon::new("upstream-kube-proxy", binary, all, namespace, folder)?;
        if carrier.has_tools() {
            let lock = lock_beside(&folder.join("log"));
            daemon = daemon.with("PATH", tools(carrier, folder)?).with("XTABLES_LOCKFILE", lock);
        }
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
    pub fn flags(variant: SettingsVariant) -> Vec<String> {
        let spell = |flag: String| match &*flag {
            "--nodeport-addresses=all" => "--nodeport-addresses=0.0.0.0/0,::/0".to_owned(),
            _ => flag,
        };
        variant.flags().into_iter().map(spell).collect()
    }
}

/// A search path on which `iptables` is of that variant: what its programs are called tells them what to do.
fn tools(carrier: Carrier, folder: &Path) -> Result<OsString, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = folder.join(carrier.name());
    std::fs::create_dir_all(&own).map_err(|e| format!("making {}: {e}", own.display()))?;
    for is_ipv6 in [false, true] {
        for kind in ["", "-save", "-restore"] {
            let tool = carrier.tool(is_ipv6, kind);
            let real =
                std::env::split_paths(&path).map(|folder| folder.join(&tool)).find(|file| file.is_file());
            let real = real.ok_or_else(|| format!("{tool} is not installed"))?;
            let name = own.join(format!("{}tables{kind}", if is_ipv6 { "ip6" } else { "ip" }));
            if !name.exists() {
                std::os::unix::fs::symlink(&real, &name).map_err(|e| format!("{}: {e}", name.display()))?;
            }
        }
    }
    let folders = std::iter::once(own).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).map_err(|e| e.to_string())
}

/// In how many families a sync has ended.
fn families_synced(namespace: &Namespace) -> usize {
    let text = namespace.run(metrics).unwrap_or_default();
    let stamps = text.lines().filter(|line| {
        line.starts_with("kubeproxy_sync_proxy_rules_last_timestamp_seconds") && !line.ends_with(" 0")
    });
    // Old releases have one for both.
    stamps.map(|line| if line.contains('{') { 1 } else { 2 }).sum()
}

fn metrics() -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&METRICS, patient(SOON)).ok()?;
    stream.set_read_timeout(Some(patient(SOON))).ok()?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: node\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
