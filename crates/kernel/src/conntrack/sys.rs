//! Numbers of ctnetlink (linux/netfilter/nfnetlink_conntrack.h, nfnetlink.h).

use crate::IpFamily;

const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_CTNETLINK as u16) << 8;
pub(super) const CT_NEW: u16 = SUBSYSTEM;
pub(super) const CT_GET: u16 = SUBSYSTEM | 1;
pub(super) const CT_DELETE: u16 = SUBSYSTEM | 2;

pub(super) const TUPLE_ORIG: u16 = 1;
pub(super) const TUPLE_REPLY: u16 = 2;
pub(super) const STATUS: u16 = 3;
pub(super) const PROTOINFO: u16 = 4;
pub(super) const TIMEOUT: u16 = 7;
pub(super) const MARK: u16 = 8;
pub(super) const ID: u16 = 12;
pub(super) const ZONE: u16 = 18;
pub(super) const FILTER: u16 = 25;
pub(super) const STATUS_MASK: u16 = 26;

pub(super) const TUPLE_IP: u16 = 1;
pub(super) const TUPLE_PROTO: u16 = 2;
pub(super) const TUPLE_ZONE: u16 = 3;

pub(super) const IP_V4_SRC: u16 = 1;
pub(super) const IP_V4_DST: u16 = 2;
pub(super) const IP_V6_SRC: u16 = 3;
pub(super) const IP_V6_DST: u16 = 4;

pub(super) const PROTO_NUM: u16 = 1;
pub(super) const PROTO_SRC_PORT: u16 = 2;
pub(super) const PROTO_DST_PORT: u16 = 3;

pub(super) const PROTOINFO_TCP: u16 = 1;
pub(super) const PROTOINFO_TCP_STATE: u16 = 1;

/// States of TCP (linux/netfilter/nf_conntrack_tcp.h).
pub(super) const TCP_SYN_SENT: u8 = 1;
pub(super) const TCP_SYN_RECV: u8 = 2;

pub(super) const FILTER_ORIG_FLAGS: u16 = 1;
pub(super) const FILTER_REPLY_FLAGS: u16 = 2;
/// "Compare the protocol number" among the filter flags (net/netfilter/nf_internals.h).
pub(super) const FILTER_PROTO_NUM: u32 = 1 << 3;

/// `struct nfgenmsg`.
pub(super) fn header(family: Option<IpFamily>) -> [u8; 4] {
    let family = family.map_or(libc::AF_UNSPEC as u8, IpFamily::number);
    [family, libc::NFNETLINK_V0 as u8, 0, 0]
}
