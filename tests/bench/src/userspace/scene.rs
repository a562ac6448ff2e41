//! A client and servers in pods, the agent and HAProxy on the node between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use model::{Family, Protocol};
use sandbox::{Namespace, Sandbox, SandboxSpec, address};
use test_support::{
    Carrier, EndpointManifest, ManifestFolder, NodeAgent, SOON, ServiceManifest, SliceManifest, manifest,
    tools, wait_until,
};

use super::load;
use super::server::Server;
use crate::{Failure, world};

const POD_PORT: u16 = 8080;
const HAPROXY_PORT: u16 = 18_080;
/// Clients, the other ends of their connections, and the servers' ones are all in one process.
const OPEN_FILES: u64 = 200_000;
/// So many carry connections, in the agent and in HAProxy.
const MOST_THREADS: usize = 4;

/// The services: one endpoint, three endpoints of which one is killed, datagrams.
#[derive(Clone, Copy)]
pub(super) enum Service {
    Web,
    Three,
    Datagrams,
}

impl Service {
    fn ip(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 96, 200, self as u8 + 1))
    }

    pub(super) fn at(self) -> SocketAddr {
        SocketAddr::new(self.ip(), 80)
    }
}

pub(super) const ONE: &str = "server";
pub(super) const THREE: [&str; 3] = ["first", "second", "third"];

