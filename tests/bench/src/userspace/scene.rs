//! A client and a server in pods, the agent and HAProxy on the node between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use sandbox::{Namespace, Sandbox, SandboxSpec, address};
use test_support::{
    Carrier, EndpointManifest, ManifestFolder, NodeAgent, SOON, ServiceManifest, SliceManifest, manifest,
    wait_until,
};

use super::Way;
use super::load::{self, Leak};
use crate::{Failure, world};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 200, 1));
const UDP_VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 200, 2));
const POD_PORT: u16 = 8080;
const HAPROXY_PORT: u16 = 18_080;
/// Threads that serve, and threads that ask.
const THREADS: usize = 8;

/// Parts are dropped in this order.
pub(super) struct Scene {
    haproxy: Option<Child>,
    agent: NodeAgent,
    folder: ManifestFolder,
    sandbox: Sandbox,
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
        let pods = ["caller", "server"].map(str::to_owned).into();
        let sandbox = Sandbox::new(&SandboxSpec { local_pods: pods, remote_pods: Vec::new() })?;
        let pod = sandbox.pod("server")?;
        let at = SocketAddr::new(pod.v4.into(), POD_PORT);
        let listener = pod.namespace.try_run(|| TcpListener::bind(at))??;
        load::serve(listener, THREADS)?;
        let datagrams = pod.namespace.try_run(|| UdpSocket::bind(at))??;
        load::echo(datagrams);
        let folder = ManifestFolder::create();
        folder.put("node", &manifest::node(world::NODE, "zone-1", &[address::NODE_V4.into()]));
        for (name, vip, protocol) in [("web", VIP, Protocol::Tcp), ("dns", UDP_VIP, Protocol::Udp)] {
            folder.put_service(&ServiceManifest::new(name, &[vip]).port("main", protocol, 80, 0));
            let slice = SliceManifest::new(name, "1", Family::V4).port("main", protocol, POD_PORT);
            folder.put_slice(&slice.endpoint(&EndpointManifest::new(at.ip(), world::NODE)));
        }
        let mut flags = Carrier::Userspace.flags();
        flags.push(format!("--cluster-cidr={}", address::CLUSTER_V4));
        flags.push("--userspace-drain-timeout=1ms".to_owned());
        let agent = NodeAgent::start(kube_proxy, &sandbox.node, &folder, world::NODE, &flags)?;
        Ok(Scene { haproxy: None, agent, folder, sandbox })
    }

    /// In TCP mode, with splicing, as Debian packages it.
    pub(super) fn start_haproxy(&mut self) -> Result<(), Failure> {
        let server = self.sandbox.pod("server")?.v4;
        let text = format!(
            "global\n maxconn 50000\ndefaults\n mode tcp\n option splice-auto\n timeout connect 5s\n timeout client 1h\n \
             timeout server 1h\nlisten web\n bind {}:{HAPROXY_PORT}\n server one {server}:{POD_PORT}\n",
            address::NODE_V4
        );
        self.folder.put_text("haproxy.cfg.off", &text);
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(self.folder.path().join("haproxy.cfg.off"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.sandbox.node.enter(&mut command)?;
        let child = command.spawn().map_err(|error| format!("not started: {error}"))?;
        self.haproxy = Some(child);
        let to = self.haproxy();
        let answers = || self.connect(to).is_ok_and(|stream| load::exchange(stream).is_ok());
        if wait_until(SOON, answers) { Ok(()) } else { Err("it does not answer".into()) }
    }

    pub(super) fn direct(&self) -> SocketAddr {
        let server = self.sandbox.pod("server").map(|pod| pod.v4);
        SocketAddr::new(server.unwrap_or(Ipv4Addr::UNSPECIFIED).into(), POD_PORT)
    }

    pub(super) fn haproxy(&self) -> SocketAddr {
        SocketAddr::new(address::NODE_V4.into(), HAPROXY_PORT)
    }

    pub(super) fn service(&self) -> SocketAddr {
        SocketAddr::new(VIP, 80)
    }

    fn caller(&self) -> Result<&Namespace, Failure> {
        Ok(&self.sandbox.pod("caller")?.namespace)
    }

    fn connect(&self, to: SocketAddr) -> Result<TcpStream, Failure> {
        Ok(self.caller()?.try_run(|| TcpStream::connect(to))??)
    }

    pub(super) fn way(&self, to: SocketAddr, each: Duration) -> Result<Way, Failure> {
        let gigabits = load::stream(self.connect(to)?, each)?;
        let connections = load::short_connections(self.caller()?, to, THREADS, each)?;
        Ok(Way { gigabits, connections })
    }

    pub(super) fn leak(&mut self, connections: usize) -> Result<Leak, Failure> {
        // What is kept for the next connections is there before.
        load::many_short(self.caller()?, self.service(), THREADS, 2_000)?;
        let before = self.held()?;
        load::many_short(self.caller()?, self.service(), THREADS, connections)?;
        let is_quiet =
            || self.held().is_ok_and(|held| held.open == 0 && held.descriptors <= before.descriptors);
        wait_until(SOON, is_quiet);
        let after = self.held()?;
        Ok(Leak {
            connections,
            descriptors: after.descriptors - before.descriptors,
            open: after.open,
            kib: after.kib - before.kib,
        })
    }

    /// What the agent holds now.
    fn held(&self) -> Result<Leak, Failure> {
        let process = format!("/proc/{}", self.agent.process());
        let descriptors = std::fs::read_dir(format!("{process}/fd"))?.count();
        let status = std::fs::read_to_string(format!("{process}/status"))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let kib = kib.ok_or("no resident memory")?.parse()?;
        let page = self.agent.metrics().ok_or("no metrics")?;
        let open = page.lines().find_map(|line| {
            let rest = line
                .strip_prefix("pointsman_userspace_open_connections{ip_family=\"IPv4\",protocol=\"tcp\"} ")?;
            rest.parse().ok()
        });
        Ok(Leak { connections: 0, descriptors: descriptors as i64, open: open.ok_or("no count")?, kib })
    }

    /// Bytes in the agent for each of so many connections.
    pub(super) fn weigh(&self, count: usize) -> Result<f64, Failure> {
        let before = self.held()?;
        let mut open = Vec::with_capacity(count);
        for _ in 0..count {
            open.push(self.connect(self.service())?);
        }
        let all_are_open = || self.held().is_ok_and(|held| held.open >= count as i64);
        if !wait_until(SOON, all_are_open) {
            return Err(format!("{} of {count} connections are open", self.held()?.open).into());
        }
        let after = self.held()?;
        Ok((after.kib - before.kib).max(0) as f64 * 1024.0 / count as f64)
    }

    /// The median of a short connection, alone and beside clients that ask for much and never read.
    pub(super) fn slow_readers(&self, count: usize) -> Result<(f64, f64), Failure> {
        let quiet = load::median_us(self.caller()?, self.service())?;
        let mut readers = Vec::with_capacity(count);
        for _ in 0..count {
            let mut stream = self.connect(self.service())?;
            load::ask_for_much(&mut stream)?;
            readers.push(stream);
        }
        // Until every buffer on the way is full.
        let settled = Instant::now() + Duration::from_secs(2);
        wait_until(SOON, || Instant::now() >= settled);
        Ok((quiet, load::median_us(self.caller()?, self.service())?))
    }

    pub(super) fn udp(&self, clients: usize) -> Result<(usize, usize), Failure> {
        load::datagrams(self.caller()?, SocketAddr::new(UDP_VIP, 80), clients)
    }
}
