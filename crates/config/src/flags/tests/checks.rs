//! What one setting asks of another.

use super::*;

#[test]
fn servers_need_addresses_of_their_own() {
    let with = |healthz: &str, metrics: &str| {
        given(&[&format!("--healthz-bind-address={healthz}"), &format!("--metrics-bind-address={metrics}")])
    };
    for (healthz, metrics) in [
        ("127.0.0.1:10249", "127.0.0.1:10249"),
        ("0.0.0.0:10249", "127.0.0.1"),
        ("[::1]:10249", "[::]:10249"),
        ("0.0.0.0:10249", "0.0.0.0:10249"),
        ("0.0.0.0:10249", "[::1]:10249"),
        ("[::]:10249", "127.0.0.1:10249"),
    ] {
        let message = with(healthz, metrics).unwrap_err();
        assert!(message.contains("is also the address of --healthz-bind-address"), "{message}");
        assert!(message.starts_with("--metrics-bind-address: "), "{message}");
    }
    for (healthz, metrics) in [("127.0.0.1:10249", "127.0.0.2:10249"), ("127.0.0.1:10249", "[::1]:10249")] {
        assert!(with(healthz, metrics).is_ok(), "{healthz} {metrics}");
    }
    assert!(given(&["--healthz-port=0", "--metrics-bind-address=0.0.0.0:10256"]).is_ok());
}

#[test]
fn node_names() {
    let named = |name: &str| given(&[&format!("--hostname-override={name}")]);
    let long = ["a"; 254].concat();
    for wrong in ["a_b", "-a", "a-", "a..b", ".a", "a.", "é", "a b", &long] {
        let message = named(wrong).unwrap_err();
        assert!(
            message.starts_with("--hostname-override: ") && message.contains("cannot be the name"),
            "{message}"
        );
    }
    for right in ["a", "A.B-c.9", " node-1 ", "10.0.0.1", &long[1..]] {
        assert!(named(right).is_ok(), "{right}");
    }
}

#[test]
fn node_ports() {
    let with = |list: &str| options(&[&format!("--nodeport-addresses={list}")]).nodeport_addresses;
    let within =
        |nets: &[&str]| NodePortAddresses::Within(nets.iter().map(|net| net.parse().unwrap()).collect());
    let and = |nets: &[&str]| {
        NodePortAddresses::PrimaryAndWithin(nets.iter().map(|net| net.parse().unwrap()).collect())
    };
    assert_eq!(options(&[]).nodeport_addresses, NodePortAddresses::Primary);
    for (list, wanted) in [
        ("", NodePortAddresses::Primary),
        ("primary,localhost", and(&["127.0.0.0/8", "::1/128"])),
        ("primary,all", NodePortAddresses::All),
        ("primary,127.0.0.0/8", and(&["127.0.0.0/8"])),
        ("all,10.0.0.0/8", NodePortAddresses::All),
        ("0.0.0.0/0,fd00::/8", within(&["0.0.0.0/0", "fd00::/8"])),
        ("10.0.0.0/8,::/0", within(&["10.0.0.0/8", "::/0"])),
        ("0.0.0.0/1", within(&["0.0.0.0/1"])),
        ("192.168.7.7/16", within(&["192.168.0.0/16"])),
        ("localhost", within(&["127.0.0.0/8", "::1/128"])),
        ("primary,10.0.0.7/8", and(&["10.0.0.0/8"])),
        ("localhost,10.0.0.0/8", within(&["127.0.0.0/8", "::1/128", "10.0.0.0/8"])),
    ] {
        assert_eq!(with(list), wanted, "{list}");
    }
    assert!(warnings(&["--nodeport-addresses=primary,localhost"]).contains("loopback addresses in"));
}

#[test]
fn detectors() {
    let with = |more: &[&str]| match options(&[&["--manifests=x"], more].concat()).detect_local {
        DetectLocal::Fixed(detector) => Some(detector),
        DetectLocal::NodeCidr => None,
    };
    assert_eq!(with(&[]), Some(LocalDetector::None));
    let cidrs = with(&["--cluster-cidr=10.244.0.7/16,fd00::/48"]);
    let wanted = ["10.244.0.0/16", "fd00::/48"].map(|net| net.parse().unwrap());
    assert_eq!(cidrs, Some(LocalDetector::Cidrs(wanted.to_vec())));
    assert_eq!(
        with(&["--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cbr0"]),
        Some(LocalDetector::Bridge("cbr0".into()))
    );
    assert_eq!(
        with(&["--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"]),
        Some(LocalDetector::InterfacePrefix("veth".into()))
    );
    assert_eq!(with(&["--detect-local-mode=NodeCIDR"]), None);
    for (arguments, words) in [
        (["--detect-local-mode=InterfaceNamePrefix", "-v1"], "--pod-interface-name-prefix: must name one"),
        (["--detect-local-mode=BridgeInterface", "-v1"], "--pod-bridge-interface: must name one"),
        (
            ["--detect-local-mode=BridgeInterface", "--pod-bridge-interface=sixteen-letters-"],
            "longer than the 15 bytes",
        ),
    ] {
        let message = given(&arguments).unwrap_err();
        assert!(message.contains(words), "{message}");
    }
}
