//! Numbers of IPVS' generic netlink family (linux/ip_vs.h).

pub(super) const FAMILY: &str = "IPVS";
pub(super) const VERSION: u8 = 1;

pub(super) const NEW_SERVICE: u8 = 1;
pub(super) const SET_SERVICE: u8 = 2;
pub(super) const DEL_SERVICE: u8 = 3;
pub(super) const GET_SERVICE: u8 = 4;
pub(super) const NEW_DEST: u8 = 5;
pub(super) const SET_DEST: u8 = 6;
pub(super) const DEL_DEST: u8 = 7;
pub(super) const GET_DEST: u8 = 8;
pub(super) const SET_CONFIG: u8 = 12;
pub(super) const GET_CONFIG: u8 = 13;
pub(super) const GET_INFO: u8 = 15;

pub(super) const SERVICE: u16 = 1;
pub(super) const DEST: u16 = 2;
pub(super) const TIMEOUT_TCP: u16 = 4;
pub(super) const TIMEOUT_TCP_FIN: u16 = 5;
pub(super) const TIMEOUT_UDP: u16 = 6;

pub(super) const SERVICE_FAMILY: u16 = 1;
pub(super) const SERVICE_PROTOCOL: u16 = 2;
pub(super) const SERVICE_ADDRESS: u16 = 3;
pub(super) const SERVICE_PORT: u16 = 4;
pub(super) const SERVICE_SCHEDULER: u16 = 6;
pub(super) const SERVICE_FLAGS: u16 = 7;
pub(super) const SERVICE_TIMEOUT: u16 = 8;
pub(super) const SERVICE_NETMASK: u16 = 9;
pub(super) const SERVICE_STATS64: u16 = 12;

pub(super) const DEST_ADDRESS: u16 = 1;
pub(super) const DEST_PORT: u16 = 2;
pub(super) const DEST_FORWARDING: u16 = 3;
pub(super) const DEST_WEIGHT: u16 = 4;
pub(super) const DEST_UPPER_THRESHOLD: u16 = 5;
pub(super) const DEST_LOWER_THRESHOLD: u16 = 6;
pub(super) const DEST_ACTIVE: u16 = 7;
pub(super) const DEST_INACTIVE: u16 = 8;
pub(super) const DEST_PERSISTENT: u16 = 9;
pub(super) const DEST_FAMILY: u16 = 11;
pub(super) const DEST_STATS64: u16 = 12;

pub(super) const STATS_CONNECTIONS: u16 = 1;
pub(super) const STATS_IN_PACKETS: u16 = 2;
pub(super) const STATS_OUT_PACKETS: u16 = 3;
pub(super) const STATS_IN_BYTES: u16 = 4;
pub(super) const STATS_OUT_BYTES: u16 = 5;

pub(super) const INFO_VERSION: u16 = 1;
pub(super) const INFO_CONNECTION_TABLE: u16 = 2;

/// The destination address is rewritten.
pub(super) const FORWARD_MASQUERADE: u32 = 0;
/// The bits of a destination's forwarding that name the method; the others are the kernel's own.
pub(super) const FORWARD_MASK: u32 = 7;
/// Set by the kernel on every server that packets can find.
pub(super) const FLAG_HASHED: u32 = 2;
