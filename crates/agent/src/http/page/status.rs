//! The head of the page: node, mode, health of each family, the last syncs.

use serde_json::Value;

use super::chart;
use super::html::Html;

/// Syncs that the table beside the chart lists.
const MOST_LISTED: usize = 10;
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// `status` is the document of `/pointsman/v1/status`.
pub(super) fn status(html: &mut Html, status: &Value) {
    html.raw("<div class=\"cards\">");
    agent(html, status);
    FAMILIES.iter().for_each(|name| family(html, name, &status["families"][*name]));
    html.raw("</div>");
    syncs(html, status);
}

fn agent(html: &mut Html, status: &Value) {
    let awaiting = status["awaiting"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (class, word) = match () {
        () if status["ready"] != true => ("wait", "Starting"),
        () if status["nodeEligible"] != true => ("wait", "Node is leaving"),
        () if status["healthy"] != true => ("bad", "Not healthy"),
        () => ("good", "Healthy"),
    };
    html.raw("<div class=\"card\"><h2>Agent</h2>");
    badge(html, class, word);
    html.raw("<p>started ");
    time(html, &status["started"]);
    html.raw("</p>");
    if status["nodeEligible"] != true {
        html.raw("<p>the node is being removed; /healthz answers 503</p>");
    }
    for what in awaiting.iter().filter_map(Value::as_str) {
        html.raw("<p>waits for ").text(what).raw("</p>");
    }
    html.raw("</div>");
}

fn family(html: &mut Html, name: &'static str, of: &Value) {
    let (class, word) = match (of["lastUpdated"].is_null(), &of["healthy"]) {
        (true, _) => ("wait", "No sync yet"),
        (_, Value::Bool(true)) => ("good", "Up to date"),
        _ => ("bad", "Sync overdue"),
    };
    html.raw("<div class=\"card\"><h2>").raw(name).raw("</h2>");
    badge(html, class, word);
    if let (Some(services), Some(endpoints)) = (of["services"].as_u64(), of["endpoints"].as_u64()) {
        html.raw("<p>services: ").text(services).raw(", endpoints in pools: ").text(endpoints).raw("</p>");
    }
    if !of["lastUpdated"].is_null() {
        html.raw("<p>last sync ");
        time(html, &of["lastUpdated"]);
        html.raw("</p>");
    }
    html.raw("</div>");
}

fn syncs(html: &mut Html, status: &Value) {
    let syncs = status["syncs"].as_array().map(Vec::as_slice).unwrap_or_default();
    html.raw("<div class=\"card wide\"><h2>Last syncs</h2>");
    html.raw("<div class=\"scroll\">").with(|html| chart::chart(html, syncs)).raw("</div>");
    html.raw("<p class=\"legend\"><span class=\"v4\">IPv4</span> <span class=\"v6\">IPv6</span>");
    html.raw(" <span class=\"failed\">failed</span> <span>the latest at the right, ");
    html.text(status["syncCount"].as_u64().unwrap_or_default()).raw(" so far</span></p>");
    html.raw("<details id=\"sync-table\"><summary>As a table</summary><table><thead><tr><th scope=\"col\">Time (UTC)</th>");
    html.raw("<th scope=\"col\">Family</th><th scope=\"col\">Took</th><th scope=\"col\">Written</th></tr></thead><tbody>");
    for sync in syncs.iter().rev().take(MOST_LISTED) {
        let took = chart::duration(sync["microseconds"].as_u64().unwrap_or_default());
        html.raw("<tr><td data-label=\"Time\">").text(chart::clock(&sync["time"]));
        html.raw("</td><td data-label=\"Family\">").text(sync["family"].as_str().unwrap_or_default());
        html.raw("</td><td data-label=\"Took\">").text(took);
        html.raw("</td><td data-label=\"Written\">").text(chart::written(sync)).raw("</td></tr>");
    }
    html.raw("</tbody></table></details></div>");
}

pub(super) fn badge(html: &mut Html, class: &'static str, word: &'static str) {
    html.raw("<p class=\"badge ").raw(class).raw("\">").raw(word).raw("</p>");
}

/// The script shows how long ago it was.
fn time(html: &mut Html, time: &Value) {
    let time = time.as_str().unwrap_or_default();
    let short = time.split('.').next().unwrap_or_default().replace('T', " ");
    html.raw("<time datetime=\"").text(time).raw("\">").text(short).raw(" UTC</time>");
}
