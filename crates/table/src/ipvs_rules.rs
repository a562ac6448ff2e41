//! The constant rules that are different where IPVS picks endpoints: leading packets to it, and what it leaves.
//!
//! IPVS takes packets at input (priority 99) and output (-99), and only those that are for this node. Cluster IPs are, by
//! a route; packets for the external addresses that it serves get a mark by which a routing rule makes them local. What
//! reaches input behind IPVS was not taken: an unlisted port or an unallocated address. `docs/ipvs.md` has the picture.

use kernel::nft::{Batch, Chain, Hook, HookKind, VerdictCode};
use model::Refusal;

use crate::code::{Field, NODE_PORT, VIP};
use crate::layout::{BEHIND_IPVS, INPUT, OUTPUT, POST_DNAT, PREROUTING, TableSetup, rule};
use crate::refusals::counter;
use crate::sets::{Door, SetName, beside_ipvs};

const NOT_TAKEN: &str = "input-not-taken";
const UNSERVED_CHAIN: &str = "filter-output-unserved";

/// Behind nat, which may lead a client on this node elsewhere, and in front of IPVS, which takes requests at -98.
const UNSERVED: i32 = -99;

fn base_chains() -> [(&'static str, Hook); 4] {
    let hook = |kind, number, priority| Hook { kind, number, priority };
    [
        (UNSERVED_CHAIN, hook(HookKind::Filter, OUTPUT, UNSERVED)),
        ("filter-prerouting-post-dnat", hook(HookKind::Filter, PREROUTING, POST_DNAT)),
        ("output-reroute", hook(HookKind::Route, OUTPUT, POST_DNAT)),
        ("filter-input-late", hook(HookKind::Filter, INPUT, BEHIND_IPVS)),
    ]
}

pub(crate) fn is_permanent_chain(name: &str) -> bool {
    name == NOT_TAKEN || base_chains().iter().any(|(base, _)| *base == name)
}

impl TableSetup {
    pub fn declare_beside_ipvs(&self, batch: &mut Batch, local_mark: u32) {
        beside_ipvs().into_iter().for_each(|set| self.declare_set(batch, set));
        for (name, hook) in base_chains() {
            batch.add_chain(&Chain { name, hook: Some(hook) });
        }
        batch.add_chain(&Chain { name: NOT_TAKEN, hook: None });
        let ipvs = SetName::Ipvs.name();
        // A new connection that is going to be rejected stays on its way: the kernel has no route for ICMP messages from an
        // address that is local by its mark alone.
        let rejected = SetName::Reject(Door::Vip).name();
        let code = self.code().new_connection().within(&VIP, &rejected);
        rule(batch, "filter-prerouting-post-dnat", code.then(VerdictCode::Accept));
        // Behind nat: what the rules have redirected is no longer for the service. Every packet, not only the first.
        let code = self.code().within(&VIP, &ipvs);
        rule(batch, "filter-prerouting-post-dnat", code.set_mark(local_mark));
        // IPVS keeps the route of a packet of the node: one that now goes to the node itself has to be routed again.
        let on_node = SetName::NodeIps.name();
        let code = self.code().within(&[Field::Destination], &on_node).goes_out_other_than("lo");
        rule(batch, "output-reroute", code.set_mark(local_mark));
        // In front of IPVS, which routes the packet again with what is left of its mark.
        rule(batch, "filter-input", self.code().has_mark(local_mark).flip_mark(local_mark));
        let late = self.code().new_connection().then(VerdictCode::Goto(NOT_TAKEN));
        rule(batch, "filter-input-late", late);
        self.reject_not_taken(batch, NOT_TAKEN);
        self.accept_pings(batch, NOT_TAKEN);
        let at_cluster_ip = self.code().within(&[Field::Destination], "cluster-ips");
        let at_cluster_ip = at_cluster_ip.count(counter(Refusal::UnlistedPort));
        rule(batch, NOT_TAKEN, at_cluster_ip.then(VerdictCode::Goto("reject-it")));
        let unallocated = self.code().within(&[Field::Destination], "service-cidrs");
        let unallocated = unallocated.count(counter(Refusal::UnallocatedAddress));
        rule(batch, NOT_TAKEN, unallocated.then(VerdictCode::Drop));
        self.answer_unserved(batch);
    }

    /// Packets of the node meet IPVS before the filter: a virtual server that drains would answer for us, and over IPv6
    /// clients take a second to believe it.
    fn answer_unserved(&self, batch: &mut Batch) {
        let answers = [
            (SetName::Drop as fn(Door) -> SetName, Refusal::NoLocalEndpoints, VerdictCode::Drop),
            (SetName::Reject, Refusal::NoEndpoints, VerdictCode::Goto("reject-it")),
        ];
        for (set, why, verdict) in answers {
            let (vips, ports) = (set(Door::Vip).name(), set(Door::NodePort).name());
            let at_vip = || self.code().new_connection().within(&VIP, &vips);
            self.count_refused(batch, UNSERVED_CHAIN, at_vip(), Door::Vip);
            rule(batch, UNSERVED_CHAIN, at_vip().count(counter(why)).then(verdict));
            let at_node = || {
                let new = self.code().new_connection().within(&[Field::Destination], "nodeport-addresses");
                new.within(&NODE_PORT, &ports)
            };
            self.count_refused(batch, UNSERVED_CHAIN, at_node(), Door::NodePort);
            rule(batch, UNSERVED_CHAIN, at_node().count(counter(why)).then(verdict));
        }
    }

    /// Whom IPVS serves with a rewritten source.
    pub fn masquerade_before_ipvs(&self, batch: &mut Batch, base: &str) {
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

    /// An address that IPVS is to serve and does not, yet or any more: it must not reach anyone else.
    pub fn reject_not_taken(&self, batch: &mut Batch, chain: &str) {
        let ipvs = SetName::Ipvs.name();
        let served = self.code().within(&VIP, &ipvs);
        rule(batch, chain, served.then(VerdictCode::Goto("reject-it")));
        let ports = SetName::Masquerade(Door::NodePort).name();
        let served =
            self.code().within(&[Field::Destination], "nodeport-addresses").within(&NODE_PORT, &ports);
        rule(batch, chain, served.then(VerdictCode::Goto("reject-it")));
    }

    /// A live cluster IP answers pings, because it is local.
    pub fn accept_pings(&self, batch: &mut Batch, chain: &str) {
        let code = self.code().within(&[Field::Destination], "cluster-ips").echo_request();
        rule(batch, chain, code.then(VerdictCode::Accept));
    }
}
