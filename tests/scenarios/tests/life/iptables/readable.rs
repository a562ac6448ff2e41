//! What an operator sees: rules that name their services, and after `--cleanup` no rule that was not there before.

use model::{Family, Protocol};
use test_support::{Carrier, Case, ServiceManifest, world::World};

use super::super::stage::Stage;
use super::both;

/// What iptables takes for a comment, and what a person can read.
const LONGEST_COMMENT: usize = 255;
const LONGEST_LINE: usize = 400;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = both("iptables-save tells which service each rule is for", readable);
    cases.extend(both("--cleanup leaves the rules of others and nothing else", cleaned));
    cases
}

/// The services of the table of packet flows: one of each kind there is.
fn with_world(carrier: Carrier) -> Stage {
    let stage = Stage::of(carrier);
    World::new().write_to(&stage.folder);
    stage
}

fn readable(carrier: Carrier) {
    let mut stage = with_world(carrier);
    // As long as names can be.
    let (name, port) = ("n".repeat(63), "p".repeat(15));
    let ips = Family::BOTH.map(|family| super::super::places::cluster_ip(250, family));
    let long = ServiceManifest::new(&name, &ips)
        .with("sessionAffinity", "ClientIP")
        .with("type", "LoadBalancer")
        .with("loadBalancerSourceRanges", serde_json::json!(["192.0.2.0/24", "2001:db8::/32"]))
        .balancer_ip(super::super::places::external_ip(Family::V4), "VIP")
        .port(&port, Protocol::Tcp, 80, 31999);
    stage.folder.put_service(&long);
    stage.put_endpoints(&name, Protocol::Tcp, &["a"]);
    stage.start_with(&[]);
    let saved = Family::BOTH.map(|family| stage.save(family, &[]));
    for entry in World::new().entries() {
        let service = entry.manifest.to_json();
        let ports = service["spec"]["ports"].as_array().unwrap();
        // Another proxy's, or none's.
        let is_other = service["metadata"]["labels"].to_string().contains("service.kubernetes.io/");
        if is_other || service["spec"]["clusterIP"] == "None" || service["spec"]["type"] == "ExternalName" {
            continue;
        }
        for port in ports {
            let name = format!("default/{}:{}", entry.manifest.name(), port["name"].as_str().unwrap());
            assert!(saved.iter().any(|text| text.contains(&name)), "{name} is in no comment");
        }
    }
    assert!(saved[0].contains(&name), "the long name is in no comment");
    for text in &saved {
        for line in text.lines() {
            assert!(line.len() < LONGEST_LINE, "{} characters: {line}", line.len());
            let comment = line.split_once("--comment \"").and_then(|(_, rest)| rest.split_once('"'));
            assert!(comment.is_none_or(|(words, _)| words.len() <= LONGEST_COMMENT), "{line}");
        }
        // Each way into a service names it.
        for rule in text.lines().filter(|line| leads_to_service(line)) {
            assert!(rule.contains("default/"), "{rule}");
        }
    }
}

/// Chains of services end in a hash, branches of trees in an address.
fn leads_to_service(line: &str) -> bool {
    let is_hash =
        |hash: &str| hash.len() == 16 && hash.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    let is_entrance =
        |line: &str| ["-A KUBE-SERVICES ", "-A KUBE-NODEPORTS "].iter().any(|root| line.starts_with(root));
    let target = line.rsplit_once(" -j KUBE-").and_then(|(_, target)| target.split_once('-'));
    is_entrance(line) && target.is_some_and(|(_, hash)| is_hash(hash))
}

fn cleaned(carrier: Carrier) {
    let mut stage = with_world(carrier);
    for family in Family::BOTH {
        stage.restore(
            family,
            "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n*filter\n:KUBE-FIREWALL - [0:0]\n:OTHERS - [0:0]\n\
             -A INPUT -j KUBE-FIREWALL\n-A FORWARD -p udp -j OTHERS\n-A KUBE-FIREWALL -p udp -j RETURN\nCOMMIT\n\
             *nat\n:CNI - [0:0]\n-A PREROUTING -p udp -j CNI\nCOMMIT\n",
        );
    }
    let before = Family::BOTH.map(|family| stage.tables(family));
    stage.start_with(&[]);
    stage.agent().stop().unwrap();
    stage.clean_up();
    for family in Family::BOTH {
        let after = stage.tables(family);
        assert!(after == before[family.index()], "{family}: {}", after.difference(&before[family.index()]));
    }
}
