//! What the kernel answers over netlink: acknowledgements and errors, tables, sets, chains, elements, counters; flows;
//! interfaces, addresses, local routes and policy rules; virtual servers and their destinations.

use kernel::netlink::Writer;
use kernel::nft::{Batch, ElementData, TableFamily};

use super::Target;
use crate::Limits;

pub(super) const NETLINK: Target = Target {
    name: "netlink",
    run: netlink,
    limits: Limits { fixed: 64 << 10, per_byte: 64 },
    seeds,
    dictionary: &["kube-proxy\0", "service-ips\0", "\x01\0\0\0", "\x08\0\x01\0"],
    longest: 4096,
};

fn netlink(input: &[u8]) {
    kernel::fuzz::netlink(input, &batch());
}

/// What an error may be about.
fn batch() -> Batch {
    let mut batch = Batch::new(TableFamily::Ip, "kube-proxy");
    batch.add_table("comment");
    batch.add_counter("counter");
    batch.add_element("map", &[1; 4], ElementData::Goto("chain"), Some("default/web:http"));
    batch.add_element("map", &[2; 4], ElementData::Value(&[1; 4]), None);
    batch.delete_chain("chain");
    batch
}

/// A batch reads like an answer, but for errors.
fn seeds() -> Vec<Vec<u8>> {
    let whole = batch().bytes().to_vec();
    vec![
        whole,
        error(0x300, &[1, 3]),
        error(0x200, &[1, 3]),
        error(0, &[]),
        flow(false),
        flow(true),
        interface(),
        address(),
        local_route(),
        policy_rule(),
        virtual_server(),
        destination(),
    ]
}

const NLMSG_ERROR: u16 = 2;
/// Of `batch`, the elements.
const BLAMED: u32 = 4;

/// An error with these attributes, and the refused message's header in it.
fn error(flags: u16, attributes: &[u16]) -> Vec<u8> {
    message(NLMSG_ERROR, flags, &(-17_i32).to_ne_bytes(), |writer| {
        writer.raw(&[20, 0, 0, 0, 12, 10, 0, 0, BLAMED as u8, 0, 0, 0, 0, 0, 0, 0]);
        for kind in attributes {
            match kind {
                1 => writer.string(1, "already there"),
                _ => writer.u32(2, 0x40),
            }
        }
    })
}

fn flow(is_ipv6: bool) -> Vec<u8> {
    // IPCTNL_MSG_CT_NEW of conntrack.
    message(0x100, 0, &[2, 0, 0, 0], |writer| {
        for tuple in [1, 2] {
            let nest = writer.nest(tuple);
            let ips = writer.nest(1);
            let length = if is_ipv6 { 16 } else { 4 };
            let first = if is_ipv6 { 3 } else { 1 };
            (first..first + 2).for_each(|kind| writer.attribute(kind, &vec![10; length]));
            writer.end_nest(ips);
            let ports = writer.nest(2);
            writer.u8(1, 17);
            writer.be16(2, 53);
            writer.be16(3, 53);
            writer.end_nest(ports);
            writer.end_nest(nest);
        }
        writer.be32(3, 2);
        let protocol = writer.nest(4);
        let tcp = writer.nest(1);
        writer.u8(1, 3);
        writer.end_nest(tcp);
        writer.end_nest(protocol);
        writer.be32(12, 7);
        writer.be16(18, 1);
    })
}

fn interface() -> Vec<u8> {
    // RTM_NEWLINK, IFLA_IFNAME, IFLA_OPERSTATE.
    message(16, 0, &[0; 16], |writer| {
        writer.string(3, "eth0");
        writer.u8(16, 6);
    })
}

fn address() -> Vec<u8> {
    // RTM_NEWADDR, IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS.
    message(20, 0, &[2, 24, 0x80, 0, 1, 0, 0, 0], |writer| {
        writer.attribute(1, &[10, 0, 0, 1]);
        writer.attribute(2, &[10, 0, 0, 1]);
        writer.u32(8, 0x80);
    })
}

fn local_route() -> Vec<u8> {
    // RTM_NEWROUTE of type local, RTA_DST, RTA_OIF, RTA_TABLE.
    message(24, 0, &[2, 12, 0, 0, 255, 77, 254, 2, 0, 0, 0, 0], |writer| {
        writer.attribute(1, &[10, 96, 0, 0]);
        writer.u32(4, 7);
        writer.u32(15, 255);
    })
}

fn policy_rule() -> Vec<u8> {
    // RTM_NEWRULE to a table, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK, FRA_FWMASK, FRA_TABLE, FRA_PROTOCOL.
    message(32, 0, &[2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], |writer| {
        writer.string(3, "lo");
        for (kind, value) in [(6, 90), (10, 0x2000), (16, 0x2000), (15, 7001)] {
            writer.u32(kind, value);
        }
        writer.u8(21, 77);
    })
}

fn virtual_server() -> Vec<u8> {
    // NEW_SERVICE of IPVS: key, scheduler, flags, timeout, mask, statistics.
    message(0x20, 2, &[1, 1, 0, 0], |writer| {
        let server = writer.nest(1);
        writer.u16(1, 2);
        writer.u16(2, 6);
        writer.attribute(3, &[10; 16]);
        writer.be16(4, 80);
        writer.string(6, "rr");
        writer.attribute(7, &[3, 0, 0, 0, 255, 255, 255, 255]);
        writer.u32(8, 10800);
        writer.u32(9, u32::MAX);
        let statistics = writer.nest(12);
        (1..=5).for_each(|kind| writer.attribute(kind, &[1; 8]));
        writer.end_nest(statistics);
        writer.end_nest(server);
    })
}

fn destination() -> Vec<u8> {
    // NEW_DEST of IPVS: key, forwarding, weight, thresholds, connections, family.
    message(0x20, 2, &[5, 1, 0, 0], |writer| {
        let destination = writer.nest(2);
        writer.attribute(1, &[10; 16]);
        writer.be16(2, 8080);
        (3..=9).for_each(|kind| writer.u32(kind, 0));
        writer.u16(11, 10);
        writer.end_nest(destination);
    })
}

fn message(kind: u16, flags: u16, header: &[u8], fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    let start = writer.begin(kind, flags, BLAMED, header);
    fill(&mut writer);
    writer.end(start);
    writer.bytes().to_vec()
}
