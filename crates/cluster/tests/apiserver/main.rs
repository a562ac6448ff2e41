//! The apiserver source against a server that does what real ones do only on their worst days.
//!
//! Every test scripts the answers of a small HTTP server, and looks at three things: what the source hands over,
//! what a state fed with it holds, and what the server was asked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cut;
mod expired;
mod log;
mod observed;
mod odd;
mod pace;
mod plugin;
mod refused;
mod server;
mod silence;
mod source;
mod spell;
mod telling;
mod unreadable;
mod way;

use cluster::apiserver::Encoding;

const BOTH: [Encoding; 2] = [Encoding::Protobuf, Encoding::Json];
