//! The rules, chain by chain.

use kernel::nft::*;

use super::Layout;
use crate::instructions::Part::*;
use crate::instructions::*;

impl Layout {
    fn rule(&mut self, chain: &str, phrases: &[Phrase]) {
        self.batch.add_rule(&Rule { chain, expressions: phrases.concat() });
    }

    fn local(&self, op: CompareOp) -> Phrase {
        match self.family() {
            TableFamily::Ip => self.phrases.source_in(op, &[10, 244]),
            TableFamily::Ip6 => self.phrases.source_in(op, &[0xfd, 0, 2, 0x44]),
        }
    }

    pub(super) fn class_rules(&mut self) {
        let not_local = self.local(CompareOp::NotEqual);
        for (chain, size) in [("lb-1", 1), ("lb-3", 3)] {
            let pick = self.phrases.redirect(&[Destination, Protocol, Port, Slot(size)], "endpoints");
            self.rule(chain, &[pick]);
        }
        let pick = self.phrases.redirect(&[Destination, Protocol, Port, Slot(3)], "internal-endpoints");
        self.rule("int-3", &[not_local.clone(), set_mark()]);
        self.rule("int-3", &[pick]);
        let pick = self.phrases.redirect(&[Protocol, Port, Slot(3)], "nodeport-endpoints");
        self.rule("np-3", &[pick]);
        let pick = self.phrases.redirect(&[Protocol, Port, Slot(3)], "internal-nodeport-endpoints");
        self.rule("np-int-3", &[not_local.clone(), set_mark()]);
        self.rule("np-int-3", &[pick]);
        for (chain, target) in
            [("ext-3", "lb-3"), ("ext-aff-3", "aff-3"), ("np-ext-3", "np-3"), ("np-ext-aff-3", "np-aff-3")]
        {
            self.rule(chain, &[set_mark()]);
            self.rule(chain, &[goto(target)]);
        }
        let pinned = self.phrases.redirect(&[Source, Destination, Protocol, Port], "affinity");
        let node_port_pinned = self.phrases.redirect(&[Source, Protocol, Port], "nodeport-affinity");
        for (chain, pinned, target) in [("aff-3", &pinned, "lb-3"), ("np-aff-3", &node_port_pinned, "np-3")] {
            self.rule(chain, std::slice::from_ref(pinned));
            self.rule(chain, &[goto(target)]);
        }
        for (chain, pinned, target) in
            [("int-aff-3", pinned, "int-3"), ("np-int-aff-3", node_port_pinned, "np-int-3")]
        {
            self.rule(chain, &[not_local.clone(), set_mark()]);
            self.rule(chain, &[pinned]);
            self.rule(chain, &[goto(target)]);
        }
        let mut bridge = b"cbr0".to_vec();
        bridge.resize(16, 0);
        self.rule("by-interface", &[interface(CompareOp::NotEqual, &bridge), set_mark()]);
        self.rule("by-interface", &[interface(CompareOp::Equal, b"pod-"), set_mark()]);
    }

    pub(super) fn filter_rules(&mut self) {
        let rule = |layout: &mut Layout, chain, phrases: &[Phrase]| layout.rule(chain, phrases);
        let drop = || verdict(VerdictCode::Drop);
        let in_set = |layout: &Layout, parts: &[Part], set| layout.phrases.is_in(parts, set);
        rule(self, "reject-it", &[self.phrases.protocol_is(TCP), reject(Reject::TcpReset)]);
        rule(self, "reject-it", &[reject(Reject::PortUnreachable)]);
        let allowed = in_set(self, &[Destination, Protocol, Port, SourceNetwork(24)], "firewall-allow-24");
        rule(self, "firewall-check", &[allowed, verdict(VerdictCode::Return)]);
        rule(self, "firewall-check", &[drop()]);
        let at_node = in_set(self, &[Destination], "nodeport-ips");
        let node_drop = in_set(self, &NODE_PORT, "no-endpoint-drop-nodeports");
        let node_reject = in_set(self, &NODE_PORT, "no-endpoint-reject-nodeports");
        for chain in ["input-new", "forward-new"] {
            rule(self, chain, &[is_first_redirected(), goto("affinity-record")]);
            if chain == "input-new" {
                rule(self, chain, &[at_node.clone(), node_drop.clone(), drop()]);
                rule(self, chain, &[at_node.clone(), node_reject.clone(), goto("reject-it")]);
            }
            rule(self, chain, &[in_set(self, &VIP, "no-endpoint-drop-ips"), drop()]);
            rule(self, chain, &[in_set(self, &VIP, "no-endpoint-reject-ips"), goto("reject-it")]);
        }
        rule(self, "forward-new", &[in_set(self, &[Destination], "cluster-ips"), goto("reject-it")]);
        rule(self, "forward-new", &[in_set(self, &[Destination], "service-cidrs"), drop()]);
        for chain in ["filter-prerouting-pre-dnat", "filter-output-pre-dnat"] {
            rule(self, chain, &[is_new(), in_set(self, &VIP, "firewall-ips"), jump("firewall-check")]);
        }
        rule(self, "filter-input", &[is_new(), goto("input-new")]);
        rule(self, "filter-forward", &[is_new(), goto("forward-new")]);
        rule(self, "filter-output", &[is_new(), goto("forward-new")]);
    }

