//! The forwarder over real sockets, in a network namespace of its own: its clients and endpoints are in the same one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod node;
mod tcp;
mod udp;
