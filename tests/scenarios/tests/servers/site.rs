//! An agent in a namespace with nothing but loopback, over manifests.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

use model::{Family, Protocol};
use sandbox::Namespace;
use test_support::{
    EndpointManifest, ManifestFolder, NodeAgent, SOON, ServiceManifest, SliceManifest, manifest, wait_until,
};

use crate::ask::{self, Reply};

pub(crate) const NODE: &str = "node-1";
pub(crate) const PROBES: &str = "127.0.0.1:10256";
pub(crate) const PAGES: &str = "127.0.0.1:10249";

/// Set by `main`, before any case runs.
pub(crate) static BINARY: OnceLock<PathBuf> = OnceLock::new();

pub(crate) struct Site {
    // Dropped in this order: the agent before the namespace it lives in.
    pub(crate) agent: NodeAgent,
    pub(crate) folder: ManifestFolder,
    pub(crate) namespace: Namespace,
}

impl Site {
    pub(crate) fn start(flags: &[&str]) -> Site {
        let (namespace, folder) = (Namespace::new().unwrap(), ManifestFolder::create());
        folder.put("node", &manifest::node(NODE, "zone-1", &["127.0.0.5".parse().unwrap()]));
        Site::over(namespace, folder, flags)
    }

    pub(crate) fn over(namespace: Namespace, folder: ManifestFolder, flags: &[&str]) -> Site {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let binary = BINARY.get().expect("main has found the binary");
        let agent = NodeAgent::start(binary, &namespace, &folder, NODE, &flags);
        Site { agent: agent.unwrap_or_else(|why| panic!("{why}")), folder, namespace }
    }

    pub(crate) fn get(&self, at: &str, path: &str) -> Reply {
        self.try_get(at, path).unwrap_or_else(|why| panic!("{at}{path}: {why}\n{}", self.agent.log()))
    }

    pub(crate) fn try_get(&self, at: &str, path: &str) -> io::Result<Reply> {
        ask::get(&self.namespace, at, path)
    }

    /// Wait until the answer is as wanted.
    pub(crate) fn await_reply(&self, at: &str, path: &str, is_wanted: impl Fn(&Reply) -> bool) -> Reply {
        let mut last = None;
        let found = wait_until(SOON, || {
            last = Some(self.try_get(at, path));
            matches!(&last, Some(Ok(reply)) if is_wanted(reply))
        });
        assert!(found, "{at}{path}: {last:?}\n{}", self.agent.log());
        last.unwrap().unwrap()
    }

    pub(crate) fn await_silence(&self, at: &str) {
        let is_silent = || self.try_get(at, "/").is_err();
        assert!(wait_until(SOON, is_silent), "{at} still answers\n{}", self.agent.log());
    }

    pub(crate) fn await_word(&self, words: &str) {
        let log = || self.agent.log();
        assert!(wait_until(SOON, || log().contains(words)), "no {words:?} in the log:\n{}", log());
    }

    /// A service whose outside traffic stays on the node, to be asked for on this port.
    pub(crate) fn put_checked(&self, name: &str, port: u16) {
        let last = name.bytes().map(u64::from).sum::<u64>() % 200 + 1;
        let ips = [format!("10.96.0.{last}"), format!("fd00:96::{last}")].map(|ip| ip.parse().unwrap());
        let service = ServiceManifest::new(name, &ips)
            .port("main", Protocol::Tcp, 80, 0)
            .with("type", "LoadBalancer")
            .with("externalTrafficPolicy", "Local")
            .with("healthCheckNodePort", port);
        self.folder.put_service(&service);
    }

    /// Endpoints of one family: how many are ready here; beside those, one elsewhere and one that is not ready.
    pub(crate) fn put_endpoints(&self, service: &str, family: Family, here: u8) {
        let ip = |last: u8| -> IpAddr {
            match family {
                Family::V4 => format!("10.1.0.{last}").parse().unwrap(),
                Family::V6 => format!("fd00:1::{last}").parse().unwrap(),
            }
        };
        let slice = SliceManifest::new(service, "1", family)
            .port("main", Protocol::Tcp, 8080)
            .endpoint(&EndpointManifest::new(ip(100), "node-2"))
            .endpoint(&EndpointManifest::new(ip(101), NODE).conditions(false, true, true));
        let here = (1..=here).map(|last| EndpointManifest::new(ip(last), NODE));
        self.folder.put_slice(&here.fold(slice, |slice, endpoint| slice.endpoint(&endpoint)));
    }
}
