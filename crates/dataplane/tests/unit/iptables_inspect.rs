//! Unit tests of `iptables/inspect`.

use super::*;

#[test]
fn rules_for_one_port_are_recognised() {
    let at = |text: &str| Some(Key::of(Address::Vip(text.parse().unwrap(), 80), Protocol::Tcp));
    let cases = [
        ("-d 10.96.0.1/32 -p tcp -m comment --comment \"a -d b\" -m tcp --dport 80 -j X", at("10.96.0.1")),
        ("-d fd00::1/128 -p tcp -m tcp --dport 80 -j X", at("fd00::1")),
        ("-p udp -m udp --dport 30000 -j X", Some(Key::of(Address::NodePort(30000), Protocol::Udp))),
        ("-d 10.96.0.0/20 -j X", None),
        ("-p tcp -m tcp --dport 80:95 -j X", None),
        ("! -s 10.0.0.0/8 -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j X", None),
    ];
    for (rule, wanted) in cases {
        assert_eq!(exact_key(rule), wanted, "{rule}");
    }
}
