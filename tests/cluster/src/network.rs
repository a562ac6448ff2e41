//! The network of the cluster: a wire that joins namespaces, and the ways between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use kernel::link::{LinkError, Links, Route, Veth};
use kernel::netns::Namespace;
use kernel::sysctl;

use crate::address::{self, anywhere, both, on_wire};

const BRIDGE: &str = "wire";
const UPLINK: &str = "eth0";
/// Far more than the kernel needs to make a link ready.
const SETTLED: Duration = Duration::from_secs(60);

/// The machines of the network are namespaces held by descriptor, so nothing is left when the process ends.
#[derive(Debug)]
pub(crate) struct Network {
    wire: Namespace,
    pub(crate) control_plane: Namespace,
}

impl Network {
    pub(crate) fn create() -> Result<Network, String> {
        let wire = namespace()?;
        inside(&wire, |links| {
            links.create_bridge(BRIDGE)?;
            links.set_up(BRIDGE)?;
            on_wire(address::WIRE).into_iter().try_for_each(|net| links.add_address(BRIDGE, net))
        })?;
        wire.run(|| {
            // Frames between nodes are no business of the machine's packet filter.
            for family in ["iptables", "ip6tables"] {
                let name = format!("net/bridge/bridge-nf-call-{family}");
                if Path::new("/proc/sys").join(&name).exists() {
                    let _ = sysctl::write(&name, 0);
                }
            }
        });
        let network = Network { wire, control_plane: namespace()? };
        network.attach(&network.control_plane, "w-plane", address::CONTROL_PLANE)?;
        inside(&network.control_plane, |links| {
            both(address::OUTSIDE).into_iter().try_for_each(|at| links.add_address("lo", at.into()))
        })?;
        network.control_plane.run(|| {
            // Connections, not pairs of addresses, are spread over the nodes behind a load balancer.
            for family in ["ipv4", "ipv6"] {
                let _ = sysctl::write(&format!("net/{family}/fib_multipath_hash_policy"), 1);
            }
        });
        network.route(both(address::OUTSIDE).map(IpNet::from), address::CONTROL_PLANE)?;
        Ok(network)
    }

    /// A namespace for a node, and the way to its pods. The old one of a node that comes back must be gone.
    pub(crate) fn add_node(&self, number: u8) -> Result<Namespace, String> {
        let node = namespace()?;
        let link = format!("w-node{number}");
        inside(&self.wire, |links| {
            // A link vanishes with the namespace of its other end, which the kernel removes in its own time.
            if links.links()?.iter().any(|each| each.name == link) { links.delete(&link) } else { Ok(()) }
        })?;
        self.attach(&node, &link, address::node(number))?;
        // Routes go with the link as well, but not those that name a gateway only.
        let _ = self.unroute(address::pods(number), address::node(number));
        self.route(address::pods(number), address::node(number))?;
        Ok(node)
    }

    fn attach(&self, machine: &Namespace, link: &str, at: (Ipv4Addr, Ipv6Addr)) -> Result<(), String> {
        inside(&self.wire, |links| {
            // The far end takes the next free index; the two must differ, see `Veth::index`.
            let index = 100 + u32::try_from(links.links()?.len()).unwrap_or_default();
            links.create_veth(&Veth { name: link, index, peer_name: UPLINK, peer_namespace: machine })?;
            links.enslave(link, BRIDGE)?;
            links.set_up(link)
        })?;
        inside(machine, |links| {
            links.set_up(UPLINK)?;
            on_wire(at).into_iter().try_for_each(|net| links.add_address(UPLINK, net))?;
            links.await_ready(UPLINK, SETTLED)?;
            let ways = anywhere().into_iter().zip(both(address::WIRE));
            ways.into_iter().try_for_each(|(to, gateway)| links.add_route(&Route::via(to, gateway)))
        })
    }

    fn route(&self, to: [IpNet; 2], by: (Ipv4Addr, Ipv6Addr)) -> Result<(), String> {
        inside(&self.wire, |links| {
            let ways = to.into_iter().zip(both(by));
            ways.into_iter().try_for_each(|(to, gateway)| links.add_route(&Route::via(to, gateway)))
        })
    }

    fn unroute(&self, to: [IpNet; 2], by: (Ipv4Addr, Ipv6Addr)) -> Result<(), String> {
        inside(&self.wire, |links| {
            let ways = to.into_iter().zip(both(by));
            ways.into_iter().try_for_each(|(to, gateway)| links.delete_route(&Route::via(to, gateway)))
        })
    }
}

/// A client beside the pods of a node, joined to it as a pod is.
pub(crate) fn client_on(node: &Namespace, addresses: [IpAddr; 2]) -> Result<Namespace, String> {
    let client = namespace()?;
    inside(node, |links| {
        let index = 1000 + u32::try_from(links.links()?.len()).unwrap_or_default();
        links.create_veth(&Veth { name: "client", index, peer_name: UPLINK, peer_namespace: &client })?;
        links.set_up("client")?;
        addresses.into_iter().try_for_each(|at| links.add_route(&Route::direct(at.into(), "client")))
    })?;
    let gateways = [Ipv4Addr::new(169, 254, 1, 1).into(), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, 1).into()];
    inside(node, |links| {
        gateways.into_iter().try_for_each(|at: IpAddr| links.add_address("client", at.into()))
    })?;
    inside(&client, |links| {
        links.set_up(UPLINK)?;
        addresses.into_iter().try_for_each(|at| links.add_address(UPLINK, at.into()))?;
        links.await_ready(UPLINK, SETTLED)?;
        let ways = anywhere().into_iter().zip(gateways);
        ways.into_iter().try_for_each(|(to, gateway)| links.add_route(&Route::onlink(to, gateway, UPLINK)))
    })?;
    Ok(client)
}

/// A namespace that forwards, and that does not depend on the machine's defaults.
fn namespace() -> Result<Namespace, String> {
    let namespace = Namespace::new().map_err(|e| e.to_string())?;
    namespace.run(settle)?;
    Ok(namespace)
}

fn settle() -> Result<(), String> {
    let set = |name: &str, value: u32| sysctl::write(name, value).map_err(|e| format!("{name}: {e}"));
    for scope in ["all", "default"] {
        for setting in ["rp_filter", "send_redirects", "accept_redirects"] {
            set(&format!("net/ipv4/conf/{scope}/{setting}"), 0)?;
        }
        for setting in ["accept_redirects", "accept_dad", "accept_ra", "disable_ipv6"] {
            set(&format!("net/ipv6/conf/{scope}/{setting}"), 0)?;
        }
    }
    set("net/ipv4/ip_forward", 1)?;
    set("net/ipv6/conf/all/forwarding", 1)?;
    // Each rejected connection must be seen to be rejected, however many there are in a second.
    set("net/ipv4/icmp_ratemask", 0)?;
    set("net/ipv6/icmp/ratelimit", 0)
}

fn inside<T: Send>(
    namespace: &Namespace,
    work: impl FnOnce(&mut Links) -> Result<T, LinkError> + Send,
) -> Result<T, String> {
    namespace.run(|| Links::open().and_then(|mut links| work(&mut links))).map_err(|e| e.to_string())
}
