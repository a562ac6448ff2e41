//! Walking through docs/deploy.md: each command of the page, in its order, on a cluster as the page presumes it.
//!
//! A section begins with the cluster that it is written for; where it promises that users notice nothing, clients call
//! Services meanwhile and none may fail.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_support::{SOON, binary, wait_until};

use crate::address;
use crate::cluster::Cluster;
use crate::moving::{await_answers, start, verdict};
use crate::page::{self, Block};
use crate::proxy::{self, Mode};
use crate::run;
use crate::services::Web;
use crate::traffic::{Client, Traffic};

type Done = Result<(), String>;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Answers that are awaited after each command.
const SOME: usize = 100;
/// `rollout status` waits for ever unless it is told otherwise.
const SECONDS: &str = "600";

type Work = fn(&Walk<'_>) -> Done;

/// What the page presumes before a block of commands, and what it promises.
struct Scene {
    section: &'static str,
    /// The cluster that it is written for; none if it is the one that the block before it leaves.
    before: Option<Work>,
    /// Users of Services notice nothing of it.
    is_silent: bool,
    after: Work,
}

/// One for each block of commands.
const SCENES: &[Scene] = &[
    // The images of this cluster are what it wrote.
    begin("The image", |walk| walk.without_proxy(), |walk| walk.has_images()),
    begin(INSTALLING, |walk| walk.without_proxy(), |walk| walk.serves()),
    next(INSTALLING, |walk| walk.on_every_node()),
    begin(INSTALLING, |walk| walk.without_proxy(), |walk| walk.takes_the_overlays()),
    begin_silent(ONE_FIRST, |walk| walk.with_kubeadms(), |walk| walk.serves()),
    next(ONE_FIRST, |walk| walk.agents(0)),
    next(ONE_FIRST, |walk| walk.agents(1)),
    next(ONE_FIRST, |walk| walk.agents(0)),
    next(ONE_FIRST, |walk| walk.on_every_node()),
    begin_silent(IN_PLACE, |walk| walk.with_kubeadms(), |walk| walk.stays_in_mode_iptables()),
    begin_silent(
        "Changing the mode",
        |walk| walk.with_the_chart_in_mode_iptables(),
        |walk| walk.has_changed_the_mode(),
    ),
    begin_silent("Updating", |walk| walk.with_the_chart(Mode::Nftables), |walk| walk.on_every_node()),
    next("Updating", |walk| walk.on_every_node()),
    begin_silent(GOING_BACK, |walk| walk.with_patched_kubeadms(), |walk| walk.serves()),
    begin_silent(GOING_BACK, |walk| walk.with_the_chart_beside_kubeadms(), |walk| walk.serves()),
    begin("Uninstalling", |walk| walk.with_the_chart(Mode::Nftables), |walk| walk.without_rules()),
    begin_silent("Monitoring", |walk| walk.with_the_operator(), |walk| walk.on_every_node()),
    begin_silent(
        "The seccomp profile",
        |walk| walk.with_the_chart(Mode::Nftables),
        |walk| walk.on_every_node(),
    ),
];

const INSTALLING: &str = "Installing on a cluster without kube-proxy";
const ONE_FIRST: &str = "Replacing kube-proxy, one node first";
const IN_PLACE: &str = "Replacing kubeadm's kube-proxy in place";
/// The page's first command there: without it the modes of the two differ.
const WRITE_THE_MODE: &str = "kubectl -n kube-system get configmap kube-proxy -o yaml | \
                              sed 's/mode: \"\"/mode: iptables/' | kubectl replace -f -";
const GOING_BACK: &str = "Going back to Kubernetes' kube-proxy";

const fn begin(section: &'static str, before: Work, after: Work) -> Scene {
    Scene { section, before: Some(before), is_silent: false, after }
}

const fn begin_silent(section: &'static str, before: Work, after: Work) -> Scene {
    Scene { section, before: Some(before), is_silent: true, after }
}

const fn next(section: &'static str, after: Work) -> Scene {
    Scene { section, before: None, is_silent: false, after }
}

/// The blocks of the page with what is known about each. A block that nobody knows about is an error.
fn known() -> Result<Vec<(Block, &'static Scene)>, String> {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/deploy.md")).map_err(|e| e.to_string())?;
    let blocks = page::blocks(&page)?;
    let of_page: Vec<&str> = blocks.iter().map(|block| &*block.section).collect();
    let of_scenes: Vec<&str> = SCENES.iter().map(|scene| scene.section).collect();
    if of_page != of_scenes {
        return Err(format!(
            "docs/deploy.md has commands in {of_page:#?}\ntests/cluster/src/walk.rs knows {of_scenes:#?}"
        ));
    }
    Ok(blocks.into_iter().zip(SCENES).collect())
}

/// Run every command of the page; sections whose names contain none of `only` are left out, if there are any.
pub fn through_the_page(cluster: &Cluster, only: &[&str], say: &dyn Fn(&str)) -> Result<usize, String> {
    let walk = Walk { cluster, folder: copy_of_deploy(cluster.folder())?, clients: OnceCell::new() };
    let is_wanted = |section: &str| only.is_empty() || only.iter().any(|part| section.contains(part));
    let known = known()?;
    let mut done = 0;
    for part in known.chunk_by(|(a, _), (b, _)| a.section == b.section) {
        let section = part.first().map(|(block, _)| &*block.section).unwrap_or_default();
        if is_wanted(section) {
            say(section);
            done += walk.section(part, say).map_err(|e| format!("{section}: {e}"))?;
        }
    }
    Ok(done)
}

/// `deploy/` as an operator edits it.
fn copy_of_deploy(folder: &Path) -> Result<PathBuf, String> {
    let folder = folder.join("page");
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    run::output(Command::new("cp").arg("-a").arg(Path::new(ROOT).join("deploy")).arg(&folder))?;
    let edit = |file: &str, changes: &[(&str, String)]| {
        let path = folder.join("deploy").join(file);
        let mut text = fs::read_to_string(&path).map_err(|e| format!("{file}: {e}"))?;
        for (from, to) in changes {
            if !text.contains(from) {
                return Err(format!("{file} does not contain {from:?}"));
            }
            text = text.replace(from, to);
        }
        fs::write(&path, text).map_err(|e| format!("{file}: {e}"))
    };
    let config = [
        ("https://control-plane.example.com:6443", proxy::server()),
        ("clusterCIDR: \"\"", format!("clusterCIDR: {}", address::PODS)),
        // Its limit belongs to the whole machine, not to a node's namespaces.
        ("oomScoreAdj: -997", "oomScoreAdj: -997\n    conntrack: {maxPerCore: 0}".to_owned()),
    ];
    edit("base/config.yaml", &config)?;
    // kubeadm's is in mode iptables here.
    let tag = concat!("kube-proxy:", env!("CARGO_PKG_VERSION"));
    edit("kubeadm/patch.yaml", &[(tag, format!("{tag}-iptables"))])?;
    Ok(folder)
}

/// A command of the page with this cluster's addresses and names.
fn filled(command: &str) -> String {
    let pods = format!("'{}'", address::PODS.replace(',', r"\,"));
    let mut filled = command
        .replace("https://10.0.0.1:6443", &proxy::server())
        .replace("10.244.0.0/16", &pods)
        .replace(" NODE ", " node1 ");
    if filled.starts_with("helm install ") {
        filled.push_str(" --set config.conntrack.maxPerCore=0");
    }
    filled
}

struct Walk<'a> {
    cluster: &'a Cluster,
    /// Where the commands are run: it has `deploy/`.
    folder: PathBuf,
    /// Made once: each has a link of its own to its node.
    clients: OnceCell<Vec<Client>>,
}

