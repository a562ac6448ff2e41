//! IPVS of a real kernel, seen with our eyes and with those of `ipvsadm` and `ip`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod config;
mod failures;
mod place;
mod servers;
mod traffic;
