//! The constant rules that are different where IPVS picks endpoints: leading packets to it, and what it leaves.
//!
//! IPVS takes packets at input (priority 99) and output (-99), and only those that are for this node. Cluster IPs are, by
//! a route; packets for the external addresses that it serves get a mark by which a routing rule makes them local. What
//! reaches input behind IPVS was not taken: an unlisted port or an unallocated address. `docs/ipvs.md` has the picture.

use kernel::nft::{Batch, Chain, Hook, HookKind, VerdictCode};

use super::code::{Field, NODE_PORT, VIP};
use super::layout::{BEHIND_IPVS, INPUT, OUTPUT, POST_DNAT, PREROUTING, TableSetup, rule};
use super::sets::{Door, SetName, beside_ipvs};

const NOT_TAKEN: &str = "input-not-taken";

fn base_chains() -> [(&'static str, Hook); 3] {
    let hook = |kind, number, priority| Hook { kind, number, priority };
    [
        ("filter-prerouting-post-dnat", hook(HookKind::Filter, PREROUTING, POST_DNAT)),
        ("output-reroute", hook(HookKind::Route, OUTPUT, POST_DNAT)),
        ("filter-input-late", hook(HookKind::Filter, INPUT, BEHIND_IPVS)),
    ]
}

pub(super) fn is_permanent_chain(name: &str) -> bool {
    name == NOT_TAKEN || base_chains().iter().any(|(base, _)| *base == name)
}

impl TableSetup {
    pub(super) fn declare_beside_ipvs(&self, batch: &mut Batch, local_mark: u32) {
        beside_ipvs().into_iter().for_each(|set| self.declare_set(batch, set));
        for (name, hook) in base_chains() {
            batch.add_chain(&Chain { name, hook: Some(hook) });
        }
        batch.add_chain(&Chain { name: NOT_TAKEN, hook: None });
        let ipvs = SetName::Ipvs.name();
        // Behind nat: what the rules have redirected is no longer for the service. Every packet, not only the first.
        let code = self.code().within(&VIP, &ipvs);
        rule(batch, "filter-prerouting-post-dnat", code.set_mark(local_mark));
        // IPVS keeps the route of a packet of the node: one that now goes to the node itself has to be routed again.
        let code = self.code().within(&[Field::Destination], "nodeport-addresses").goes_out_other_than("lo");
        rule(batch, "output-reroute", code.set_mark(local_mark));
        // In front of IPVS, which routes the packet again with what is left of its mark.
        rule(batch, "filter-input", self.code().has_mark(local_mark).flip_mark(local_mark));
        let late = self.code().new_connection().then(VerdictCode::Goto(NOT_TAKEN));
        rule(batch, "filter-input-late", late);
        let served = self.code().within(&VIP, &ipvs);
        rule(batch, NOT_TAKEN, served.then(VerdictCode::Goto("reject-it")));
        self.accept_pings(batch, NOT_TAKEN);
        let at_cluster_ip = self.code().within(&[Field::Destination], "cluster-ips");
        rule(batch, NOT_TAKEN, at_cluster_ip.then(VerdictCode::Goto("reject-it")));
        let unallocated = self.code().within(&[Field::Destination], "service-cidrs");
        rule(batch, NOT_TAKEN, unallocated.then(VerdictCode::Drop));
        // Packets of the node meet IPVS before the filter: one without a usable destination would answer for us, and
        // over IPv6 clients take a second to believe it.
        for (fields, set) in
            [(&VIP[..], SetName::Reject(Door::Vip)), (&NODE_PORT, SetName::Reject(Door::NodePort))]
        {
            let code = self.code().new_connection();
            let code = match set {
                SetName::Reject(Door::NodePort) => code.within(&[Field::Destination], "nodeport-addresses"),
                _ => code,
            };
            let name = set.name();
            rule(
                batch,
                "filter-output-pre-dnat",
                code.within(fields, &name).then(VerdictCode::Goto("reject-it")),
            );
        }
    }

    /// Whom IPVS serves with a rewritten source.
    pub(super) fn masquerade_before_ipvs(&self, batch: &mut Batch, base: &str) {
        if base == "nat-output" {
            // The node calls a cluster IP, which is local, with that address as its own.
            let code = self.code().within(&[Field::Source], "cluster-ips");
            rule(batch, base, code.set_mark(self.masquerade_mark));
        }
        let (vips, ports) =
            (SetName::Masquerade(Door::Vip).name(), SetName::Masquerade(Door::NodePort).name());
        rule(batch, base, self.code().within(&VIP, &vips).set_mark(self.masquerade_mark));
        let at_node = self.code().within(&[Field::Destination], "nodeport-addresses");
        rule(batch, base, at_node.within(&NODE_PORT, &ports).set_mark(self.masquerade_mark));
    }

    /// A live cluster IP answers pings, because it is local.
    pub(super) fn accept_pings(&self, batch: &mut Batch, chain: &str) {
        let code = self.code().within(&[Field::Destination], "cluster-ips").echo_request();
        rule(batch, chain, code.then(VerdictCode::Accept));
    }
}
