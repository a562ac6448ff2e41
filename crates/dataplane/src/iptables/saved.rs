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
        self.chains.contains(chain).then(|| format!("{count} rules, at least one of which differs"))
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
#[path = "../../tests/unit/iptables_saved.rs"]
mod tests;
