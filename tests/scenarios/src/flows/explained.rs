//! What the agent explains of a flow, held to the table.

use std::collections::BTreeSet;

use model::Family;
use serde_json::Value;

use super::{Expect, Flow, Target};
use crate::Carrier;
use crate::directory::server_at;
use crate::variant::SettingsVariant;
use crate::world::World;

/// The page that explains a flow.
pub fn path(flow: &Flow, world: &World, family: Family) -> String {
    let (to, from) = (flow.to.at(world, family), flow.from.address(family));
    format!("/pointsman/v1/explain?to={}:{to}&from={from}", flow.protocol)
}

/// What an explanation can say, in the words of `docs/ask.md`, and what else a table of flows has to meet, so that nothing is
/// explained that no packet was ever sent for. Addresses that the apiserver would refuse (`badAddress`), ports without a valid
/// number (`badPort`) and what takes thousands of endpoints (`leftOut`) are met elsewhere.
const SAID: [&str; 18] = [
    "why hintedToOtherNodes",
    "why hintedToOtherZones",
    "why noSuchPort",
    "why notReady",
    "why onOtherNode",
    "why onUnknownNode",
    "why terminating",
    "reason no_endpoints",
    "reason no_local_endpoints",
    "reason source_range",
    "reason unallocated_address",
    "reason unlisted_port",
    "client node",
    "client outside",
    "client pod",
    "rivals",
    "verdict forward",
    "verdict notOurs",
];
/// Where the kernel carries connections.
const SAID_OF_KERNEL: [&str; 5] =
    ["masquerade external", "masquerade masqueradeAll", "masquerade node", "masquerade notAPod", "a pin"];
/// Where a process does.
const SAID_OF_PROCESS: [&str; 2] = ["masquerade ownConnection", "reason not_carried"];

/// What the flows of a mode have to meet.
pub fn to_be_met(carrier: Carrier) -> Vec<&'static str> {
    let more = if carrier.is_a_process() { &SAID_OF_PROCESS[..] } else { &SAID_OF_KERNEL };
    SAID.iter().chain(more).copied().collect()
}

/// Those of them that an answer gives.
pub fn met(page: &str) -> BTreeSet<String> {
    let document: Value = serde_json::from_str(page).unwrap_or_default();
    let mut met = BTreeSet::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for one in list(&document["explanations"]) {
        if !list(&one["service"]["rivals"]).is_empty() {
            met.insert("rivals".to_owned());
        }
        for client in list(&one["clients"]) {
            let mut note =
                |kind: &str, word: &Value| met.extend(word.as_str().map(|word| format!("{kind} {word}")));
            note("client", &client["kind"]);
            note("verdict", &client["verdict"]);
            note("reason", &client["reason"]);
            note("masquerade", &client["masquerade"]);
            list(&client["known"]).iter().for_each(|known| note("why", &known["why"]));
            if !client["pin"].is_null() {
                met.insert("a pin".to_owned());
            }
        }
    }
    met
}

/// Compare; the error tells what was wrong.
pub fn judge(flow: &Flow, variant: SettingsVariant, page: &str) -> Result<(), String> {
    let document: Value = serde_json::from_str(page).map_err(|error| format!("{error}: {page}"))?;
    let problem =
        |what: String| Err(format!("{what} ({})\n{}", flow.why, document["text"].as_str().unwrap_or(page)));
    let wanted = flow.expected(variant);
    let verdict = match wanted {
        // By the node itself, which is none of a proxy's business.
        Expect::Answered(..) if matches!(flow.to, Target::OnNode(_)) => "notOurs",
        Expect::Answered(..) => "forward",
        Expect::Rejected => "reject",
        Expect::Dropped => "drop",
        Expect::Untouched => "notOurs",
    };
    if document["verdict"] != verdict {
        return problem(format!("expected {wanted:?}, explained as {}", document["verdict"]));
    }
    let explanation = &document["explanations"][0];
    let client = &explanation["clients"][0];
    let has_reason = client["reason"].is_string();
    if has_reason != matches!(wanted, Expect::Rejected | Expect::Dropped) {
        return problem(format!("the reason is {}", client["reason"]));
    }
    if let (Expect::Answered(servers, source), "forward") = (wanted, verdict) {
        let named = endpoints(&client["endpoints"]);
        if named != servers.iter().map(|server| (*server).to_owned()).collect() {
            return problem(format!("expected {servers:?}, explained as {named:?}"));
        }
        let used = client["known"].as_array().into_iter().flatten().filter(|known| known["used"] == true);
        let used: BTreeSet<String> = used.filter_map(|known| server(&known["address"])).collect();
        if used != named {
            return problem(format!("{named:?} are chosen from and {used:?} said to be used"));
        }
        let own = flow.from.endpoint();
        for by in servers.iter().filter(|by| **by != "node" && Some(**by) != own) {
            let is_masqueraded = !client["masquerade"].is_null();
            if flow.is_masqueraded(variant, *source, by) != is_masqueraded {
                return problem(format!("masquerade is said to be {}, for {by}", client["masquerade"]));
            }
        }
    }
    match explanation["kernel"]["differences"].as_array() {
        Some(none) if none.is_empty() => Ok(()),
        _ => problem(format!("the kernel is said to differ: {}", explanation["kernel"])),
    }
}

fn endpoints(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().filter_map(server).collect()
}

/// The server at an address; the address itself if there is none.
fn server(address: &Value) -> Option<String> {
    let text = address.as_str()?;
    Some(text.parse().ok().and_then(server_at).unwrap_or_else(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Met by cases of their own.
    const ELSEWHERE: [&str; 3] = ["why badAddress", "why badPort", "why leftOut"];

    #[test]
    fn every_reason_of_the_document_is_to_be_met() {
        let text = include_str!("../../../../docs/ask.md");
        let (_, text) = text.split_once("`reason` is").unwrap();
        let (reasons, text) = text.split_once("`why` is").unwrap();
        let (whys, _) = text.split_once("\n\n").unwrap();
        let words = |text: &str, kind: &str| -> BTreeSet<String> {
            let words = text.split('`').skip(1).step_by(2);
            words.map(|word| format!("{kind} {word}")).collect()
        };
        let mut documented = words(reasons, "reason");
        documented.extend(words(whys, "why"));
        let met = SAID.iter().chain(&SAID_OF_PROCESS).chain(&ELSEWHERE).map(|word| (*word).to_owned());
        let met = met.filter(|word| word.starts_with("why ") || word.starts_with("reason "));
        assert_eq!(documented, met.collect());
    }
}
