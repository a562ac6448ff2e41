//! One of every set, chain and rule shape of the flat layout, as a batch.

mod rules;

use std::net::Ipv6Addr;

use kernel::nft::*;

use crate::instructions::{Phrases, TCP};

pub(crate) struct Layout {
    phrases: Phrases,
    batch: Batch,
}

const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

pub(crate) fn whole(family: TableFamily) -> Batch {
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

fn user_data(family: TableFamily, hexadecimal: &str) -> Vec<u8> {
    let hexadecimal = match family {
        TableFamily::Ip => hexadecimal.to_owned(),
        TableFamily::Ip6 => hexadecimal.replace("0c00040c00000001040c000000", "0c00040d000000010409000000"),
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
    fn family(&self) -> TableFamily {
        self.phrases.family
    }

    fn address_type(&self) -> u32 {
        if self.family() == TableFamily::Ip { 7 } else { 8 }
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
        let dynamic = SetFlags { timeout: true, dynamic: true, ..SetFlags::default() };
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

    fn address(&self, four: [u8; 4], six: &str) -> Vec<u8> {
        match self.family() {
            TableFamily::Ip => four.to_vec(),
            TableFamily::Ip6 => six.parse::<Ipv6Addr>().unwrap().octets().to_vec(),
        }
    }

    fn elements(&mut self) {
        let cluster_ip = self.address([10, 96, 0, 1], "fd00:96::1");
        let node_ip = self.address([192, 168, 50, 2], "fd00:50::2");
        let endpoint = self.address([10, 244, 1, 11], "fd00:244:1::11");
        let client = self.address([192, 168, 60, 0], "fd00:60::");
        let (start, end) = match self.family() {
            TableFamily::Ip => (vec![10, 96, 0, 0], vec![10, 97, 0, 0]),
            TableFamily::Ip6 => (self.address([0; 4], "fd00:96::"), self.address([0; 4], "fd00:96::10:0")),
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
