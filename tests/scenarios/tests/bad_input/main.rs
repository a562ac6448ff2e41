//! What an operator gets for a mistake: one line (flags: one an error) that says what to do, exit code 1, and a
//! kernel in which nothing was touched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod iptables;
mod ipvs;
mod manifests;
mod orders;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;

use kernel::nft::{self, Connection, Transport};
use sandbox::Namespace;
use serde_json::{Value, json};
use test_support::{Case, ManifestFolder, Report, SOON, Verdict, binary, wait_until};

const NOBODY: u32 = 65534;

static BINARY: OnceLock<PathBuf> = OnceLock::new();

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let cases = cases();
    if report.is_list_only() {
        report.run(&cases, 1);
        return report.finish();
    }
    // As the user whose build folder it is, hence before a user namespace is entered.
    let found = binary::kube_proxy();
    match (found, kernel::netns::acquire()) {
        (Err(why), _) => report.count("build", Verdict::Failed(why)),
        (_, Err(denied)) => report.count("bad_input", Verdict::Skipped(denied.to_string())),
        (Ok(path), Ok(_)) => {
            drop(BINARY.set(path));
            report.run(&cases, 2);
        }
    }
    report.finish()
}

fn cases() -> Vec<Case<'static>> {
    let mut cases = manifests::cases();
    cases.extend(orders::cases());
    cases.extend(iptables::cases());
    cases.extend(ipvs::cases());
    cases.extend([
        Case::new("no right to use nf_tables", no_permission),
        Case::new("a kernel that is too old", old_kernel),
        case("a kernel without nf_tables", absent_nf_tables),
        case("every mistake in the flags is listed", flags),
        case("flags that contradict each other", contradictions),
        case("every mistake in a configuration file is listed", config_file),
        case("a file that holds something else", other_file),
    ]);
    cases
}

fn case(name: &'static str, run: fn()) -> Case<'static> {
    Case::new(name, move || {
        run();
        Verdict::Passed
    })
}

/// What a run that should end by itself left behind.
struct Ended {
    code: Option<i32>,
    lines: Vec<String>,
    tables: Vec<String>,
}

impl Ended {
    /// One line, with all of these words in it; exit code 1; no table.
    fn assert_refused(&self, words: &[&str]) {
        assert_eq!(self.lines.len(), 1, "not one line: {:#?}", self.lines);
        self.assert_words(words);
    }

    fn assert_words(&self, words: &[&str]) {
        for word in words {
            assert!(self.lines.iter().any(|line| line.contains(word)), "no {word:?} in {:#?}", self.lines);
        }
        assert_eq!(self.code, Some(1), "{:#?}", self.lines);
        assert!(self.tables.is_empty(), "tables were made: {:?}", self.tables);
    }
}

fn kube_proxy() -> Command {
    Command::new(BINARY.get().expect("main has found the binary"))
}

/// Run in a namespace of its own until it ends.
fn run(command: Command) -> Ended {
    let namespace = Namespace::new().unwrap();
    run_in(&namespace, command)
}

fn run_in(namespace: &Namespace, mut command: Command) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // A child begins in the namespace of the thread that starts it, whatever its user may do there.
    let mut child = namespace.run(|| command.spawn()).unwrap();
    let code = await_end(&mut child);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(code.is_some(), "the agent runs on:\n{text}");
    Ended { code, lines: text.lines().map(str::to_owned).collect(), tables: tables(namespace) }
}

/// The exit code; the child is killed when it takes too long.
fn await_end(child: &mut Child) -> Option<i32> {
    let mut status = None;
    wait_until(SOON, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    status.and_then(|status| status.code())
}

fn tables(namespace: &Namespace) -> Vec<String> {
    namespace.run(|| {
        let mut connection = Connection::open().unwrap();
        let families = [nft::TableFamily::Ip, nft::TableFamily::Ip6];
        families
            .into_iter()
            .flat_map(|family| connection.tables(family).unwrap())
            .map(|table| table.name)
            .collect()
    })
}

/// A copy of the agent that anybody can run, in a folder that anybody can enter.
fn public_copy() -> (ManifestFolder, PathBuf) {
    let folder = ManifestFolder::create();
    open_to_all(folder.path());
    let copy = folder.path().join("kube-proxy");
    fs::copy(BINARY.get().unwrap(), &copy).unwrap();
    open_to_all(&copy);
    (folder, copy)
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn is_root_outside() -> bool {
    // The first line maps our user 0; only real root has the whole range.
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().nth(2) != Some("1"))
}

fn no_permission() -> Verdict {
    if !is_root_outside() {
        return Verdict::Skipped("needs root to become another user".into());
    }
    let (folder, binary) = public_copy();
    let mut command = Command::new(binary);
    command.arg("--manifests").arg(folder.path()).uid(NOBODY).gid(NOBODY);
    run(command).assert_refused(&["CAP_NET_ADMIN"]);
    Verdict::Passed
}

/// The personality that makes any kernel call itself 2.6.
fn old_kernel() -> Verdict {
    if Command::new("setarch").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Verdict::Skipped("needs setarch of util-linux".into());
    }
    let folder = ManifestFolder::create();
    let mut command = Command::new("setarch");
    command.arg("--uname-2.6").arg(BINARY.get().unwrap());
    command.arg("--proxy-mode=nftables").arg("--manifests").arg(folder.path());
    run(command).assert_refused(&["the kernel is release 2.6", "needs 5.13 or later"]);
    Verdict::Passed
}

