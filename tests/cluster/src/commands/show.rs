//! `real-cluster up`: a cluster to look at, until Ctrl-C.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use conformance_support::User;

use super::plan;
use crate::cluster::Cluster;
use crate::programs::Programs;
use crate::proxy::{self, Mode};

#[allow(clippy::print_stdout, reason = "this is what it is for")]
pub(super) fn run() -> Result<ExitCode, String> {
    let programs = Programs::find()?;
    let started = Instant::now();
    let say = |what: &str| println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
    let plan = plan(3)?;
    let cluster = Cluster::start(&programs, &plan, &say)?;
    proxy::install(&cluster, Mode::Nftables, &[])?;
    say("Pointsman on every node");
    cluster.await_rollout("deploy/coredns")?;
    say("names of Services");
    let (kubectl, shell) = tools(&cluster)?;
    println!("\nkubectl:          {} get pods -A -o wide", kubectl.display());
    println!("shell on a node:  {} node1", shell.display());
    println!("Ctrl-C ends it and removes everything.");
    loop {
        std::thread::park();
    }
}

/// Two programs that enter the namespaces.
fn tools(cluster: &Cluster) -> Result<(PathBuf, PathBuf), String> {
    let plane = cluster.plane.etcd.daemon().process().ok_or("etcd does not run")?;
    let (config, path) = (cluster.plane.kubeconfig(User::ADMIN)?, cluster.programs().search_path());
    let program = cluster.programs().path("kubectl")?;
    let kubectl = format!(
        "#!/bin/sh\nexec nsenter -t {plane} -n {} --kubeconfig={} \"$@\"\n",
        program.display(),
        config.display()
    );
    let nodes = cluster.nodes.iter().filter_map(|node| Some((&node.name, node.process()?)));
    let nodes: String = nodes.map(|(name, process)| format!("{name}) process={process} ;;\n")).collect();
    let shell = format!(
        "#!/bin/sh\ncase \"$1\" in\n{nodes}*) echo \"which node?\" >&2; exit 2 ;;\nesac\nshift\n\
         [ $# -gt 0 ] || set -- bash\n\
         exec nsenter -t $process -m -u -i -n -p env PATH={path} \"$@\"\n"
    );
    Ok((write(cluster, "kubectl.sh", &kubectl)?, write(cluster, "node.sh", &shell)?))
}

fn write(cluster: &Cluster, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = cluster.folder().join(name);
    fs::write(&path, text).map_err(|e| e.to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
    Ok(path)
}
