//! The iptables programs at work, each test in a network namespace of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod choice;
mod counting;
mod place;
mod scripts;
mod stamps;
mod trouble;
