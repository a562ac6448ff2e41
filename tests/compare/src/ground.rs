//! Where one kube-proxy runs: a fresh node with three pods, joined to the namespace of the control plane.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use kernel::link::{LinkError, Links, Veth};
use sandbox::{Namespace, Pod, Sandbox, SandboxSpec, Server};

use crate::{Failure, objects};

const LINK: &str = "control";
const PEER_LINK: &str = "node";
const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 70, 2);
/// The control plane, for nodes.
pub(crate) const CONTROL: Ipv4Addr = Ipv4Addr::new(192, 168, 70, 1);
const SETTLED: Duration = Duration::from_secs(10);
const CALLER: &str = "caller";
/// The two pods that answer in turn.
pub(crate) const SERVERS: [&str; 2] = ["a", "b"];

pub(crate) struct Ground {
    pub(crate) sandbox: Sandbox,
    control: Namespace,
    /// They answer as long as they are kept.
    _servers: Vec<Server>,
}

impl Ground {
    pub(crate) fn new(control: &Namespace) -> Result<Ground, Failure> {
        let pods = [CALLER].into_iter().chain(SERVERS);
        let spec = SandboxSpec { local_pods: pods.map(str::to_owned).collect(), remote_pods: Vec::new() };
        let sandbox = Sandbox::new(&spec)?;
        join(&sandbox.node, control)?;
        for number in 0..objects::PROBES {
            // Packets to a service that has no rules yet go out to the client. It owns the address and answers
            // with a reset, so that a failed attempt ends at once and the next one can follow.
            sandbox.add_client_address(objects::probe_ip(number))?;
        }
        let mut servers = Vec::new();
        for name in SERVERS {
            let pod = sandbox.pod(name)?;
            let at = SocketAddr::new(pod.v4.into(), objects::POD_PORT);
            servers.push(Server::tcp(&pod.namespace, name, at)?);
        }
        Ok(Ground { sandbox, control: control.try_clone()?, _servers: servers })
    }

    /// From where services are called.
    pub(crate) fn caller(&self) -> Result<&Pod, Failure> {
        Ok(self.sandbox.pod(CALLER)?)
    }

    pub(crate) fn address_of(&self, server: &str) -> Result<IpAddr, Failure> {
        Ok(self.sandbox.pod(server)?.v4.into())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // The next one takes its name. It goes with the node anyway, but only some time later.
        let _ = self.control.try_run(|| Links::open().and_then(|mut links| links.delete(PEER_LINK)));
    }
}

fn join(node: &Namespace, control: &Namespace) -> Result<(), Failure> {
    node.try_run(|| {
        let mut links = Links::open()?;
        links.create_veth(&Veth { name: LINK, index: 300, peer_name: PEER_LINK, peer_namespace: control })?;
        settle(&mut links, LINK, NODE)
    })??;
    control.try_run(|| settle(&mut Links::open()?, PEER_LINK, CONTROL))??;
    for (namespace, link) in [(node, LINK), (control, PEER_LINK)] {
        namespace.try_run(|| Links::open()?.await_ready(link, SETTLED))??;
    }
    Ok(())
}

fn settle(links: &mut Links, link: &str, address: Ipv4Addr) -> Result<(), LinkError> {
    links.set_up(link)?;
    links.add_address(link, IpNet::V4(Ipv4Net::new_assert(address, 24)))
}
