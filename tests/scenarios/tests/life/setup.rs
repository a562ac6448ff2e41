//! What the agent sets on its node. A namespace has timeouts of its own; files stand in for what all of them share.

use std::fs;
use std::process::Command;

use kernel::sysctl;
use model::{Family, Protocol};
use test_support::{Case, wait_until};

use super::case;
use super::confined::{confined, launcher};
use super::places::at_cluster_ip;
use super::stage::{BINARY, From, SOON, Stage};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("conntrack's timeouts are set where asked for, and left where not", timeouts),
        Case::new("limits follow the processors of the node", || confined(limits)),
        Case::new("--init-only without the rights for it is an error", || confined(unprivileged)),
        Case::new("a node that lets nothing be set gets its rules anyway", || confined(read_only)),
    ]
}

fn conntrack(stage: &Stage, name: &str) -> String {
    stage.sandbox.node.run(|| sysctl::read(&format!("net/netfilter/nf_conntrack_{name}"))).unwrap()
}

fn timeouts() {
    let mut stage = Stage::new();
    let stream = conntrack(&stage, "udp_timeout_stream");
    stage.start_with(&[
        "--conntrack-tcp-timeout-established=7h",
        "--conntrack-tcp-timeout-close-wait=0",
        "--conntrack-udp-timeout=33s",
        "--conntrack-tcp-be-liberal",
        "--oom-score-adj=500",
    ]);
    assert_eq!(conntrack(&stage, "tcp_timeout_established"), "25200");
    assert_eq!(conntrack(&stage, "tcp_timeout_close_wait"), "60", "0 leaves the kernel's own");
    assert_eq!(conntrack(&stage, "udp_timeout"), "33");
    assert_eq!(conntrack(&stage, "udp_timeout_stream"), stream, "nobody asked for it");
    assert_eq!(conntrack(&stage, "tcp_be_liberal"), "1");
    let score = format!("/proc/{}/oom_score_adj", stage.agent().process());
    assert_eq!(fs::read_to_string(score).unwrap().trim(), "500");
}

fn limits() {
    let mut stage = Stage::new();
    let folder = stage.folder.path().to_owned();
    let stand_in = |name: &str, value: &str, place: &str| {
        let file = folder.join(name);
        fs::write(&file, value).unwrap();
        format!("--over={}:{place}", file.display())
    };
    let over = [
        stand_in(".max", "65536\n", "/proc/sys/net/netfilter/nf_conntrack_max"),
        stand_in(".hashsize", "4096\n", "/sys/module/nf_conntrack/parameters/hashsize"),
        stand_in(".online", "0-5\n", "/sys/devices/system/cpu/online"),
    ];
    let over: Vec<&str> = over.iter().map(String::as_str).collect();
    let flags = ["--conntrack-max-per-core=30000", "--conntrack-min=1000"];
    stage.start_by(&launcher(&over), &flags).unwrap_or_else(|why| panic!("{why}"));
    let holds = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!((holds(".max").as_str(), holds(".hashsize").as_str()), ("180000", "45000"), "{}", stage.log());
}

fn read_only() {
    let mut stage = Stage::new();
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    let flags = ["--conntrack-max-per-core=32768", "--conntrack-tcp-timeout-close-wait=99s"];
    stage.start_by(&launcher(&["--read-only"]), &flags).unwrap_or_else(|why| panic!("{why}"));
    stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, Family::V4), "a");
    for file in ["nf_conntrack_max", "nf_conntrack_tcp_timeout_close_wait"] {
        let is_told =
            |line: &str| [file, "mounted read-only", "--init-only"].iter().all(|word| line.contains(word));
        assert!(wait_until(SOON, || stage.log().lines().any(is_told)), "{file}\n{}", stage.log());
    }
}

fn unprivileged() {
    let stage = Stage::new();
    let binary = BINARY.get().unwrap().to_str().unwrap();
    let launcher = launcher(&["--read-only"]);
    let mut command = Command::new(&launcher[0]);
    command.args(&launcher[1..]).args([binary, "--init-only", "--conntrack-tcp-timeout-close-wait=99s"]);
    stage.sandbox.node.enter(&mut command).unwrap();
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("close_wait to 99") && words.contains("mounted read-only"), "{words}");
}
