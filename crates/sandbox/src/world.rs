//! The sandbox: three fixed namespaces, and pods that come and go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kernel::link::Route;
use kernel::netns::Namespace;

use crate::wiring::{End, await_ready, default_via, host, inside, join, namespace};
use crate::{Place, Pod, SandboxError, address};

const PEER_LINK: &str = "eth0";

/// Which pods a sandbox begins with.
#[derive(Clone, Debug)]
pub struct SandboxSpec {
    pub local_pods: Vec<String>,
    pub remote_pods: Vec<String>,
}

impl Default for SandboxSpec {
    /// `a` and `b` on the node, `c` on the second one.
    fn default() -> SandboxSpec {
        SandboxSpec { local_pods: vec!["a".into(), "b".into()], remote_pods: vec!["c".into()] }
    }
}

#[derive(Debug)]
pub struct Sandbox {
    /// The node that is looked at.
    pub node: Namespace,
    /// A second node, whose pods reach the first only through it.
    pub remote: Namespace,
    /// A client outside the cluster.
    pub client: Namespace,
    pods: Vec<Pod>,
    /// Pods made so far on each node; a number is never used again.
    local_made: u16,
    remote_made: u16,
}

impl Sandbox {
    pub fn new(spec: &SandboxSpec) -> Result<Sandbox, SandboxError> {
        let mut sandbox = Sandbox {
            node: namespace("node", true)?,
            remote: namespace("remote", true)?,
            client: namespace("client", false)?,
            pods: Vec::new(),
            local_made: 0,
            remote_made: 0,
        };
        sandbox.join_nodes()?;
        sandbox.join_client()?;
        for name in &spec.local_pods {
            sandbox.add_pod(Place::Local, name)?;
        }
        for name in &spec.remote_pods {
            sandbox.add_pod(Place::Remote, name)?;
        }
        Ok(sandbox)
    }

    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    pub fn pod(&self, name: &str) -> Result<&Pod, SandboxError> {
        let found = self.pods.iter().find(|pod| pod.name == name);
        found.ok_or_else(|| SandboxError::NoSuchPod { name: name.to_owned() })
    }

    /// Add a pod. Names are short: the interface `pod-NAME` has at most 15 characters.
    pub fn add_pod(&mut self, place: Place, name: &str) -> Result<&Pod, SandboxError> {
        if self.pod(name).is_ok() {
            return Err(SandboxError::NameTaken { name: name.to_owned() });
        }
        let (node, count) = match place {
            Place::Local => (&self.node, &mut self.local_made),
            Place::Remote => (&self.remote, &mut self.remote_made),
        };
        let pod = Pod::create(node, place, name, *count)?;
        *count += 1;
        self.pods.push(pod);
        self.pod(name)
    }

    /// Remove a pod and its link; its address is not given to another.
    pub fn remove_pod(&mut self, name: &str) -> Result<(), SandboxError> {
        let pod = self.pod(name)?;
        pod.detach(match pod.place {
            Place::Local => &self.node,
            Place::Remote => &self.remote,
        })?;
        self.pods.retain(|pod| pod.name != name);
        Ok(())
    }

    /// One more address for the client to call from. The node sends all it does not know to the client.
    pub fn add_client_address(&self, address: IpAddr) -> Result<(), SandboxError> {
        inside(&self.client, "client", |links| Ok(links.add_address(PEER_LINK, host(address))?))?;
        await_ready(&[(&self.client, "client", PEER_LINK)])
    }

    fn join_nodes(&self) -> Result<(), SandboxError> {
        let [node, remote] = [(address::NODE_V4, address::NODE_V6), (address::REMOTE_V4, address::REMOTE_V6)];
        join(
            &End { namespace: &self.node, part: "node", link: address::NODE_UPLINK, nets: nets(node) },
            &End { namespace: &self.remote, part: "remote", link: PEER_LINK, nets: nets(remote) },
        )?;
        inside(&self.node, "node", |links| {
            links.add_route(&Route::via(address::REMOTE_PODS_V4.into(), remote.0.into()))?;
            Ok(links.add_route(&Route::via(address::REMOTE_PODS_V6.into(), remote.1.into()))?)
        })?;
        default_via(&self.remote, "remote", node)
    }

    fn join_client(&self) -> Result<(), SandboxError> {
        let node = (address::NODE_OUTER_V4, address::NODE_OUTER_V6);
        let client = (address::CLIENT_V4, address::CLIENT_V6);
        join(
            &End { namespace: &self.node, part: "node", link: address::NODE_OUTSIDE, nets: nets(node) },
            &End {
                namespace: &self.client,
                part: "client",
                link: PEER_LINK,
                nets: [host(client.0), host(client.1)],
            },
        )?;
        self.add_client_address(address::CLIENT_SECOND_V4.into())?;
        self.add_client_address(address::CLIENT_SECOND_V6.into())?;
        // Each is the other's way to everywhere. Nothing circles, because the client does not forward.
        default_via(&self.node, "node", client)?;
        // Among several addresses on a link IPv6 takes the newest; the routes say which one is meant.
        inside(&self.client, "client", |links| {
            for (net, source) in nets(node).into_iter().zip([client.0.into(), client.1.into()]) {
                links.add_route(&Route::direct(net.trunc(), PEER_LINK).from(source))?;
            }
            links.add_route(&Route::via(Ipv4Net::default().into(), node.0.into()).from(client.0.into()))?;
            Ok(links
                .add_route(&Route::via(Ipv6Net::default().into(), node.1.into()).from(client.1.into()))?)
        })
    }
}

/// The two nodes' and the client's links are ordinary subnets.
fn nets((v4, v6): (Ipv4Addr, Ipv6Addr)) -> [IpNet; 2] {
    [Ipv4Net::new_assert(v4, 24).into(), Ipv6Net::new_assert(v6, 64).into()]
}
