//! With no more rights than `deploy/` gives: the capabilities and the seccomp profile as shipped, a read-only root, and
//! what the init container has done before.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kernel::conntrack::{Conntrack, Filter};
use model::{Family, Protocol};
use serde_json::Value;
use test_support::{Carrier, Case, ManifestFolder, Verdict, patient};

use super::places::at_cluster_ip;
use super::stage::{BINARY, From, SOON, Stage};
use super::trace::Watching;

const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let in_mode = |carrier: Carrier, what: &str, run: fn(Carrier)| {
        Case::new(format!("{}: {what}", carrier.name()), move || match carrier.obstacle() {
            Some(why) => Verdict::Skipped(why),
            None => confined(|| run(carrier)),
        })
    };
    let with_tools = Carrier::ALL.into_iter().filter(|carrier| carrier.has_tools());
    let mut cases: Vec<Case<'static>> = Vec::new();
    cases.extend(
        Carrier::ALL.map(|carrier| in_mode(carrier, "the rights that deploy/ gives suffice", enough)),
    );
    cases.extend(
        with_tools
            .map(|carrier| in_mode(carrier, "the init container of deploy/iptables does its work", set_up)),
    );
    cases.extend([
        Case::new("what the seccomp profile does not list is refused", || confined(refused)),
        in_mode(
            Carrier::Ipvs,
            "a scheduler that the kernel lacks is an error that names its module",
            no_scheduler,
        ),
        Case::new("a profile that lacks a call is noticed", || confined(lacking)),
    ]);
    cases
}

/// Run a case where this machine lets a process be confined.
pub(crate) fn confined(case: impl Fn()) -> Verdict {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if map.split_whitespace().nth(2) == Some("1") {
        return Verdict::Skipped("mounts can be made read-only by root only".into());
    }
    let tried = run(&launcher(&["--read-only", "--capabilities="]), &["/bin/true"]);
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stdout).trim().to_owned();
        return Verdict::Skipped(format!("this machine confines no process: {why}"));
    }
    case();
    Verdict::Passed
}

pub(crate) fn launcher(flags: &[&str]) -> Vec<String> {
    std::iter::once(&env!("CARGO_BIN_EXE_confine")).chain(flags).map(|word| (*word).to_owned()).collect()
}

fn run(launcher: &[String], command: &[&str]) -> Output {
    Command::new(&launcher[0]).args(&launcher[1..]).args(command).output().unwrap()
}

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

fn profile() -> PathBuf {
    shipped("seccomp/kube-proxy.json")
}

/// What the main container of the DaemonSet adds, all others being dropped.
fn capabilities(carrier: Carrier) -> String {
    let text = |path| fs::read_to_string(shipped(path)).unwrap();
    let base = text("base/daemonset.yaml");
    let (_, container) = base.split_once("\n      containers:").unwrap();
    assert!(container.contains("drop: [ALL]"), "all are dropped first");
    let overlay = text("iptables/tools.yaml");
    let container = if carrier.has_tools() { &overlay } else { container };
    let (_, rest) = container.split_once("add: [").unwrap();
    rest.split_once(']').unwrap().0.replace(' ', "")
}

/// The one file that may be written: the lock of the tools, which the overlay mounts. Goes with this.
struct Lock(PathBuf);

impl Lock {
    /// In a folder that stays writable.
    fn of(carrier: Carrier) -> Lock {
        Lock(format!("/dev/shm/pointsman-lock-{}-{}", std::process::id(), carrier.name()).into())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // It is there only if the tools wanted it.
        let _ = fs::remove_file(&self.0);
    }
}

fn enough(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    run_init_container(&stage);
    let (profile, rights) = match carrier.has_tools() {
        true => (shipped("seccomp-iptables/kube-proxy.json"), NET_ADMIN | NET_RAW),
        false => (profile(), NET_ADMIN),
    };
    let seccomp = format!("--seccomp={}", profile.display());
    let capabilities = format!("--capabilities={}", capabilities(carrier));
    let lock = Lock::of(carrier);
    let mut words = vec!["env".to_owned(), format!("XTABLES_LOCKFILE={}", lock.0.display())];
    words.extend(launcher(&["--read-only", &capabilities, &seccomp]));
    stage.start_by(&words, &["--profiling"]).unwrap_or_else(|why| panic!("{why}"));
    assert_confined(stage.agent().process(), rights);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), "a");
    }
    stage.put_endpoints("web", Protocol::Tcp, &["c"]);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), "c");
    }
    if carrier == Carrier::Userspace {
        super::userspace::faults::much(&stage);
    }
    let to = at_cluster_ip(1, Family::V4);
    let watching = Watching::start(&stage, &[&to.to_string(), "--for", "60s"]);
    assert!(stage.answers(From::Guest, to));
    assert_eq!(watching.next()["verdict"], "forward");
    watching.kill();
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(stage.agent().probe(path), Some(200), "{path}");
    }
    let profiles = ["/debug/pprof/heap", "/debug/pprof/profile?seconds=1"];
    let profiles = profiles.into_iter().filter(|_| kernel::profile::SUPPORTED);
    for path in ["/metrics", "/configz"].into_iter().chain(profiles) {
        let answer = stage.sandbox.node.run(|| get("127.0.0.1:10249", path));
        assert_eq!(answer.split(' ').nth(1), Some("200"), "{path}: {answer}");
    }
    let status = stage.agent().stop().unwrap();
    assert!(status.success(), "{status}\n{}", stage.log());
    let log = stage.log();
    let worried: Vec<&str> = log.lines().filter(|line| line.contains("not permitted")).collect();
    assert!(worried.is_empty(), "{worried:?}");
}