/// Parts are dropped in this order.
pub(super) struct Scene {
    haproxy: Option<Child>,
    pub(super) agent: NodeAgent,
    /// That of [`Service::Web`], and those of [`Service::Three`].
    pub(super) servers: Vec<Server>,
    folder: ManifestFolder,
    sandbox: Sandbox,
    pub(super) congestion_control: String,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(child) = &mut self.haproxy {
            // Both fail only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Scene {
    pub(super) fn set(kube_proxy: &Path) -> Result<Scene, Failure> {
        // Processes that are started from now on inherit it. Without the right to raise it, less is measured.
        if kernel::process::limit_open_files(std::process::id(), OPEN_FILES).is_err() {
            kernel::process::raise_open_files()?;
        }
        let pods = [["caller", ONE].as_slice(), &THREE].concat().into_iter().map(str::to_owned).collect();
        let sandbox = Sandbox::new(&SandboxSpec { local_pods: pods, remote_pods: Vec::new() })?;
        for namespace in [&sandbox.node, &sandbox.pod("caller")?.namespace] {
            set_sysctl(namespace, "ipv4/ip_local_port_range", "1024 65535")?;
        }
        for name in ["caller", ONE].into_iter().chain(THREE) {
            set_congestion_control(&sandbox.pod(name)?.namespace)?;
        }
        let congestion_control = set_congestion_control(&sandbox.node)?;
        let folder = ManifestFolder::create();
        folder.put("node", &manifest::node(world::NODE, "zone-1", &[address::NODE_V4.into()]));
        let mut servers = Vec::new();
        for (name, pod) in (b'a'..).zip([ONE].into_iter().chain(THREE)) {
            let pod = sandbox.pod(pod)?;
            servers.push(Server::start(&pod.namespace, SocketAddr::new(pod.v4.into(), POD_PORT), name)?);
        }
        let pod = sandbox.pod(ONE)?;
        let at = SocketAddr::new(pod.v4.into(), POD_PORT);
        load::echo(pod.namespace.try_run(|| UdpSocket::bind(at))??);
        let services = [
            ("web", Service::Web, Protocol::Tcp, [ONE].as_slice()),
            ("three", Service::Three, Protocol::Tcp, &THREE),
            ("datagrams", Service::Datagrams, Protocol::Udp, &[ONE]),
        ];
        for (name, service, protocol, pods) in services {
            folder.put_service(&ServiceManifest::new(name, &[service.ip()]).port("main", protocol, 80, 0));
            let mut slice = SliceManifest::new(name, "1", Family::V4).port("main", protocol, POD_PORT);
            for pod in pods {
                slice = slice.endpoint(&EndpointManifest::new(sandbox.pod(pod)?.v4.into(), world::NODE));
            }
            folder.put_slice(&slice);
        }
        let mut flags = Carrier::Userspace.flags();
        flags.push(format!("--cluster-cidr={}", address::CLUSTER_V4));
        flags.extend(["--userspace-drain-timeout=1ms", "--udp-idle-timeout=1s"].map(str::to_owned));
        let agent = NodeAgent::start(kube_proxy, &sandbox.node, &folder, world::NODE, &flags)?;
        // A port may be used again, and the table of connections does not fill up with those that have ended. Only now is
        // conntrack there for sure: where it is a module, the agent's rules load it.
        set_sysctl(&sandbox.node, "netfilter/nf_conntrack_tcp_timeout_time_wait", "2")?;
        Ok(Scene { haproxy: None, agent, servers, folder, sandbox, congestion_control })
    }

    /// In TCP mode, with splicing, with as many threads as the agent has, as Debian packages it.
    pub(super) fn start_haproxy(&mut self) -> Result<(), Failure> {
        let server = self.sandbox.pod(ONE)?.v4;
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let text = format!(
            "global\n maxconn 4000\n nbthread {threads}\ndefaults\n mode tcp\n option splice-auto\n \
             timeout connect 5s\n timeout client 1h\n timeout server 1h\nlisten web\n \
             bind {}:{HAPROXY_PORT}\n server one {server}:{POD_PORT}\n",
            address::NODE_V4
        );
        self.folder.put_text("haproxy.cfg.off", &text);
        let unpacked = tools::unpacked("haproxy").map(|folder| folder.join("usr"));
        let own = unpacked.as_ref().map(|folder| folder.join("sbin/haproxy")).filter(|path| path.exists());
        let mut command = Command::new(own.as_deref().unwrap_or(Path::new("haproxy")));
        if let Some(folder) = unpacked.filter(|_| own.is_some()) {
            let triplet = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
            command.env("LD_LIBRARY_PATH", folder.join(triplet));
        }
        command.arg("-db").arg("-f").arg(self.folder.path().join("haproxy.cfg.off"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.sandbox.node.enter(&mut command)?;
        let child = command
            .spawn()
            .map_err(|error| format!("not started: {error}; scripts/setup unpacks it on Debian"))?;
        self.haproxy = Some(child);
        let to = self.haproxy();
        let answers = || self.connect(to).is_ok_and(|stream| load::exchange(stream).is_ok());
        if wait_until(SOON, answers) { Ok(()) } else { Err("it does not answer".into()) }
    }

    pub(super) fn direct(&self) -> SocketAddr {
        let server = self.sandbox.pod(ONE).map(|pod| pod.v4);
        SocketAddr::new(server.unwrap_or(Ipv4Addr::UNSPECIFIED).into(), POD_PORT)
    }

    pub(super) fn haproxy(&self) -> SocketAddr {
        SocketAddr::new(address::NODE_V4.into(), HAPROXY_PORT)
    }

    pub(super) fn caller(&self) -> Result<&Namespace, Failure> {
        Ok(&self.sandbox.pod("caller")?.namespace)
    }

    pub(super) fn connect(&self, to: SocketAddr) -> Result<TcpStream, Failure> {
        Ok(self.caller()?.try_run(|| TcpStream::connect(to))??)
    }

    /// Descriptors of the agent.
    pub(super) fn descriptors(&self) -> Result<usize, Failure> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.agent.process()))?.count())
    }

    /// Resident memory of the agent.
    pub(super) fn kib(&self) -> Result<i64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.agent.process()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        Ok(kib.ok_or("no resident memory")?.parse()?)
    }

    /// Connections that the agent carries.
    pub(super) fn open(&self) -> Result<i64, Failure> {
        self.metric("open_connections{ip_family=\"IPv4\",protocol=\"tcp\"}")
    }

    /// How many clients one service may have at once; the clients themselves need descriptors here, and so do servers.
    pub(super) fn room(&self, protocol: &str) -> Result<usize, Failure> {
        let limit = self.metric(&format!("open_connections_limit{{protocol=\"{protocol}\"}}"))?;
        let here = kernel::process::open_files()?.saturating_sub(1_000) / 2;
        Ok(usize::try_from(limit)?.saturating_sub(200) / 2).map(|room| room.min(here as usize))
    }

    pub(super) fn metric(&self, name: &str) -> Result<i64, Failure> {
        let page = self.agent.metrics().ok_or("no metrics")?;
        let name = format!("pointsman_userspace_{name} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok());
        value.ok_or_else(|| format!("no {name}").into())
    }
}

/// What kernels come with, wherever it may be set. BBR paces each packet with a timer, and in a virtual machine setting the
/// timer costs more than the packet: a proxy, which has two senders, would be measured by that. Returns what is in use.
fn set_congestion_control(namespace: &Namespace) -> Result<String, Failure> {
    const NAME: &str = "ipv4/tcp_congestion_control";
    let _stays_as_it_is = ["cubic", "reno"].iter().find(|name| set_sysctl(namespace, NAME, name).is_ok());
    let used = namespace.try_run(|| std::fs::read_to_string(Path::new("/proc/sys/net").join(NAME)))??;
    Ok(used.trim().to_owned())
}

fn set_sysctl(namespace: &Namespace, name: &str, value: &str) -> Result<(), Failure> {
    let path = Path::new("/proc/sys/net").join(name);
    let set = namespace.try_run(|| std::fs::write(&path, value))?;
    set.map_err(|error| format!("failed to write {}: {error}", path.display()).into())
}
