//! One of every set, chain and rule shape of the flat layout, as a batch.

use std::net::Ipv6Addr;

use kernel::nft::*;

use crate::instructions::Part::*;
use crate::instructions::*;

pub(crate) struct Layout {
    phrases: Phrases,
    batch: Batch,
}

const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

pub(crate) fn whole(family: Family) -> Batch {
    let mut layout = Layout { phrases: Phrases { family }, batch: Batch::new(family, "kube-proxy") };
    layout.batch.add_table("rules for kube-proxy; flat layout 1");
    layout.sets();
    layout.chains();
    layout.class_rules();
    layout.filter_rules();
    layout.affinity_rules();
    layout.nat_rules();
    layout.elements();
    layout.batch
}

/// What nft stores to know that the last part of a slot map's key is a `numgen`, and its data a `th dport`.
const VIP_SLOT_USER_DATA: &str = "000400000000010400000000036000040d00000001580014000407000000010c00040c\
    00000001040c000000010e00040900000001060004100000000214000407000000010c00040b000000010402000000031a00\
    04170000000112000401000000010402000000020400000000043400040d000000012c0014000407000000010c00040c0000\
    0001040c0000000114000407000000010c00040b000000010402000000060400000000";
const NODE_PORT_SLOT_USER_DATA: &str = "000400000000010400000000034a00040d0000000142000e0004090000000106\
    0004100000000114000407000000010c00040b000000010402000000021a0004170000000112000401000000010402000000\
    020400000000043400040d000000012c0014000407000000010c00040c00000001040c0000000114000407000000010c0004\
    0b000000010402000000060400000000";

fn user_data(family: Family, hexadecimal: &str) -> Vec<u8> {
    let hexadecimal = match family {
        Family::Ip => hexadecimal.to_owned(),
        Family::Ip6 => hexadecimal.replace("0c00040c00000001040c000000", "0c00040d000000010409000000"),
    };
    (0..hexadecimal.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap())
        .collect()
}

const PROTOCOL: u32 = 12;
const SERVICE: u32 = 13;
const MARK: u32 = 19;

impl Layout {
    fn family(&self) -> Family {
        self.phrases.family
    }

    fn address_type(&self) -> u32 {
        if self.family() == Family::Ip { 7 } else { 8 }
    }

    /// nft's type number and the length of a concatenation.
    fn concatenation(&self, parts: &[u32]) -> (u32, u32) {
        let length = |part| if part == self.address_type() { self.phrases.address_length() } else { 4 };
        parts.iter().fold((0, 0), |(kind, bytes), part| (kind << 6 | part, bytes + length(*part)))
    }

    fn set(&mut self, name: &str, key: &[u32], data: Option<(u32, u32)>, flags: SetFlags, user_data: &[u8]) {
        let (key_type, key_length) = self.concatenation(key);
        let size = if flags.dynamic { 65536 } else { 0 };
        self.batch.add_set(&Set { name, key_type, key_length, data, flags, size, user_data });
    }

    fn sets(&mut self) {
        let address = self.address_type();
        let vip = [address, PROTOCOL, SERVICE];
        let node_port = [PROTOCOL, SERVICE];
        let endpoint = Some(self.concatenation(&[address, SERVICE]));
        let plain = SetFlags::default();
        self.set("cluster-ips", &[address], None, plain, &[]);
        self.set("service-cidrs", &[address], None, SetFlags { interval: true, ..plain }, &[]);
        self.set("nodeport-ips", &[address], None, plain, &[]);
        for name in ["service-ips", "internal-ips", "local-ips"] {
            self.set(name, &vip, Some((VERDICT, 0)), plain, &[]);
        }
        for name in ["service-nodeports", "internal-nodeports", "local-nodeports"] {
            self.set(name, &node_port, Some((VERDICT, 0)), plain, &[]);
        }
        let slots = user_data(self.family(), VIP_SLOT_USER_DATA);
        for name in ["endpoints", "internal-endpoints"] {
            self.set(name, &[address, PROTOCOL, SERVICE, MARK], endpoint, plain, &slots);
        }
        let slots = user_data(self.family(), NODE_PORT_SLOT_USER_DATA);
        for name in ["nodeport-endpoints", "internal-nodeport-endpoints"] {
            self.set(name, &[PROTOCOL, SERVICE, MARK], endpoint, plain, &slots);
        }
        for name in ["no-endpoint-drop-ips", "no-endpoint-reject-ips", "affinity-ips", "firewall-ips"] {
            self.set(name, &vip, None, plain, &[]);
        }
        for name in ["no-endpoint-drop-nodeports", "no-endpoint-reject-nodeports", "affinity-nodeports"] {
            self.set(name, &node_port, None, plain, &[]);
        }
        self.set("hairpin-connections", &[address, address, PROTOCOL, SERVICE], None, plain, &[]);
        let dynamic = SetFlags { timeout: true, dynamic: true, interval: false };
        self.set("affinity", &[address, address, PROTOCOL, SERVICE], endpoint, dynamic, &[]);
        self.set("nodeport-affinity", &[address, PROTOCOL, SERVICE], endpoint, dynamic, &[]);
        self.set("firewall-allow-24", &[address, PROTOCOL, SERVICE, address], None, plain, &[]);
        let member = [address, PROTOCOL, SERVICE, address, SERVICE];
        self.set("affinity-endpoints-10800", &member, None, plain, &[]);
        self.set("affinity-nodeport-endpoints-3", &member[1..], None, plain, &[]);
    }

