//! A cluster of real nodes on one machine: kubelet, containerd, runc and CNI in namespaces, images without a registry.
//!
//! [`Programs::find`] says what is missing, [`Cluster::start`] brings it up without a proxy, and [`proxy`] installs
//! one: Pointsman by its chart, or upstream's kube-proxy as kubeadm does. Nothing leaves the namespaces, and nothing of
//! the machine is changed; what cannot be in a namespace, control groups, is removed in the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness may fail loudly")]

pub mod address;
mod balancer;
mod cgroup;
mod cluster;
pub mod commands;
mod images;
pub mod leftovers;
pub mod moving;
mod network;
mod node;
mod oci;
pub mod page;
pub mod plugin;
mod programs;
pub mod proxy;
pub mod results;
pub mod run;
pub mod services;
pub mod suite;
pub mod traffic;
pub mod walk;

pub use cluster::{Cluster, Plan};
pub use node::Node;
pub use programs::Programs;
