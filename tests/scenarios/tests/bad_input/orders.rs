//! Orders that end by themselves, and the configuration file of a running agent.

use std::fs;
use std::process::{Command, Stdio};

use kernel::iptables::{Tables as _, Tools};
use kernel::process::{Signal, send_signal};
use kernel::sysctl;
use sandbox::Namespace;
use test_support::{Case, ManifestFolder, SOON, Verdict, wait_until};

use crate::{Ended, await_end, case, kube_proxy, run_in, tables};

const CONFIG: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("cleanup removes the rules, and does not mind if there are none", cleanup),
        case("cleanup-and-wait removes the rules, then waits for SIGTERM", cleanup_and_wait),
        Case::new("cleanup removes the rules of iptables mode, and no others", cleanup_iptables),
        Case::new("rules of iptables mode that another kube-proxy left go once ours are in place", leftovers),
        case("cleanup beside a running agent does not call gone what is back", cleanup_in_vain),
        case("a configuration file that becomes unusable is reported and changes nothing", misconfigured),
        case("a configuration that cannot be written", unwritable),
        case("the node is set up, and what it does not let be set is named", init_only),
    ]
}

fn order(namespace: &Namespace, arguments: &[&str]) -> Ended {
    let mut command = kube_proxy();
    command.args(arguments);
    run_in(namespace, command)
}

fn cleanup() {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    let mut command = kube_proxy();
    command.arg("--manifests").arg(folder.path());
    let mut child = start(&namespace, &mut command);
    let is_programmed = wait_until(SOON, || tables(&namespace).len() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_programmed, "no rules: {:?}", tables(&namespace));
    for _ in 0..2 {
        let ended = order(&namespace, &["--cleanup"]);
        assert_eq!(ended.code, Some(0), "{:?}", ended.lines);
        assert!(ended.tables.is_empty(), "{:?}", ended.tables);
    }
}

fn cleanup_and_wait() {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    let mut command = kube_proxy();
    command.arg("--manifests").arg(folder.path()).arg("--proxy-mode=nftables");
    let mut agent = start(&namespace, &mut command);
    assert!(wait_until(SOON, || tables(&namespace).len() == 2), "no rules to remove");
    agent.kill().unwrap();
    agent.wait().unwrap();
    let mut command = kube_proxy();
    let mut child = start(&namespace, command.arg("--cleanup-and-wait"));
    assert!(wait_until(SOON, || tables(&namespace).is_empty()), "{:?}", tables(&namespace));
    // The rules go first; it must still be there once all of its work is done.
    assert!(wait_until(SOON, || catches_the_end(child.id())), "it does not wait");
    assert_eq!(child.try_wait().unwrap(), None);
    send_signal(child.id(), Signal::Terminate).unwrap();
    assert_eq!(await_end(&mut child), Some(0));
}

/// Whether it has a handler for SIGTERM, which it installs last.
fn catches_the_end(process: u32) -> bool {
    let caught = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = caught.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or_default();
    const SIGTERM: u64 = 1 << 14;
    mask & SIGTERM != 0
}

