//! What the agent explains of a flow, held to the table.

use std::collections::BTreeSet;

use model::Family;
use serde_json::Value;

use super::{Expect, Flow, Target};
use crate::directory::server_at;
use crate::variant::SettingsVariant;
use crate::world::World;

/// The page that explains a flow.
pub fn path(flow: &Flow, world: &World, family: Family) -> String {
    let (to, from) = (flow.to.at(world, family), flow.from.address(family));
    format!("/pointsman/v1/explain?to={}:{to}&from={from}", flow.protocol)
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
