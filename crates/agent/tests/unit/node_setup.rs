//! Settings of the node in files of a folder that stands for /proc and /sys.

use std::fs;
use std::path::PathBuf;

use super::*;
use config::DefaultMode;
use config::flags::{Command, parse};
use model::NodePortAddresses;

pub(super) fn options(flags: &[&str]) -> Options {
    let arguments = ["--manifests=x", "--hostname-override=n"].iter().chain(flags).map(Into::into);
    match parse(arguments, DefaultMode::nftables).unwrap().command {
        Command::Run(resolved) => resolved.options,
        other => panic!("{other:?}"),
    }
}

/// A folder with the files of a node of eight processors.
struct Node(PathBuf);

impl Node {
    fn new(name: &str) -> Node {
        let path = std::env::temp_dir().join(format!("pointsman-node-{name}-{}", std::process::id()));
        let node = Node(path);
        for file in File::ALL {
            node.put(file.path(), "0\n");
        }
        node.put("/sys/devices/system/cpu/online", "0-7\n");
        node
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.0.join(file.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, file: File) {
        fs::remove_file(self.0.join(file.path().trim_start_matches('/'))).unwrap();
    }

    fn root(&self) -> Root {
        Root::at(&self.0)
    }

    fn holds(&self, file: File) -> i64 {
        look(&self.root())[&file]
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn only_other_wishes_for_the_node_ask_for_another_set_up() {
    let of = |flags: &[&str]| {
        let flags = [&["--proxy-mode=iptables"], flags].concat();
        Options { nodeport_addresses: NodePortAddresses::All, ..options(&flags) }
    };
    let before = of(&[]);
    assert!(!asks_something_else(&before, &of(&["--profiling"])));
    assert!(asks_something_else(&before, &of(&["--conntrack-tcp-be-liberal"])));
    let without = of(&["--iptables-localhost-nodeports=false"]);
    assert!(asks_something_else(&before, &without) && asks_something_else(&without, &before));
    let elsewhere = Options { nodeport_addresses: NodePortAddresses::Primary, ..before.clone() };
    assert!(asks_something_else(&before, &elsewhere));
}

#[test]
fn invalid_packets_are_dropped_unless_conntrack_is_liberal() {
    let node = Node::new("liberal");
    let by_setting = |liberal| options(&[&format!("--conntrack-tcp-be-liberal={liberal}")]);
    assert!(drops_invalid_on(&node.root(), &by_setting(false)));
    assert!(!drops_invalid_on(&node.root(), &by_setting(true)));
    node.put(File::TcpBeLiberal.path(), "1\n");
    assert!(!drops_invalid_on(&node.root(), &by_setting(false)), "somebody else's doing counts too");
    node.remove(File::TcpBeLiberal);
    assert!(drops_invalid_on(&node.root(), &by_setting(false)));
}

#[test]
fn a_node_is_set_up_once_and_again_when_asked_for_something_else() {
    let node = Node::new("again");
    assert!(set_shared(&node.root(), &options(&[])).is_empty());
    assert_eq!(node.holds(File::ConntrackMax), 262_144);
    assert_eq!(node.holds(File::ConntrackBuckets), 65_536);
    assert_eq!(node.holds(File::TcpEstablished), 86_400);
    assert_eq!(node.holds(File::UdpTimeout), 0, "nobody asked for it");
    assert_eq!(node.holds(File::RouteLocalnet), 0, "nftables mode does not need it");
    let other = options(&["--conntrack-max-per-core=20000"]);
    assert!(set_shared(&node.root(), &other).is_empty());
    assert_eq!(node.holds(File::ConntrackMax), 160_000);
    assert_eq!(node.holds(File::ConntrackBuckets), 65_536, "buckets are not taken away");
}

#[test]
fn what_is_missing_is_named_and_the_rest_is_done() {
    let node = Node::new("missing");
    node.remove(File::TcpEstablished);
    let undone = set_shared(&node.root(), &options(&[]));
    let words: Vec<String> = undone.iter().map(Undone::to_string).collect();
    assert_eq!(words.len(), 1, "{words:?}");
    for part in [
        "nf_conntrack_tcp_timeout_established",
        "86400",
        "conntrack.tcpEstablishedTimeout",
        "load nf_conntrack",
    ] {
        assert!(words[0].contains(part), "{part}: {words:?}");
    }
    assert_eq!(node.holds(File::TcpCloseWait), 3_600);
}
