//! `kubectl pointsman`, called as people call it: kubectl finds the plugin by its name.

use std::os::unix::fs::symlink;

use serde_json::Value;
use test_support::binary;

use crate::cluster::Cluster;
use crate::run;

/// Ask the agent of the node on which a pod of CoreDNS runs about the way from there to its own service.
pub fn ask(cluster: &Cluster) -> Result<(), String> {
    let folder = cluster.folder().join("plugin");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    symlink(binary::kube_proxy()?, folder.join("kubectl-pointsman")).map_err(|e| e.to_string())?;
    let pods =
        cluster.kubectl(&["-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-dns", "-o", "json"])?;
    let pods: Value = serde_json::from_str(&pods).map_err(|e| e.to_string())?;
    let pod = &pods["items"][0];
    let (name, node) = (pod["metadata"]["name"].as_str(), pod["spec"]["nodeName"].as_str());
    let (Some(name), Some(node)) = (name, node) else { return Err("no pod of CoreDNS".to_owned()) };
    let plugin = |words: &[&str]| {
        let mut command = cluster.client(&cluster.programs().path("kubectl")?)?;
        let path = format!("{}:{}", folder.display(), cluster.programs().search_path());
        run::output(command.env("PATH", path).arg("pointsman").args(words))
    };
    let from = format!("pod/kube-system/{name}");
    let told = plugin(&["explain", "service", "kube-system/kube-dns:53", "--from", &from])?;
    for part in [
        format!("at node {node} in mode"),
        "a pod of this node".to_owned(),
        "Verdict    forwarded".to_owned(),
    ] {
        if !told.contains(&part) {
            return Err(format!("kubectl pointsman explain: {part:?} is missing in\n{told}"));
        }
    }
    let listed = plugin(&["services", "-n", "kube-system", "--node", node])?;
    match listed.contains("kube-dns") {
        true => Ok(()),
        false => Err(format!("kubectl pointsman services: kube-dns is missing in\n{listed}")),
    }
}
