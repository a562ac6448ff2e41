//! `deploy/` and the images agree with each other: files, ports, paths, the configuration.
//!
//! Whether a cluster takes the manifests is not asked here.

use std::collections::BTreeSet;
use std::path::Path;

use checks::files::{File, files};
use serde_json::Value;

fn text(path: &str) -> String {
    std::fs::read_to_string(checks::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Its templates are no manifests; tests/conformance renders them.
const CHART: &str = "deploy/helm/";

fn manifests() -> Vec<File> {
    let is_one = |file: &File| file.path.starts_with("deploy/") && !file.path.starts_with(CHART);
    files().into_iter().filter(is_one).collect()
}

/// Repeated keys are errors.
fn read(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|problem| problem.to_string())
}

/// The documents of a file.
fn documents(path: &str) -> Vec<Value> {
    let parts = text(path);
    parts
        .split("\n---\n")
        .map(|part| read(part).unwrap_or_else(|problem| panic!("{path}: {problem}")))
        .collect()
}

fn document(path: &str) -> Value {
    let mut all = documents(path);
    assert_eq!(all.len(), 1, "{path}");
    all.remove(0)
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    at(value, pointer).as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

const PROFILE: &str = "deploy/seccomp/kube-proxy.json";
/// The same for mode iptables, which runs programs.
const PROFILE_WITH_TOOLS: &str = "deploy/seccomp-iptables/kube-proxy.json";
/// For Grafana; tests/scenarios asks a Prometheus what it asks.
const DASHBOARD: &str = "deploy/monitoring/dashboard.json";
const CONTAINER: &str = "/spec/template/spec/containers/0";

fn container() -> Value {
    at(&document("deploy/base/daemonset.yaml"), CONTAINER).clone()
}

/// A file in the ConfigMap, read as YAML.
fn configuration(name: &str) -> Value {
    let map = document("deploy/base/config.yaml");
    read(at(&map, "/data")[name].as_str().unwrap()).unwrap_or_else(|problem| panic!("{name}: {problem}"))
}

#[test]
fn every_manifest_can_be_read() {
    let all = manifests();
    assert!(all.len() >= 7, "{all:?}");
    for file in all {
        if [PROFILE, PROFILE_WITH_TOOLS, DASHBOARD].contains(&&*file.path) {
            continue;
        }
        assert!(file.has_end(".yaml"), "{}: only manifests live here", file.path);
        documents(&file.path);
    }
}

#[test]
fn kustomizations_name_what_is_there_and_all_of_it() {
    for folder in ["deploy/base", "deploy/iptables", "deploy/seccomp", "deploy/seccomp-iptables"] {
        let kustomization = document(&format!("{folder}/kustomization.yaml"));
        let resources = kustomization["resources"].as_array().into_iter().flatten();
        let resources = resources.map(|resource| resource.as_str().unwrap());
        let patches = kustomization["patches"].as_array().into_iter().flatten();
        let named: Vec<&str> = resources.chain(patches.map(|p| p["path"].as_str().unwrap())).collect();
        for name in &named {
            assert!(checks::root().join(folder).join(name).exists(), "{folder} names {name}");
        }
        for file in
            manifests().iter().filter(|file| Path::new(&file.path).parent() == Some(Path::new(folder)))
        {
            let name = Path::new(&file.path).file_name().unwrap().to_str().unwrap();
            let is_profile = [PROFILE, PROFILE_WITH_TOOLS].contains(&&*file.path);
            let is_used = name == "kustomization.yaml" || is_profile || named.contains(&name);
            assert!(is_used, "{folder} does not use {name}");
        }
    }
}

const DOCKERFILES: [&str; 2] = ["Dockerfile", "Dockerfile.iptables"];

/// A Dockerfile's stage that builds, and the one that is the image; without comments.
fn stages(path: &str) -> (Vec<String>, Vec<String>) {
    let lines = text(path);
    let mut stages = lines.split("\nFROM ").skip(1).map(|stage| {
        stage.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
    });
    let stages = (stages.next().unwrap(), stages.next().unwrap(), stages.next());
    assert_eq!(stages.2, None::<Vec<String>>, "{path} has a third stage");
    (stages.0, stages.1)
}

#[test]
fn the_command_starts_what_the_images_hold() {
    let container = container();
    let command = texts(&container, "/command");
    assert!(text("scripts/image-root").contains(&format!("$folder/$root{}\"", command[0])));
    for dockerfile in DOCKERFILES {
        let (_, image) = stages(dockerfile);
        assert_eq!(image.last().unwrap(), &format!("ENTRYPOINT [\"{}\"]", command[0]), "{dockerfile}");
    }
    let kubeadm = ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf"];
    assert_eq!(command[..2], kubeadm, "kubeadm starts it like this");
}

/// The flags of the build are in one place, and an image holds nothing that `make image` would not put there.
#[test]
fn docker_and_make_image_pack_the_same_folders() {
    let archives = text("scripts/image");
    assert!(archives.contains("    scripts/image-root "), "scripts/image fills its folders otherwise");
    let [(build, plain), (other_build, tools)] = DOCKERFILES.map(stages);
    assert_eq!(build, other_build, "both images run one program");
    assert_eq!(build.last().unwrap(), "RUN scripts/image-root \"$TARGETARCH\" /out");
    // The context has no .git to take it from.
    assert_eq!(build[build.len() - 2], "ARG SOURCE_DATE_EPOCH", "the SBOM would say 1970");
    let copied = |image: &[String]| -> Vec<String> {
        assert_eq!(image[0], "scratch");
        let copies = image[1..image.len() - 1].iter();
        let folder = |line: &String| {
            line.strip_prefix("COPY --from=build /out/")?.strip_suffix("/ /").map(str::to_owned)
        };
        copies.map(|line| folder(line).unwrap_or_else(|| panic!("{line:?} is more than a folder"))).collect()
    };
    assert_eq!(copied(&plain), ["program"]);
    assert_eq!(copied(&tools), ["iptables-tools", "program-beside-tools"]);
    for (folders, list) in [(copied(&plain), "plain"), (copied(&tools), "tools")] {
        let folders: Vec<_> = folders.iter().map(|folder| format!("$work/$architecture/{folder}")).collect();
        let packed = format!("{list}+=(\"$architecture={}\")", folders.join(":"));
        assert!(archives.contains(&packed), "scripts/image packs other folders than {packed}");
    }
}

/// What the context of a build lacks, Docker cannot copy.
#[test]
fn the_context_of_docker_has_what_the_scripts_read() {
    let ignored = text(".dockerignore");
    for needed in ["Cargo.toml", "Cargo.lock", "crates", "tests", "tools", "scripts", "LICENSE"] {
        assert!(ignored.lines().any(|line| line == format!("!{needed}")), "{needed} is not in the context");
    }
}

#[test]
fn images_carry_the_version_of_the_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    let image = format!("registry.example.com/pointsman/kube-proxy:{version}");
    assert_eq!(container()["image"], image.as_str());
    assert_eq!(at(&document("deploy/kubeadm/patch.yaml"), CONTAINER)["image"], image.as_str());
    for (folder, tag) in [("base", version.to_owned()), ("iptables", format!("{version}-iptables"))] {
        let kustomization = document(&format!("deploy/{folder}/kustomization.yaml"));
        let name = at(&kustomization, "/images/0/name").as_str().unwrap();
        assert_eq!(format!("{name}:{version}"), image);
        assert_eq!(at(&kustomization, "/images/0/newTag"), tag.as_str());
    }
}

#[test]
fn the_configuration_is_where_the_command_looks_for_it() {
    let daemon_set = document("deploy/base/daemonset.yaml");
    let container = container();
    let folder = at(&container, "/volumeMounts/0/mountPath").as_str().unwrap();
    assert_eq!(at(&container, "/volumeMounts/0/name"), at(&daemon_set, "/spec/template/spec/volumes/0/name"));
    let map = document("deploy/base/config.yaml");
    let volume = at(&daemon_set, "/spec/template/spec/volumes/0/configMap/name");
    assert_eq!(volume, at(&map, "/metadata/name"));
    let flag = texts(&container, "/command")[1].strip_prefix("--config=").unwrap();
    let named = configuration("config.conf");
    for path in [flag, at(&named, "/clientConnection/kubeconfig").as_str().unwrap()] {
        let file = path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')).unwrap();
        assert!(at(&map, "/data").get(file).is_some(), "the ConfigMap has no {file}");
    }
}

#[test]
fn the_configuration_is_one_of_kube_proxy() {
    let config = configuration("config.conf");
    assert_eq!(config["apiVersion"], "kubeproxy.config.k8s.io/v1alpha1");
    assert_eq!(config["kind"], "KubeProxyConfiguration");
    assert_eq!(config["mode"], "nftables");
    let kubeconfig = configuration("kubeconfig.conf");
    assert_eq!(kubeconfig["kind"], "Config");
    let context = kubeconfig["current-context"].as_str().unwrap();
    assert_eq!(at(&kubeconfig, "/contexts/0/name"), context);
    for kind in ["cluster", "user"] {
        let used = at(&kubeconfig, &format!("/contexts/0/context/{kind}"));
        assert_eq!(used, at(&kubeconfig, &format!("/{kind}s/0/name")), "the context's {kind}");
    }
}

/// The agent itself takes it, and has nothing to remark.
#[test]
fn the_agent_takes_the_configuration_without_a_warning() {
    for path in ["deploy/base/config.yaml", "deploy/iptables/config.yaml"] {
        let map = document(path);
        let file = std::env::temp_dir().join(format!("pointsman-deploy-{}.conf", std::process::id()));
        std::fs::write(&file, at(&map, "/data")["config.conf"].as_str().unwrap()).unwrap();
        let flag = format!("--config={}", file.display());
        let parsed = config::flags::parse([flag.into()].into_iter(), config::DefaultMode::nftables);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(parsed.unwrap().warnings, Vec::<String>::new(), "{path}");
    }
}

#[test]
fn probes_ask_where_the_agent_answers() {
    let address = configuration("config.conf")["healthzBindAddress"].as_str().unwrap().to_owned();
    let port = Value::from(address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap());
    let container = container();
    assert_eq!(*at(&container, "/ports/0/containerPort"), port);
    let patched = at(&document("deploy/kubeadm/patch.yaml"), CONTAINER).clone();
    let probes = [(&container, "livenessProbe", "/livez"), (&container, "readinessProbe", "/readyz")];
    for (container, probe, path) in probes.into_iter().chain([(&patched, "readinessProbe", "/readyz")]) {
        let asked = at(container, &format!("/{probe}/httpGet"));
        assert_eq!((&asked["path"], &asked["port"]), (&Value::from(path), &port), "{probe}");
    }
}

#[test]
fn the_permissions_belong_to_the_account_of_the_pods() {
    let rbac = documents("deploy/base/rbac.yaml");
    let kinds: Vec<_> = rbac.iter().map(|document| document["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]);
    let account = at(&rbac[0], "/metadata/name");
    let daemon_set = document("deploy/base/daemonset.yaml");
    assert_eq!(account, at(&daemon_set, "/spec/template/spec/serviceAccountName"));
    assert_eq!(account, at(&rbac[2], "/subjects/0/name"));
    assert_eq!(at(&rbac[0], "/metadata/namespace"), at(&rbac[2], "/subjects/0/namespace"));
    assert_eq!(at(&rbac[1], "/metadata/name"), at(&rbac[2], "/roleRef/name"));
}

/// A patch can only replace a file of a ConfigMap as a whole.
#[test]
fn the_configurations_differ_in_the_mode_only() {
    let of = |path: &str| at(&document(path), "/data")["config.conf"].as_str().unwrap().to_owned();
    let (base, overlay) = (of("deploy/base/config.yaml"), of("deploy/iptables/config.yaml"));
    assert_eq!(overlay, base.replace("mode: nftables", "mode: iptables"));
    assert_ne!(overlay, base);
}

/// The tools need more than netlink: a raw socket and a lock that all share. The set-up of the node runs them too.
#[test]
fn the_overlay_of_iptables_adds_what_the_tools_need() {
    let patch = document("deploy/iptables/tools.yaml");
    let container = at(&patch, CONTAINER);
    assert_eq!(texts(container, "/securityContext/capabilities/add"), ["NET_ADMIN", "NET_RAW"]);
    let set_up = at(&patch, "/spec/template/spec/initContainers/0");
    let base = document("deploy/base/daemonset.yaml");
    assert_eq!(set_up["name"], *at(&base, "/spec/template/spec/initContainers/0/name"));
    let volume = at(&patch, "/spec/template/spec/volumes/0");
    for container in [container, set_up] {
        let lock = at(container, "/volumeMounts/0");
        assert_eq!(lock["mountPath"], "/run/xtables.lock");
        assert_eq!((&lock["mountPath"], &lock["name"]), (at(volume, "/hostPath/path"), &volume["name"]));
    }
}

/// Operators who patch a working cluster must be able to rely on it.
#[test]
fn the_patch_for_kubeadm_changes_the_image_and_adds_a_probe_only() {
    let patch = document("deploy/kubeadm/patch.yaml");
    let mut inner = &patch;
    for key in ["spec", "template", "spec", "containers"] {
        assert_eq!(inner.as_object().unwrap().len(), 1, "{inner:#}");
        inner = &inner[key];
    }
    let containers = inner.as_array().unwrap();
    let keys: BTreeSet<_> = containers[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((containers.len(), keys), (1, BTreeSet::from(["image", "name", "readinessProbe"])));
    assert_eq!(containers[0]["name"], "kube-proxy", "the container's name in kubeadm's DaemonSet");
}

/// What needs more rights is done before the agent runs, by the same binary with the same settings.
#[test]
fn only_the_set_up_of_the_node_is_privileged() {
    let daemon_set = document("deploy/base/daemonset.yaml");
    let set_up = at(&daemon_set, "/spec/template/spec/initContainers/0");
    let agent = container();
    let command = texts(set_up, "/command");
    assert_eq!(command.last(), Some(&"--init-only"));
    assert_eq!(command[..command.len() - 1], texts(&agent, "/command"));
    for field in ["image", "env", "volumeMounts"] {
        assert_eq!(set_up[field], agent[field], "{field}");
    }
    assert_eq!(*at(set_up, "/securityContext/privileged"), Value::from(true));
    let rights = &agent["securityContext"];
    assert_eq!(rights.get("privileged"), None);
    assert_eq!(rights["allowPrivilegeEscalation"], Value::from(false));
    assert_eq!(rights["readOnlyRootFilesystem"], Value::from(true));
    assert_eq!(
        (texts(rights, "/capabilities/drop"), texts(rights, "/capabilities/add")),
        (vec!["ALL"], vec!["NET_ADMIN"])
    );
}

/// What a profile allows, by name and, if not always, when.
fn allowed(profile: &str) -> BTreeSet<(String, String)> {
    let profile: Value = serde_json::from_str(&text(profile)).unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let mut seen = BTreeSet::new();
    for entry in profile["syscalls"].as_array().unwrap() {
        let names = texts(entry, "/names");
        assert!(names.is_sorted(), "{names:?}");
        let when = format!("{}{}", entry["args"], entry["errnoRet"]);
        let mut new = names.iter().map(|name| seen.insert(((*name).to_owned(), when.clone())));
        assert!(new.all(|is_new| is_new), "a call is listed twice");
    }
    seen
}

/// The kubelet starts no pod whose profile it cannot read, and says little about why.
#[test]
fn the_seccomp_profiles_are_such_that_the_kubelet_takes() {
    for (folder, profile) in [("seccomp", PROFILE), ("seccomp-iptables", PROFILE_WITH_TOOLS)] {
        let seen = allowed(profile);
        for dangerous in ["bpf", "fork", "mount", "ptrace", "setns", "unshare", "vfork", "init_module"] {
            assert!(!seen.iter().any(|(name, _)| name == dangerous), "{profile}: {dangerous}");
        }
        let patch = document(&format!("deploy/{folder}/profile.yaml"));
        let path =
            at(&patch, CONTAINER)["securityContext"]["seccompProfile"]["localhostProfile"].as_str().unwrap();
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        for file in [&format!("deploy/{folder}/kustomization.yaml"), "docs/deploy.md"] {
            assert!(text(file).contains(name), "{file} does not say where to put {name}");
        }
    }
}

/// The one for mode iptables allows what the other does, and what it takes to run a program and be one of those.
#[test]
fn mode_iptables_may_run_programs_and_do_little_more() {
    let (usual, more) = (allowed(PROFILE), allowed(PROFILE_WITH_TOOLS));
    assert!(usual.is_subset(&more), "{:?}", usual.difference(&more));
    let added: Vec<&str> = more.difference(&usual).map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "alarm",
        "clock_getres",
        "clone",
        "dup2",
        "dup3",
        "flock",
        "pselect6",
        "sendmsg",
        "statfs",
        "wait4",
        "waitid",
    ];
    assert_eq!(added, wanted);
}
