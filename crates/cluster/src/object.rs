//! The words sources and [`crate::ClusterState`] share: translated objects, their keys, and updates.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use model::{Family, Hints, Service, ServiceKey, SlicePort};

use crate::manifests::ManifestProblem;

/// The kinds of objects the proxy lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Service,
    EndpointSlice,
    Node,
    ServiceCidr,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Service, Kind::EndpointSlice, Kind::Node, Kind::ServiceCidr];

    pub fn is_namespaced(self) -> bool {
        matches!(self, Kind::Service | Kind::EndpointSlice)
    }

    /// Position in per-kind arrays.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            Kind::Node => "Node",
            Kind::ServiceCidr => "ServiceCIDR",
        })
    }
}

/// Identifies an object: its kind and `namespace/name` (or just `name`, for cluster-wide kinds).
///
/// The path is shared: a key of a live object adds no text to what the state holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    pub kind: Kind,
    pub path: Arc<str>,
}

impl ObjectKey {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
        let path = if kind.is_namespaced() { format!("{namespace}/{name}").into() } else { name.into() };
        ObjectKey { kind, path }
    }

    /// Empty for cluster-wide kinds.
    pub fn namespace(&self) -> &str {
        self.path.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or(&self.path, |(_, name)| name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.path)
    }
}

/// A translated object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub key: ObjectKey,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Service(Box<Service>),
    EndpointSlice(SliceRecord),
    Node(NodeFacts),
    ServiceCidr(Box<[IpNet]>),
}

/// One EndpointSlice on its way into the state, not packed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceRecord {
    /// The service it belongs to, from the label `kubernetes.io/service-name`.
    pub service: ServiceKey,
    pub family: Family,
    pub ports: Box<[SlicePort]>,
    /// All of `family`.
    pub endpoints: Vec<EndpointRecord>,
    /// When the control plane saw the change behind this version, in milliseconds since the epoch.
    pub triggered_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRecord {
    pub ip: IpAddr,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    pub node: Option<Box<str>>,
    pub hints: Option<Hints>,
}

/// What a Node object says of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub zone: Option<Box<str>>,
    /// The primary address of each family ([`Family::index`]): an InternalIP before any ExternalIP.
    pub primary: [Option<IpAddr>; 2],
    pub pod_cidrs: Box<[IpNet]>,
    /// Load balancers may send here: the node is neither being deleted nor marked by the autoscaler.
    pub eligible: bool,
}

/// One step of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectChange {
    Apply(Object),
    Delete(ObjectKey),
}

/// What a source tells the agent.
#[derive(Clone, Debug)]
pub enum Update {
    Changes(Vec<ObjectChange>),
    /// All objects of the kind there are, by their paths: whatever else was handed over is gone.
    Retain(Kind, HashSet<Arc<str>>),
    /// Everything this source knew of the kind at its start has been sent.
    Synced(Kind),
    /// What is wrong with the manifests, where that changed. What is wrong in another way now is new, not solved.
    Problems {
        new: Vec<ManifestProblem>,
        solved: Vec<ManifestProblem>,
    },
}
