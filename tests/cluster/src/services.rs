//! The Services that clients call, and the clients of a cluster.

use std::net::IpAddr;
use std::process::Command;

use kernel::netns::Namespace;
use serde_json::Value;
use test_support::{SOON, wait_until};

use crate::address::{self, both};
use crate::cluster::Cluster;
use crate::network::client_on;
use crate::node::Node;
use crate::run;
use crate::traffic::{Client, target};

const NODE_PORT: u16 = 30080;
const LOCAL_NODE_PORT: u16 = 30081;
const PORT: u16 = 80;
/// The nodes with pods behind the Services, as the manifest has it.
const WITH_PODS: [u8; 2] = [1, 2];

/// Addresses of the two Services: cluster IPs and those of load balancers.
#[derive(Clone, Debug)]
pub struct Web {
    cluster_ips: Vec<IpAddr>,
    balancers: Vec<IpAddr>,
    local_balancers: Vec<IpAddr>,
}

impl Web {
    /// Create them and wait until their pods are ready.
    pub fn create(cluster: &Cluster) -> Result<Web, String> {
        let manifest = include_str!("../manifests/web.yaml").replace("IMAGE", &cluster.images.agnhost);
        cluster.apply(&manifest)?;
        cluster.await_object("/apis/apps/v1/namespaces/default/daemonsets/web", |set| {
            set["status"]["numberReady"] == WITH_PODS.len()
        })?;
        let has_balancer = |service: &Value| {
            service["status"]["loadBalancer"]["ingress"].as_array().is_some_and(|list| list.len() == 2)
        };
        let web = cluster.await_object("/api/v1/namespaces/default/services/web", has_balancer)?;
        let local = cluster.await_object("/api/v1/namespaces/default/services/web-local", has_balancer)?;
        let parse = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        let ingress = |service: &Value| -> Vec<IpAddr> {
            let list = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
            list.filter_map(|each| parse(&each["ip"])).collect()
        };
        // From here on no route changes, which would move connections to another node.
        for address in ingress(&local) {
            let family = if address.is_ipv6() { "-6" } else { "-4" };
            let ask =
                || run::output(Command::new("ip").args([family, "route", "show", &address.to_string()]));
            let is_spread = || {
                cluster.outside().run(ask).is_ok_and(|text| text.matches("via ").count() == WITH_PODS.len())
            };
            if !wait_until(SOON, is_spread) {
                return Err(format!("{address} is not routed to every node with pods"));
            }
        }
        let ips = web["spec"]["clusterIPs"].as_array().into_iter().flatten();
        Ok(Web {
            cluster_ips: ips.filter_map(parse).collect(),
            balancers: ingress(&web),
            local_balancers: ingress(&local),
        })
    }

    /// A client in the node's own network, and one beside its pods. What depends on `absent`, a node that goes away,
    /// they leave alone.
    pub fn clients_on(&self, node: &Node, absent: Option<u8>) -> Result<[Client; 2], String> {
        let other = WITH_PODS.into_iter().find(|number| *number != node.number).unwrap_or(1);
        let mut targets: Vec<_> =
            self.cluster_ips.iter().map(|ip| target("a cluster IP", *ip, PORT)).collect();
        // By the proxy of this node: where an address of a load balancer is known, nothing leaves for it.
        targets.extend(self.balancers.iter().map(|ip| target("a load balancer", *ip, PORT)));
        let mut ports = vec![("its node's port", node.number)];
        if absent != Some(other) {
            ports.push(("another node's port", other));
        }
        for (what, number) in ports {
            targets.extend(both(address::node(number)).map(|ip| target(what, ip, NODE_PORT)));
        }
        let client =
            |name: String, namespace: Namespace| Client { name, namespace, targets: targets.clone() };
        let own = node.namespace.try_clone().map_err(|e| e.to_string())?;
        let pod = client_on(&node.namespace, address::client(node.number))?;
        Ok([client(node.name.clone(), own), client(format!("a pod of {}", node.name), pod)])
    }

    /// A client outside the cluster. A load balancer does not send to a node that is away, but learns of it too late
    /// for a test of connections: with one, node ports only.
    pub fn client_outside(&self, cluster: &Cluster, absent: Option<u8>) -> Result<Client, String> {
        let mut targets = Vec::new();
        for node in cluster.nodes.iter().filter(|node| Some(node.number) != absent) {
            let addresses = both(address::node(node.number));
            targets.extend(addresses.map(|ip| target("a node port", ip, NODE_PORT)));
            if WITH_PODS.contains(&node.number) {
                targets
                    .extend(addresses.map(|ip| target("a node port with policy Local", ip, LOCAL_NODE_PORT)));
            }
        }
        if absent.is_none() {
            targets.extend(self.balancers.iter().map(|ip| target("a load balancer", *ip, PORT)));
            let local = self.local_balancers.iter();
            targets.extend(local.map(|ip| target("a load balancer with policy Local", *ip, PORT)));
        }
        let namespace = cluster.outside().try_clone().map_err(|e| e.to_string())?;
        Ok(Client { name: "a client outside".into(), namespace, targets })
    }

    /// All of them.
    pub fn clients(&self, cluster: &Cluster, absent: Option<u8>) -> Result<Vec<Client>, String> {
        let mut clients = vec![self.client_outside(cluster, absent)?];
        for node in cluster.nodes.iter().filter(|node| Some(node.number) != absent) {
            clients.extend(self.clients_on(node, absent)?);
        }
        Ok(clients)
    }
}
