//! A node: namespaces with containerd and kubelet in them, started by `node/init`.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use conformance_support::Daemon;
use kernel::netns::Namespace;
use serde_json::json;

use crate::address::{self, both};
use crate::cgroup::Cgroup;
use crate::programs::Programs;

/// Gives the node its own mounts and starts everything on it.
const INIT: &str = include_str!("../node/init");

/// What all nodes have in common.
#[derive(Clone, Debug)]
pub struct Common {
    pub programs: Programs,
    /// Image archives that containerd is given at the first start.
    pub images: Vec<PathBuf>,
    /// The image of the process that holds a pod's namespaces.
    pub pause: String,
    /// Files to put below the kubelet's folder for seccomp profiles, by name.
    pub profiles: Vec<(String, PathBuf)>,
    /// The API knows addresses of these many families, IPv4 first.
    pub families: usize,
}

/// Dropping it ends everything on the node. Parts are dropped in this order.
#[derive(Debug)]
pub struct Node {
    init: Daemon,
    pub number: u8,
    pub name: String,
    pub namespace: Namespace,
    folder: PathBuf,
    _cgroup: Cgroup,
}

impl Node {
    /// Returns when its processes have been started; the API says when it is ready.
    pub fn start(
        common: &Common,
        number: u8,
        namespace: Namespace,
        kubeconfig: &Path,
        folder: &Path,
    ) -> Result<Node, String> {
        let name = format!("node{number}");
        let folder = folder.join(&name);
        let cgroup = Cgroup::create(&name)?;
        write_files(common, number, &name, &cgroup, kubeconfig, &folder)
            .map_err(|e| format!("writing to {}: {e}", folder.display()))?;
        let unshare = ["--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--mount-proc"];
        let script = folder.join("init").display().to_string();
        let mut words: Vec<String> = unshare.map(str::to_owned).into();
        words.extend(["--propagation".into(), "private".into(), "bash".into(), script]);
        words.extend([folder.display().to_string(), name.clone()]);
        let mut init = Daemon::new("init", Path::new("unshare"), words, &namespace, &folder)?
            .with("PATH", common.programs.search_path());
        init.start(|_| true)?;
        Ok(Node { init, number, name, namespace, folder, _cgroup: cgroup })
    }

    /// Its first process as the machine sees it: what `nsenter` takes. The child of `unshare`.
    pub fn process(&self) -> Option<u32> {
        let outer = self.init.process()?;
        let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// The last lines of what its parts said.
    pub fn complaints(&self) -> String {
        let tail = |file: &str| {
            let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default();
            format!("--- {} {file}\n{}\n", self.name, last.join("\n"))
        };
        ["init.log", "containerd.log", "kubelet.log"].map(tail).concat()
    }
}

fn write_files(
    common: &Common,
    number: u8,
    name: &str,
    cgroup: &Cgroup,
    kubeconfig: &Path,
    folder: &Path,
) -> std::io::Result<()> {
    let profiles = folder.join("lib/kubelet/seccomp/profiles");
    fs::create_dir_all(&profiles)?;
    fs::create_dir_all(folder.join("cni"))?;
    for (name, file) in &common.profiles {
        fs::copy(file, profiles.join(name))?;
    }
    fs::write(folder.join("init"), INIT)?;
    let archives = common.images.iter().map(|path| format!("{}\n", path.display()));
    fs::write(folder.join("images"), archives.collect::<String>())?;
    let plugins = common.programs.path("cni").map_err(std::io::Error::other)?;
    fs::write(folder.join("containerd.toml"), containerd(folder, &plugins, &common.pause))?;
    fs::write(folder.join("cni/10-ptp.conflist"), plugin(number))?;
    // A name server that does not answer: nothing out there is asked.
    fs::write(folder.join("resolv.conf"), format!("nameserver {}\n", address::WIRE.0))?;
    fs::write(folder.join("kubelet.json"), kubelet(cgroup, folder))?;
    let addresses: Vec<String> =
        both(address::node(number)).iter().take(common.families).map(IpAddr::to_string).collect();
    let flags = [
        format!("--config={}", folder.join("kubelet.json").display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--hostname-override={name}"),
        format!("--node-ip={}", addresses.join(",")),
        // Three zones, because the tests of traffic distribution ask for that many.
        format!(
            "--node-labels=topology.kubernetes.io/region=here,topology.kubernetes.io/zone=zone{}",
            (number - 1) % 3
        ),
    ];
    fs::write(folder.join("kubelet.flags"), flags.map(|flag| flag + "\n").concat())
}

fn containerd(folder: &Path, plugins: &Path, pause: &str) -> String {
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"

[plugins.'io.containerd.cri.v1.runtime']
# Scores below this machine's own need a capability that it may not have.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{}"]
conf_dir = "{}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "runc"
SystemdCgroup = false
"#,
        plugins.display(),
        folder.join("cni").display()
    )
}

/// Pods get an address of each family and a link to the node; host ports are mapped.
fn plugin(number: u8) -> String {
    let ranges = address::pods(number).into_iter().zip(address::last_pod(number));
    let ranges: Vec<_> =
        ranges.map(|(net, last)| json!([{"subnet": net.to_string(), "rangeEnd": last}])).collect();
    let config = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "ptp", "ipMasq": false, "ipam": {
            "type": "host-local", "dataDir": "/run/cni", "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
        }},
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]});
    config.to_string()
}

fn kubelet(cgroup: &Cgroup, folder: &Path) -> String {
    let nothing_is_evicted =
        json!({"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"});
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": folder.join("resolv.conf"), "clusterDNS": [address::DNS], "clusterDomain": "cluster.local",
        "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup.path(), "failCgroupV1": false, "failSwapOn": false,
        "evictionHard": nothing_is_evicted, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        // Only the cluster's own network reaches it.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "maxPods": 200, "serializeImagePulls": false, "housekeepingInterval": "30s",
        "kubeAPIQPS": 100, "kubeAPIBurst": 200, "eventRecordQPS": 50,
    });
    config.to_string()
}
