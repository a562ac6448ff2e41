//! The binaries, and whether the tests can run on this machine at all.

use std::path::PathBuf;
use std::process::Command;

use test_support::{Report, Verdict, binary};

use crate::release;

/// Names the folder with `etcd`, `kube-apiserver` and upstream's `kube-proxy`.
const FOLDER: &str = "POINTSMAN_CONTROL_PLANE";

#[derive(Clone, Debug)]
pub struct Kit {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    /// Upstream's.
    pub upstream: PathBuf,
    /// Ours.
    pub kube_proxy: PathBuf,
}

impl Kit {
    /// Call it first thing in `main`: it may enter a user namespace, which a process of several threads cannot.
    /// The error is the verdict on every case that needs the control plane.
    pub fn find() -> Result<Kit, Verdict> {
        let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
            return Err(Verdict::Skipped(format!("{FOLDER} names no control plane; run `make conformance`")));
        };
        let at = |name: &str| {
            let path = folder.join(name);
            if path.is_file() {
                return Ok(path);
            }
            Err(Verdict::Failed(format!("{} is not there; scripts/control-plane builds it", path.display())))
        };
        // Ours before the user namespace, as the user whose build folder it is.
        let kit = Kit {
            etcd: at("etcd")?,
            apiserver: at("kube-apiserver")?,
            upstream: at("kube-proxy")?,
            kube_proxy: binary::kube_proxy().map_err(Verdict::Failed)?,
        };
        release::learn(&kit.apiserver).map_err(Verdict::Failed)?;
        kernel::netns::acquire().map_err(|denied| Verdict::Skipped(denied.to_string()))?;
        // Upstream works through it.
        match Command::new("nft").arg("--version").output() {
            Ok(_) => Ok(kit),
            Err(error) => Err(Verdict::Skipped(format!("the nft tool cannot be run: {error}"))),
        }
    }

    /// The same, unless cases are only listed.
    pub fn find_for(report: &Report) -> Result<Kit, Verdict> {
        if report.is_list_only() { Err(Verdict::Passed) } else { Kit::find() }
    }
}
