//! What others have in IPVS is left alone; what is ours goes with `--cleanup`.

use model::{Family, Protocol};
use test_support::{Carrier, Case, let_pass, wait_until};

use super::super::nft;
use super::super::places::{at_cluster_ip, cluster_ip};
use super::super::rig::OfUpstream;
use super::super::stage::{From, SOON, Stage};
use super::rig::{DEVICE, ground};
use super::{QUICK, case, start, upstream};

pub(super) fn cases() -> Vec<Case<'static>> {
    vec![
        case("virtual servers of others are left alone, and excluded addresses too", others),
        case("--cleanup leaves no virtual server, set, device, route or rule", cleanup),
        case("a node setting that another process changes is set again", sysctls),
    ]
}

/// At an address of no service: somebody's own.
const FOREIGN: [&str; 2] = ["192.0.2.1:80", "[2001:db8:2::1]:80"];
/// Signed as ours, but where nothing of ours is to be.
const EXCLUDED: [u8; 2] = [200, 201];

fn lines(stage: &Stage) -> Vec<String> {
    stage.ipvsadm("-S -n").lines().map(|line| line.trim().to_owned()).collect()
}

fn make_others(stage: &Stage) -> Vec<String> {
    for (family, foreign) in Family::BOTH.into_iter().zip(FOREIGN) {
        let excluded = std::net::SocketAddr::new(cluster_ip(EXCLUDED[0], family), 80);
        let endpoint = std::net::SocketAddr::new(stage.address("a", family), 8080);
        for (server, flags) in [(foreign.to_owned(), ""), (excluded.to_string(), "-b flag-3")] {
            stage.ipvsadm(&format!("-A -t {server} -s wlc {flags}"));
            stage.ipvsadm(&format!("-a -t {server} -r {endpoint} -m -w 7"));
        }
    }
    lines(stage)
}

fn others(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    let theirs = make_others(&stage);
    assert_eq!(theirs.len(), 8, "{theirs:?}");
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    let excluded = Family::BOTH.map(|family| {
        let length = if family == Family::V4 { 31 } else { 127 };
        format!("{}/{length}", cluster_ip(EXCLUDED[0], family))
    });
    let exclude = format!("--ipvs-exclude-cidrs={}", excluded.join(","));
    stage.start_with(&[QUICK, &exclude]);
    let assert_kept = |stage: &Stage, after: &str| {
        let found = lines(stage);
        let gone: Vec<&String> = theirs.iter().filter(|line| !found.contains(line)).collect();
        assert!(gone.is_empty(), "gone after {after}: {gone:?}\n{}", stage.log());
    };
    assert_kept(&stage, "the start");
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_pools(1, &["b"]);
    for family in Family::BOTH {
        (stage.rig().slight_damage(family).inflict)(&stage);
    }
    stage.await_said("Rules are in place again");
    assert_kept(&stage, "a repair");
    // The agent looks at its own servers meanwhile.
    let_pass(std::time::Duration::from_millis(2200));
    stage.restart(false);
    assert_kept(&stage, "a restart");
    stage.agent().stop().unwrap();
    stage.clean_up();
    let found = lines(&stage);
    let is_foreign = |line: &&String| FOREIGN.iter().any(|foreign| line.contains(foreign));
    assert!(theirs.iter().filter(is_foreign).all(|line| found.contains(line)), "{found:?}");
}

fn cleanup(carrier: Carrier) {
    let mut stage = start(carrier, &["a", "c"], &[]);
    assert!(!stage.rules().concat().is_empty());
    // Some connections that IPVS remembers.
    for family in Family::BOTH {
        stage.who(Protocol::Tcp, From::Guest, at_cluster_ip(1, family));
    }
    stage.agent().stop().unwrap();
    for family in Family::BOTH {
        upstream::write(&stage, family, &[OfUpstream { name: "old", number: 9, has_affinity: false }]);
    }
    stage.clean_up();
    let mut left = lines(&stage);
    for family in Family::BOTH {
        left.extend(upstream::found(&stage, family));
        left.extend(ground(&stage, family));
        left.extend(nft::table(&stage.sandbox.node, family));
    }
    left.extend(stage.try_tool("ip", &format!("link show {DEVICE}")).ok());
    assert!(left.is_empty(), "{left:?}");
    // Nothing is left to be removed, and nothing is made.
    stage.clean_up();
    assert!(lines(&stage).is_empty());
    stage.agent().restart().unwrap_or_else(|why| panic!("{why}"));
    stage.assert_answers(&[1], "after a fresh start");
}

fn sysctls(carrier: Carrier) {
    let stage = start(carrier, &["a", "c"], &[]);
    let value = |name: &str| stage.sandbox.node.run(|| kernel::sysctl::read(name)).unwrap();
    for name in ["conntrack", "expire_nodest_conn", "expire_quiescent_template"] {
        let name = format!("net/ipv4/vs/{name}");
        assert_eq!(value(&name), "1", "{name}");
        stage.sandbox.node.run(|| kernel::sysctl::write(&name, 0).unwrap());
        assert!(wait_until(SOON, || value(&name) == "1"), "{name} stays\n{}", stage.log());
    }
    stage.assert_answers(&[1], "after all");
}
