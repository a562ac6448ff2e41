//! What is different in ip6tables.

use kernel::iptables::Table::{Filter, Nat};

use super::{Answer::*, Row};

pub(super) const ROWS: &[Row] = &[
    (Nat, "an address", "-A A -d fd00:0:0::1 -p tcp -m tcp --dport 80 -j B", Taken),
    (Nat, "a network with host bits", "-A A ! -s fd00:244::1/64 -j RETURN", Taken),
    (Nat, "an address of the other family", "-A A -d 10.0.0.1", Refused),
    (Nat, "everybody", "-A A -s ::/0 -j RETURN", Taken),
    (Nat, "nobody", "-A A ! -s ::/0 -j RETURN", Strict),
    (Nat, "redirected to a port", "-A A -p udp -j DNAT --to-destination [fd00::2]:53", Taken),
    (Nat, "redirected to an address", "-A A -j DNAT --to-destination fd00::2", Taken),
    (Nat, "redirected to the other family", "-A A -p udp -j DNAT --to-destination 10.0.0.1:53", Refused),
    (Nat, "redirected to a port 0", "-A A -p sctp -j DNAT --to-destination [fd00::2]:0", Taken),
    (Nat, "masqueraded", "-A POSTROUTING -j MASQUERADE --random-fully", Taken),
    (Nat, "remembered", "-A A -m recent --name L --update --seconds 10800 --reap -j RETURN", Taken),
    (Nat, "drawn", "-A A -m statistic --mode random --probability 0.1428571429 -j RETURN", Taken),
    (Nat, "of this host", "-A A -m addrtype --dst-type LOCAL ! --src-type LOCAL -j RETURN", Taken),
    (Nat, "its first destination", "-A A -m conntrack --ctorigdst ::1/128 --ctstate DNAT", Taken),
    (Nat, "its first destination's network", "-A A -m conntrack ! --ctorigdst fd00::/64", Taken),
    (Filter, "refused", "-A F -j REJECT", Taken),
    (Filter, "refused by name", "-A F -j REJECT --reject-with icmp6-port-unreachable", Taken),
    (
        Filter,
        "refused by the other family's name",
        "-A F -j REJECT --reject-with icmp-port-unreachable",
        Refused,
    ),
    (Filter, "reset", "-A F -p tcp -j REJECT --reject-with tcp-reset", Taken),
    (Filter, "reset of what is not TCP", "-A F -p udp -j REJECT --reject-with tcp-reset", Refused),
    (
        Nat,
        "a chain with a colon in its name",
        ":KUBE-SVC-fd00:10:96::-112 - [0:0]\n-A A -d fd00:10:96::/112 -j KUBE-SVC-fd00:10:96::-112",
        Taken,
    ),
];
