//! Numbers and fixed headers of rtnetlink that `libc` does not carry (linux/if_link.h, rtnetlink.h, fib_rules.h, veth.h).

pub(super) const VETH_INFO_PEER: u16 = 1;
pub(super) const IF_OPER_UP: u8 = 6;
pub(super) const IFA_FLAGS: u16 = 8;
pub(super) const IFA_F_DADFAILED: u32 = 0x08;
pub(super) const RTNH_F_ONLINK: u32 = 4;
pub(super) const RTNLGRP_LINK: u32 = 1;
pub(super) const RTNLGRP_IPV4_ROUTE: u32 = 7;
pub(super) const RTNLGRP_IPV4_RULE: u32 = 8;
pub(super) const RTNLGRP_IPV6_ROUTE: u32 = 11;
pub(super) const RTNLGRP_IPV6_RULE: u32 = 19;
pub(super) const RTNLGRP_IPV4_IFADDR: u32 = 5;
pub(super) const RTNLGRP_IPV6_IFADDR: u32 = 9;

// linux/fib_rules.h.
pub(super) const FRA_IIFNAME: u16 = 3;
pub(super) const FRA_GOTO: u16 = 4;
pub(super) const FRA_PRIORITY: u16 = 6;
pub(super) const FRA_FWMARK: u16 = 10;
pub(super) const FRA_SUPPRESS_IFGROUP: u16 = 13;
pub(super) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
pub(super) const FRA_TABLE: u16 = 15;
pub(super) const FRA_FWMASK: u16 = 16;
pub(super) const FRA_PAD: u16 = 18;
pub(super) const FRA_PROTOCOL: u16 = 21;
pub(super) const FR_ACT_TO_TBL: u8 = 1;
pub(super) const FR_ACT_GOTO: u8 = 2;
pub(super) const FR_ACT_NOP: u8 = 3;
pub(super) const FIB_RULE_INVERT: u32 = 2;

pub(super) const LINK_HEADER: usize = 16;
pub(super) const ADDRESS_HEADER: usize = 8;

/// `struct ifinfomsg`.
pub(super) fn link_header(index: u32, flags: u32, change: u32) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// `struct ifaddrmsg`.
pub(super) fn address_header(
    family: u8,
    prefix: u8,
    flags: u8,
    scope: u8,
    index: u32,
) -> [u8; ADDRESS_HEADER] {
    let [a, b, c, d] = index.to_ne_bytes();
    [family, prefix, flags, scope, a, b, c, d]
}
