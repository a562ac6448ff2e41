//! Unit tests of `iptables/names`.

use super::*;

/// Names seen on a cluster: every one of them has the service of its apiserver.
#[test]
fn names_are_those_of_upstream() {
    let port = PortName::new("default/kubernetes", "https", Protocol::Tcp);
    assert_eq!(port.chain(ChainKind::Cluster).to_string(), "KUBE-SVC-NPX46M4PTMTKRN6Y");
    let dns = PortName::new("kube-system/kube-dns", "dns", Protocol::Udp);
    assert_eq!(dns.chain(ChainKind::Cluster).to_string(), "KUBE-SVC-TCOU7JCQXEZGVUNU");
    assert_eq!(dns.chain(ChainKind::Local).to_string(), "KUBE-SVL-TCOU7JCQXEZGVUNU");
    assert_eq!(dns.chain(ChainKind::External).to_string(), "KUBE-EXT-TCOU7JCQXEZGVUNU");
    assert_eq!(dns.chain(ChainKind::Firewall).to_string(), "KUBE-FW-TCOU7JCQXEZGVUNU");
}

/// From upstream's tests of its rules.
#[test]
fn pins_are_kept_in_lists_of_upstreams_names() {
    let port = PortName::new("ns1/svc1", "p80", Protocol::Tcp);
    assert_eq!(port.chain(ChainKind::Cluster).to_string(), "KUBE-SVC-XPGD46QRK7WJZT7O");
    let backend = PlannedEndpoint { ip: "10.180.0.1".parse().unwrap(), port: 80, may_be_own_client: false };
    assert_eq!(port.pins(&backend), "KUBE-SEP-SXIVWICOYRO3J4NJ");
}

#[test]
fn a_name_that_is_too_long_becomes_a_hash() {
    assert_eq!(fitting("KUBE-SVC-", "10.96.16.0-20"), "KUBE-SVC-10.96.16.0-20");
    let long = fitting("KUBE-SVC-H-", "2001:db8:1234:5678::1:0-124");
    assert_eq!(long.len(), LONGEST_NAME);
    assert!(long.starts_with("KUBE-SVC-H-IP-"), "{long}");
}
