//! Where the programs are, and whether a cluster can be had on this machine at all.

use std::path::{Path, PathBuf};
use std::process::Command;

use conformance_support::Kit;
use kernel::netns::Namespace;

/// Names the folders of scripts/cluster-programs, as in PATH.
const FOLDERS: &str = "POINTSMAN_CLUSTER_PROGRAMS";
/// Names the folder of scripts/control-plane.
const CONTROL_PLANE: &str = "POINTSMAN_CONTROL_PLANE";
/// Names the program of scripts/helm.
const HELM: &str = "POINTSMAN_HELM";

/// From packages of Debian: `scripts/setup --cluster`.
const OF_THE_MACHINE: &[&str] =
    &["runc", "mount", "unshare", "nsenter", "ip", "tar", "busybox", "dash", "curl", "nc", "dig", "ss"];

#[derive(Clone, Debug)]
pub struct Programs {
    folders: Vec<PathBuf>,
    pub kit: Kit,
    pub helm: PathBuf,
}

impl Programs {
    /// The error is one line that says what is missing.
    pub fn find() -> Result<Programs, String> {
        if !rustix::process::geteuid().is_root() {
            return Err(
                "a cluster of real nodes needs root: containers and their cgroups are the machine's".into()
            );
        }
        if let Some(missing) = OF_THE_MACHINE.iter().find(|name| on_path(name).is_none()) {
            return Err(format!("{missing} is not installed; scripts/setup --cluster installs it"));
        }
        let named = |variable: &str| {
            std::env::var_os(variable)
                .ok_or_else(|| format!("{variable} is not set; start this by make cluster"))
        };
        let folders: Vec<PathBuf> = std::env::split_paths(&named(FOLDERS)?).collect();
        let plane = PathBuf::from(named(CONTROL_PLANE)?);
        let at = |name: &str| present(plane.join(name));
        let kit = Kit {
            etcd: at("etcd")?,
            apiserver: at("kube-apiserver")?,
            upstream: at("kube-proxy")?,
            // The agent comes out of its image here.
            kube_proxy: PathBuf::new(),
        };
        let programs = Programs { folders, kit, helm: present(PathBuf::from(named(HELM)?))? };
        for name in
            ["kubelet", "kube-controller-manager", "kube-scheduler", "kubectl", "containerd", "coredns"]
        {
            programs.path(name)?;
        }
        Ok(programs)
    }

    pub fn path(&self, name: &str) -> Result<PathBuf, String> {
        let found = self.folders.iter().map(|folder| folder.join(name)).find(|path| path.exists());
        found.ok_or_else(|| format!("{name} is not built; scripts/cluster-programs builds it"))
    }

    /// A search path with these programs first.
    pub fn search_path(&self) -> String {
        let folders = self.folders.iter().map(|folder| folder.display().to_string());
        let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        folders.chain(usual.map(str::to_owned)).collect::<Vec<_>>().join(":")
    }

    /// A command with one of the programs, run in a namespace.
    pub fn command(&self, program: &Path, namespace: &Namespace) -> Result<Command, String> {
        let mut command = Command::new(program);
        command.env("PATH", self.search_path());
        namespace.enter(&mut command).map_err(|e| e.to_string())?;
        Ok(command)
    }
}

fn present(path: PathBuf) -> Result<PathBuf, String> {
    if path.is_file() { Ok(path) } else { Err(format!("{} is not there", path.display())) }
}

/// A program of the machine, also in the folders that only root has in its path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let usual = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"].map(PathBuf::from);
    usual.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}
