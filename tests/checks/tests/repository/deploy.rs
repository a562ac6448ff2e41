//! `deploy/` and the images agree with each other: files, ports, paths, the configuration.
//!
//! The manifests stay within a plain subset of YAML, which [`read`] takes and whose rest it refuses: what passes
//! here is YAML to everybody. Whether a cluster takes them is not asked here.

use std::collections::BTreeSet;
use std::path::Path;

use checks::files::{File, files};
use serde_json::{Map, Value};

fn text(path: &str) -> String {
    std::fs::read_to_string(checks::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn manifests() -> Vec<File> {
    files().into_iter().filter(|file| file.path.starts_with("deploy/")).collect()
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
        assert!(file.has_end(".yaml"), "{}: only manifests live here", file.path);
        documents(&file.path);
    }
}

#[test]
fn kustomizations_name_what_is_there_and_all_of_it() {
    for folder in ["deploy/base", "deploy/iptables"] {
        let kustomization = document(&format!("{folder}/kustomization.yaml"));
        let resources = texts(&kustomization, "/resources");
        let patches = kustomization["patches"].as_array().into_iter().flatten();
        let named: Vec<&str> =
            resources.into_iter().chain(patches.map(|p| p["path"].as_str().unwrap())).collect();
        for name in &named {
            assert!(checks::root().join(folder).join(name).exists(), "{folder} names {name}");
        }
        for file in
            manifests().iter().filter(|file| Path::new(&file.path).parent() == Some(Path::new(folder)))
        {
            let name = Path::new(&file.path).file_name().unwrap().to_str().unwrap();
            assert!(name == "kustomization.yaml" || named.contains(&name), "{folder} does not use {name}");
        }
    }
}

#[test]
fn the_command_starts_what_the_images_hold() {
    let container = container();
    let command = texts(&container, "/command");
    for dockerfile in ["Dockerfile", "Dockerfile.iptables"] {
        let lines = text(dockerfile);
        let (build, image) = lines.rsplit_once("\nFROM ").unwrap();
        assert!(
            build.contains(&format!(" /out{}", command[0])),
            "{dockerfile} does not build {}",
            command[0]
        );
        assert!(image.contains("COPY --from=build /out/ /\n"), "{dockerfile}");
        assert!(image.contains(&format!("ENTRYPOINT [\"{}\"]", command[0])), "{dockerfile}");
    }
    let kubeadm = ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf"];
    assert_eq!(command[..2], kubeadm, "kubeadm starts it like this");
}

#[test]
fn both_images_are_built_alike() {
    let build = |path: &str| {
        let lines = text(path);
        let stage = lines.split("\nFROM ").nth(1).unwrap().to_owned();
        stage.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(build("Dockerfile"), build("Dockerfile.iptables"));
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

/// Somebody who patches a working cluster must be able to rely on it.
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

/// Read one document of plain YAML: blocks, words, whole numbers, lists in brackets, literal text.
fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader { lines: text.lines().map(str::to_owned).collect(), next: 0 };
    let value = reader.block(0)?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.refuse("stands outside of every block")),
    }
}

struct Reader {
    lines: Vec<String>,
    next: usize,
}

impl Reader {
    /// Indentation and content of the next line that says something.
    fn peek(&mut self) -> Option<(usize, String)> {
        loop {
            let line = self.lines.get(self.next)?;
            let content = line.trim_start_matches(' ');
            if !content.is_empty() && !content.starts_with('#') {
                return Some((line.len() - content.len(), content.trim_end().to_owned()));
            }
            self.next += 1;
        }
    }

    fn refuse(&self, problem: &str) -> String {
        let line = self.lines.get(self.next).map_or("the end", String::as_str);
        format!("line {}: {line:?} {problem}", self.next + 1)
    }

    fn block(&mut self, indent: usize) -> Result<Value, String> {
        match self.peek() {
            Some((found, content)) if found == indent && content.starts_with("- ") => self.sequence(indent),
            _ => self.mapping(indent),
        }
    }

    fn sequence(&mut self, indent: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        while let Some((found, content)) = self.peek().filter(|(found, _)| *found >= indent) {
            let item = content.strip_prefix("- ").filter(|_| found == indent);
            let item = item.ok_or_else(|| self.refuse("is no item of the list before it"))?;
            if split_key(item).is_some() {
                // The item is a block that begins beside its dash.
                self.lines[self.next].replace_range(indent..=indent, " ");
                items.push(self.mapping(indent + 2)?);
            } else {
                items.push(scalar(item).map_err(|problem| self.refuse(&problem))?);
                self.next += 1;
            }
        }
        Ok(Value::Array(items))
    }

