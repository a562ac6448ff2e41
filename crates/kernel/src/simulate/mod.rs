//! What the simulators of nf_tables (`nft::simulate`) and of iptables (`iptables::simulate`) have
//! in common: packets and the host they meet, tracked connections, random numbers that can be repeated.

mod flow;
mod packet;
mod random;

pub(crate) use flow::Flow;
pub use flow::Flows;
pub use packet::{
    Delivery, HookPoint, Host, Journey, Origin, Outcome, Packet, Place, Protocol, Rejection, TraceStep,
};
pub use random::Xorshift;