/// What the init container leaves on a node whose rules one variant of the tools holds.
fn set_up(carrier: Carrier) {
    let stage = Stage::of(carrier);
    run_init_container(&stage);
    let set = fs::read_to_string(stand_in(&stage, 0)).unwrap();
    assert_ne!(set, "1\n");
    let established = "net/netfilter/nf_conntrack_tcp_timeout_established";
    let established = stage.sandbox.node.run(|| kernel::sysctl::read(established)).unwrap();
    assert_eq!(established, "86400");
    if carrier == Carrier::IptablesLegacy {
        // The agent cannot load these itself.
        for module in ["ip_tables", "ip6_tables"] {
            let is_there = stage
                .sandbox
                .node
                .run(|| Path::new(&format!("/proc/thread-self/net/{module}_names")).exists());
            assert!(is_there, "{module}");
        }
    }
}

/// In place of what all namespaces of this machine share.
fn stand_in(stage: &Stage, number: usize) -> PathBuf {
    stage.folder.path().join(format!(".stand-in-{number}"))
}

/// `kube-proxy --init-only` where and as `deploy/` starts it.
fn run_init_container(stage: &Stage) {
    let carrier = stage.carrier;
    let (overlay, config) = match carrier.has_tools() {
        true => (Some("iptables/tools.yaml"), "iptables/config.yaml"),
        false => (None, "base/config.yaml"),
    };
    let pod = Pod::of(overlay);
    let configuration = stage.folder.path().join(".config.conf");
    let text = data(config, "config.conf");
    let line = text.lines().find(|line| line.starts_with("mode: ")).expect("the mode is set");
    fs::write(&configuration, text.replace(line, &format!("mode: {}", carrier.mode()))).unwrap();
    // The files that stand-ins are put over come with conntrack, and listing its flows loads it.
    let _ = Conntrack::dump(&Filter::default(), |_| ControlFlow::Break(()));
    // Nothing of the machine is in the image's /run, and the image has no modules.
    let mut flags = vec!["--empty=/run".to_owned()];
    flags.extend(Path::new("/lib/modules").exists().then(|| "--empty=/lib/modules".to_owned()));
    for (number, place) in
        ["/proc/sys/net/netfilter/nf_conntrack_max", "/sys/module/nf_conntrack/parameters/hashsize"]
            .iter()
            .enumerate()
    {
        let file = stand_in(stage, number);
        fs::write(&file, "1\n").unwrap();
        flags.push(format!("--over={}:{place}", file.display()));
    }
    for (number, path) in pod.host_paths().enumerate() {
        let file = stage.folder.path().join(format!(".mounted-{number}"));
        fs::write(&file, "").unwrap();
        flags.push(format!("--over={}:{path}", file.display()));
    }
    let rights = &pod.container["securityContext"];
    for (field, flag) in [("readOnlyRootFilesystem", "--read-only"), ("privileged", "--privileged")] {
        flags.extend((rights[field] == true).then(|| flag.to_owned()));
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let launcher = launcher(&flags);
    let mut command = Command::new(&launcher[0]);
    command.args(&launcher[1..]).arg(BINARY.get().unwrap()).env_remove("XTABLES_LOCKFILE");
    for word in pod.container["command"].as_array().unwrap().iter().skip(1) {
        let word = word.as_str().unwrap().replace("$(NODE_NAME)", "node-1");
        command.arg(word.replace("/var/lib/kube-proxy/config.conf", configuration.to_str().unwrap()));
    }
    stage.sandbox.node.enter(&mut command).unwrap();
    let output = command.output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}: {said:?}", output.status);
}

/// The init container of the DaemonSet, and the volumes of its pod.
struct Pod {
    container: Value,
    volumes: Vec<Value>,
}

