//! What IPVS holds, read with the `ipvsadm` tool: a witness that shares no code with the agent.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use model::Family;
use test_support::tools;

use super::super::stage::Stage;

pub(super) const TOOL: &str = "ipvsadm";

/// A virtual server and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// What the tool would make it with.
    pub(super) line: String,
    /// Of each destination.
    pub(super) weights: BTreeMap<SocketAddr, u32>,
}

impl Server {
    pub(super) fn in_use(&self) -> impl Iterator<Item = &SocketAddr> {
        self.weights.iter().filter(|(_, weight)| **weight > 0).map(|(at, _)| at)
    }

    /// Kube-proxies of this project sign with a flag that no scheduler reads.
    pub(super) fn is_ours(&self) -> bool {
        self.line.contains("flag-3")
    }
}

/// By protocol, as the option that the tool has for it, and address.
pub(super) type Servers = BTreeMap<(String, SocketAddr), Server>;

/// Open connections of a destination, and closed ones that IPVS still remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Connections {
    pub(super) active: u32,
    pub(super) inactive: u32,
}

impl Stage {
    /// `ipvsadm ARGUMENTS` on the node; they are separated by spaces.
    pub(super) fn ipvsadm(&self, arguments: &str) -> String {
        self.try_tool(TOOL, arguments).unwrap_or_else(|why| panic!("{why}"))
    }

    pub(super) fn try_tool(&self, tool: &str, arguments: &str) -> Result<String, String> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        tools::run(&self.sandbox.node, &self.folder.lock(), tool, &words, "")
    }

    pub(super) fn servers(&self, family: Family) -> Servers {
        let mut servers = read(&self.ipvsadm("-S -n"));
        servers.retain(|(_, at), _| Family::of(at.ip()) == family);
        servers
    }

    /// The virtual server of a TCP port; panics if there is none.
    pub(super) fn server(&self, at: SocketAddr) -> Server {
        let mut servers = self.servers(Family::of(at.ip()));
        servers.remove(&("-t".to_owned(), at)).unwrap_or_else(|| panic!("no server {at} in {servers:?}"))
    }

    /// What each destination of a TCP port carries.
    pub(super) fn connections(&self, at: SocketAddr) -> BTreeMap<SocketAddr, Connections> {
        let text = self.ipvsadm(&format!("-L -n -t {at}"));
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("-> "));
        let counts = lines.filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [at, _, _, active, inactive] = words[..] else { return None };
            let (active, inactive) = (active.parse().ok()?, inactive.parse().ok()?);
            Some((at.parse().ok()?, Connections { active, inactive }))
        });
        counts.collect()
    }

    /// How many clients are pinned to an endpoint: entries of connections without a port of the client.
    pub(super) fn templates(&self, family: Family) -> usize {
        let text = self.sandbox.node.run(|| std::fs::read_to_string("/proc/thread-self/net/ip_vs_conn"));
        let text = text.unwrap_or_default();
        let entries = text.lines().skip(1).filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            Some((words.next()?, words.next()?))
        });
        let is_of = |client: &str| client.contains(':') == (family == Family::V6);
        entries.filter(|(client, port)| is_of(client) && *port == "0000").count()
    }
}

/// Of `ipvsadm -S -n`, which names a server before its destinations.
fn read(saved: &str) -> Servers {
    let mut servers = Servers::new();
    for line in saved.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [command, protocol, at, ..] = words[..] else { continue };
        // One by firewall mark is nobody's whom we could meet.
        let Ok(at) = at.parse::<SocketAddr>() else { continue };
        let key = (protocol.to_owned(), at);
        if command == "-A" {
            servers.insert(key, Server { line: line.to_owned(), weights: BTreeMap::new() });
        } else if let Some(server) = servers.get_mut(&key) {
            let value = |name: &str| words.iter().skip_while(|word| **word != name).nth(1);
            let [Some(destination), Some(weight)] = [value("-r"), value("-w")] else { continue };
            server.weights.insert(destination.parse().unwrap(), weight.parse().unwrap());
        }
    }
    servers
}

/// Whether the address is one that services get.
pub(super) fn is_cluster_ip(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => sandbox::address::SERVICES_V4.contains(&ip),
        IpAddr::V6(ip) => sandbox::address::SERVICES_V6.contains(&ip),
    }
}
