//! One service: what it asks for, who is led where, and every endpoint that is known.

use std::collections::BTreeMap;

use serde_json::Value;

use super::html::Html;
use super::services::{addresses, endpoint_words, list_of, more_ports, port_words, problems, remarks, text};
use super::wanted::Wanted;

/// What the panel shows, gathered.
pub(super) struct Shown {
    /// As `/pointsman/v1/services` has it, or why nobody knows; `None` if there is none of this name.
    pub(super) service: Result<Option<Value>, String>,
    /// As `/pointsman/v1/explain` tells it, or why it does not.
    pub(super) explained: Result<Value, String>,
}

pub(super) fn panel(html: &mut Html, shown: &Shown, wanted: &Wanted) {
    html.raw("<section class=\"card wide\" aria-label=\"Service\"><div class=\"title\"><h2>Service ");
    html.text(&wanted.service).raw("</h2><a href=\"");
    html.query(&wanted.list(&wanted.page_text())).raw("\">Close</a></div>");
    match &shown.service {
        Err(problem) => drop(html.raw("<p class=\"bad\">").text(problem).raw("</p>")),
        Ok(None) => drop(html.raw("<p class=\"badge wait\">There is no such service here</p>")),
        Ok(Some(service)) => {
            facts(html, service);
            ports(html, service);
        }
    }
    match &shown.explained {
        Ok(explained) => {
            destinations(html, explained);
            endpoints(html, explained);
        }
        Err(_) if shown.service.is_err() => {}
        Err(problem) => drop(html.raw("<p class=\"bad\">").text(problem).raw("</p>")),
    }
    html.raw("</section>");
}

fn facts(html: &mut Html, service: &Value) {
    for problem in problems(service) {
        html.raw("<p class=\"bad\">").text(problem).raw("</p>");
    }
    html.raw("<dl class=\"facts\"><dt>Type</dt><dd>").text(text(&service["type"]));
    html.raw("</dd><dt>Addresses</dt><dd class=\"mono\">").text(addresses(service).join(", ")).raw("</dd>");
    let remarks = remarks(service);
    if !remarks.is_empty() {
        html.raw("<dt>Remarks</dt><dd>").text(remarks.join(", ")).raw("</dd>");
    }
    html.raw("</dl>");
}

/// Rates are there if services are counted.
fn ports(html: &mut Html, service: &Value) {
    let ports = list_of(&service["ports"]);
    let rates: Vec<String> = ports.iter().map(|port| rate(&port["rates"])).collect();
    let has_rates = rates.iter().any(|rate| !rate.is_empty());
    html.raw("<table><thead><tr><th scope=\"col\">Port</th><th scope=\"col\">Endpoints usable/known</th>");
    html.raw(if has_rates { "<th scope=\"col\">Traffic</th>" } else { "" }).raw("</tr></thead><tbody>");
    for (port, rate) in ports.iter().zip(rates) {
        html.raw("<tr><td data-label=\"Port\" class=\"mono\">").text(port_words(port));
        html.raw("</td><td data-label=\"Endpoints\" class=\"mono\">").text(endpoint_words(port)).raw("</td>");
        if has_rates {
            html.raw("<td data-label=\"Traffic\" class=\"mono\">").text(rate).raw("</td>");
        }
        html.raw("</tr>");
    }
    html.raw("</tbody></table>");
    if let Some(more) = more_ports(service) {
        html.raw("<p>").text(more).raw("</p>");
    }
}

/// Of a second, as `rates` of a port has them; nothing if it has none.
pub(super) fn rate(rates: &Value) -> String {
    let number = |name: &str| rates[name].as_f64();
    let connections = number("connections").map(|number| format!("{number:.1} connections/s"));
    let bytes = [("requestBytes", "in"), ("replyBytes", "out")];
    let bytes =
        bytes.into_iter().filter_map(|(name, way)| Some(format!("{} {way}", byte_rate(number(name)?))));
    connections.into_iter().chain(bytes).collect::<Vec<_>>().join(", ")
}

fn byte_rate(number: f64) -> String {
    match number {
        1e9.. => format!("{:.1} GB/s", number / 1e9),
        1e6.. => format!("{:.1} MB/s", number / 1e6),
        1e3.. => format!("{:.1} kB/s", number / 1e3),
        _ => format!("{number:.0} B/s"),
    }
}

/// Each address, and what becomes of each kind of client there.
fn destinations(html: &mut Html, explained: &Value) {
    let each = list_of(&explained["explanations"]);
    if let Some(problem) = explained["problem"].as_str() {
        html.raw("<p class=\"bad\">").text(problem).raw("</p>");
    }
    for family in list_of(&explained["unwritten"]) {
        html.raw("<p class=\"wait\">").text(text(family)).raw(": nothing is programmed there yet</p>");
    }
    if each.is_empty() {
        return;
    }
    html.raw("<h3>What happens to a packet</h3><table><thead><tr><th scope=\"col\">To</th><th scope=\"col\">Address is its</th>");
    html.raw("<th scope=\"col\">From a pod here</th><th scope=\"col\">From the node</th><th scope=\"col\">From outside</th>");
    html.raw("<th scope=\"col\">Kernel</th></tr></thead><tbody>");
    for one in each {
        let to = packet(one);
        html.raw("<tr><td data-label=\"To\" class=\"mono\"><a href=\"")
            .query(&[("to", &to)])
            .raw("#answer\">");
        html.text(&to).raw("</a></td><td data-label=\"Address is its\">").text(role(&one["service"]["role"]));
        html.raw("</td>");
        let clients = list_of(&one["clients"]);
        for (kind, label) in [("pod", "From a pod"), ("node", "From the node"), ("outside", "From outside")] {
            html.raw("<td data-label=\"").raw(label).raw("\">");
            match clients.iter().find(|client| client["kind"] == kind) {
                Some(client) => verdict(html, client),
                None => drop(html.raw("<span class=\"faint\">as from outside</span>")),
            }
            html.raw("</td>");
        }
        html.raw("<td data-label=\"Kernel\">");
        kernel(html, &one["kernel"]);
        html.raw("</td></tr>");
    }
    html.raw("</tbody></table>");
    if let Some(more) = explained["leftOut"].as_u64().filter(|more| *more > 0) {
        html.raw("<p>and ").text(more).raw(" more addresses</p>");
    }
}