impl Pod {
    /// With an overlay. A patch merges containers by their names and lists of mounts by adding to them.
    fn of(overlay: Option<&str>) -> Pod {
        let spec = |path| document(path)["spec"]["template"]["spec"].take();
        let (mut base, patch) = (spec("base/daemonset.yaml"), overlay.map(spec).unwrap_or_default());
        let mut container = base["initContainers"][0].take();
        let name = container["name"].clone();
        let patches = patch["initContainers"].as_array().into_iter().flatten();
        for patch in patches.filter(|patch| patch["name"] == name) {
            let fields: Vec<&str> = patch.as_object().unwrap().keys().map(String::as_str).collect();
            assert!(fields.iter().all(|field| ["name", "volumeMounts"].contains(field)), "{fields:?}");
            let more = patch["volumeMounts"].as_array().into_iter().flatten().cloned();
            container["volumeMounts"].as_array_mut().unwrap().extend(more);
        }
        let volumes = [&base, &patch].into_iter().filter_map(|spec| spec["volumes"].as_array());
        Pod { container, volumes: volumes.flatten().cloned().collect() }
    }

    /// Where the container has files of the host.
    fn host_paths(&self) -> impl Iterator<Item = &str> {
        let is_of_host =
            |name: &Value| self.volumes.iter().any(|of| of["name"] == *name && of.get("hostPath").is_some());
        let mounts = self.container["volumeMounts"].as_array().into_iter().flatten();
        mounts.filter(move |mount| is_of_host(&mount["name"])).filter_map(|mount| mount["mountPath"].as_str())
    }
}

fn document(path: &str) -> Value {
    let text = fs::read_to_string(shipped(path)).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|problem| panic!("{path}: {problem}"))
}

/// A file of a ConfigMap.
fn data(path: &str, file: &str) -> String {
    document(path)["data"][file].as_str().unwrap().to_owned()
}

/// Whether the launcher did what it was asked to, as the kernel sees it.
fn assert_confined(process: u32, rights: u64) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').trim().to_owned()
    };
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(u64::from_str_radix(&field(set), 16).unwrap(), rights, "{set}");
    }
    assert_eq!((field("Seccomp").as_str(), field("NoNewPrivs").as_str()), ("2", "1"), "{status}");
    let mounts = fs::read_to_string(format!("/proc/{process}/mounts")).unwrap();
    let root = mounts.lines().rfind(|line| line.split(' ').nth(1) == Some("/")).unwrap();
    assert!(root.split(' ').nth(3).unwrap().split(',').any(|word| word == "ro"), "{root}");
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // A profile names the functions at work, for which all of a debug build is read.
    stream.set_read_timeout(Some(patient(SOON))).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The same command with the profile and without, so that it is the profile that refuses.
fn refused() {
    let folder = ManifestFolder::create();
    let inside = folder.path().join("inside");
    let make = ["/bin/mkdir", inside.to_str().unwrap()];
    let with = run(&launcher(&[&format!("--seccomp={}", profile().display())]), &make);
    let words = String::from_utf8_lossy(&with.stderr).into_owned();
    assert!(!with.status.success() && words.contains("Operation not permitted"), "{with:?}");
    assert!(!inside.exists());
    let without = run(&launcher(&[]), &make);
    assert!(without.status.success() && inside.is_dir(), "{without:?}");
}

fn lacking() {
    let mut short: Value = serde_json::from_str(&fs::read_to_string(profile()).unwrap()).unwrap();
    let names = short["syscalls"][0]["names"].as_array_mut().unwrap();
    names.retain(|name| name != "socket");
    let mut stage = Stage::new();
    let file = stage.folder.path().join(".profile");
    fs::write(&file, short.to_string()).unwrap();
    let launcher = launcher(&[&format!("--seccomp={}", file.display())]);
    let why = stage.start_by(&launcher, &[]).expect_err("it runs without sockets");
    assert!(why.contains("Operation not permitted"), "{why}");
}

/// The kernel does not load this one by itself, and the agent may not.
fn no_scheduler(carrier: Carrier) {
    if !kernel::module::is_loaded("ip_vs") || kernel::module::is_loaded("ip_vs_lblc") {
        println!("SKIPPED: IPVS is built in, or its scheduler lblc is loaded");
        return;
    }
    let mut stage = Stage::of(carrier);
    let launcher = launcher(&[&format!("--capabilities={}", capabilities(carrier))]);
    let why = stage.start_by(&launcher, &["--ipvs-scheduler=lblc"]).expect_err("it runs without a scheduler");
    assert!(
        why.contains("cannot use scheduler lblc: this kernel has no module ip_vs_lblc; load it"),
        "{why}"
    );
}
