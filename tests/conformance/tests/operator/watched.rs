//! An agent with a configuration file that changes, on a node of its own.

use std::path::Path;

use conformance_support::site::{SOON, Site};
use conformance_support::{Scratch, paths};
use sandbox::address;
use serde_json::Value;
use test_support::directory::ZONE;
use test_support::{NodeAgent, manifest, wait_until};

use crate::pair::Pair;

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
/// Nothing that belongs to the whole machine is touched.
const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
                    oomScoreAdj: 0\nconntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n";

/// Parts are dropped in this order.
pub(crate) struct Watched<'a> {
    pub(crate) agent: NodeAgent,
    pub(crate) site: Site,
    scratch: Scratch,
    pair: &'a Pair,
    name: &'static str,
}

impl<'a> Watched<'a> {
    /// `prepare` sees the node before the agent is there.
    pub(crate) fn start(
        pair: &'a Pair,
        name: &'static str,
        kubeconfig: &Path,
        more: &str,
        prepare: impl FnOnce(&Site),
    ) -> Watched<'a> {
        let node = manifest::node(name, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
        pair.api().create(paths::NODES, &node).unwrap();
        let (site, scratch) = (Site::open(&pair.plane), Scratch::create().unwrap());
        prepare(&site);
        let file = scratch.write("config.yaml", &text(kubeconfig, more)).unwrap();
        let log = pair.plane.folder().join(format!("{name}.log"));
        let flags = [format!("--config={}", file.display())];
        let agent = site.agent(&pair.kit, &log, kubeconfig, name, &flags);
        Watched { agent, site, scratch, pair, name }
    }

    /// Replace the file as a whole.
    pub(crate) fn change(&self, kubeconfig: &Path, more: &str) {
        self.scratch.write("config.yaml", &text(kubeconfig, more)).unwrap();
    }

    /// Wait for an event about this node with that reason, and words in its note.
    pub(crate) fn await_event(&self, reason: &str, words: &str) -> Value {
        self.await_event_about(self.name, reason, words)
    }

    pub(crate) fn await_event_about(&self, name: &str, reason: &str, words: &str) -> Value {
        let mut found = None;
        let came = wait_until(SOON, || {
            found = self.pair.api().list(EVENTS).unwrap().into_iter().find(|event| {
                event["regarding"]["name"] == name
                    && event["reason"] == reason
                    && event["note"].as_str().unwrap_or_default().contains(words)
            });
            found.is_some()
        });
        assert!(came, "no event {reason} with {words:?} about {name}\n{}", self.agent.log());
        found.unwrap()
    }
}

fn text(kubeconfig: &Path, more: &str) -> String {
    format!("{HEAD}clientConnection: {{kubeconfig: {}}}\n{more}\n", kubeconfig.display())
}