    fn mapping(&mut self, indent: usize) -> Result<Value, String> {
        let mut entries = Map::new();
        while let Some((found, content)) = self.peek().filter(|(found, _)| *found >= indent) {
            let entry = split_key(&content).filter(|_| found == indent);
            let (key, rest) =
                entry.ok_or_else(|| self.refuse("is no `key: value` of the block before it"))?;
            if entries.contains_key(key) {
                return Err(self.refuse("repeats a key"));
            }
            let value = match rest {
                "" => self.below(indent)?,
                "|" => self.literal(indent),
                rest => {
                    let value = scalar(rest).map_err(|problem| self.refuse(&problem))?;
                    self.next += 1;
                    value
                }
            };
            entries.insert(key.to_owned(), value);
        }
        match entries.is_empty() {
            true => Err(self.refuse("stands where a block should begin")),
            false => Ok(Value::Object(entries)),
        }
    }

    /// The block under a key. None of ours is empty.
    fn below(&mut self, indent: usize) -> Result<Value, String> {
        self.next += 1;
        match self.peek() {
            Some((found, _)) if found == indent + 2 => self.block(found),
            _ => Err(self.refuse("is not a block indented by two")),
        }
    }

    fn literal(&mut self, indent: usize) -> Value {
        self.next += 1;
        let margin = " ".repeat(indent + 2);
        let mut text = String::new();
        while let Some(line) = self.lines.get(self.next) {
            match line.strip_prefix(&margin) {
                Some(line) => text.push_str(line),
                None if line.trim().is_empty() => {}
                None => break,
            }
            text.push('\n');
            self.next += 1;
        }
        Value::String(text)
    }
}

fn split_key(content: &str) -> Option<(&str, &str)> {
    let (key, rest) = content.split_once(": ").or_else(|| Some((content.strip_suffix(':')?, "")))?;
    let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "./-_".contains(c));
    is_plain.then_some((key, rest.trim_start()))
}

fn scalar(text: &str) -> Result<Value, String> {
    if let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        let is_simple = !inner.contains(['"', '\\']);
        return is_simple.then(|| inner.into()).ok_or_else(|| "quotes something within quotes".into());
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return inner.split(", ").map(scalar).collect::<Result<_, _>>().map(Value::Array);
    }
    let starts_oddly =
        text.starts_with(|c: char| "&*!|>{}[]%@`'\"#,?:".contains(c)) || text.starts_with("- ");
    if starts_oddly || text.is_empty() || text.contains(": ") || text.contains(" #") || text.contains('\t') {
        return Err("is more than a plain word, number or list of such".into());
    }
    match text {
        "true" | "false" => Ok(Value::Bool(text == "true")),
        "null" | "~" | "yes" | "no" | "on" | "off" => {
            Err("means different things to different readers".into())
        }
        _ => match text.parse::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) if text.parse::<f64>().is_ok() => Err("has a number with a fraction; quote it".into()),
            Err(_) => Ok(text.into()),
        },
    }
}

#[test]
fn what_is_not_plain_yaml_is_refused() {
    let broken = [
        "",
        "a",
        "a: 1\na: 2",
        "a: 1\n  b: 2",
        "a:\n- b",
        "a:\nb: 1",
        "a:\n  - b\n  c: d",
        "a: b: c",
        "a: *b",
        "a: {b: c}",
        "a: 'b'",
        "a: [b",
        "a: 0.1",
        "a: yes",
        "a:\n  b: 1\n c: 2",
        "a:\n\tb: 1",
        "- a\n b: c",
        "a: >",
    ];
    for text in broken {
        assert!(read(text).is_err(), "{text:?} became {:?}", read(text));
    }
    let good = "# head\na:\n  - b: 1\n    c: [d, \"\"]\n  - --e=f:1\n\ng: |\n  h: i\n    j\nk: true\n";
    let value =
        serde_json::json!({"a": [{"b": 1, "c": ["d", ""]}, "--e=f:1"], "g": "h: i\n  j\n", "k": true});
    assert_eq!(read(good), Ok(value));
}
