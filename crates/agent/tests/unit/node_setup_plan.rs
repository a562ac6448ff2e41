//! What the configuration asks of the node, against what is there.

use model::NodePortAddresses;

use super::*;
use crate::node_setup::tests::options;

fn conntrack(max_per_core: u32, min: u32) -> ConntrackOptions {
    ConntrackOptions { max_per_core, min, ..options(&[]).node.conntrack }
}

#[test]
fn the_limit_follows_the_cores() {
    for (per_core, min, cores, limit_is) in [
        (32_768, 131_072, 1, 131_072),
        (32_768, 131_072, 4, 131_072),
        (32_768, 131_072, 8, 262_144),
        (32_768, 131_072, 32, 1_048_576),
        (32_768, 131_072, 33, 1_048_576),
        (u32::MAX, 0, usize::MAX, 1_048_576),
        // The least may outdo the cap, but not where the cores reach it.
        (32_768, 2_000_000, 4, 2_000_000),
        (32_768, 2_000_000, 64, 1_048_576),
        (0, 131_072, 8, 0),
        (32_768, 0, 2, 65_536),
    ] {
        assert_eq!(limit(&conntrack(per_core, min), cores), limit_is, "{per_core} {min} {cores}");
    }
}

#[test]
fn only_what_differs_is_written_and_buckets_are_never_taken_away() {
    let options = options(&["--conntrack-tcp-be-liberal"]);
    let written = |found: &Found| -> Vec<(File, i64)> {
        shared(&options, 8, found).iter().map(|write| (write.file, write.value)).collect()
    };
    let all = [
        (File::ConntrackMax, 262_144),
        (File::ConntrackBuckets, 65_536),
        (File::TcpEstablished, 86_400),
        (File::TcpCloseWait, 3_600),
        (File::TcpBeLiberal, 1),
    ];
    assert_eq!(written(&Found::new()), all, "nothing can be read");
    assert_eq!(written(&Found::from(all)), [], "all is right");
    let mut more = Found::from(all);
    more.insert(File::ConntrackBuckets, 262_144);
    more.insert(File::TcpCloseWait, 60);
    assert_eq!(written(&more), [(File::TcpCloseWait, 3_600)]);
}

#[test]
fn zero_leaves_alone() {
    let silent = options(&[
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]);
    assert_eq!(shared(&silent, 8, &Found::new()), []);
}

#[test]
fn a_part_of_a_second_is_one() {
    assert_eq!(seconds(Duration::from_millis(1)), 1);
    assert_eq!(seconds(Duration::from_millis(1500)), 2);
    assert_eq!(seconds(Duration::from_secs(90)), 90);
}

#[test]
fn the_score_is_written_where_it_differs() {
    let options = options(&["--oom-score-adj=-997"]);
    let there = |score| own(&options, &Found::from([(File::OomScoreAdj, score)]));
    assert_eq!(there(-997), []);
    assert_eq!(there(0), [Write { file: File::OomScoreAdj, value: -997, found: Some(0) }]);
}

#[test]
fn loopback_is_routed_for_iptables_only() {
    let nets =
        |texts: &[&str]| NodePortAddresses::Within(texts.iter().map(|text| text.parse().unwrap()).collect());
    let primary_and = |net: &str| NodePortAddresses::PrimaryAndWithin(vec![net.parse().unwrap()]);
    for (mode, wanted, addresses, is_routed) in [
        ("nftables", true, NodePortAddresses::All, false),
        ("", true, NodePortAddresses::All, false),
        ("iptables", true, NodePortAddresses::All, true),
        ("iptables", false, NodePortAddresses::All, false),
        ("iptables", true, NodePortAddresses::Primary, false),
        ("iptables", true, nets(&["10.0.0.0/8"]), false),
        ("iptables", true, nets(&["10.0.0.0/8", "127.0.0.0/8"]), true),
        ("iptables", true, nets(&["0.0.0.0/0"]), true),
        ("iptables", true, nets(&["fd00::/64"]), true),
        ("iptables", true, primary_and("::1/128"), false),
        ("iptables", true, primary_and("0.0.0.0/0"), true),
        ("iptables", true, primary_and("127.0.0.0/8"), true),
    ] {
        let mode_flag = format!("--proxy-mode={mode}");
        let flags = [&mode_flag, &format!("--iptables-localhost-nodeports={wanted}")];
        let options = Options { nodeport_addresses: addresses, ..options(&flags.map(String::as_str)) };
        let written = shared(&options, 1, &Found::new());
        let found = written.iter().any(|write| (write.file, write.value) == (File::RouteLocalnet, 1));
        assert_eq!(found, is_routed, "{mode_flag} {wanted} {:?}", options.nodeport_addresses);
    }
}