    pub(super) fn affinity_rules(&mut self) {
        let back = || verdict(VerdictCode::Return);
        for protocol in [TCP, UDP, SCTP] {
            let has_port = self.phrases.has_port(protocol);
            let is = self.phrases.protocol_is(protocol);
            let key = [Source, OriginalDestination, Protocol, OriginalPort];
            let node_key = [Source, Protocol, OriginalPort];
            let stale = self.phrases.pin(&key, "affinity", None);
            self.rule("affinity-stale", &[has_port.clone(), stale, verdict(VerdictCode::Drop)]);
            let stale = self.phrases.pin(&node_key, "nodeport-affinity", None);
            self.rule("affinity-nodeport-stale", &[has_port.clone(), stale, verdict(VerdictCode::Drop)]);

            let member = [OriginalDestination, Protocol, OriginalPort, Destination, Port];
            let valid = self.phrases.is_in(&member, "affinity-endpoints-10800");
            let pin = self.phrases.pin(&key, "affinity", Some(10_800_000));
            self.rule("affinity-pin", &[has_port.clone(), valid, pin, back()]);
            let valid = self.phrases.is_in(&member[1..], "affinity-nodeport-endpoints-3");
            let pin = self.phrases.pin(&node_key, "nodeport-affinity", Some(3_000));
            self.rule("affinity-nodeport-pin", &[has_port, valid, pin, back()]);

            let wanted = self.phrases.is_in(&member[..3], "affinity-ips");
            self.rule("affinity-record", &[is.clone(), wanted, goto("affinity-pin")]);
            let at_node = self.phrases.is_in(&[OriginalDestination], "nodeport-ips");
            let wanted = self.phrases.is_in(&member[1..3], "affinity-nodeports");
            self.rule("affinity-record", &[is, at_node, wanted, goto("affinity-nodeport-pin")]);
        }
        self.rule("affinity-pin", &[goto("affinity-stale")]);
        self.rule("affinity-nodeport-pin", &[goto("affinity-nodeport-stale")]);
    }

    pub(super) fn nat_rules(&mut self) {
        let accept = || verdict(VerdictCode::Accept);
        let at_node = self.phrases.is_in(&[Destination], "nodeport-ips");
        let local = self.local(CompareOp::Equal);
        let pick = self.phrases.redirect(&[Destination, Protocol, Port, Slot(1)], "endpoints");
        self.rule("slot-zero", &[pick]);
        let pick = self.phrases.redirect(&[Protocol, Port, Slot(1)], "nodeport-endpoints");
        self.rule("slot-zero", &[at_node.clone(), pick]);
        let verdict_of = |layout: &Layout, parts: &[Part], map| layout.phrases.verdict_of(parts, map);
        for chain in ["nodeports-prerouting", "nodeports-output"] {
            self.rule(chain, &[verdict_of(self, &NODE_PORT, "service-nodeports")]);
            let guard = if chain == "nodeports-prerouting" { local.clone() } else { Vec::new() };
            self.rule(chain, &[guard, verdict_of(self, &NODE_PORT, "internal-nodeports")]);
            if chain == "nodeports-prerouting" {
                self.rule(chain, &[verdict_of(self, &NODE_PORT, "local-nodeports")]);
            }
            self.rule(chain, &[accept()]);
        }
        for (chain, node_ports) in
            [("services-prerouting", "nodeports-prerouting"), ("services-output", "nodeports-output")]
        {
            self.rule(chain, &[verdict_of(self, &VIP, "service-ips")]);
            let guard = if chain == "services-prerouting" { local.clone() } else { Vec::new() };
            self.rule(chain, &[guard, verdict_of(self, &VIP, "internal-ips")]);
            if chain == "services-prerouting" {
                self.rule(chain, &[verdict_of(self, &VIP, "local-ips")]);
            }
            self.rule(chain, &[at_node.clone(), goto(node_ports)]);
            self.rule(chain, &[accept()]);
        }
        for (chain, services) in
            [("nat-prerouting", "services-prerouting"), ("nat-output", "services-output")]
        {
            let to_cluster = self.phrases.is_in(&[Destination], "cluster-ips");
            self.rule(chain, &[self.local(CompareOp::NotEqual), to_cluster, set_mark()]);
            self.rule(chain, &[jump(services)]);
            self.rule(chain, &[goto("slot-zero")]);
        }
        self.rule("nat-postrouting", &[is_marked(), toggle_mark(), masquerade()]);
        let hairpin = self.phrases.is_in(&[Source, Destination, Protocol, Port], "hairpin-connections");
        self.rule("nat-postrouting", &[is_redirected(), hairpin, masquerade()]);
    }
}
