//! What simulated tables of iptables hold, in a form that does not depend on the order in which it came about.

use kernel::iptables::Table;
use simulate::iptables::Simulator;

use super::Contents;

/// Rules by chain, chains without rules too.
pub(super) fn rules(simulator: &Simulator, family: &str) -> Contents {
    let mut all = Contents::new();
    for table in Table::BOTH {
        for chain in simulator.chains(table) {
            all.insert(format!("{family} {} {chain}", table.name()), of_chain(simulator, table, chain));
        }
    }
    all
}

/// Endpoints keep their places while others come and go: which place says nothing, that each is as likely does. The
/// probabilities stand apart, in their order.
fn of_chain(simulator: &Simulator, table: Table, chain: &str) -> Vec<String> {
    let (mut rules, mut probabilities) = (Vec::new(), Vec::new());
    for rule in simulator.rules(table, chain).unwrap() {
        match rule.split_once(" -m statistic --mode random --probability ") {
            None => rules.push(without_comment(&rule)),
            Some((before, after)) => {
                let (probability, after) = after.split_once(' ').unwrap();
                probabilities.push(probability.to_owned());
                rules.push(without_comment(&format!("{before} {after}")));
            }
        }
    }
    // Which rules a packet meets first matters where it is not an endpoint that is drawn.
    if !probabilities.is_empty() || rules.iter().any(|rule| rule.contains("DNAT")) {
        rules.sort();
    }
    rules.extend(probabilities);
    rules
}

/// Whichever endpoint comes first carries the comment of its chain.
fn without_comment(rule: &str) -> String {
    match rule.split_once(" -m comment --comment \"") {
        Some((before, after)) if rule.contains("DNAT --to-destination") => {
            let (_, after) = after.split_once('"').unwrap();
            format!("{before}{after}")
        }
        _ => rule.to_owned(),
    }
}
