//! Linux networking state over raw netlink: nf_tables, conntrack, IPVS, links, addresses and routes, sysctls; SCTP sockets,
//! and options of sockets.
//!
//! No external program is run but the iptables tools, and nothing here knows Kubernetes. Every `unsafe` block of the workspace lives
//! in this crate; the system calls that rustix offers as safe ones (poll, inotify) are made where they are
//! needed, in `cluster`, `dataplane` and `sandbox`.
#![allow(unsafe_code)]

pub mod conntrack;
#[doc(hidden)]
pub mod fuzz;
mod ip_family;
mod ip_protocol;
pub mod ipset;
pub mod iptables;
pub mod ipvs;
pub mod jiffies;
pub mod link;
pub mod memory;
pub mod module;
pub mod netlink;
pub mod netns;
pub mod nfacct;
pub mod nft;
pub mod process;
pub mod profile;
pub mod sctp;
pub mod socket;
pub mod sysctl;

pub use ip_family::IpFamily;
pub use ip_protocol::IpProtocol;