/// As the form takes it.
fn packet(one: &Value) -> String {
    let (protocol, ip, port) = (text(&one["protocol"]), text(&one["address"]), &one["port"]);
    let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    if protocol == "tcp" { format!("{ip}:{port}") } else { format!("{protocol}:{ip}:{port}") }
}

fn role(role: &Value) -> &'static str {
    match role.as_str() {
        Some("clusterIP") => "cluster IP",
        Some("externalIP") => "external IP",
        Some("loadBalancerIP") => "load-balancer IP",
        Some("nodePort") => "node port",
        _ => "-",
    }
}

fn verdict(html: &mut Html, client: &Value) {
    let (class, word) = verdict_words(&client["verdict"]);
    html.raw("<span class=\"").raw(class).raw("\">").raw(word).raw("</span>");
    if client["verdict"] == "forward" {
        let count = client["endpointCount"].as_u64().unwrap_or_default();
        html.raw(" to ").text(count).raw(if count == 1 { " endpoint" } else { " endpoints" });
        if client["needsSourceRange"] == true {
            html.raw(", if its address is in the source ranges");
        }
    }
}

pub(super) fn verdict_words(verdict: &Value) -> (&'static str, &'static str) {
    match verdict.as_str() {
        Some("forward") => ("good", "forwarded"),
        Some("reject") => ("bad", "rejected"),
        Some("drop") => ("bad", "dropped"),
        _ => ("wait", "no service"),
    }
}

fn kernel(html: &mut Html, kernel: &Value) {
    match (&kernel["problem"], list_of(&kernel["differences"]).len()) {
        (Value::String(problem), _) => html.raw("<span class=\"wait\">").text(problem).raw("</span>"),
        (_, 0) if kernel["compared"] == 0 => html.raw("<span class=\"wait\">not compared</span>"),
        (_, 0) if kernel["partial"] == true || kernel["changing"].as_u64() > Some(0) => {
            html.raw("<span class=\"good\">as written</span>, as far as compared")
        }
        (_, 0) => html.raw("<span class=\"good\">as written</span>"),
        (_, count) => html.raw("<span class=\"bad\">differs in ").text(count).raw(" places</span>"),
    };
}

/// Every endpoint once: used if any packet may go there, else why not.
fn endpoints(html: &mut Html, explained: &Value) {
    let mut all: BTreeMap<&str, &Value> = BTreeMap::new();
    let clients = list_of(&explained["explanations"]).iter().flat_map(|one| list_of(&one["clients"]));
    let mut most = 0;
    for client in clients {
        most = most.max(client["knownCount"].as_u64().unwrap_or_default());
        for known in list_of(&client["known"]) {
            let kept = all.entry(text(&known["address"])).or_insert(known);
            if known["used"] == true {
                *kept = known;
            }
        }
    }
    if all.is_empty() {
        return;
    }
    html.raw(
        "<h3>Endpoints</h3><table><thead><tr><th scope=\"col\">Endpoint</th><th scope=\"col\">Node</th>",
    );
    html.raw("<th scope=\"col\">State</th></tr></thead><tbody>");
    for (address, known) in &all {
        html.raw("<tr><td data-label=\"Endpoint\" class=\"mono\">")
            .text(address)
            .raw("</td><td data-label=\"Node\">");
        html.text(known["node"].as_str().unwrap_or("-")).raw("</td><td data-label=\"State\">");
        match known["used"] == true {
            true => match known["leadsNowhere"].as_str() {
                None => html.raw("<span class=\"good\">used</span>"),
                Some(why) => html.raw("<span class=\"bad\">used, but ").text(nowhere(why)).raw("</span>"),
            },
            false => html.raw("<span class=\"wait\">not used: ").text(why(&known["why"])).raw("</span>"),
        };
        html.raw("</td></tr>");
    }
    html.raw("</tbody></table>");
    if most > all.len() as u64 {
        html.raw("<p>some of ").text(most).raw(" endpoints of a port</p>");
    }
}

fn nowhere(word: &str) -> &str {
    match word {
        "clusterIP" => "its address is a cluster IP: connections go nowhere",
        "forwarder" => "its address is kube-proxy's own: connections go nowhere",
        other => other,
    }
}

fn why(word: &Value) -> &str {
    match text(word) {
        "notReady" => "not ready",
        "terminating" => "terminating, and others are ready",
        "hintedToOtherNodes" => "its topology hints name other nodes",
        "hintedToOtherZones" => "its topology hints name other zones",
        "onOtherNode" => "on another node, and the policy is Local",
        "onUnknownNode" => "its slice names no node, and the policy is Local",
        "noSuchPort" => "its slice has no port of this name and protocol",
        "badPort" => "its slice has no valid number for this port",
        "badAddress" => "no connection can be sent to this address",
        "leftOut" => "the service exceeds its limits",
        other => other,
    }
}
