//! What the kernel does with our rules and with packets, without a kernel: [`nft`] is a simulated nf_tables,
//! [`iptables`] simulated iptables tables, [`ipvs`] a simulated IPVS. They refuse what the real ones refuse, which
//! `tests/` holds them to.
//!
//! At the top is what they share: packets and the host they meet, tracked connections, and repeatable random
//! numbers. Needs no privileges and makes no system calls. For tests and the demo.

mod flow;
pub mod iptables;
pub mod ipvs;
pub mod nft;
mod packet;
mod random;
mod way;

pub(crate) use flow::Flow;
pub use flow::Flows;
pub use packet::{
    Delivery, HookPoint, Host, Journey, Origin, Outcome, Packet, Place, Protocol, Rejection, TraceStep,
};
pub use random::Xorshift;
pub use way::{Hooks, walk, walk_with};