/// No running kernel can be made to lose nf_tables. One without has no sockets of netfilter either, and says so with
/// this error.
fn absent_nf_tables() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/seccomp/kube-proxy.json");
    let mut profile: Value = serde_json::from_str(&fs::read_to_string(shipped).unwrap()).unwrap();
    let is = |index: u8, value: u8| json!({"index": index, "op": "SCMP_CMP_EQ", "value": value});
    const AF_NETLINK: u8 = 16;
    const NETLINK_NETFILTER: u8 = 12;
    const EPROTONOSUPPORT: u8 = 93;
    profile["syscalls"].as_array_mut().unwrap().push(json!({
        "names": ["socket"], "args": [is(0, AF_NETLINK), is(2, NETLINK_NETFILTER)],
        "action": "SCMP_ACT_ERRNO", "errnoRet": EPROTONOSUPPORT,
    }));
    let folder = ManifestFolder::create();
    let file = folder.path().join(".profile");
    fs::write(&file, profile.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_confine"));
    command.arg(format!("--seccomp={}", file.display())).arg(BINARY.get().unwrap());
    command.arg("--proxy-mode=nftables").arg("--manifests").arg(folder.path());
    run(command).assert_refused(&["the kernel has no nf_tables", "load module nf_tables"]);
}

fn is_ready(namespace: &Namespace) -> bool {
    use std::io::Write;
    let ask = || -> io::Result<String> {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:10256")?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    namespace.run(|| ask().is_ok_and(|answer| answer.contains(" 200 ")))
}

fn flags() {
    let mut command = kube_proxy();
    command.args([
        "--manifets=/tmp",
        "serve",
        "--cluster-cidr=10.0.0.0/33",
        "--iptables-sync-period=3x",
        "--iptables-masquerade-bit=40",
        "--healthz-bind-address=everywhere",
        "--nodeport-addresses=eth0",
        "--proxy-mode=ipsv",
        "--masquerade-all=perhaps",
        "-v=loud",
    ]);
    let ended = run(command);
    ended.assert_words(&[
        "unknown flag --manifets",
        "unexpected argument \"serve\"",
        "10.0.0.0/33",
        "--iptables-sync-period: ",
        "--iptables-masquerade-bit: ",
        "--healthz-bind-address: \"everywhere\"",
        "\"eth0\"",
        "--proxy-mode: \"ipsv\" is not a proxy mode; use nftables, iptables, ipvs or userspace; did you mean ipvs?",
        "--masquerade-all: \"perhaps\" is neither true nor false",
        "--v: must be a whole number, 0 or more, not loud",
    ]);
    assert_eq!(ended.lines.len(), 10, "one line an error: {:#?}", ended.lines);
    assert!(ended.lines.iter().all(|line| line.starts_with("kube-proxy: ")), "{:#?}", ended.lines);
}

fn contradictions() {
    let folder = ManifestFolder::create();
    let path = folder.path().display().to_string();
    for (given, words) in [
        (
            &["--iptables-sync-period=1s", "--iptables-min-sync-period=2s"][..],
            "longer than --iptables-sync-period",
        ),
        (&["--iptables-sync-period=0"], "--iptables-sync-period: must be greater than 0"),
        (&["--detect-local-mode=BridgeInterface"], "--pod-bridge-interface: must name one"),
        (&["--detect-local-mode=InterfaceNamePrefix"], "--pod-interface-name-prefix: must name one"),
        (&["--detect-local-mode=Guess"], "use ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix"),
        (&["--kubeconfig=/etc/kubeconfig"], "--manifests: objects come from manifests or from the apiserver"),
        (&["--cluster-cidr=10.0.0.0/8,10.1.0.0/16"], "at most one per family"),
        (
            &["--proxy-mode=ipvs", "--feature-gates=KubeProxyIPVS=false"],
            "needs the feature gate KubeProxyIPVS",
        ),
        (
            &["--proxy-mode=ipvs", "--ipvs-scheduler=rrr"],
            "--ipvs-scheduler: \"rrr\" is not an IPVS scheduler",
        ),
        (&["--proxy-mode=ebpf"], "\"ebpf\" is not a proxy mode; use nftables"),
        (&["--proxy-mode=magic"], "\"magic\" is not a proxy mode; use nftables"),
        (&["--iptables-min-sync-period"], "a value is missing"),
        (&["--feature-gates=Fancy=true"], "--feature-gates: \"Fancy\" is not a feature gate"),
        (&["--config=/nowhere/config.conf"], "--config: /nowhere/config.conf cannot be read"),
    ] {
        let mut command = kube_proxy();
        command.arg("--manifests").arg(&path).args(given);
        run(command).assert_words(&[words]);
    }
}

fn with_config(text: &str) -> Ended {
    let folder = ManifestFolder::create();
    let path = folder.path().join("config.conf");
    fs::write(&path, text).unwrap();
    let mut command = kube_proxy();
    command.arg("--config").arg(&path);
    run(command)
}

fn config_file() {
    let ended = with_config(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
         oomScoreAdj: 5000\nconntrack:\n  min: -1\nmetricsBindAddress: here\n",
    );
    ended.assert_words(&[
        "config.conf: oomScoreAdj: must be a whole number from -1000 to 1000",
        "config.conf: conntrack.min: must be a whole number, 0 or more",
        "config.conf: metricsBindAddress: \"here\" is not an address such as 0.0.0.0:10249",
    ]);
    assert_eq!(ended.lines.len(), 3, "one line an error: {:#?}", ended.lines);
}

fn other_file() {
    with_config("apiVersion: v1\nkind: ConfigMap\n")
        .assert_refused(&["apiVersion must be kubeproxy.config.k8s.io/v1alpha1", "\"v1\""]);
}
