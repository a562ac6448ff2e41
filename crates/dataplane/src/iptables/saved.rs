//! What `iptables-save` prints: which chains there are, which rules they hold, who leads to whom.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use kernel::iptables::{target, words};

/// One table as it is.
#[derive(Default)]
pub(crate) struct Saved<'a> {
    pub(super) chains: HashSet<&'a str>,
    /// The rules as they were saved, less `-A`.
    rules: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Saved<'a> {
    pub(crate) fn read(text: &'a str) -> Saved<'a> {
        let mut saved = Saved::default();
        for line in text.lines() {
            if let Some(chain) = line.strip_prefix(':') {
                saved.chains.extend(chain.split(' ').next());
            } else if let Some((chain, words)) =
                line.strip_prefix("-A ").and_then(|rule| rule.split_once(' '))
            {
                saved.rules.entry(chain).or_default().push(words);
            }
        }
        saved
    }

    /// Whether a chain holds a rule of this meaning.
    pub(crate) fn has(&self, chain: &str, words: &str) -> bool {
        let wanted = meaning(words);
        self.rules.get(chain).is_some_and(|rules| rules.iter().any(|words| meaning(words) == wanted))
    }

    /// Chains to which rules of other chains than these lead.
    pub(crate) fn used_by_others(&self, is_ours: impl Fn(&str) -> bool) -> HashSet<&'a str> {
        let foreign = self.rules.iter().filter(|(chain, _)| !is_ours(chain));
        foreign.flat_map(|(_, rules)| rules).filter_map(|words| target(words)).collect()
    }

    /// The rules of chains that are named as a kube-proxy names them.
    pub(crate) fn ours(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let chains = self.rules.iter().filter(|(chain, _)| chain.starts_with("KUBE-"));
        chains.flat_map(|(chain, rules)| rules.iter().map(|rule| (*chain, *rule)))
    }

    /// What a chain holds, if it is there.
    pub(crate) fn describe(&self, chain: &str) -> Option<String> {
        let count = self.rules.get(chain).map_or(0, Vec::len);
        self.chains.contains(chain).then(|| format!("{count} rules, at least one of them another"))
    }

    /// Whether a chain holds just these rules, given as lines of a script.
    pub(crate) fn holds(&self, chain: &str, lines: &str) -> bool {
        let wanted = lines.lines().filter_map(|line| line.strip_prefix("-A ")?.split_once(' '));
        let wanted = wanted.map(|(_, words)| meaning(words));
        let found = self.rules.get(chain).map(Vec::as_slice).unwrap_or_default();
        self.chains.contains(chain) && found.iter().map(|words| meaning(words)).eq(wanted)
    }
}

/// Whether two rules do the same.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    meaning(one) == meaning(other)
}

/// A number for what a rule does, the same for what was written and for what is printed of it: the tools print options
/// in another order, and some in another form. How likely a rule is chosen is not in it: that is printed as what the
/// kernel made of it.
fn meaning(rule: &str) -> u64 {
    let (mut sum, mut not) = (0_u64, false);
    let mut words = words(rule);
    while let Some(word) = words.next() {
        let value = match word {
            "-s" | "-d" | "--ctorigdst" => words.next().and_then(address).map(Cow::Owned),
            "--to-destination" => words.next().map(endpoint).map(Cow::Owned),
            // What is rejected otherwise is rejected by port unreachable, which is printed though never asked for.
            "--reject-with" => words.next().filter(|how| *how == "tcp-reset").map(Cow::Borrowed),
            "-i" | "-p" | "-j" | "-g" | "--dport" | "--name" | "--ctstate" | "--nfacct-name"
            | "--src-type" | "--dst-type" | "--mark" | "--set-xmark" | "--seconds" => {
                words.next().map(Cow::Borrowed)
            }
            "--update" | "--set" | "--random-fully" => Some(Cow::Borrowed("")),
            _ => None,
        };
        sum = sum.wrapping_add(value.map_or(0, |value| part(word, not, &value)));
        not = word == "!";
    }
    sum
}

/// All addresses are not printed, a whole one is with its length, and the C library writes some of IPv6 otherwise.
fn address(net: &str) -> Option<String> {
    let parsed = net.parse::<IpNet>().or_else(|_| net.parse::<IpAddr>().map(IpNet::from));
    match parsed {
        Ok(net) if net.prefix_len() == 0 => None,
        Ok(net) => Some(net.to_string()),
        Err(_) => Some(net.to_owned()),
    }
}

fn endpoint(text: &str) -> String {
    text.parse::<SocketAddr>().map_or_else(|_| text.to_owned(), |endpoint| endpoint.to_string())
}

fn part(option: &str, not: bool, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (option, not, value).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
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
        assert!(
            saved.has("PREROUTING", " -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES")
        );
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
        assert_eq!(
            meaning(&format!("--to-destination {ours}")),
            meaning(&format!("--to-destination {theirs}"))
        );
        assert_eq!(meaning(" -j REJECT"), meaning("-j REJECT --reject-with icmp6-port-unreachable"));
    }

    #[test]
    fn chains_that_others_use_are_known() {
        let saved = Saved::read(SAVED);
        let used = saved.used_by_others(|chain| chain.starts_with("KUBE-"));
        assert!(
            used.contains("KUBE-SVC-OLD") && used.contains("KUBE-SERVICES") && !used.contains("KUBE-SVC-X")
        );
    }
}
