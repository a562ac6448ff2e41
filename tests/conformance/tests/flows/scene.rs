//! What a proxy is put into: the ground of the table, a control plane on its node, the world in the API.

use std::process::Command;

use conformance_support::through_api::{Amended, bring_in};
use conformance_support::{ControlPlane, Kit, Options};
use kernel::conntrack::{Conntrack, Filter, Flow};
use test_support::Verdict;
use test_support::packets::Ground;
use test_support::world::World;

/// As `nft` calls them.
const FAMILIES: [&str; 2] = ["ip", "ip6"];

/// Parts are dropped in this order.
pub(crate) struct Scene {
    amended: Amended,
    pub(crate) plane: ControlPlane,
    pub(crate) ground: Ground,
}

impl Scene {
    pub(crate) fn set(kit: &Kit, world: &World) -> Result<Scene, String> {
        let ground = Ground::new()?;
        let plane = ControlPlane::start(kit, &ground.sandbox.node, &Options::default())?;
        let amended = bring_in(plane.api(), world)?;
        Ok(Scene { amended, plane, ground })
    }

    /// Whether the API refused just what it is known to refuse.
    pub(crate) fn verdict(&self) -> Verdict {
        self.amended.lines().iter().for_each(|line| println!("refused by the API and amended: {line}"));
        let surprises = self.amended.surprises();
        if surprises.is_empty() { Verdict::Passed } else { Verdict::Failed(surprises.join("; ")) }
    }

    /// Take away what the last variant left on the node. Recorded flows and pinned clients outlive a proxy, and
    /// the next one is not to be judged by them.
    pub(crate) fn clear(&self) -> Result<(), String> {
        let node = &self.ground.sandbox.node;
        let not_to_the_apiserver = |flow: &Flow| !flow.original.src.is_loopback();
        let forget = || Conntrack::open()?.delete_where(&Filter::default(), not_to_the_apiserver);
        node.run(forget).map_err(|e| format!("forgetting the node's flows: {e}"))?;
        let mut nft = Command::new("nft");
        node.enter(nft.args(["flush", "ruleset"])).map_err(|e| e.to_string())?;
        match nft.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("nft flush ruleset: {status}")),
            Err(error) => Err(format!("running nft: {error}")),
        }
    }

    /// Whether upstream's rules drop what goes to unused addresses of the ServiceCIDRs, in both families.
    pub(crate) fn drops_unused_addresses(&self) -> bool {
        FAMILIES.iter().all(|family| {
            let listed = self.nft(&["list", "chain", family, "kube-proxy", "cluster-ips-check"]);
            listed.lines().any(|line| line.contains("daddr") && line.contains("drop"))
        })
    }

    /// Whether upstream's rules for the service `zoned` lead to the two endpoints of the node's zone, in both families:
    /// the labels of the Node may reach it after its first sync.
    pub(crate) fn knows_its_zone(&self) -> bool {
        FAMILIES.iter().all(|family| {
            let listed = self.nft(&["list", "table", family, "kube-proxy"]);
            let mut chains = listed
                .split("\tchain ")
                .filter(|chain| chain.starts_with("service-"))
                .filter(|chain| chain.lines().next().is_some_and(|name| name.contains("/zoned/")))
                .peekable();
            chains.peek().is_some() && chains.all(|chain| chain.contains("numgen random mod 2 "))
        })
    }

    /// What `nft` prints on the node; nothing if it fails.
    fn nft(&self, words: &[&str]) -> String {
        let mut nft = Command::new("nft");
        nft.args(words);
        let listed = self.ground.sandbox.node.enter(&mut nft).ok().and_then(|_| nft.output().ok());
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}
