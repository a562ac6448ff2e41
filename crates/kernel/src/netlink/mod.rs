//! The netlink wire: messages and attributes ([`Writer`], [`attributes`]) and the socket that carries them.

pub(crate) mod exchange;
pub(crate) mod generic;
mod read;
mod socket;
mod write;

pub use exchange::{Batch, DumpEnd, Exchange, Refusal};
pub use read::{Attribute, Message, attributes, messages};
pub use socket::{Protocol, Socket};
pub use write::{MessageStart, Nest, Writer};
