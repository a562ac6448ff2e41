//! What the kernel holds on a node: elements by set, rules by chain.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use conformance_support::site::SOON;
use kernel::nft::Connection;
use sandbox::Namespace;
use test_support::simulated::Contents;
use test_support::simulated::elements::elements;
use test_support::wait_until;

/// How much of a difference is shown.
const SHOWN: usize = 12;

/// Wait until both nodes hold the same; the error says what differs. Chains that an earlier need left behind may
/// stay, with their rules.
pub(crate) fn await_equal(held: &Namespace, fresh: &Namespace) -> Result<(), String> {
    let mut difference = String::new();
    let equal = wait_until(SOON, || {
        difference = match (contents(held), contents(fresh)) {
            (Ok(held), Ok(fresh)) => compare(&held, &fresh),
            (held, fresh) => format!("{:?} {:?}", held.err(), fresh.err()),
        };
        difference.is_empty()
    });
    if !equal {
        return Err(difference);
    }
    let (held, fresh) = (rules(held), rules(fresh));
    let differ = fresh.iter().filter(|(chain, wanted)| !is_equal(chain, held.get(*chain), wanted));
    let differ = differ.map(|(chain, wanted)| format!("{chain}: {:?}, not {wanted:?}", held.get(chain)));
    let differ: Vec<String> = differ.take(SHOWN).collect();
    if differ.is_empty() { Ok(()) } else { Err(format!("rules differ:\n{}", differ.join("\n"))) }
}

/// In the chain of prefix lengths, rules are only ever appended: in the order in which they were needed, and for good.
fn is_equal(chain: &str, held: Option<&Vec<String>>, fresh: &[String]) -> bool {
    let Some(held) = held else { return false };
    match chain.ends_with(" firewall-ranges") {
        true => fresh.iter().all(|rule| held.contains(rule)),
        false => held == fresh,
    }
}

fn contents(node: &Namespace) -> Result<Contents, String> {
    node.run(|| {
        let mut connection = Connection::open().map_err(|error| error.to_string())?;
        // A commit that falls into the reading is an error, and it is read again.
        elements(&mut connection)
    })
}

fn compare(held: &Contents, fresh: &Contents) -> String {
    let sets: BTreeSet<&String> = held.keys().chain(fresh.keys()).collect();
    let of = |contents: &Contents, set: &String| -> BTreeSet<String> {
        contents.get(set).into_iter().flatten().cloned().collect()
    };
    let mut lines = Vec::new();
    for set in sets {
        let (held, fresh) = (of(held, set), of(fresh, set));
        lines.extend(held.difference(&fresh).map(|element| format!("{set}: only held: {element}")));
        lines.extend(fresh.difference(&held).map(|element| format!("{set}: only fresh: {element}")));
    }
    let count = lines.len();
    lines.truncate(SHOWN);
    match count {
        0 => String::new(),
        _ => format!("{count} elements differ:\n{}", lines.join("\n")),
    }
}

/// By chain, in order, without elements.
fn rules(node: &Namespace) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for family in ["ip", "ip6"] {
        let mut command = Command::new("nft");
        command.args(["-t", "list", "table", family, "kube-proxy"]);
        node.enter(&mut command).unwrap();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut chain = None;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            match line.trim().strip_prefix("chain ") {
                Some(head) => chain = Some(format!("{family} {}", head.trim_end_matches(" {"))),
                None if line.trim() == "}" => chain = None,
                None => {
                    if let Some(chain) = &chain {
                        let rules: &mut Vec<String> = all.entry(chain.clone()).or_default();
                        rules.push(line.trim().to_owned());
                    }
                }
            }
        }
    }
    all
}