    fn chains(&mut self) {
        for name in [
            "lb-1",
            "lb-3",
            "int-3",
            "np-3",
            "np-int-3",
            "ext-3",
            "aff-3",
            "ext-aff-3",
            "int-aff-3",
            "np-ext-3",
            "np-aff-3",
            "np-ext-aff-3",
            "np-int-aff-3",
            "by-interface",
            "reject-it",
            "firewall-check",
            "affinity-stale",
            "affinity-nodeport-stale",
            "affinity-pin",
            "affinity-nodeport-pin",
            "affinity-record",
            "input-new",
            "forward-new",
            "slot-zero",
            "nodeports-prerouting",
            "nodeports-output",
            "services-prerouting",
            "services-output",
        ] {
            self.batch.add_chain(&Chain { name, hook: None });
        }
        for (name, kind, number, priority) in [
            ("nat-prerouting", HookKind::Nat, PREROUTING, -100),
            ("nat-output", HookKind::Nat, OUTPUT, -100),
            ("nat-postrouting", HookKind::Nat, POSTROUTING, 100),
            ("filter-prerouting-pre-dnat", HookKind::Filter, PREROUTING, -110),
            ("filter-output-pre-dnat", HookKind::Filter, OUTPUT, -110),
            ("filter-input", HookKind::Filter, INPUT, 0),
            ("filter-forward", HookKind::Filter, FORWARD, 0),
            ("filter-output", HookKind::Filter, OUTPUT, 0),
        ] {
            self.batch.add_chain(&Chain { name, hook: Some(Hook { kind, number, priority }) });
        }
    }

    fn rule(&mut self, chain: &str, phrases: &[Phrase]) {
        self.batch.add_rule(&Rule { chain, expressions: phrases.concat() });
    }

    fn local(&self, op: CompareOp) -> Phrase {
        match self.family() {
            Family::Ip => self.phrases.source_in(op, &[10, 244, 0, 0], 16),
            Family::Ip6 => {
                let network: Ipv6Addr = "fd00:244::".parse().unwrap();
                self.phrases.source_in(op, &network.octets(), 32)
            }
        }
    }

    fn class_rules(&mut self) {
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

    fn filter_rules(&mut self) {
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

    fn affinity_rules(&mut self) {
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

    fn nat_rules(&mut self) {
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

    fn address(&self, four: [u8; 4], six: &str) -> Vec<u8> {
        match self.family() {
            Family::Ip => four.to_vec(),
            Family::Ip6 => six.parse::<Ipv6Addr>().unwrap().octets().to_vec(),
        }
    }

    fn elements(&mut self) {
        let cluster_ip = self.address([10, 96, 0, 1], "fd00:96::1");
        let node_ip = self.address([192, 168, 50, 2], "fd00:50::2");
        let endpoint = self.address([10, 244, 1, 11], "fd00:244:1::11");
        let client = self.address([192, 168, 60, 0], "fd00:60::");
        let (start, end) = match self.family() {
            Family::Ip => (vec![10, 96, 0, 0], vec![10, 97, 0, 0]),
            Family::Ip6 => (self.address([0; 4], "fd00:96::"), self.address([0; 4], "fd00:96::10:0")),
        };
        let protocol_port = [TCP, 0, 0, 0, 0, 80, 0, 0];
        let vip = [&cluster_ip[..], &protocol_port].concat();
        let endpoint_port = [&endpoint[..], &[0x1f, 0x90, 0, 0]].concat();
        let batch = &mut self.batch;
        batch.add_element("cluster-ips", &cluster_ip, ElementData::None, None);
        batch.add_interval("service-cidrs", &start, Some(&end));
        batch.add_element("nodeport-ips", &node_ip, ElementData::None, None);
        batch.add_element("service-ips", &vip, ElementData::Goto("lb-3"), Some("default/web:http"));
        batch.add_element("service-nodeports", &protocol_port, ElementData::Goto("np-ext-3"), None);
        for slot in 0..3u32 {
            let key = [&vip[..], &slot.to_ne_bytes()].concat();
            batch.add_element("endpoints", &key, ElementData::Value(&endpoint_port), None);
            let key = [&protocol_port[..], &slot.to_ne_bytes()].concat();
            batch.add_element("nodeport-endpoints", &key, ElementData::Value(&endpoint_port), None);
        }
        batch.add_element("no-endpoint-reject-ips", &vip, ElementData::None, None);
        let hairpin = [&endpoint[..], &endpoint, &protocol_port].concat();
        batch.add_element("hairpin-connections", &hairpin, ElementData::None, None);
        batch.add_element("firewall-allow-24", &[&vip[..], &client].concat(), ElementData::None, None);
        let member = [&vip[..], &endpoint_port].concat();
        batch.add_element("affinity-endpoints-10800", &member, ElementData::None, None);
    }
}
