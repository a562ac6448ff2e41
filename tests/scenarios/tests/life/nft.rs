//! What the kernel holds, read with the `nft` tool: a witness that shares no code with the agent.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use model::Family;
use sandbox::Namespace;
use serde_json::Value;

pub(crate) const TABLE: &str = "kube-proxy";

pub(crate) fn family_word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// Whether the tool is there; half of the cases cannot do without.
pub(crate) fn is_installed() -> bool {
    let mut command = command();
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn command() -> Command {
    let mut command = Command::new("nft");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// Run `nft ARGUMENTS` inside the namespace; `Err` holds what it complained of.
pub(crate) fn run(namespace: &Namespace, arguments: &[&str]) -> Result<String, String> {
    let mut command = command();
    command.args(arguments).stdin(Stdio::null());
    namespace.enter(&mut command).unwrap();
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Load a file's text in one transaction.
pub(crate) fn load(namespace: &Namespace, text: &str) {
    let mut command = command();
    command.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    namespace.enter(&mut command).unwrap();
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "nft: {}\n{text}", String::from_utf8_lossy(&output.stderr));
}

/// Elements of a set or map of ours, key to data (`null` in a set), as compact JSON. `None`: no such thing.
pub(crate) fn elements(namespace: &Namespace, family: Family, set: &str) -> Option<BTreeMap<String, String>> {
    let word = family_word(family);
    // The tool asks for the kind; our names are unique among both.
    let text = ["map", "set"]
        .iter()
        .find_map(|kind| run(namespace, &["-j", "list", kind, word, TABLE, set]).ok())?;
    let listing: Value = serde_json::from_str(&text).unwrap();
    let body = listing["nftables"].as_array()?.iter().find_map(|item| item.get("map").or(item.get("set")))?;
    Some(body["elem"].as_array().into_iter().flatten().map(element).collect())
}

fn element(element: &Value) -> (String, String) {
    let (key, data) = match element.as_array().map(Vec::as_slice) {
        Some([key, data]) => (key, data.to_string()),
        _ => (element, "null".to_owned()),
    };
    // Comments, counters and lifetimes come as an object around the key.
    let key = key.get("elem").map_or(key, |inner| &inner["val"]);
    (key.to_string(), data)
}

/// The whole table as comparable text: without handles, sorted, without the pins that packets write.
pub(crate) fn table(namespace: &Namespace, family: Family) -> Option<String> {
    let text = run(namespace, &["-j", "list", "table", family_word(family), TABLE]).ok()?;
    let listing: Value = serde_json::from_str(&text).unwrap();
    let mut lines: Vec<String> = Vec::new();
    for item in listing["nftables"].as_array()? {
        let mut item = item.clone();
        if item.get("metainfo").is_some() {
            continue;
        }
        // Rules of a chain keep their order by their place among the chain's rules.
        let chain = item["rule"]["chain"].as_str().map(str::to_owned);
        let place = lines.len();
        strip(&mut item);
        match chain {
            Some(chain) => lines.push(format!("rule {chain} {place:06} {item}")),
            None => lines.push(item.to_string()),
        }
    }
    // Places are only for the order within a chain.
    lines.sort();
    Some(lines.iter().map(|line| without_place(line)).collect::<Vec<_>>().join("\n"))
}

/// Whether a table, as [`table`] shows it, is the one of mode ipvs: both modes call theirs the same.
pub(crate) fn is_beside_ipvs(table: &str) -> bool {
    table.contains("\"name\":\"ipvs-ips\"")
}

/// Whether the table is that of mode userspace, which leads clients to one address.
pub(crate) fn has_forwarder(table: &str) -> bool {
    ["\"169.254.84.85\"", "\"fdc7:6b1e:84f3::55\""].into_iter().any(|address| table.contains(address))
}

fn without_place(line: &str) -> String {
    match line.strip_prefix("rule ").and_then(|rest| rest.split_once(' ')) {
        Some((chain, rest)) => format!("rule {chain} {}", rest.get(7..).unwrap_or(rest)),
        None => line.to_owned(),
    }
}

fn strip(item: &mut Value) {
    let Some(body) = item.as_object_mut().and_then(|object| object.values_mut().next()) else { return };
    let Some(body) = body.as_object_mut() else { return };
    body.remove("handle");
    if body.get("name").and_then(Value::as_str).is_some_and(|name| name.ends_with("affinity")) {
        body.remove("elem");
    }
    if let Some(Value::Array(elements)) = body.get_mut("elem") {
        elements.sort_by_key(Value::to_string);
    }
}
