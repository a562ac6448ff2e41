//! Unit tests of `iptables/saved`.

use super::*;

const SAVED: &str = "*nat\n:PREROUTING ACCEPT [3:180]\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-X - [0:0]\n\
    -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
    -A CNI -j KUBE-SVC-OLD\n\
    -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"default/web:http cluster IP\" -m tcp --dport 80 \
    -j KUBE-SVC-X\n\
    -A KUBE-SVC-X ! -s 10.244.0.0/16 -d 10.96.0.1/32 -j KUBE-MARK-MASQ\n\
    -A KUBE-SVC-X -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination \
    10.244.0.1:80\n-A KUBE-SVC-X -p tcp -j DNAT --to-destination 10.244.0.2:80\nCOMMIT\n";
const WRITTEN: &str = "-A KUBE-SVC-X ! -s 10.244.0.0/16 -d 10.96.0.1 -j KUBE-MARK-MASQ\n\
    -A KUBE-SVC-X -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.244.0.1:80\n\
    -A KUBE-SVC-X -p tcp -j DNAT --to-destination 10.244.0.2:80\n";

#[test]
fn what_was_written_is_found_again() {
    let saved = Saved::read(SAVED);
    assert!(saved.holds("KUBE-SVC-X", WRITTEN));
    assert!(saved.has("PREROUTING", " -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES"));
    assert!(!saved.has("OUTPUT", " -j KUBE-SERVICES"));
    assert!(!saved.holds("KUBE-SVC-Y", ""), "a chain that is not there holds nothing");
}

#[test]
fn a_whole_address_needs_no_length() {
    for (written, printed) in [
        (" -m conntrack --ctorigdst ::1/128 -j RETURN", "-m conntrack --ctorigdst ::1 -j RETURN"),
        (" -d 10.96.0.1 -j DROP", "-d 10.96.0.1/32 -j DROP"),
        (" -s fd00::1 -j DROP", "-s fd00::1/128 -j DROP"),
    ] {
        assert_eq!(meaning(written), meaning(printed), "{written}");
    }
}

#[test]
fn one_rule_less_more_or_other_is_noticed() {
    let cases = [
        ("removed", WRITTEN.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()),
        ("added", format!("{WRITTEN}-A KUBE-SVC-X -j RETURN\n")),
        ("another endpoint", WRITTEN.replace("10.244.0.2", "10.244.0.3")),
        ("another source", WRITTEN.replace("! -s", "-s")),
        ("a net for an address", WRITTEN.replace("-d 10.96.0.1", "-d 10.96.0.1/16")),
        ("another order", {
            let mut lines: Vec<&str> = WRITTEN.lines().collect();
            lines.swap(1, 2);
            lines.join("\n")
        }),
    ];
    for (what, written) in cases {
        assert!(!Saved::read(SAVED).holds("KUBE-SVC-X", &written), "{what}");
    }
}

#[test]
fn what_a_rule_does_is_told_apart() {
    let pairs = [
        (" -j MARK --set-xmark 0x4000/0x4000", " -j MARK --set-xmark 0x8000/0x8000"),
        (" -d 2001:db8::/32 -j DROP", " -d 2001:db8:: -j DROP"),
        (" -m recent --update --seconds 9 --name A", " -m recent --update --seconds 10 --name A"),
        (" -m recent --set --name A", " -m recent --update --name A"),
        (" -j MASQUERADE --random-fully", " -j MASQUERADE"),
        (" -m comment --comment \"-j ACCEPT\" -j DROP", " -m comment --comment \"-j DROP\" -j ACCEPT"),
    ];
    for (one, other) in pairs {
        assert_ne!(meaning(one), meaning(other), "{one} and {other}");
    }
    assert_eq!(meaning(" -s ::/0 -d fd00::1/128 -j A"), meaning("-d fd00::1 -j A"));
    assert_eq!(meaning(" -d ::102:304/128 -j A"), meaning("-d ::1.2.3.4/128 -j A"));
    let (ours, theirs) = ("[::102:304]:80", "[::1.2.3.4]:80");
    assert_eq!(meaning(&format!("--to-destination {ours}")), meaning(&format!("--to-destination {theirs}")));
    assert_eq!(meaning(" -j REJECT"), meaning("-j REJECT --reject-with icmp6-port-unreachable"));
}

#[test]
fn chains_that_others_use_are_known() {
    let saved = Saved::read(SAVED);
    let used = saved.used_by_others(|chain| chain.starts_with("KUBE-"));
    assert!(used.contains("KUBE-SVC-OLD") && used.contains("KUBE-SERVICES") && !used.contains("KUBE-SVC-X"));
}