impl Walk<'_> {
    fn section(&self, blocks: &[(Block, &'static Scene)], say: &dyn Fn(&str)) -> Result<usize, String> {
        let mut traffic: Option<Traffic> = None;
        let mut done = 0;
        for (block, scene) in blocks {
            if let Some(prepare) = scene.before {
                traffic.take().map(|traffic| verdict(traffic.finish(), say)).transpose()?;
                prepare(self).map_err(|e| format!("preparing: {e}"))?;
                if scene.is_silent {
                    traffic = Some(start(self.clients()?)?);
                }
            }
            for command in &block.commands {
                self.run(command)?;
                say(&format!("    {command}"));
                traffic.as_ref().map(|traffic| traffic.go_on(SOME)).transpose()?;
                done += 1;
            }
            (scene.after)(self)?;
        }
        traffic.map(|traffic| verdict(traffic.finish(), say)).transpose()?;
        Ok(done)
    }

    fn run(&self, command: &str) -> Done {
        // It is how the images came about that this cluster was started with.
        if command.starts_with("make image") {
            return Ok(());
        }
        self.output(command).map(drop)
    }

    fn output(&self, command: &str) -> Result<String, String> {
        let mut shell = self.cluster.client(Path::new("timeout"))?;
        let helm = self.cluster.programs().helm.parent().unwrap_or(Path::new("/"));
        let path = format!("{}:{}", helm.display(), self.cluster.programs().search_path());
        shell.env("PATH", path).current_dir(&self.folder);
        run::output(shell.args([SECONDS, "sh", "-c", &filled(command)]))
    }

    /// Nothing of any proxy: neither objects nor rules.
    fn without_proxy(&self) -> Done {
        for command in [
            "helm uninstall pointsman -n kube-system --ignore-not-found --wait",
            "kubectl delete --ignore-not-found -k deploy/base",
            "kubectl -n kube-system delete --ignore-not-found ds/kube-proxy",
            "kubectl label nodes --all pointsman.dev/canary-",
        ] {
            self.run(command)?;
        }
        // A pod that is on its way out would write its rules again.
        let pods = "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app=kube-proxy";
        self.cluster.await_object(pods, |pods| pods["items"].as_array().is_some_and(Vec::is_empty))?;
        let agent = binary::kube_proxy()?;
        for node in &self.cluster.nodes {
            node.namespace.run(|| run::output(Command::new(&agent).arg("--cleanup")))?;
        }
        Ok(())
    }

    /// As kubeadm installs it, in the mode that most clusters have.
    fn with_kubeadms(&self) -> Done {
        self.without_proxy()?;
        proxy::install_kubeadms(self.cluster)
    }

    fn with_patched_kubeadms(&self) -> Done {
        self.with_kubeadms()?;
        self.run(WRITE_THE_MODE)?;
        self.run("kubectl -n kube-system patch --patch-file deploy/kubeadm/patch.yaml ds/kube-proxy")?;
        self.cluster.await_rollout("ds/kube-proxy")
    }

    fn with_the_chart(&self, mode: Mode) -> Done {
        self.without_proxy()?;
        self.install(&format!("--set mode={mode}"))?;
        self.cluster.await_rollout("ds/pointsman")
    }

    /// Under the agent's own profile, which has to let it start the tools in the next mode, too.
    fn with_the_chart_in_mode_iptables(&self) -> Done {
        self.without_proxy()?;
        self.install("--set mode=iptables --set seccomp.type=Localhost")?;
        self.cluster.await_rollout("ds/pointsman")?;
        self.stays_in_mode_iptables()
    }

    fn stays_in_mode_iptables(&self) -> Done {
        self.serves()?;
        let tables = self.nodes_with_tables()?;
        match self.nodes_with_chains()? {
            nodes if nodes.len() == self.cluster.nodes.len() && tables.is_empty() => Ok(()),
            nodes => {
                Err(format!("{nodes:?} have chains of mode iptables, {tables:?} tables of mode nftables"))
            }
        }
    }

    /// Old rules are removed soon after the first sync.
    fn has_changed_the_mode(&self) -> Done {
        self.on_every_node()?;
        let none = || matches!(self.nodes_with_chains(), Ok(nodes) if nodes.is_empty());
        if wait_until(SOON, none) {
            return Ok(());
        }
        Err(format!("{:?} still have chains of mode iptables", self.nodes_with_chains()?))
    }

    /// In either variant of the tools, and either family.
    fn nodes_with_chains(&self) -> Result<Vec<&str>, String> {
        let mut found = Vec::new();
        for node in &self.cluster.nodes {
            for variant in ["nft", "legacy"] {
                for family in ["iptables", "ip6tables"] {
                    let mut save = Command::new(format!("{family}-{variant}-save"));
                    if node.namespace.run(|| run::output(&mut save))?.contains("KUBE-SERVICES") {
                        found.push(&*node.name);
                    }
                }
            }
        }
        found.dedup();
        Ok(found)
    }

    fn install(&self, values: &str) -> Done {
        self.run(&format!(
            "helm install pointsman deploy/helm/pointsman -n kube-system \
             --set image.repository=registry.example.com/pointsman/kube-proxy \
             --set apiServer=https://10.0.0.1:6443 --set clusterCIDR=10.244.0.0/16 {values}"
        ))
    }

    /// Every node is the chart's, and kubeadm's waits for those that lose their label.
    fn with_the_chart_beside_kubeadms(&self) -> Done {
        self.with_kubeadms()?;
        self.run("kubectl -n kube-system patch --patch-file deploy/canary/patch.yaml ds/kube-proxy")?;
        self.cluster.await_rollout("ds/kube-proxy")?;
        self.install("--set mode=iptables --set canary.enabled=true")?;
        self.run("kubectl label nodes --all pointsman.dev/canary=true")?;
        self.on_every_node()
    }

    /// The chart, and the kinds of the Prometheus operator.
    fn with_the_operator(&self) -> Done {
        self.with_the_chart(Mode::Nftables)?;
        for kind in ["podmonitors", "prometheusrules"] {
            let file = self.cluster.programs().helm.with_file_name(format!("{kind}.yaml"));
            self.cluster.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()])?;
            let name = format!("crd/{kind}.monitoring.coreos.com");
            self.cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", &name])?;
        }
        Ok(())
    }

    /// The page names them beside the base: kubectl makes manifests of each, which the apiserver takes.
    fn takes_the_overlays(&self) -> Done {
        self.serves()?;
        self.run("kubectl apply --dry-run=server -k deploy/iptables")?;
        let components = [
            ("base", "seccomp", "pointsman-kube-proxy.json"),
            ("iptables", "seccomp-iptables", "pointsman-kube-proxy-iptables.json"),
        ];
        for (base, component, profile) in components {
            let folder = self.folder.join("deploy/with-profile");
            fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
            let text = format!("resources: [../{base}]\ncomponents: [../{component}]\n");
            fs::write(folder.join("kustomization.yaml"), text).map_err(|e| e.to_string())?;
            let manifests = self.output("kubectl kustomize deploy/with-profile")?;
            if !manifests.contains(&format!("localhostProfile: profiles/{profile}")) {
                return Err(format!("deploy/{component} does not ask for {profile}: {manifests}"));
            }
            self.run("kubectl apply --dry-run=server -k deploy/with-profile")?;
        }
        Ok(())
    }

    fn has_images(&self) -> Done {
        let archives = super::commands::archives()?;
        match archives.iter().find(|path| !path.is_file()) {
            None if !archives.is_empty() => Ok(()),
            missing => Err(format!("make image did not write {missing:?}")),
        }
    }

    /// Every client gets an answer from every kind of Service.
    fn serves(&self) -> Done {
        self.clients()?.iter().try_for_each(await_answers)
    }

    /// All clients; what they call is there, and load balancers know where to send.
    fn clients(&self) -> Result<&[Client], String> {
        let web = Web::create(self.cluster)?;
        if let Some(clients) = self.clients.get() {
            return Ok(clients);
        }
        let clients = web.clients(self.cluster, None)?;
        Ok(self.clients.get_or_init(|| clients))
    }

    fn agents(&self, number: usize) -> Done {
        let path = "/apis/apps/v1/namespaces/kube-system/daemonsets/pointsman";
        let there = |set: &Value| {
            set["status"]["numberReady"] == number && set["status"]["desiredNumberScheduled"] == number
        };
        self.cluster.await_object(path, there).map(drop)
    }

    fn on_every_node(&self) -> Done {
        self.cluster.await_rollout("ds/pointsman")?;
        self.agents(self.cluster.nodes.len())?;
        self.serves()
    }

    fn without_rules(&self) -> Done {
        let nodes = self.nodes_with_tables()?;
        if nodes.is_empty() { Ok(()) } else { Err(format!("{nodes:?} have rules after the clean-up")) }
    }

    fn nodes_with_tables(&self) -> Result<Vec<&str>, String> {
        let mut found = Vec::new();
        for node in &self.cluster.nodes {
            let tables = node.namespace.run(|| run::output(Command::new("nft").args(["list", "tables"])))?;
            if tables.contains("kube-proxy") {
                found.push(&*node.name);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_writes_the_mode_down_first() {
        let known = known().unwrap();
        let in_place = known.iter().find(|(block, _)| block.section == IN_PLACE).unwrap();
        assert_eq!(in_place.0.commands[0], WRITE_THE_MODE);
    }

    #[test]
    fn every_command_of_the_page_has_its_scene() {
        let known = known().unwrap();
        assert!(known.iter().map(|(block, _)| block.commands.len()).sum::<usize>() > 20, "{}", known.len());
        for (block, _) in known {
            for command in block.commands.iter().map(|command| filled(command)) {
                assert!(!command.contains("10.0.0.1") && !command.contains("NODE"), "{command}");
            }
        }
    }
}
