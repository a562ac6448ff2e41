//! A namespace with a forwarder, and services at node ports on 127.0.0.1. The endpoints have addresses of the same loopback
//! interface that do not count as loopback.

#[path = "patience.rs"]
mod patience;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use forwarder::{Forwarder, Means};
use kernel::link::Links;
use kernel::netns::Namespace;
use model::{
    Address, Destination, Family, Masquerade, NodePlan, PlannedEndpoint, Pool, PortPlan, Protocol, Role,
    Routing, ServiceKey, ServicePlan, Verdict,
};

pub(crate) use patience::{deadline, soon};

/// The address of an endpoint.
pub(crate) fn pod(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 7, 0, last).into()
}

pub(crate) fn at_node_port(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

pub(crate) struct Node {
    pub(crate) forwarder: Option<Forwarder>,
    namespace: Namespace,
    services: HashMap<ServiceKey, ServicePlan>,
}

impl Node {
    /// With endpoints' addresses up to this one.
    pub(crate) fn new(pods: u8) -> Node {
        Node::set_up(pods, || ())
    }

    /// The same, with settings of the namespace that are made first.
    pub(crate) fn set_up(pods: u8, settings: impl FnOnce() + Send) -> Node {
        let namespace = Namespace::new().unwrap();
        let forwarder = namespace.run(|| {
            settings();
            let mut links = Links::open().unwrap();
            for last in 1..=pods {
                links.add_address("lo", format!("{}/32", pod(last)).parse().unwrap()).unwrap();
            }
            Forwarder::start(0).unwrap()
        });
        Node { forwarder: Some(forwarder), namespace, services: HashMap::new() }
    }

    pub(crate) fn forwarder(&self) -> &Forwarder {
        self.forwarder.as_ref().unwrap()
    }

    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(work)
    }

    /// Serve a node port from these endpoints.
    pub(crate) fn serve(&mut self, protocol: Protocol, port: u16, endpoints: &[SocketAddr]) {
        self.serve_sticky(protocol, port, endpoints, None);
    }

    pub(crate) fn serve_sticky(
        &mut self,
        protocol: Protocol,
        port: u16,
        endpoints: &[SocketAddr],
        affinity_seconds: Option<u32>,
    ) {
        let endpoint =
            |at: &SocketAddr| PlannedEndpoint { ip: at.ip(), port: at.port(), may_be_own_client: false };
        let destination = Destination {
            at: Address::NodePort(port),
            role: Role::NodePort,
            routing: Routing::Same(Verdict::Forward(Pool::Cluster), Masquerade::Everyone),
            allowed_sources: None,
        };
        let plan = PortPlan {
            name: "".into(),
            protocol,
            affinity_seconds,
            cluster_pool: endpoints.iter().map(endpoint).collect(),
            local_pool: Box::default(),
            destinations: Box::new([destination]),
        };
        let plan = ServicePlan { ports: vec![Arc::new(plan)].into(), ..ServicePlan::default() };
        let is_new = self.services.insert(format!("default/web-{port}").as_str().into(), plan).is_none();
        let forwarder = self.forwarder.as_ref().unwrap();
        let node = NodePlan::default();
        forwarder.shared.directory.replace(Family::V4, &self.services, &node);
        if is_new {
            let means = Means::NodePort(at_node_port(port));
            self.namespace.run(|| forwarder.open(protocol, Pool::Cluster, means)).unwrap();
        }
    }
}
