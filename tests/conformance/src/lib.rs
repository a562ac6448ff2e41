//! A real control plane for tests: etcd and kube-apiserver in a network namespace, a client for their API, and
//! upstream's kube-proxy to compare with.
//!
//! [`Kit::find`] says where the binaries are, or why the tests cannot run here. [`ControlPlane::start`] runs
//! them; [`Api`] creates and changes objects, [`Service`] those of a case; [`through_api`] brings the world of the
//! flow table in. [`site`] is a node for an agent, [`log`] what it said, [`Traffic`] what watches over it.
//! What must become of packets is not said here but in the table of `test_support`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness may fail loudly")]

mod api;
mod apiserver;
mod cases;
mod control_plane;
mod credentials;
mod daemon;
mod etcd;
mod gateway;
mod kit;
mod kubeconfig;
pub mod log;
pub mod paths;
pub mod protobuf;
pub mod release;
mod running;
mod scratch;
mod service;
pub mod site;
pub mod through_api;
mod traffic;
mod upstream;

pub use api::{Api, ApiError};
pub use apiserver::Apiserver;
pub use cases::{Batch, case, cases};
pub use control_plane::{ControlPlane, Options, STREAMING_LISTS};
pub use credentials::User;
pub use daemon::Daemon;
pub use etcd::Etcd;
pub use kit::Kit;
pub use running::Running;
pub use scratch::Scratch;
pub use service::Service;
pub use traffic::Traffic;
pub use upstream::Upstream;
