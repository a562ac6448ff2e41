//! Unit tests of `iptables/key`.

use super::*;

fn key(ip: &str, protocol: Protocol, port: u16) -> Key {
    Key::of(Address::Vip(ip.parse().unwrap(), port), protocol)
}

#[test]
fn prefixes_say_what_their_keys_have_in_common() {
    let web = key("10.96.17.5", Protocol::Tcp, 0x1f90);
    let port = Key::of(Address::NodePort(30080), Protocol::Udp);
    let six = key("fd00:10:96::1a5", Protocol::Sctp, 443);
    let cases = [
        (web, 5, " -d 10.96.16.0/20", "10.96.16.0-20"),
        (web, 8, " -d 10.96.17.5/32", "10.96.17.5-32"),
        (web, 9, " -d 10.96.17.5/32 -p tcp", "10.96.17.5-tcp-0-0"),
        (web, 11, " -d 10.96.17.5/32 -p tcp -m tcp --dport 7936:8191", "10.96.17.5-tcp-7936-8"),
        (web, 13, " -d 10.96.17.5/32 -p tcp -m tcp --dport 8080", "10.96.17.5-tcp-8080-16"),
        (port, 2, " -p udp -m udp --dport 28672:32767", "NP-udp-28672-4"),
        (port, 5, " -p udp -m udp --dport 30080", "NP-udp-30080-16"),
        (six, 31, " -d fd00:10:96::1a0/124", "fd00:10:96::1a0-124"),
        (Key::whole("10.96.0.1".parse().unwrap()), 13, " -d 10.96.0.1/32", "10.96.0.1-32"),
    ];
    for (key, nibbles, rule, name) in cases {
        let mut written = String::new();
        key.prefix(nibbles).write_match(&mut written);
        assert_eq!((written.as_str(), key.prefix(nibbles).to_string().as_str()), (rule, name));
    }
}

#[test]
fn keys_are_sorted_by_their_nibbles() {
    let mut keys = vec![
        Key::whole("10.0.0.1".parse().unwrap()),
        key("10.0.0.1", Protocol::Sctp, 9),
        key("10.0.0.1", Protocol::Tcp, 443),
        key("10.0.0.1", Protocol::Tcp, 80),
        key("9.255.0.1", Protocol::Udp, 80),
    ];
    keys.sort();
    let nibbles = |key: &Key| (0..key.len()).map(|index| key.nibble(index)).collect::<Vec<_>>();
    assert!(keys.windows(2).all(|pair| nibbles(&pair[0]) < nibbles(&pair[1])), "{keys:?}");
    assert_eq!(keys[4], Key::whole("10.0.0.1".parse().unwrap()));
    assert_eq!(keys[1].common(&keys[2]), 10);
}