fn cleanup_in_vain() {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    let mut command = kube_proxy();
    command.arg("--manifests").arg(folder.path());
    let mut child = start(&namespace, &mut command);
    let is_programmed = wait_until(SOON, || tables(&namespace).len() == 2);
    // The agent watches its tables a moment after it has written them.
    let mut ended = order(&namespace, &["--cleanup"]);
    let said = |ended: &Ended| {
        ended.lines.iter().any(|line| line.contains("stop the kube-proxy of this node first"))
    };
    let is_told = wait_until(SOON, || {
        ended = order(&namespace, &["--cleanup"]);
        ended.code == Some(1) && said(&ended)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_programmed && is_told, "{:?}: {:?}", ended.code, ended.lines);
}

fn leftovers() -> Verdict {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    let mut tools: Vec<Tools> = [false, true].into_iter().flat_map(Tools::installed).collect();
    if let Some(why) = leave_rules(&namespace, &mut tools) {
        return Verdict::Skipped(why);
    }
    let mut command = kube_proxy();
    command.arg("--manifests").arg(folder.path());
    let mut child = start(&namespace, &mut command);
    let saved =
        || -> String { tools.iter().map(|tools| namespace.run(|| tools.save_all()).unwrap()).collect() };
    let is_gone = wait_until(SOON, || tables(&namespace).len() >= 2 && !saved().contains("KUBE-SERVICES"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_gone, "{}", saved());
    assert!(saved().contains("-A PREROUTING -j OTHERS"), "{}", saved());
    Verdict::Passed
}

/// As a kube-proxy in iptables mode leaves them, beside rules of others; or why that cannot be.
fn leave_rules(namespace: &Namespace, tools: &mut [Tools]) -> Option<String> {
    let rules = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-ERIFXISQEP7F7OF4 - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
        :OTHERS - [0:0]\n-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A PREROUTING -j OTHERS\n-A OTHERS -p tcp -j KUBE-MARK-MASQ\n\
        -A KUBE-SERVICES -p tcp -j KUBE-SVC-ERIFXISQEP7F7OF4\nCOMMIT\n\
        *filter\n:KUBE-FIREWALL - [0:0]\n:KUBE-FORWARD - [0:0]\n-A INPUT -j KUBE-FIREWALL\n\
        -A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\nCOMMIT\n";
    if tools.is_empty() {
        return Some("the iptables tools are not installed".into());
    }
    tools.iter_mut().find_map(|tools| {
        let outcome = namespace.run(|| tools.restore(rules));
        outcome.err().map(|why| format!("this kernel takes no rules from {tools:?}: {why}"))
    })
}

/// Both variants of the tools, both families.
fn cleanup_iptables() -> Verdict {
    let namespace = Namespace::new().unwrap();
    let mut tools: Vec<Tools> = [false, true].into_iter().flat_map(Tools::installed).collect();
    if let Some(why) = leave_rules(&namespace, &mut tools) {
        return Verdict::Skipped(why);
    }
    let ended = order(&namespace, &["--cleanup"]);
    assert_eq!(ended.code, Some(0), "{:?}", ended.lines);
    for tools in &tools {
        let left = namespace.run(|| tools.save_all()).unwrap();
        for gone in ["KUBE-SERVICES", "KUBE-SVC-", "KUBE-FORWARD"] {
            assert!(!left.contains(gone), "{gone} is still there:\n{left}");
        }
        for kept in
            ["-A PREROUTING -j OTHERS", "-A OTHERS -p tcp -j KUBE-MARK-MASQ", "-A INPUT -j KUBE-FIREWALL"]
        {
            assert!(left.contains(kept), "{kept} is gone:\n{left}");
        }
    }
    Verdict::Passed
}

/// Ending would leave the node without an agent, because it could not start again.
fn misconfigured() {
    let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
    let (config, log) = (folder.path().join(".config"), folder.path().join(".log"));
    fs::write(&config, CONFIG).unwrap();
    let mut command = kube_proxy();
    command.arg("--config").arg(&config).arg("--manifests").arg(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let mut child = namespace.run(|| command.spawn()).unwrap();
    let is_programmed = wait_until(SOON, || tables(&namespace).len() == 2);
    let said = |words: &str| fs::read_to_string(&log).unwrap().matches(words).count();
    for (text, words) in [
        (format!("{CONFIG}mode: ipvs\n"), ".config: mode: a change from nftables to ipvs needs a restart"),
        (
            format!("{CONFIG}mode: iptables\n"),
            ".config: mode: a change from nftables to iptables needs a restart",
        ),
        (format!("{CONFIG}oomScoreAdj: 5000\n"), ".config: oomScoreAdj: must be a whole number"),
        ("kind: [".to_owned(), ".config: cannot be read as YAML or JSON"),
    ] {
        fs::write(&config, text).unwrap();
        assert!(wait_until(SOON, || said(words) > 0), "no word of it: {words}");
        assert!(child.try_wait().unwrap().is_none(), "ended for {words}");
    }
    // Comments are no other settings; the next text is.
    fs::write(&config, format!("{CONFIG}# reviewed\n")).unwrap();
    fs::write(&config, format!("{CONFIG}oomScoreAdj: -1\n")).unwrap();
    let words = "oomScoreAdj: -999 → -1";
    assert!(wait_until(SOON, || said(words) > 0), "a usable file is not used");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(said("to ipvs"), 1, "reported more than once");
    assert!(is_programmed && tables(&namespace).len() == 2, "{:?}", tables(&namespace));
}

fn start(namespace: &Namespace, command: &mut Command) -> std::process::Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    namespace.run(|| command.spawn()).unwrap()
}

fn unwritable() {
    let ended = order(&Namespace::new().unwrap(), &["--write-config-to=/nowhere/config"]);
    ended.assert_refused(&["--write-config-to: cannot write /nowhere/config: No such file or directory"]);
}

fn init_only() {
    let namespace = Namespace::new().unwrap();
    let timeout =
        || namespace.run(|| sysctl::read("net/netfilter/nf_conntrack_tcp_timeout_close_wait")).unwrap();
    assert_ne!(timeout(), "77");
    let wanted = ["--init-only", "--conntrack-tcp-timeout-close-wait=77s"];
    // The limit is the kernel's, and no namespace but the first may set it, whatever its rights.
    let ended = order(&namespace, &[wanted[0], wanted[1], "--conntrack-min=123456"]);
    assert_eq!((ended.code, ended.tables.len()), (Some(0), 0), "{:?}", ended.lines);
    let words = ["nf_conntrack_max", "123456", "conntrack.maxPerCore", "initial network namespace"];
    let is_told = |line: &String| words.iter().all(|word| line.contains(word));
    assert!(ended.lines.iter().any(is_told), "{:?}", ended.lines);
    assert_eq!(timeout(), "77", "the rest is done");
    let ended = order(&namespace, &[wanted[0], wanted[1], "--conntrack-max-per-core=0"]);
    assert_eq!((ended.code, ended.tables.len()), (Some(0), 0), "{:?}", ended.lines);
}
